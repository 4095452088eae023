//! Continues behind a batch that cannot be read.
//!
//! librdkafka reports a batch that it cannot decompress (an unknown codec, damage) and requests it again, for ever; a
//! batch that decompresses to invalid records it does not report at all. Only the batch itself has its end, so a
//! second consumer probes: librdkafka skips whole batches before its start offset without reading them. So the first
//! offset from which it can read (or the partition's end) is the place to continue.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::{Offset, TopicPartitionList};
use tokio::sync::Notify;
use triad_consume::Unreadable;

use crate::config::KafkaConfig;
use crate::context::Context;
use crate::error::{KafkaError, of_topic, unusable};
use crate::first_token::await_token;
use crate::native::{Failed, Polled, Polling, RecordPosition};

/// Longest wait for a broker's answer at an offset. If there is none for so long, while the partition's end is found
/// at once, the offset cannot be read.
const LOOK_WITHIN: Duration = Duration::from_secs(5);
/// Longest wait at an offset without an error report, before it is skipped. It is longer, because a broker may be
/// slow for a while.
const SURE_WITHIN: Duration = Duration::from_secs(20);
/// Reason of a batch that librdkafka does not report.
const SILENT: &str = "the batch holds no valid records";
/// Longest wait for a broker's answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Interval between two checks whether the consumer that needs the probe has ended.
const LOOK_FOR_END: Duration = Duration::from_millis(50);
/// Longest wait for the probes when their consumer ends. Longer ones are left running.
const END_WITHIN: Duration = Duration::from_secs(3);

/// Whether an error reports a batch that cannot be read.
pub(crate) fn is_unreadable(failed: &Failed) -> bool {
    use RDKafkaErrorCode::{BadCompression, BadMessage, NotImplemented};
    matches!(failed.code, BadCompression | BadMessage | NotImplemented)
        && failed.place.as_ref().is_some_and(|place| place.offset >= 0)
}

/// The running probes of one consumer, and their results.
#[derive(Clone, Default)]
pub(crate) struct Looks(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Notified whenever a probe has ended.
    ended: Condvar,
}

#[derive(Default)]
struct State {
    under_way: HashSet<(String, i32)>,
    /// Results, each with the number of revocations at the probe's start.
    found: Vec<(u64, Unreadable)>,
    /// The consumer has ended, so no result is needed.
    is_over: bool,
}

impl Looks {
    /// Starts a probe for the end of an unreadable batch, unless one is running: librdkafka repeats an error, given
    /// by `reason`, at every poll. An offset below 0 is the group's committed position. `revocations` is the number
    /// of revocations until now.
    pub(crate) fn begin(
        &self,
        (config, group): (&KafkaConfig, &str),
        place: RecordPosition,
        reason: Option<String>,
        revocations: u64,
        wake: &Arc<Notify>,
    ) {
        let partition = (place.topic.clone(), place.partition);
        if !self.lock().under_way.insert(partition.clone()) {
            return;
        }
        let (looks, wake) = (self.clone(), wake.clone());
        let (config, group) = (config.clone(), group.to_owned());
        // Making, using and closing a consumer blocks. A thread needs no runtime, so a probe may run while the
        // process stops its runtime.
        let look = move || {
            let found = looks.find(&config, &group, place.clone(), reason.is_some());
            let mut state = looks.lock();
            state
                .under_way
                .remove(&(place.topic.clone(), place.partition));
            match found {
                _ if state.is_over => {}
                Ok(Some((first, next))) => {
                    let reason = reason.unwrap_or_else(|| SILENT.to_owned());
                    let RecordPosition {
                        topic, partition, ..
                    } = place;
                    tracing::error!(
                        topic,
                        partition,
                        first,
                        next,
                        reason,
                        "records cannot be read"
                    );
                    let unreadable = Unreadable {
                        topic,
                        partition,
                        first,
                        next,
                        reason,
                    };
                    state.found.push((revocations, unreadable));
                    wake.notify_one();
                }
                Ok(None) => tracing::debug!(?place, "it can be read after all"),
                Err(error) => tracing::warn!(
                    %error,
                    topic = place.topic,
                    partition = place.partition,
                    offset = place.offset,
                    "the end of an unreadable batch is not found yet"
                ),
            }
            looks.0.ended.notify_all();
        };
        if let Err(error) = thread::Builder::new().name("look".into()).spawn(look) {
            // The batch will be met again, and probed then.
            tracing::warn!(%error, "no thread could be started to find the end of an unreadable batch");
            self.lock().under_way.remove(&partition);
        }
    }

    /// The probe's start offset, and the first readable offset behind it.
    fn find(
        &self,
        config: &KafkaConfig,
        group: &str,
        place: RecordPosition,
        is_reported: bool,
    ) -> Result<Option<(i64, i64)>, KafkaError> {
        let look = PartitionProbe::open(config, group, place, is_reported, self.clone())?;
        Ok(look.end()?.map(|next| (look.place.offset, next)))
    }

    /// Ends the running probes, because their consumer ends: a later one would log that the brokers are away when
    /// they are stopped next. Blocks for at most 3 s.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.is_over = true;
        let under_way = |state: &mut State| !state.under_way.is_empty();
        drop(
            self.0
                .ended
                .wait_timeout_while(state, END_WITHIN, under_way),
        );
    }

    /// A new result. A result from before a revocation is dropped: a reassigned partition may be read from an earlier
    /// offset, and the records before the batch must not be skipped with it. If the batch is met again, a new probe
    /// starts.
    pub(crate) fn take(&self, revocations: u64) -> Option<Unreadable> {
        let mut state = self.lock();
        state.found.retain(|(began, _)| *began == revocations);
        state.found.pop().map(|(_, unreadable)| unreadable)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A second consumer, of one partition.
struct PartitionProbe {
    polling: Polling,
    place: RecordPosition,
    is_reported: bool,
    high: i64,
    looks: Looks,
}

impl PartitionProbe {
    /// Opens the probe; it must be used on the opening thread.
    fn open(
        config: &KafkaConfig,
        group: &str,
        mut place: RecordPosition,
        is_reported: bool,
        looks: Looks,
    ) -> Result<Self, KafkaError> {
        let mut consumer: BaseConsumer<Context> = config
            .reading(&[
                ("group.id", group),
                ("enable.auto.commit", "false"),
                ("enable.partition.eof", "true"),
                ("fetch.wait.max.ms", "100"),
                ("fetch.error.backoff.ms", "50"),
            ])
            .create_with_context(config.context())
            .map_err(|e| unusable(&e))?;
        await_token(&consumer);
        let marks = consumer.fetch_watermarks(&place.topic, place.partition, ANSWER_WITHIN);
        let (low, high) = marks.map_err(|e| of_topic(&place.topic, &e))?;
        if place.offset < 0 {
            place.offset = committed(&consumer, &place).unwrap_or(low).max(low);
        }
        let asking = thread::current();
        consumer.set_nonempty_callback(move || asking.unpark());
        Ok(Self {
            polling: Polling::new(consumer)?,
            place,
            is_reported,
            high,
            looks,
        })
    }

    /// The first readable offset; `None` if that is the start offset.
    fn end(&self) -> Result<Option<i64>, KafkaError> {
        // Rules out that the broker is unreachable.
        self.end_is_found()?;
        if self.can_read_from(self.place.offset)? {
            return Ok(None);
        }
        // Doubles the step until an offset is readable, then bisects to the first one.
        let (mut bad, mut step) = (self.place.offset, 1);
        let mut good = loop {
            let at = bad.saturating_add(step);
            if at >= self.high {
                break self.high;
            }
            if self.can_read_from(at)? {
                break at;
            }
            (bad, step) = (at, step.saturating_mul(2));
        };
        while good - bad > 1 {
            let middle = bad + (good - bad) / 2;
            match self.can_read_from(middle)? {
                true => good = middle,
                false => bad = middle,
            }
        }
        if !self.is_reported && !self.is_silent_for_sure(good)? {
            return Ok(None);
        }
        self.end_is_found()?;
        Ok(Some(good))
    }

    /// Whether the first and the last of the offsets before `good` give no answer for much longer.
    fn is_silent_for_sure(&self, good: i64) -> Result<bool, KafkaError> {
        for offset in BTreeSet::from([self.place.offset, good - 1]) {
            if self.ask(offset, SURE_WITHIN)? != Answer::Silence {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn end_is_found(&self) -> Result<(), KafkaError> {
        match self.ask(self.high, LOOK_WITHIN)? {
            Answer::Readable => Ok(()),
            Answer::SameBatch | Answer::Silence => Err(self.unreachable()),
        }
    }

    /// Whether a record, the partition's end or another bad batch is at or behind an offset, and not the batch of
    /// this probe.
    fn can_read_from(&self, offset: i64) -> Result<bool, KafkaError> {
        match (self.ask(offset, LOOK_WITHIN)?, self.is_reported) {
            (Answer::Readable, _) => Ok(true),
            (Answer::SameBatch, true) | (Answer::Silence, false) => Ok(false),
            // The batch of this probe is always either reported or silent; the other kind of answer comes from
            // another batch.
            (Answer::SameBatch, false) => Ok(true),
            (Answer::Silence, true) => Err(self.unreachable()),
        }
    }

    fn ask(&self, offset: i64, within: Duration) -> Result<Answer, KafkaError> {
        let RecordPosition {
            topic, partition, ..
        } = &self.place;
        let mut one = TopicPartitionList::with_capacity(1);
        one.add_partition_offset(topic, *partition, Offset::Offset(offset))
            .and_then(|()| self.polling.consumer().assign(&one))
            .map_err(|e| of_topic(topic, &e))?;
        let began = Instant::now();
        loop {
            match self.polling.poll() {
                Polled::Record(_) => return Ok(Answer::Readable),
                Polled::Failed(failed) => {
                    if let Some(answer) = self.judge(&failed) {
                        return Ok(answer);
                    }
                }
                Polled::Served => {}
                Polled::Nothing => thread::park_timeout(LOOK_FOR_END),
            }
            if self.looks.lock().is_over {
                return Err(self.unreachable());
            }
            if began.elapsed() >= within {
                return Ok(Answer::Silence);
            }
        }
    }

    /// Classifies an error at the probed offset; `None` if a broker is away for a moment.
    fn judge(&self, failed: &Failed) -> Option<Answer> {
        if failed.code == RDKafkaErrorCode::PartitionEOF {
            return Some(Answer::Readable);
        }
        is_unreadable(failed).then(|| {
            let same = |place: &RecordPosition| place.offset == self.place.offset;
            match failed.place.as_ref().is_some_and(same) {
                true => Answer::SameBatch,
                false => Answer::Readable,
            }
        })
    }

    fn unreachable(&self) -> KafkaError {
        let RecordPosition {
            topic, partition, ..
        } = &self.place;
        KafkaError::Refused(format!(
            "nothing comes from partition {partition} of {topic}"
        ))
    }
}

/// The group's committed position in a partition, if any.
fn committed(consumer: &BaseConsumer<Context>, place: &RecordPosition) -> Option<i64> {
    let mut asked = TopicPartitionList::with_capacity(1);
    asked.add_partition(&place.topic, place.partition);
    let found = consumer.committed_offsets(asked, ANSWER_WITHIN).ok()?;
    match found.elements().first()?.offset() {
        Offset::Offset(offset) => Some(offset),
        _ => None,
    }
}

/// The finding at an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// A record, another bad batch, or the end.
    Readable,
    /// The bad batch that this probe is about.
    SameBatch,
    /// No answer.
    Silence,
}

#[cfg(test)]
mod tests {
    use rdkafka::mocking::MockCluster;

    use super::*;
    use crate::consumer::join;

    #[tokio::test]
    async fn no_look_outlives_its_consumer() {
        let mock = MockCluster::new(1).expect("a mock cluster");
        mock.create_topic("t", 1, 1).expect("a topic");
        // A probe sends several requests, one after the other.
        mock.broker_round_trip_time(1, Duration::from_millis(150))
            .expect("slow answers");
        let config = KafkaConfig::new(mock.bootstrap_servers());
        let source = join(&config, "g", "t").expect("it joins");
        let looks = source.looks().clone();
        let place = RecordPosition {
            topic: "t".into(),
            partition: 0,
            offset: -1,
        };
        looks.begin((&config, "g"), place, None, 0, &Arc::new(Notify::new()));
        assert_eq!(looks.lock().under_way.len(), 1);
        drop(source);
        assert!(looks.lock().under_way.is_empty(), "the look goes on");
    }

    #[test]
    fn what_was_found_before_a_rebalance_passes_over_nothing_after_it() {
        let looks = Looks::default();
        let found = Unreadable {
            topic: "t".into(),
            partition: 0,
            first: 100,
            next: 110,
            reason: "damaged".into(),
        };
        let state = looks.clone();
        state.lock().found.push((0, found.clone()));
        assert_eq!(looks.take(1), None);
        state.lock().found.push((1, found.clone()));
        assert_eq!(looks.take(1), Some(found));
    }
}
