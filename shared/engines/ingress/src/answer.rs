//! HTTP answers: complete bodies with a length, of one of four media types.

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, LOCATION, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;
use serde::Serialize;
use serde_json::Value;
use triad_console::Hidden;
use triad_core::{Order, OrderId, Timing};

use crate::problem::Problem;

/// An answer.
pub(crate) type Answer = Response<Full<Bytes>>;

/// Answers must not be cached: they may be for one caller only.
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// An answer of a media type, with `no-store`.
pub(crate) fn of(status: StatusCode, media: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
    headers.insert(CACHE_CONTROL, NO_STORE);
    answer
}

/// An answer in JSON.
pub(crate) fn json(status: StatusCode, body: &impl Serialize) -> Answer {
    match serde_json::to_vec(body) {
        Ok(body) => of(status, "application/json", body),
        Err(e) => problem(&Problem::internal(format!("the answer has no form: {e}"))),
    }
}

/// A problem as an answer.
pub(crate) fn problem(problem: &Problem) -> Answer {
    // Cannot fail: the body has only texts and numbers.
    let body = serde_json::to_vec(&problem.body()).unwrap_or_default();
    let mut answer = of(problem.status, "application/problem+json", body);
    let headers = answer.headers_mut();
    if let Some(after) = problem.retry_after {
        headers.insert(RETRY_AFTER, after.into());
    }
    if let Some((name, value)) = &problem.header {
        headers.insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// The problem for a method that the path does not allow.
pub(crate) fn not_allowed(allow: &'static str) -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method-not-allowed",
        format!("this path has {allow}"),
    )
    .header(ALLOW, allow)
}

/// Whether an accepted order is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Taken {
    /// The order is new.
    Accepted,
    /// The same order was submitted before.
    #[serde(rename = "again")]
    Repeated,
}

impl Taken {
    pub(crate) const fn status(self) -> StatusCode {
        match self {
            Self::Accepted => StatusCode::CREATED,
            Self::Repeated => StatusCode::OK,
        }
    }
}

/// Body of the answer for an accepted order.
#[derive(Serialize)]
struct Submitted<'a> {
    kind: &'static str,
    order_id: &'a OrderId,
    result: Taken,
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<Value>,
}

/// The answer for an accepted order. `order` is its record, if the request waited for the end.
pub(crate) fn taken(
    status: StatusCode,
    id: &OrderId,
    result: Taken,
    order: Option<Value>,
) -> Answer {
    let body = Submitted {
        kind: "submitted",
        order_id: id,
        result,
        order,
    };
    let mut answer = json(status, &body);
    // A new order's id needs no percent-encoding.
    if let Ok(place) = HeaderValue::try_from(format!("/v1/orders/{id}")) {
        answer.headers_mut().insert(LOCATION, place);
    }
    answer
}

/// An order's record as JSON, without hidden fields.
pub(crate) fn view(order: &Order, timing: &Timing, hidden: &Hidden) -> Result<Value, Problem> {
    let view = hidden.view(order, timing);
    view.map_err(|e| Problem::internal(format!("the record has no form: {e}")))
}
