//! Going on behind a batch that cannot be read.
//!
//! librdkafka reports a batch that it cannot decompress (a codec that it does not know, damage) and
//! asks the broker for it again, for ever; of one that decompresses to what is no record it says
//! nothing at all. Where such a batch ends only the batch itself says, so a second consumer looks:
//! librdkafka passes over whole batches that lie before the offset that it is to begin with, unread,
//! so the first offset that can be read from (or is the partition's end) is where to go on.

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

/// Longest wait for what a broker has at an offset. What says nothing for so long, while the
/// partition's end is found at once, is not to be read.
const LOOK_WITHIN: Duration = Duration::from_secs(5);
/// Longest wait for what a broker has at an offset that nobody has reported as unreadable, before it is
/// passed over. It is longer, because a broker may be slow for a while.
const SURE_WITHIN: Duration = Duration::from_secs(20);
/// What is said of a batch about which librdkafka says nothing.
const SILENT: &str = "what the batch holds are no records";
/// Longest wait for a broker's answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Between two looks whether the consumer that a look is for has ended.
const LOOK_FOR_END: Duration = Duration::from_millis(50);
/// Longest wait of a consumer's end for its looks. Longer ones are left behind.
const END_WITHIN: Duration = Duration::from_secs(3);

/// Whether an error stands for a batch that cannot be read.
pub(crate) fn is_unreadable(failed: &Failed) -> bool {
    use RDKafkaErrorCode::{BadCompression, BadMessage, NotImplemented};
    matches!(failed.code, BadCompression | BadMessage | NotImplemented)
        && failed.place.as_ref().is_some_and(|place| place.offset >= 0)
}

/// The looks of one consumer that are under way, and what they have found.
#[derive(Clone, Default)]
pub(crate) struct Looks(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Told whenever a look has ended.
    ended: Condvar,
}

#[derive(Default)]
struct State {
    under_way: HashSet<(String, i32)>,
    /// With how often partitions had gone when the look began.
    found: Vec<(u64, Unreadable)>,
    /// The consumer has ended: nobody asks for what is found.
    is_over: bool,
}

impl Looks {
    /// Looks for the end of what cannot be read, unless that is under way already: a `reason`
    /// stands for an error that librdkafka repeats at every look. An offset below 0 is where the
    /// group goes on. `revocations` is how often partitions have gone by now.
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
        // Making, asking and closing a consumer blocks. A thread of its own needs no runtime: a look may
        // be under way while the process ends its runtime.
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
                    "what cannot be read has no end yet"
                ),
            }
            looks.0.ended.notify_all();
        };
        if let Err(error) = thread::Builder::new().name("look".into()).spawn(look) {
            // It is met again, and looked at then.
            tracing::warn!(%error, "there is no thread to look for the end of what cannot be read");
            self.lock().under_way.remove(&partition);
        }
    }

    /// The offset that the look begins with, and the first one behind it that can be read from.
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

    /// Ends the looks that are under way, because their consumer ends: one that outlived it would say that
    /// the brokers are away where they are stopped next. Blocks for at most 3 s.
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

    /// What has been found since. What began before partitions went is dropped: a partition that has come
    /// back is read from an earlier offset perhaps, and what lies before the batch must not be passed over
    /// with it. If the batch is met again, a look begins again.
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
    /// To be asked on the thread that has opened it.
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
            .create_with_context(config.login.context())
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

    /// The first offset that can be read from; none if that is the one to begin with.
    fn end(&self) -> Result<Option<i64>, KafkaError> {
        // Whatever is wrong must not be the way to the broker.
        self.end_is_found()?;
        if self.can_read_from(self.place.offset)? {
            return Ok(None);
        }
        // Doubling steps to something that can be read, then halving steps to the first.
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

    /// Whether the first and the last of the offsets before `good` say nothing for much longer.
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

    /// Whether there is a record, the partition's end or another bad batch at or behind an offset,
    /// and not the batch that the look is about.
    fn can_read_from(&self, offset: i64) -> Result<bool, KafkaError> {
        match (self.ask(offset, LOOK_WITHIN)?, self.is_reported) {
            (Answer::Readable, _) => Ok(true),
            (Answer::SameBatch, true) | (Answer::Silence, false) => Ok(false),
            // It was told with an error before, or in silence: the other does not belong to it.
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

    /// What an error says of the offset that is looked at; nothing where a broker is away for a moment.
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

/// Where a group goes on in a partition, if it has committed something of it.
fn committed(consumer: &BaseConsumer<Context>, place: &RecordPosition) -> Option<i64> {
    let mut asked = TopicPartitionList::with_capacity(1);
    asked.add_partition(&place.topic, place.partition);
    let found = consumer.committed_offsets(asked, ANSWER_WITHIN).ok()?;
    match found.elements().first()?.offset() {
        Offset::Offset(offset) => Some(offset),
        _ => None,
    }
}

/// What there is at an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// A record, another bad batch, or the end.
    Readable,
    /// The bad batch that the look is about.
    SameBatch,
    /// Nothing was said.
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
        // A look asks for several things, one after the other.
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
