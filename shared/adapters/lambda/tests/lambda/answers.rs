//! Answers of a function to a batch, without the Runtime API and in virtual time.

use std::convert::Infallible;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lambda_runtime::Context;
use serde_json::{Value, json};
use triad_lambda::{
    BatchMode, FunctionError, Invocation, ParsedRecord, RecordOutcome, RunConfig, answer_batch,
    answer_cron,
};

const EVENT: &[u8] = include_bytes!("../golden/msk.event.json");

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

fn failing_at(place: usize) -> impl Fn(Vec<ParsedRecord>, Invocation) -> Outcomes {
    move |records, _| {
        let outcome = |at| match at == place {
            true => RecordOutcome::Failed("told to".to_owned()),
            false => RecordOutcome::Done,
        };
        std::future::ready((0..records.len()).map(outcome).collect())
    }
}

type Outcomes = std::future::Ready<Vec<RecordOutcome>>;

fn failed_offsets(answer: &triad_lambda::BatchResponse) -> Vec<(String, i64)> {
    let identifier = |failure: &triad_lambda::response::BatchItemFailure| {
        let identifier = &failure.item_identifier;
        (identifier.partition.clone(), identifier.offset)
    };
    answer.batch_item_failures.iter().map(identifier).collect()
}

#[tokio::test]
async fn a_failed_record_is_answered_with_its_partition_from_there_on() {
    let config = RunConfig::default();
    let answer = answer_batch(config, EVENT, &plenty(), failing_at(0))
        .await
        .unwrap();
    let expected = [("orders-0".to_owned(), 15), ("orders-0".to_owned(), 16)];
    assert_eq!(failed_offsets(&answer), expected);
    let answer = answer_batch(config, EVENT, &plenty(), failing_at(99))
        .await
        .unwrap();
    assert!(answer.batch_item_failures.is_empty());
}

#[tokio::test]
async fn without_partial_responses_any_failure_fails_the_function() {
    let config = RunConfig {
        mode: BatchMode::WholeBatch,
        ..RunConfig::default()
    };
    let failed = answer_batch(config, EVENT, &plenty(), failing_at(2)).await;
    assert_eq!(failed.unwrap_err().kind, "Triad.Batch");
    let done = answer_batch(config, EVENT, &plenty(), failing_at(99)).await;
    assert!(done.is_ok());
}

#[tokio::test(start_paused = true)]
async fn what_is_unfinished_at_the_deadline_is_failed_and_what_is_finished_is_not() {
    let stuck = |_: Vec<ParsedRecord>, invocation: Invocation| async move {
        // The handler finishes offset 15 of `orders-0` and the only record of `orders-1`.
        invocation.progress.done(0);
        invocation.progress.done(2);
        assert!(invocation.deadline.remaining() < Duration::from_secs(60));
        std::future::pending().await
    };
    let answer = answer_batch(RunConfig::default(), EVENT, &plenty(), stuck)
        .await
        .unwrap();
    let expected = [("orders-0".to_owned(), 16), ("orders-high-0".to_owned(), 3)];
    assert_eq!(failed_offsets(&answer), expected);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_uses_its_whole_time_still_gets_to_answer() {
    let slow = |records: Vec<ParsedRecord>, invocation: Invocation| async move {
        // The handler's last call ends at the deadline, and storing its result takes 400 ms more.
        tokio::time::sleep_until(invocation.deadline.instant()).await;
        tokio::time::sleep(Duration::from_millis(400)).await;
        vec![RecordOutcome::Done; records.len()]
    };
    let begun = tokio::time::Instant::now();
    let answer = answer_batch(RunConfig::default(), EVENT, &plenty(), slow)
        .await
        .unwrap();
    assert!(answer.batch_item_failures.is_empty(), "{answer:?}");
    assert!(begun.elapsed() < Duration::from_millis(59_900), "{begun:?}");
}

#[tokio::test]
async fn without_time_for_the_handler_every_record_is_failed_and_it_is_not_called() {
    let never = |_: Vec<ParsedRecord>, _: Invocation| -> Outcomes { panic!("must not be called") };
    let little = context(Duration::from_millis(100));
    let answer = answer_batch(RunConfig::default(), EVENT, &little, never)
        .await
        .unwrap();
    assert_eq!(answer.batch_item_failures.len(), 4);
}

#[tokio::test]
async fn an_event_that_is_none_and_a_wrong_number_of_outcomes_fail_the_function() {
    let config = RunConfig::default();
    let no_event = answer_batch(config, b"{}", &plenty(), failing_at(0)).await;
    assert_eq!(no_event.unwrap_err().kind, "Triad.Event");
    let none = |_: Vec<ParsedRecord>, _: Invocation| std::future::ready(Vec::new());
    let wrong = answer_batch(config, EVENT, &plenty(), none)
        .await
        .unwrap_err();
    assert_eq!(wrong.message, "0 outcomes for 4 records");
}

#[tokio::test(start_paused = true)]
async fn a_schedule_answers_its_result_its_error_or_that_it_was_late() {
    let config = RunConfig::default();
    let done = |payload: Value, _: Invocation| async { Ok::<_, Infallible>(payload) };
    let answered = answer_cron(config, json!({"a": 1}), &plenty(), done).await;
    assert_eq!(answered, Ok(json!({"a": 1})));
    let fails = |_: Value, _: Invocation| async { Err::<Value, _>("no table") };
    let failed = answer_cron(config, Value::Null, &plenty(), fails).await;
    let expected = FunctionError {
        kind: "Triad.Cron",
        message: "no table".to_owned(),
    };
    assert_eq!(failed, Err(expected));
    let hangs = |_: Value, _: Invocation| std::future::pending::<Result<Value, Infallible>>();
    let late = answer_cron(config, Value::Null, &plenty(), hangs).await;
    assert_eq!(late.unwrap_err().kind, "Triad.Deadline");
}
