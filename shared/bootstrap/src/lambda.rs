//! The Lambda shell around the handlers: converts, and nothing more.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use triad_aws::Account;
use triad_core::Timestamp;
use triad_lambda::{
    BatchMode, Invocation, ParsedRecord, Progress, RecordOutcome, RunConfig, RunError,
};
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

/// The invocation that a handler works in.
#[derive(Debug, Clone)]
pub struct Turn {
    /// When the handler is to have answered. It is dropped half a second later, and then only the
    /// records that are noted as done are not delivered again.
    pub until: Timestamp,
    progress: Progress,
    /// Where in the event each of the handler's records is.
    places: Arc<[usize]>,
}

impl Turn {
    /// Notes that the record at `index` of those given to the handler is done: its effects are in
    /// place and all its messages acknowledged. Other places are ignored.
    pub fn done(&self, index: usize) {
        if let Some(place) = self.places.get(index) {
            self.progress.done(*place);
        }
    }
}

/// Runs a function that takes Kafka batches.
///
/// # Errors
/// [`RunError`] if the Runtime API cannot be reached.
pub async fn run_batches<F, R>(wiring: Wiring, handle: F) -> Result<(), RunError>
where
    F: Fn(Vec<InputRecord>, Turn) -> R + Send + Sync + 'static,
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
    F: Fn(Vec<InputRecord>, Turn) -> R,
    R: Future<Output = Vec<Handled>>,
{
    let mut outcomes = Vec::with_capacity(records.len());
    let mut sound = Vec::new();
    let mut places = Vec::new();
    for (place, record) in records.into_iter().enumerate() {
        match record {
            ParsedRecord::Record(record) => {
                outcomes.push(None);
                places.push(place);
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
                    None => {
                        invocation.progress.done(place);
                        RecordOutcome::Done
                    }
                    Some(e) => RecordOutcome::Failed(e.to_string()),
                }));
            }
        }
    }
    let turn = Turn {
        until: Timestamp(invocation.deadline.epoch_ms()),
        progress: invocation.progress.clone(),
        places: places.into(),
    };
    let mut answers = handle(sound, turn).await.into_iter();
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use triad_core::Envelope;
    use triad_lambda::Deadline;
    use triad_runtime::ports::BusError;

    use super::*;

    /// Acknowledges everything.
    struct Accepting;

    impl Bus for Accepting {
        async fn publish(&self, messages: Vec<Envelope>) -> Vec<Result<(), BusError>> {
            vec![Ok(()); messages.len()]
        }
    }

    #[tokio::test]
    async fn what_is_noted_keeps_its_place_in_the_event_and_survives_the_handler() {
        // The first record is no object, the other two are sound.
        let event = br#"{"records": {"agent.payment-0": [7,
            {"topic": "agent.payment", "partition": 0, "offset": 5, "value": "e30="},
            {"topic": "agent.payment", "partition": 0, "offset": 6, "value": "e30="}]}}"#;
        // Of the two that it is given the handler ends the first, and hangs on the second.
        let slow = async |_: Vec<InputRecord>, turn: Turn| {
            turn.done(0);
            turn.done(9);
            std::future::pending().await
        };
        let records = triad_lambda::parse_event(event).expect("it is an event");
        let invocation = Invocation {
            request_id: String::new(),
            deadline: Deadline::before(u64::MAX, Duration::ZERO),
            progress: Progress::new(records.len()),
        };
        let handled = batch(&Accepting, &slow, records, &invocation);
        let dropped = tokio::time::timeout(Duration::ZERO, handled).await;
        assert!(dropped.is_err(), "it hangs");
        assert_eq!(invocation.progress.snapshot(), [true, true, false]);
    }
}
