//! HTTP answers: complete bodies with a length, and streams of events.

use std::convert::Infallible;

use axum::body::Body;
use bytes::Bytes;
use futures::stream::StreamExt;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};
use schemars::JsonSchema;
use serde::Serialize;
use triad_operator::operations::Problem;

/// An HTTP answer: status, headers and body.
pub type Answer = Response<Body>;

/// A complete answer of a media type. No cache may keep it: it may be for one caller only.
pub fn of(status: StatusCode, media: &'static str, body: impl Into<Bytes>) -> Answer {
    with(status, media, Body::from(body.into()))
}

/// The media type of events.
pub(crate) const EVENTS: &str = "text/event-stream";

/// A stream of server-sent events.
pub(crate) fn events(events: impl futures::Stream<Item = Bytes> + Send + 'static) -> Answer {
    let frames = events.map(Ok::<Bytes, Infallible>);
    with(StatusCode::OK, EVENTS, Body::from_stream(frames))
}

fn with(status: StatusCode, media: &'static str, body: Body) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

/// An answer in JSON.
///
/// # Errors
/// [`Problem`] `internal`, if the body has no form in JSON.
pub fn json(status: StatusCode, body: &impl Serialize) -> Result<Answer, Problem> {
    let body = serde_json::to_vec(body)?;
    Ok(of(status, "application/json", body))
}

/// The status of a problem.
pub(crate) fn status(problem: &Problem) -> StatusCode {
    StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// The title of a problem, as RFC 9457 has it without a type: that of its status.
pub(crate) fn title(problem: &Problem) -> &'static str {
    status(problem).canonical_reason().unwrap_or("Problem")
}

/// Problem details (RFC 9457). Their `type` is left out, which stands for `about:blank`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub struct Details<'a> {
    /// The status in words.
    title: &'static str,
    /// The problem itself.
    #[serde(flatten)]
    #[schemars(with = "Problem")]
    problem: &'a Problem,
}

impl<'a> Details<'a> {
    /// The form in which answers have a problem.
    #[must_use]
    pub fn of(problem: &'a Problem) -> Self {
        Self {
            title: title(problem),
            problem,
        }
    }
}

/// A problem as a JSON answer, with the headers that belong to it.
#[must_use]
pub fn problem(problem: &Problem) -> Answer {
    tracing::debug!(code = %problem.code, detail = %problem.detail, "refused");
    // Cannot fail: the body has only texts and numbers.
    let body = serde_json::to_vec(&Details::of(problem)).unwrap_or_default();
    let answer = of(status(problem), "application/problem+json", body);
    with_problem(problem, answer)
}

/// Adds the headers of a problem to an answer.
pub(crate) fn with_problem(problem: &Problem, mut answer: Answer) -> Answer {
    let headers = answer.headers_mut();
    if let Some(after) = problem.retry_after {
        headers.insert(RETRY_AFTER, after.into());
    }
    let challenge = match (problem.status, &*problem.code) {
        (401, _) => "Bearer realm=\"triad\"",
        (403, "role") => "Bearer realm=\"triad\", error=\"insufficient_scope\"",
        _ => return answer,
    };
    headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    answer
}
