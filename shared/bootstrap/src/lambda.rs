//! The Lambda shell around the handlers: converts, and nothing more.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use triad_aws::Account;
use triad_core::Timestamp;
use triad_lambda::{BatchMode, Invocation, ParsedRecord, RecordOutcome, RunConfig, RunError};
use triad_runtime::dead_letter::replay::MALFORMED_EVENT_RECORD;
use triad_runtime::dead_letter::{Cause, dead_letter};
use triad_runtime::system::SystemClock;
use triad_runtime::{Bus, Clock, Handled, InputRecord};

use crate::config::Config;
use crate::logging;
use crate::reader::environment;
use crate::wiring::Wiring;

/// Cold start of a function: configuration and clients, in the init phase.
///
/// # Errors
/// [`RunError`] with every problem of the configuration in one message.
pub async fn start() -> Result<Wiring, RunError> {
    logging::start(logging::Form::Json, environment("TRIAD_LOG").as_deref());
    triad_lambda::init(async {
        let mut config =
            Config::read(&environment, Account::of_function()).map_err(|e| e.to_string())?;
        config.kafka.login = config.auth.log_in(&config.account).await?;
        Wiring::new(config).await.map_err(|e| e.to_string())
    })
    .await
}

/// Runs a function that takes Kafka batches.
///
/// # Errors
/// [`RunError`] if the Runtime API cannot be reached.
pub async fn run_batches<F, R>(wiring: Wiring, handle: F) -> Result<(), RunError>
where
    F: Fn(Vec<InputRecord>, Timestamp) -> R + Send + Sync + 'static,
    R: Future<Output = Vec<Handled>> + Send + 'static,
{
    let config = RunConfig {
        mode: if wiring.config.partial_batch_responses {
            BatchMode::PartialResponses
        } else {
            BatchMode::WholeBatch
        },
        ..RunConfig::default()
    };
    let handle = Arc::new(handle);
    triad_lambda::run(config, move |records, invocation| {
        let (handle, bus) = (handle.clone(), wiring.bus.clone());
        // Boxed: the handlers' futures are deep, and the runtime wraps them deeper still.
        let work: Pin<Box<dyn Future<Output = Vec<RecordOutcome>> + Send>> =
            Box::pin(async move { batch(&bus, &*handle, records, &invocation).await });
        work
    })
    .await
}

/// One batch: what the shell could not read is dead-lettered, the rest is the handler's.
async fn batch<B, F, R>(
    bus: &B,
    handle: &F,
    records: Vec<ParsedRecord>,
    invocation: &Invocation,
) -> Vec<RecordOutcome>
where
    B: Bus,
    F: Fn(Vec<InputRecord>, Timestamp) -> R,
    R: Future<Output = Vec<Handled>>,
{
    let mut outcomes = Vec::with_capacity(records.len());
    let mut sound = Vec::new();
    for record in records {
        match record {
            ParsedRecord::Record(record) => {
                outcomes.push(None);
                sound.push(record);
            }
            ParsedRecord::Malformed(bad) => {
                tracing::warn!(
                    metric = triad_runtime::metric::DEAD_LETTER,
                    topic = bad.topic,
                    partition = bad.partition,
                    offset = bad.offset,
                    cause = %bad.cause,
                    "record dead-lettered"
                );
                let cause = Cause::new(MALFORMED_EVENT_RECORD, bad.cause.to_string());
                let record = InputRecord {
                    topic: bad.topic,
                    partition: bad.partition,
                    offset: bad.offset,
                    timestamp_ms: -1,
                    value: Some(bad.raw.into_bytes()),
                    ..InputRecord::default()
                };
                let letter = dead_letter(&record, &cause, SystemClock.now());
                let sent = bus.publish(letter.to_vec()).await;
                let failed = sent.into_iter().find_map(Result::err);
                outcomes.push(Some(match failed {
                    None => RecordOutcome::Done,
                    Some(e) => RecordOutcome::Failed(e.to_string()),
                }));
            }
        }
    }
    let until = Timestamp(invocation.deadline.epoch_ms());
    let mut answers = handle(sound, until).await.into_iter();
    outcomes
        .into_iter()
        .map(|known| {
            known.unwrap_or_else(|| match answers.next() {
                Some(Handled::Done) => RecordOutcome::Done,
                Some(Handled::Redeliver(why)) => RecordOutcome::Failed(why.to_string()),
                None => RecordOutcome::Failed("the handler gave no answer for it".into()),
            })
        })
        .collect()
}
