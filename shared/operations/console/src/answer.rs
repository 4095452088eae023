//! HTTP answers: complete bodies with a length, and streams of events.

use std::convert::Infallible;

use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt};
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};
use http_body::Frame;
use http_body_util::{Either, Full, StreamBody};
use serde::Serialize;

use crate::problem::Problem;

/// The body of an answer: all bytes at once, or a stream of server-sent events.
pub type Body =
    Either<Full<Bytes>, StreamBody<BoxStream<'static, Result<Frame<Bytes>, Infallible>>>>;
/// The HTTP answer to a request of an operator: status, headers and body.
pub type Answer = Response<Body>;

/// A complete answer of a media type, with `no-store`.
pub(crate) fn of(status: StatusCode, media: &'static str, body: impl Into<Bytes>) -> Answer {
    with(status, media, Either::Left(Full::new(body.into())))
}

/// The media type of events.
pub(crate) const EVENTS: &str = "text/event-stream";

/// A stream of server-sent events.
pub(crate) fn events(events: impl futures::Stream<Item = Bytes> + Send + 'static) -> Answer {
    let frames = events.map(|event| Ok(Frame::data(event))).boxed();
    let body = Either::Right(StreamBody::new(frames));
    with(StatusCode::OK, EVENTS, body)
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

/// A problem as a JSON answer.
pub(crate) fn problem(problem: &Problem) -> Answer {
    // Cannot fail: the body has only texts and numbers.
    let body = serde_json::to_vec(&problem.body()).unwrap_or_default();
    with_problem(
        problem,
        of(problem.status, "application/problem+json", body),
    )
}

/// Adds the headers of a problem to an answer.
pub(crate) fn with_problem(problem: &Problem, mut answer: Answer) -> Answer {
    let headers = answer.headers_mut();
    if let Some(after) = problem.retry_after {
        headers.insert(RETRY_AFTER, after.into());
    }
    if let Some(allow) = problem.allow {
        headers.insert(ALLOW, HeaderValue::from_static(allow));
    }
    if problem.status == StatusCode::UNAUTHORIZED {
        let bearer = HeaderValue::from_static("Bearer realm=\"triad\"");
        headers.insert(WWW_AUTHENTICATE, bearer);
    }
    answer
}
