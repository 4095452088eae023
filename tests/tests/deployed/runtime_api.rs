//! The Lambda shell in a real process, with a Runtime API.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use triad_tests::runtime_api::{Answer, Function, InvokeError, RuntimeApi};

const PATIENCE: Duration = Duration::from_secs(20);

async fn start() -> (RuntimeApi, Function) {
    let api = RuntimeApi::start();
    let function = api.spawn(echo(), []).unwrap();
    (api, function)
}

fn echo() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_echo-function"))
}

/// An event with one record for each value, in one partition; the values are base64.
fn event(values: &[&str]) -> String {
    let record = |(offset, value): (usize, &&str)| {
        json!({"topic": "orders", "partition": 0, "offset": offset, "timestamp": 1,
            "timestampType": "CREATE_TIME", "value": value, "headers": [{"h": [-1]}]})
    };
    let records: Vec<Value> = values.iter().enumerate().map(record).collect();
    json!({"eventSource": "aws:kafka", "records": {"orders-0": records}}).to_string()
}

const OK: &str = "b2s=";
const FAIL: &str = "ZmFpbA==";
const CRASH: &str = "Y3Jhc2g=";
const PANIC: &str = "cGFuaWM=";
const HANG: &str = "aGFuZw==";
const BLOCK: &str = "YmxvY2s=";

fn failed(answer: &Answer) -> Vec<i64> {
    let answer = answer.json();
    let failures = answer["batchItemFailures"].as_array().unwrap();
    let offset = |failure: &Value| {
        assert_eq!(failure["itemIdentifier"]["partition"], "orders-0");
        failure["itemIdentifier"]["offset"].as_i64().unwrap()
    };
    failures.iter().map(offset).collect()
}

#[tokio::test]
async fn a_good_batch_and_then_a_partial_failure() {
    let (api, _function) = start().await;
    let answer = api.invoke(event(&[OK, OK]), PATIENCE).await.unwrap();
    assert_eq!(answer.json(), json!({"batchItemFailures": []}));
    let answer = api.invoke(event(&[OK, FAIL, OK]), PATIENCE).await.unwrap();
    assert_eq!(failed(&answer), [1, 2]);
    let answer = api.invoke(event(&["%", OK]), PATIENCE).await.unwrap();
    assert_eq!(failed(&answer), [0, 1]);
}

#[tokio::test]
async fn a_panic_and_a_payload_that_is_no_event_are_function_errors() {
    let (api, _function) = start().await;
    let Answer::FunctionError { message, .. } =
        api.invoke(event(&[PANIC]), PATIENCE).await.unwrap()
    else {
        panic!("a panic must fail the function");
    };
    assert!(message.contains("told to panic"), "{message}");
    for payload in [r#"{"records":7}"#, "not json", "null"] {
        let answer = api.invoke(payload, PATIENCE).await.unwrap();
        assert!(
            matches!(answer, Answer::FunctionError { .. }),
            "{payload}: {answer:?}"
        );
    }
    let answer = api.invoke(event(&[OK]), PATIENCE).await.unwrap();
    assert!(failed(&answer).is_empty());
}

#[tokio::test]
async fn a_handler_that_hangs_is_answered_for_before_the_deadline() {
    let (api, _function) = start().await;
    api.invoke(event(&[OK]), PATIENCE).await.unwrap();
    let within = Duration::from_millis(2_000);
    let answer = api.invoke(event(&[OK, HANG, OK]), within).await.unwrap();
    assert_eq!(failed(&answer), [1, 2]);
}

#[tokio::test]
async fn a_crash_during_an_invocation_is_noticed_and_a_new_process_goes_on() {
    let (api, mut function) = start().await;
    let crashed = api.invoke(event(&[OK, CRASH]), PATIENCE).await;
    let Err(InvokeError::Exited(status)) = crashed else {
        panic!("a crash must be noticed, found {crashed:?}");
    };
    assert_eq!(status.code(), Some(3));
    assert_eq!(function.ended(PATIENCE).await, Ok(status));
    let _again = api.spawn(echo(), []).unwrap();
    let answer = api.invoke(event(&[OK]), PATIENCE).await.unwrap();
    assert!(failed(&answer).is_empty());
}

#[tokio::test]
async fn a_function_that_blocks_past_its_deadline_is_killed() {
    let (api, mut function) = start().await;
    api.invoke(event(&[OK]), PATIENCE).await.unwrap();
    let within = Duration::from_millis(1_500);
    let late = api.invoke(event(&[BLOCK]), within).await;
    assert_eq!(late, Err(InvokeError::TimedOut));
    assert_eq!(function.ended(PATIENCE).await.unwrap().code(), None);
}

#[tokio::test]
async fn a_failed_init_is_reported_and_the_process_ends_with_a_failure() {
    let api = RuntimeApi::start();
    let mut function = api.spawn(echo(), [("ECHO_INIT", "fail")]).unwrap();
    let expected = InvokeError::Init {
        error_type: "Triad.Init".to_owned(),
        message: "told to fail".to_owned(),
    };
    let refused = api.invoke(event(&[OK]), PATIENCE).await;
    let status = function.ended(PATIENCE).await.unwrap();
    assert_eq!(refused, Err(expected));
    assert_eq!(status.code(), Some(1));
}

#[tokio::test]
async fn dropping_a_function_kills_its_process_and_another_takes_its_place() {
    let (api, function) = start().await;
    api.invoke(event(&[OK]), PATIENCE).await.unwrap();
    let process = format!("/proc/{}", function.pid().unwrap());
    assert!(Path::new(&process).exists());
    drop(function);
    let _next = api.spawn(echo(), []).unwrap();
    let answer = api.invoke(event(&[FAIL]), PATIENCE).await.unwrap();
    assert_eq!(failed(&answer), [0]);
    let gone = async {
        while Path::new(&process).exists() {
            tokio::task::yield_now().await;
        }
    };
    let gone = tokio::time::timeout(PATIENCE, gone).await;
    gone.expect("the process must be gone");
}
