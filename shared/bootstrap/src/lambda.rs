//! The Lambda shell around the handlers; it only converts.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use triad_aws::Account;
use triad_core::Timestamp;
use triad_lambda::{
    BatchMode, Invocation, ParsedRecord, Progress, RecordOutcome, RunConfig, RunError,
};
use triad_metrics::emf::Embedded;
use triad_runtime::dead_letter::replay::MALFORMED_EVENT_RECORD;
use triad_runtime::dead_letter::{self, Cause, dead_letter};
use triad_runtime::system::SystemClock;
use triad_runtime::traces::Traces;
use triad_runtime::{Bus, Clock, Handled, InputRecord, delivery};
use triad_workflow::Millis;

use crate::config::Config;
use crate::logging;
use crate::reader::environment;
use crate::wiring::{Store, Wiring};

/// Longest wait for the spans of one invocation.
const LAST_SPANS: Duration = Duration::from_millis(500);
/// The variable with the CloudWatch namespace of the functions' metrics. Without it functions report no metrics.
const METRICS_NAMESPACE: &str = "TRIAD_METRICS_NAMESPACE";

/// The metrics of this process, if it reports any.
static METRICS: OnceLock<Embedded> = OnceLock::new();

/// Cold start of a function without clients: starts log and metrics, reads the configuration from the environment, and
/// logs in to Kafka. Call it in Lambda's init phase.
///
/// # Errors
/// The reason, for people; with all problems of the configuration.
pub async fn configuration(account: &Account) -> Result<Config, String> {
    logging::start(logging::Form::Json, environment("TRIAD_LOG").as_deref());
    if let Some(namespace) = environment(METRICS_NAMESPACE) {
        let metrics = Embedded::start(&namespace);
        let metrics = metrics.map_err(|e| format!("{METRICS_NAMESPACE}: {e}"))?;
        METRICS.get_or_init(|| metrics);
    }
    let mut config = Config::read(&environment).map_err(|e| e.to_string())?;
    let login = config.auth.log_in(account).await;
    config.kafka.login = login.map_err(|e| e.to_string())?;
    Ok(config)
}

/// Cold start of a function: its [`configuration`] and the clients, all in Lambda's init phase.
///
/// # Errors
/// [`RunError::Init`] if the namespace of the metrics cannot be used, the configuration is wrong (all problems are in
/// the message), the Kafka credentials cannot be read, or librdkafka refuses the settings.
///
/// # Panics
/// If one of these happens outside of Lambda, as [`triad_lambda::init()`] does.
pub async fn start() -> Result<Wiring<Store>, RunError> {
    triad_lambda::init(async {
        let account = Account::of_function();
        let mut config = configuration(&account).await?;
        let engines = crate::deployed_engines(&config);
        crate::export_traces(&mut config, engines, crate::Sending::Flushed)
            .map_err(|e| e.to_string())?;
        let wiring = Wiring::new(config, account).await;
        wiring.map_err(|e| e.to_string())
    })
    .await
}

/// Prints the metrics since the last call to standard output, for CloudWatch. Call it at the end of each invocation:
/// the sandbox may be frozen or stopped afterwards. Without `TRIAD_METRICS_NAMESPACE`, nothing is printed.
pub fn tell_metrics() {
    let Some(metrics) = METRICS.get() else { return };
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    let lines = metrics.lines(u64::try_from(now.as_millis()).unwrap_or(u64::MAX));
    for line in lines {
        println!("{line}");
    }
}

/// A handler's view of its invocation: the deadline, and the notes of finished records.
#[derive(Debug, Clone)]
pub struct HandlerContext {
    /// When the handler must have answered. A handler that has not is dropped half a second later, and every record
    /// that it has not noted as done is then redelivered.
    pub until: Timestamp,
    progress: Progress,
    /// Index in the event of each of the handler's records.
    places: Arc<[usize]>,
}

impl HandlerContext {
    /// Notes that the handler's record at `index` (from 0) is done: its effects are stored, and all its messages are
    /// acknowledged. Other indexes are ignored.
    pub fn done(&self, index: usize) {
        if let Some(place) = self.places.get(index) {
            self.progress.done(*place);
        }
    }
}

/// Runs a function that takes Kafka batches, until its process ends. `handle` gets the records of one invocation, and
/// answers one [`Handled`] for each, in order; a record without an answer is redelivered. Records that cannot be read
/// from the event are dead-lettered and not given to the handler. If the handler panics, it gets the records one by
/// one, and a record on which alone it panics is dead-lettered ([`triad_runtime::delivery`]).
///
/// # Errors
/// [`RunError::Runtime`] if Lambda's Runtime API fails.
///
/// # Panics
/// Outside of Lambda, where the variables that Lambda sets are missing.
pub async fn run_batches<F, R>(wiring: Wiring<Store>, handle: F) -> Result<(), RunError>
where
    F: Fn(Arc<Vec<InputRecord>>, HandlerContext) -> R + Send + Sync + 'static,
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
    triad_lambda::run(config, move |mut records, invocation| {
        for record in &mut records {
            let topic = match record {
                ParsedRecord::Record(record) => &mut record.topic,
                ParsedRecord::Malformed(bad) => &mut bad.topic,
            };
            *topic = wiring.config.kafka.topic(std::mem::take(topic));
        }
        let (handle, bus) = (handle.clone(), wiring.bus.clone());
        let traces = wiring.config.settings.traces.clone();
        // Boxed, because the handlers' futures are large, and the runtime nests them further.
        let work: Pin<Box<dyn Future<Output = Vec<RecordOutcome>> + Send>> = Box::pin(async move {
            let outcomes = batch(&bus, &*handle, records, &invocation).await;
            tell_metrics();
            flush_spans(&traces, &invocation).await;
            outcomes
        });
        work
    })
    .await
}

/// Sends the waiting spans. Call it before the invocation is answered, because its sandbox may be frozen afterwards.
/// It takes at most half a second, and ends at the invocation's deadline.
pub async fn flush_spans(traces: &Traces, invocation: &Invocation) {
    let left = invocation.deadline.remaining().min(LAST_SPANS);
    // The sink has its own bound; the invocation's must not depend on it.
    let _ = tokio::time::timeout(left, traces.flush(Millis::from(left))).await;
}

/// One batch: dead-letters unreadable records, and gives the rest to the handler.
async fn batch<B, F, R>(
    bus: &B,
    handle: &F,
    records: Vec<ParsedRecord>,
    invocation: &Invocation,
) -> Vec<RecordOutcome>
where
    B: Bus,
    F: Fn(Arc<Vec<InputRecord>>, HandlerContext) -> R,
    R: Future<Output = Vec<Handled>>,
{
    let mut outcomes: Vec<Option<RecordOutcome>> = vec![None; records.len()];
    let (mut places, mut sound) = (Vec::new(), Vec::new());
    for (place, record) in records.into_iter().enumerate() {
        match record {
            ParsedRecord::Record(record) => {
                places.push(place);
                sound.push(record);
            }
            ParsedRecord::Malformed(bad) => {
                let cause = Cause::new(MALFORMED_EVENT_RECORD, bad.cause.to_string());
                let record = InputRecord {
                    topic: bad.topic,
                    partition: bad.partition,
                    offset: bad.offset,
                    timestamp_ms: -1,
                    value: Some(bad.raw.into_bytes()),
                    ..InputRecord::default()
                };
                let answer = put_aside(bus, &record, &cause, place, invocation).await;
                outcomes[place] = Some(outcome(answer));
            }
        }
    }
    if !sound.is_empty() {
        let sound = Arc::new(sound);
        let handle = |records, at| handle(records, turn(invocation, &places[at]));
        let put_aside = |at: usize, cause| {
            let (record, place) = (sound[at].clone(), places[at]);
            async move { put_aside(bus, &record, &cause, place, invocation).await }
        };
        let answers = delivery::deliver(&sound, handle, put_aside).await;
        for (place, answer) in places.iter().zip(answers) {
            outcomes[*place] = Some(outcome(answer));
        }
    }
    let missing = || RecordOutcome::Failed("the handler gave no answer for it".into());
    outcomes
        .into_iter()
        .map(|known| known.unwrap_or_else(missing))
        .collect()
}

/// The context of a handler that gets only the records at these indexes of the event.
fn turn(invocation: &Invocation, places: &[usize]) -> HandlerContext {
    HandlerContext {
        until: Timestamp(invocation.deadline.epoch_ms()),
        progress: invocation.progress.clone(),
        places: places.into(),
    }
}

fn outcome(answer: Handled) -> RecordOutcome {
    match answer {
        Handled::Done => RecordOutcome::Done,
        Handled::Redeliver(why) => RecordOutcome::Failed(why.to_string()),
    }
}

/// Sends a dead letter and its alert for the record at an index of the event.
async fn put_aside<B: Bus>(
    bus: &B,
    record: &InputRecord,
    cause: &Cause,
    place: usize,
    invocation: &Invocation,
) -> Handled {
    let letter = dead_letter(record, cause, SystemClock.now());
    match dead_letter::send(bus, vec![((), letter)]).await.pop() {
        None => {
            invocation.progress.done(place);
            Handled::Done
        }
        Some(((), why)) => why.into(),
    }
}

#[cfg(test)]
mod tests {
    use triad_core::Envelope;
    use triad_lambda::Deadline;
    use triad_runtime::ports::BusError;
    use triad_runtime::traces::{Engines, Sampling, TraceSink, TraceSpan};

    use super::*;

    /// A bus that acknowledges everything.
    struct Accepting;

    impl Bus for Accepting {
        async fn publish(&self, messages: Vec<Envelope>) -> Vec<Result<(), BusError>> {
            vec![Ok(()); messages.len()]
        }
    }

    /// A bus that acknowledges nothing.
    struct Refusing;

    impl Bus for Refusing {
        async fn publish(&self, messages: Vec<Envelope>) -> Vec<Result<(), BusError>> {
            let refused = || Err(BusError::Transient("no broker".to_owned()));
            messages.iter().map(|_| refused()).collect()
        }
    }

    #[tokio::test]
    async fn a_record_that_cannot_be_read_is_done_once_its_letter_is_acknowledged() {
        let event = br#"{"records": {"orders-0": [7,
            {"topic": "orders", "partition": 0, "offset": 5, "value": "e30="}]}}"#;
        let handle = async |records: Arc<Vec<InputRecord>>, _: HandlerContext| {
            vec![Handled::Done; records.len()]
        };
        let invocation = Invocation {
            request_id: String::new(),
            deadline: Deadline::before(u64::MAX, Duration::ZERO),
            progress: Progress::new(2),
        };
        let records = || triad_lambda::parse_event(event).expect("it is an event");
        let kept = Kept::default();
        let outcomes = batch(&kept, &handle, records(), &invocation).await;
        assert_eq!(outcomes, vec![RecordOutcome::Done; 2]);
        let sent = std::mem::take(&mut *kept.0.lock().expect("no panic"));
        let topics: Vec<&str> = sent.iter().map(|m| m.topic.as_str()).collect();
        assert_eq!(topics, ["dead-letter", "alerts"]);
        let outcomes = batch(&Refusing, &handle, records(), &invocation).await;
        assert!(
            matches!(&outcomes[..], [RecordOutcome::Failed(why), RecordOutcome::Done] if why.contains("no broker")),
            "{outcomes:?}"
        );
    }

    /// A sink that stores nothing, and whose flush never returns.
    struct Hanging(Arc<std::sync::atomic::AtomicUsize>);

    impl TraceSink for Hanging {
        fn ended(&self, _: TraceSpan) {}

        fn flush(&self, _: Millis) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
            self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            Box::pin(std::future::pending())
        }
    }

    #[tokio::test]
    async fn spans_are_flushed_before_an_invocation_is_answered_and_do_not_hold_it_up() {
        let flushed = Arc::default();
        let sampling = Sampling::of_share(1.0).expect("a share");
        let traces = Traces::to(Hanging(Arc::clone(&flushed)), sampling, Engines::DEPLOYED);
        let invocation = Invocation {
            request_id: String::new(),
            deadline: Deadline::before(u64::MAX, Duration::ZERO),
            progress: Progress::new(0),
        };
        let flush = flush_spans(&traces, &invocation);
        let ended = tokio::time::timeout(Duration::from_secs(30), flush).await;
        assert!(ended.is_ok(), "it has its own bound");
        assert_eq!(flushed.load(std::sync::atomic::Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn what_is_noted_keeps_its_place_in_the_event_and_survives_the_handler() {
        // The first record is not an object, the other two are valid.
        let event = br#"{"records": {"agent.payment-0": [7,
            {"topic": "agent.payment", "partition": 0, "offset": 5, "value": "e30="},
            {"topic": "agent.payment", "partition": 0, "offset": 6, "value": "e30="}]}}"#;
        // The handler finishes the first of its two records, and hangs on the second.
        let slow = async |_: Arc<Vec<InputRecord>>, turn: HandlerContext| {
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

    /// A bus that keeps messages.
    #[derive(Default)]
    struct Kept(std::sync::Mutex<Vec<Envelope>>);

    impl Bus for Kept {
        async fn publish(&self, messages: Vec<Envelope>) -> Vec<Result<(), BusError>> {
            let count = messages.len();
            self.0.lock().expect("no panic").extend(messages);
            vec![Ok(()); count]
        }
    }

    #[tokio::test]
    async fn a_record_that_makes_its_handler_panic_is_put_aside_and_its_neighbours_are_handled() {
        let event = br#"{"records": {
            "orders-0": [{"topic": "orders", "partition": 0, "offset": 5, "value": "MQ=="},
                {"topic": "orders", "partition": 0, "offset": 6, "value": "ZGll"},
                {"topic": "orders", "partition": 0, "offset": 7, "value": "Mg=="}],
            "orders-1": [{"topic": "orders", "partition": 1, "offset": 6, "value": "Mw=="}]}}"#;
        let handled = std::sync::Mutex::new(Vec::new());
        let panics = async |records: Arc<Vec<InputRecord>>, turn: HandlerContext| {
            for (at, record) in records.iter().enumerate() {
                assert_ne!(record.value.as_deref(), Some(&b"die"[..]), "as it is told");
                turn.done(at);
                let place = (record.partition, record.offset);
                handled.lock().expect("no panic").push(place);
            }
            vec![Handled::Done; records.len()]
        };
        let records = || triad_lambda::parse_event(event).expect("it is an event");
        let invocation = || Invocation {
            request_id: String::new(),
            deadline: Deadline::before(u64::MAX, Duration::ZERO),
            progress: Progress::new(4),
        };
        let (bus, first) = (Kept::default(), invocation());
        let outcomes = batch(&bus, &panics, records(), &first).await;
        assert_eq!(outcomes, vec![RecordOutcome::Done; 4]);
        assert_eq!(first.progress.snapshot(), [true; 4]);
        // The first record again: it was handled before the next one panicked.
        let handled_now = || std::mem::take(&mut *handled.lock().expect("no panic"));
        assert_eq!(handled_now(), [(0, 5), (0, 5), (0, 7), (1, 6)]);
        let sent = std::mem::take(&mut *bus.0.lock().expect("no panic"));
        let topics: Vec<&str> = sent.iter().map(|m| m.topic.as_str()).collect();
        assert_eq!(topics, ["dead-letter", "alerts"]);
        let cause = delivery::HANDLER_PANICKED.as_bytes();
        let is_cause = |(name, value): &(String, Option<Vec<u8>>)| {
            name == "triad-cause" && value.as_deref() == Some(cause)
        };
        assert!(
            sent[0].headers.iter().any(is_cause),
            "{:?}",
            sent[0].headers
        );
        // Without its dead letter the record is not done, and blocks its partition.
        let second = invocation();
        let outcomes = batch(&Refusing, &panics, records(), &second).await;
        let is_done: Vec<bool> = outcomes.iter().map(|o| *o == RecordOutcome::Done).collect();
        assert_eq!(is_done, [true, false, false, true]);
        assert_eq!(handled_now(), [(0, 5), (0, 5), (1, 6)]);
    }
}
