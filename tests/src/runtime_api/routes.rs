//! The HTTP routes of the Runtime API: next, response, error, and init error.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{Response, StatusCode};
use axum::routing::{get, post};
use serde_json::Value;

use super::{Answer, InvokeError, MAX_PAYLOAD, Queued, Served, Shared};

/// The routes of one process.
pub(super) fn routes(served: Served) -> Router {
    Router::new()
        .route("/2018-06-01/runtime/invocation/next", get(next))
        .route(
            "/2018-06-01/runtime/invocation/{id}/response",
            post(response),
        )
        .route("/2018-06-01/runtime/invocation/{id}/error", post(error))
        .route("/2018-06-01/runtime/init/error", post(init_error))
        .layer(DefaultBodyLimit::max(MAX_PAYLOAD))
        .with_state(served)
}

async fn next(State(served): State<Served>) -> Response<Body> {
    let mut current = served.shared.served.subscribe();
    let queued = tokio::select! {
        biased;
        _ = current.wait_for(|number| *number != served.number) => None,
        queued = wanted(&served.shared) => queued,
    };
    let Some(queued) = queued else {
        return empty(StatusCode::GONE);
    };
    let built = Response::builder()
        .header("Lambda-Runtime-Aws-Request-Id", &queued.id)
        .header("Lambda-Runtime-Deadline-Ms", queued.deadline_ms)
        .header(
            "Lambda-Runtime-Invoked-Function-Arn",
            "arn:aws:lambda:eu-west-1:000000000000:function:local",
        )
        .header("Content-Type", "application/json")
        .body(Body::from(queued.payload));
    built.unwrap_or_else(|_| empty(StatusCode::INTERNAL_SERVER_ERROR))
}

/// The next invocation whose caller still waits; `None` once the server has stopped.
async fn wanted(shared: &Shared) -> Option<Queued> {
    let mut queue = shared.queue.lock().await;
    loop {
        let queued = queue.recv().await?;
        if shared.waiting().contains_key(&queued.id) {
            return Some(queued);
        }
    }
}

async fn response(
    State(served): State<Served>,
    Path(id): Path<String>,
    body: Bytes,
) -> Response<Body> {
    empty(served.shared.answer(&id, Answer::Response(body)))
}

async fn error(
    State(served): State<Served>,
    Path(id): Path<String>,
    body: Bytes,
) -> Response<Body> {
    let (error_type, message) = diagnostic(&body);
    empty(served.shared.answer(
        &id,
        Answer::FunctionError {
            error_type,
            message,
        },
    ))
}

async fn init_error(State(served): State<Served>, body: Bytes) -> Response<Body> {
    let (error_type, message) = diagnostic(&body);
    let error = InvokeError::Init {
        error_type,
        message,
    };
    if *served.shared.served.borrow() == served.number {
        served.shared.init_error.send_replace(Some(error));
    }
    empty(StatusCode::ACCEPTED)
}

fn diagnostic(body: &[u8]) -> (String, String) {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    (text("errorType"), text("errorMessage"))
}

fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::from("{}"));
    *response.status_mut() = status;
    response
}
