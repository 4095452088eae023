//! HTTP answers: complete bodies with a length, and streams of events.

use std::convert::Infallible;

use axum::body::Body;
use bytes::Bytes;
use futures::stream::StreamExt;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};
use serde::Serialize;
use triad_operator::operations::Problem;

/// The HTTP answer to a request of an operator: status, headers and body.
pub type Answer = Response<Body>;

/// A complete answer of a media type, with `no-store`.
pub(crate) fn of(status: StatusCode, media: &'static str, body: impl Into<Bytes>) -> Answer {
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
pub(crate) fn json(body: &impl Serialize) -> Result<Answer, Problem> {
    let body = serde_json::to_vec(body)?;
    Ok(of(StatusCode::OK, "application/json", body))
}

/// The status of a problem.
pub(crate) fn status(problem: &Problem) -> StatusCode {
    StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// The title of a problem, as RFC 9457 has it without a type: that of its status.
pub(crate) fn title(problem: &Problem) -> &'static str {
    status(problem).canonical_reason().unwrap_or("Problem")
}

/// A problem as a JSON answer.
pub(crate) fn problem(problem: &Problem) -> Answer {
    #[derive(Serialize)]
    struct Details<'a> {
        title: &'static str,
        #[serde(flatten)]
        problem: &'a Problem,
    }
    let details = Details {
        title: title(problem),
        problem,
    };
    // Cannot fail: the body has only texts and numbers.
    let body = serde_json::to_vec(&details).unwrap_or_default();
    let answer = of(status(problem), "application/problem+json", body);
    with_problem(problem, answer)
}

/// Adds the headers of a problem to an answer.
pub(crate) fn with_problem(problem: &Problem, mut answer: Answer) -> Answer {
    let headers = answer.headers_mut();
    if let Some(after) = problem.retry_after {
        headers.insert(RETRY_AFTER, after.into());
    }
    if problem.status == 401 {
        let bearer = HeaderValue::from_static("Bearer realm=\"triad\"");
        headers.insert(WWW_AUTHENTICATE, bearer);
    }
    answer
}
