//! Two entries of a function: a Kafka batch and a schedule. The third, a URL, is in [`crate::url`].
//!
//! Owns when an invocation ends and what it answers; the handler owns everything else. Two moments lie before
//! Lambda's own deadline. At the first the handler must end its calls and answer. At the second a handler that has
//! not answered is dropped, so that its notes of finished records are still reported. With one moment, a handler that
//! uses its whole time would be dropped just when it answers, and one slow record would redeliver every finished one.
//! Architecture invariant: no path answers success for an unfinished record.

use std::fmt::Display;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use lambda_runtime::{Context, LambdaEvent, Runtime, service_fn};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::deadline::{Deadline, Invocation, Progress};
use crate::error::{FunctionError, RunError};
use crate::event::{ParsedRecord, parse_event};
use crate::response::{BatchMode, BatchResponse, RecordId};

/// Outcome of one record of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordOutcome {
    /// The record is done: its effects are stored, and the brokers have acknowledged every message that it
    /// led to.
    Done,
    /// The record must be redelivered; the text says why, for people.
    Failed(String),
}

/// How a function answers, and when its handler must end. The default is
/// [`BatchMode::PartialResponses`] with 500 ms for each of the two times.
#[derive(Debug, Clone, Copy)]
pub struct RunConfig {
    /// How Lambda interprets the answer; it must be the same as the event source mapping's setting.
    pub mode: BatchMode,
    /// How long before Lambda's own deadline a handler is dropped, so that there is time to send the answer.
    /// Together with [`time_to_answer`](Self::time_to_answer) it must be shorter than the function's
    /// time-out: otherwise no handler is ever called. Default 500 ms.
    pub safety_margin: Duration,
    /// How long before it would be dropped a handler must have answered, so that it can end the calls under way and
    /// note their results. Default 500 ms.
    pub time_to_answer: Duration,
}

impl Default for RunConfig {
    fn default() -> Self {
        Self {
            mode: BatchMode::PartialResponses,
            safety_margin: Duration::from_millis(500),
            time_to_answer: Duration::from_millis(500),
        }
    }
}

/// Serves Kafka batches until the process ends. Call [`init`](crate::init) before.
///
/// The handler gets the records sorted by topic, partition and offset, and answers one outcome for
/// each, in the same order. Each invocation is answered as in [`answer_batch`].
///
/// # Errors
/// [`RunError::Runtime`] when the connection to the Runtime API fails. A failed invocation is
/// answered, not returned.
///
/// # Panics
/// Outside of Lambda, where the variables that Lambda sets are missing.
pub async fn run<H, F>(config: RunConfig, handler: H) -> Result<(), RunError>
where
    H: Fn(Vec<ParsedRecord>, Invocation) -> F,
    F: Future<Output = Vec<RecordOutcome>>,
{
    let handler = &handler;
    let service = service_fn(|event: LambdaEvent<Box<RawValue>>| async move {
        let payload = event.payload.get().as_bytes();
        answer_batch(config, payload, &event.context, handler).await
    });
    serve(Runtime::new(service).run()).await
}

/// Serves scheduled invocations until the process ends. The handler gets the schedule's payload;
/// each invocation is answered as in [`answer_cron`].
///
/// # Errors
/// [`RunError::Runtime`] when the connection to the Runtime API fails. A failed invocation is
/// answered, not returned.
///
/// # Panics
/// Outside of Lambda, where the variables that Lambda sets are missing.
pub async fn run_cron<H, F, T, E>(config: RunConfig, handler: H) -> Result<(), RunError>
where
    H: Fn(Value, Invocation) -> F,
    F: Future<Output = Result<T, E>>,
    T: Serialize,
    E: Display,
{
    let handler = &handler;
    let service = service_fn(|event: LambdaEvent<Value>| async move {
        answer_cron(config, event.payload, &event.context, handler).await
    });
    serve(Runtime::new(service).run()).await
}

pub(crate) async fn serve(
    running: impl Future<Output = Result<(), lambda_runtime::Error>>,
) -> Result<(), RunError> {
    running
        .await
        .map_err(|error| RunError::Runtime(error.to_string()))
}

/// The handler's invocation, and the moment at which the handler is dropped.
pub(crate) fn invocation(
    config: RunConfig,
    context: &Context,
    records: usize,
) -> (Invocation, Instant) {
    let dropped = Deadline::before(context.deadline, config.safety_margin);
    let invocation = Invocation {
        request_id: context.request_id.clone(),
        deadline: dropped.earlier(config.time_to_answer),
        progress: Progress::new(records),
    };
    (invocation, dropped.instant())
}

/// Answers one batch: what [`run`] does for each invocation, without the Runtime API. If the handler does not
/// answer before it is dropped, the records that it has noted in [`Invocation::progress`] are done, and all
/// others have failed. If no time is left, the handler is not called, and all records have failed.
///
/// # Errors
/// [`FunctionError`]; the whole batch is retried then. Its kind is `Triad.Event` if the event is
/// not understood, `Triad.Outcomes` if the handler answered another number of outcomes than there
/// are records, `Triad.Batch` if a record failed in [`BatchMode::WholeBatch`].
pub async fn answer_batch<H, F>(
    config: RunConfig,
    payload: &[u8],
    context: &Context,
    handler: H,
) -> Result<BatchResponse, FunctionError>
where
    H: FnOnce(Vec<ParsedRecord>, Invocation) -> F,
    F: Future<Output = Vec<RecordOutcome>>,
{
    let records = parse_event(payload)
        .map_err(|error| FunctionError::new("Triad.Event", error.to_string()))?;
    let ids: Vec<RecordId> = records.iter().map(ParsedRecord::id).collect();
    let (invocation, dropped) = invocation(config, context, ids.len());
    let (deadline, progress) = (invocation.deadline, invocation.progress.clone());
    let outcomes = if deadline.remaining().is_zero() {
        unfinished(&progress)
    } else {
        let handled = handler(records, invocation);
        match tokio::time::timeout_at(dropped, handled).await {
            Ok(outcomes) => outcomes,
            Err(_) => unfinished(&progress),
        }
    };
    if outcomes.len() != ids.len() {
        let message = format!("{} outcomes for {} records", outcomes.len(), ids.len());
        return Err(FunctionError::new("Triad.Outcomes", message));
    }
    respond(config.mode, &ids, &outcomes)
}

/// Outcomes of a batch whose handler was dropped.
fn unfinished(progress: &Progress) -> Vec<RecordOutcome> {
    let reason: Arc<str> = "not finished within the time of the invocation".into();
    let outcome = |done| match done {
        true => RecordOutcome::Done,
        false => RecordOutcome::Failed(reason.to_string()),
    };
    progress.snapshot().into_iter().map(outcome).collect()
}

fn respond(
    mode: BatchMode,
    ids: &[RecordId],
    outcomes: &[RecordOutcome],
) -> Result<BatchResponse, FunctionError> {
    let mut failed = Vec::new();
    let mut first_reason = None;
    for (id, outcome) in ids.iter().zip(outcomes) {
        if let RecordOutcome::Failed(reason) = outcome {
            let RecordId {
                topic,
                partition,
                offset,
            } = id;
            tracing::warn!(%topic, partition, offset, %reason, "a record is to come again");
            failed.push(id);
            first_reason = first_reason.or(Some(reason));
        }
    }
    match (mode, first_reason) {
        (BatchMode::WholeBatch, Some(reason)) => {
            let message = format!("{} of {} records failed: {reason}", failed.len(), ids.len());
            Err(FunctionError::new("Triad.Batch", message))
        }
        (BatchMode::WholeBatch, None) | (BatchMode::PartialResponses, _) => {
            Ok(BatchResponse::of(ids, failed))
        }
    }
}

/// Answers one scheduled invocation: what [`run_cron`] does, without the Runtime API.
///
/// # Errors
/// [`FunctionError`] of kind `Triad.Cron` with the handler's own error, or of kind `Triad.Deadline` if the
/// handler did not answer before it was dropped, or was not called because no time is left.
pub async fn answer_cron<H, F, T, E>(
    config: RunConfig,
    payload: Value,
    context: &Context,
    handler: H,
) -> Result<T, FunctionError>
where
    H: FnOnce(Value, Invocation) -> F,
    F: Future<Output = Result<T, E>>,
    E: Display,
{
    let (invocation, dropped) = invocation(config, context, 0);
    let deadline = invocation.deadline;
    let late = || FunctionError::new("Triad.Deadline", "not finished within its time");
    if deadline.remaining().is_zero() {
        return Err(late());
    }
    match tokio::time::timeout_at(dropped, handler(payload, invocation)).await {
        Ok(done) => done.map_err(|error| FunctionError::new("Triad.Cron", error.to_string())),
        Err(_) => Err(late()),
    }
}
