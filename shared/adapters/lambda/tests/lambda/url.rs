//! Answers of a function to requests for its URL, without the Runtime API and in virtual time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::{Request, Response};
use lambda_runtime::Context;
use serde_json::{Value, json};
use triad_lambda::url::MAX_ANSWER_BYTES;
use triad_lambda::{FunctionError, Invocation, RunConfig, answer_http};

/// Limit of a body in these tests, in bytes.
const MOST: usize = 4;

/// A context whose deadline is `remaining` ahead of the wall clock.
#[expect(
    clippy::disallowed_methods,
    reason = "Lambda's deadline is a wall-clock time"
)]
fn context(remaining: Duration) -> Context {
    let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + remaining;
    let mut context = Context::default();
    context.deadline = at.as_millis() as u64;
    context
}

fn plenty() -> Context {
    context(Duration::from_secs(60))
}

fn event(method: &str, body: &str) -> Value {
    json!({"version": "2.0", "rawPath": "/a", "rawQueryString": "b=1", "headers": {"x-a": "1"},
        "requestContext": {"http": {"method": method}}, "body": body, "isBase64Encoded": false})
}

async fn answered<F>(
    event: &Value,
    context: &Context,
    handler: impl FnOnce(Request<Bytes>, Invocation) -> F,
) -> Result<Value, FunctionError>
where
    F: Future<Output = Response<Bytes>>,
{
    let (config, event) = (RunConfig::default(), event.to_string());
    let answer = answer_http(config, MOST, event.as_bytes(), context, handler).await;
    answer.map(|answer| serde_json::from_str(answer.get()).unwrap())
}

/// A handler that answers with the request's body.
async fn echo(request: Request<Bytes>, _: Invocation) -> Response<Bytes> {
    let (head, body) = request.into_parts();
    let said = format!(
        "{} {} {:?} {}",
        head.method,
        head.uri,
        head.headers["x-a"],
        String::from_utf8_lossy(&body)
    );
    Response::new(said.into())
}

fn code(answer: &Value) -> (u64, String) {
    let body: Value = serde_json::from_str(answer["body"].as_str().unwrap()).unwrap();
    assert_eq!(body["status"], answer["statusCode"]);
    let media = &answer["headers"]["content-type"];
    assert_eq!(media, "application/problem+json");
    let code = body["code"].as_str().unwrap();
    (answer["statusCode"].as_u64().unwrap(), code.to_owned())
}

#[tokio::test]
async fn the_handler_gets_the_request_and_its_answer_is_sent() {
    let answer = answered(&event("PUT", "body"), &plenty(), echo).await;
    let answer = answer.unwrap();
    assert_eq!(answer["statusCode"], 200);
    assert_eq!(answer["body"], "PUT /a?b=1 \"1\" body");
}

#[tokio::test]
async fn an_answer_to_head_has_no_body() {
    let answer = answered(&event("HEAD", ""), &plenty(), echo).await.unwrap();
    assert_eq!(
        (&answer["statusCode"], &answer["body"]),
        (&json!(200), &json!(""))
    );
}

#[tokio::test]
async fn what_a_client_sends_wrong_is_answered_without_the_handler() {
    let never = |_: Request<Bytes>, _: Invocation| -> std::future::Ready<Response<Bytes>> {
        panic!("must not be called")
    };
    let large = answered(&event("PUT", "a body"), &plenty(), never).await;
    assert_eq!(code(&large.unwrap()), (413, "too-large".into()));
    let odd = answered(&event("P T", ""), &plenty(), never).await;
    assert_eq!(code(&odd.unwrap()), (400, "bad-request".into()));
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_does_not_come_back_in_time_is_answered_for() {
    let hangs = |_: Request<Bytes>, invocation: Invocation| async move {
        assert!(invocation.deadline.remaining() < Duration::from_secs(60));
        std::future::pending().await
    };
    let begun = tokio::time::Instant::now();
    let late = answered(&event("GET", ""), &plenty(), hangs).await;
    assert_eq!(code(&late.unwrap()), (504, "deadline".into()));
    assert!(
        begun.elapsed() < Duration::from_secs(60),
        "there is time to answer"
    );
    let never = |_: Request<Bytes>, _: Invocation| -> std::future::Ready<Response<Bytes>> {
        panic!("must not be called")
    };
    let little = context(Duration::from_millis(100));
    let late = answered(&event("GET", ""), &little, never).await;
    assert_eq!(code(&late.unwrap()), (504, "deadline".into()));
}

#[tokio::test]
async fn an_answer_that_is_too_large_is_an_error_answer_and_no_failed_invocation() {
    let large = async |_: Request<Bytes>, _: Invocation| {
        Response::new(Bytes::from("x".repeat(MAX_ANSWER_BYTES)))
    };
    let answer = answered(&event("GET", ""), &plenty(), large).await;
    assert_eq!(code(&answer.unwrap()), (500, "answer-too-large".into()));
}

#[tokio::test]
async fn an_event_that_is_none_of_a_url_fails_the_function() {
    for other in [json!({}), json!({"records": {}}), json!(null)] {
        let failed = answered(&other, &plenty(), echo).await;
        assert_eq!(failed.unwrap_err().kind, "Triad.Event");
    }
}
