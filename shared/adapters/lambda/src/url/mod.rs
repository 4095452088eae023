//! Requests to a function's URL: the third entry of a function.
//!
//! Source of the shapes: AWS Lambda Developer Guide, "Invoking Lambda function URLs", request and response payload
//! format 2.0. An answer is sent as a whole (`BUFFERED`), within Lambda's 6 MB a payload.
//!
//! The URL is public, so clients can send anything. A failed invocation rings an alarm, so no request may cause one:
//! an invalid, too large or too slow request is answered with a problem of RFC 9457. Architecture invariant: an
//! invocation fails only for an event that is not one of a URL.

mod answer;
mod event;

use std::future::Future;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use lambda_runtime::{Context, LambdaEvent, Runtime, service_fn};
use serde_json::value::RawValue;

use crate::deadline::Invocation;
use crate::error::{FunctionError, RunError};
use crate::run::{RunConfig, invocation, serve};

pub use answer::MAX_ANSWER_BYTES;
pub use event::{NoRequest, parse_request};

/// Serves requests to the function's URL until the process ends. Call [`init`](crate::init) before.
///
/// The handler gets each request with its whole body, of `most` bytes at most, and the path and query as they
/// were sent. Each request is answered as in [`answer_http`].
///
/// # Errors
/// [`RunError::Runtime`] when the connection to the Runtime API fails. A failed invocation is answered, not
/// returned.
///
/// # Panics
/// Outside of Lambda, where the variables that Lambda sets are missing.
pub async fn run_http<H, F>(config: RunConfig, most: usize, handler: H) -> Result<(), RunError>
where
    H: Fn(Request<Bytes>, Invocation) -> F,
    F: Future<Output = Response<Bytes>>,
{
    let handler = &handler;
    let service = service_fn(|event: LambdaEvent<Box<RawValue>>| async move {
        let payload = event.payload.get().as_bytes();
        answer_http(config, most, payload, &event.context, handler).await
    });
    serve(Runtime::new(service).run()).await
}

/// Answers one request: what [`run_http`] does for each invocation, without the Runtime API.
///
/// The answer is the handler's, with these exceptions: 504 if the handler does not answer before it is
/// dropped, or is not called because no time is left, 413 for a body of more than `most` bytes, 400 for a
/// request of a form that cannot be used, and 500 if the handler's answer is larger than
/// [`MAX_ANSWER_BYTES`]. The answer to HEAD has no body.
///
/// # Errors
/// [`FunctionError`] of kind `Triad.Event` if the payload is not an event of a function URL, or of kind
/// `Triad.Answer` if the answer cannot be written as JSON.
pub async fn answer_http<H, F>(
    config: RunConfig,
    most: usize,
    payload: &[u8],
    context: &Context,
    handler: H,
) -> Result<Box<RawValue>, FunctionError>
where
    H: FnOnce(Request<Bytes>, Invocation) -> F,
    F: Future<Output = Response<Bytes>>,
{
    let answer = match parse_request(payload, most) {
        Ok(request) => {
            let is_head = request.method() == Method::HEAD;
            let mut answer = handled(config, request, context, handler).await;
            if is_head {
                *answer.body_mut() = Bytes::new();
            }
            answer
        }
        Err(NoRequest::Refused {
            status,
            code,
            detail,
        }) => answer::problem(status, code, detail),
        Err(none @ NoRequest::Event(_)) => {
            return Err(FunctionError::new("Triad.Event", none.to_string()));
        }
    };
    answer::sent(answer).map_err(|why| FunctionError::new("Triad.Answer", why.to_string()))
}

/// The handler's answer, or the problem if it does not answer in time.
async fn handled<H, F>(
    config: RunConfig,
    request: Request<Bytes>,
    context: &Context,
    handler: H,
) -> Response<Bytes>
where
    H: FnOnce(Request<Bytes>, Invocation) -> F,
    F: Future<Output = Response<Bytes>>,
{
    let (invocation, dropped) = invocation(config, context, 0);
    if !invocation.deadline.remaining().is_zero() {
        let answered = tokio::time::timeout_at(dropped, handler(request, invocation)).await;
        if let Ok(answer) = answered {
            return answer;
        }
    }
    tracing::warn!("a request was not answered within the time of the invocation");
    let text =
        "there was no answer in time; what was to be done may have been done, or a part of it";
    answer::problem(StatusCode::GATEWAY_TIMEOUT, "deadline", text)
}
