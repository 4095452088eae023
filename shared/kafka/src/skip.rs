//! Going on behind a batch that cannot be read.
//!
//! librdkafka reports a batch that it cannot decompress (a codec that it does not know, damage) and
//! asks the broker for it again, for ever; of one that decompresses to what is no record it says
//! nothing at all. Where such a batch ends only the batch itself says, so a second consumer looks:
//! librdkafka passes over whole batches that lie before the offset that it is to begin with, unread,
//! so the first offset that can be read from (or is the partition's end) is where to go on.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::{Offset, TopicPartitionList};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use triad_consume::Unreadable;

use crate::config::KafkaConfig;
use crate::context::Context;
use crate::error::{KafkaError, of_topic, unusable};
use crate::events::Events;
use crate::first_token::await_token;
use crate::native::{Failed, Place, Polled};

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

/// Whether an error stands for a batch that cannot be read.
pub(crate) fn is_unreadable(failed: &Failed) -> bool {
    use RDKafkaErrorCode::{BadCompression, BadMessage, NotImplemented};
    matches!(failed.code, BadCompression | BadMessage | NotImplemented)
        && failed.place.as_ref().is_some_and(|place| place.offset >= 0)
}

/// The looks of one consumer that are under way, and what they have found.
#[derive(Clone, Default)]
pub(crate) struct Looks(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    under_way: HashSet<(String, i32)>,
    /// With how often partitions had gone when the look began.
    found: Vec<(u64, Unreadable)>,
}

impl Looks {
    /// Looks for the end of what cannot be read, unless that is under way already: a `reason`
    /// stands for an error that librdkafka repeats at every look. An offset below 0 is where the
    /// group goes on. `revocations` is how often partitions have gone by now.
    pub(crate) fn begin(
        &self,
        (config, group): (&KafkaConfig, &str),
        place: Place,
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
        let runtime = Handle::current();
        // Making, asking and closing a consumer blocks.
        tokio::task::spawn_blocking(move || {
            let found = Look::open(&config, &group, place.clone(), reason.is_some(), runtime)
                .and_then(|look| Ok(look.end()?.map(|next| (look.place.offset, next))));
            let mut state = looks.lock();
            state.under_way.remove(&partition);
            match found {
                Ok(Some((first, next))) => {
                    let reason = reason.unwrap_or_else(|| SILENT.to_owned());
                    let (topic, partition) = partition;
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
                Err(error) => tracing::warn!(%error, ?place, "what cannot be read has no end yet"),
            }
        });
    }

    /// What has been found since. What began before partitions went is dropped: a partition that has come
    /// back is read from an earlier offset perhaps, and what lies before the batch must not be passed over
    /// with it. If the batch is met again, a look begins again.
    pub(crate) fn take(&self, revocations: u64) -> Option<Unreadable> {
        let mut state = self.lock();
        state.found.retain(|(began, _)| *began == revocations);
        state.found.pop().map(|(_, unreadable)| unreadable)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A second consumer, of one partition.
struct Look {
    events: Events,
    place: Place,
    is_reported: bool,
    high: i64,
    runtime: Handle,
}

impl Look {
    fn open(
        config: &KafkaConfig,
        group: &str,
        mut place: Place,
        is_reported: bool,
        runtime: Handle,
    ) -> Result<Self, KafkaError> {
        let consumer: BaseConsumer<Context> = config
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
        Ok(Self {
            events: Events::new(consumer)?,
            place,
            is_reported,
            high,
            runtime,
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
        let Place {
            topic, partition, ..
        } = &self.place;
        let mut one = TopicPartitionList::with_capacity(1);
        one.add_partition_offset(topic, *partition, Offset::Offset(offset))
            .and_then(|()| self.events.consumer().assign(&one))
            .map_err(|e| of_topic(topic, &e))?;
        let answer = async {
            loop {
                match self.events.look() {
                    Polled::Record(_) => return Answer::Readable,
                    Polled::Failed(failed) => {
                        if let Some(answer) = self.judge(&failed) {
                            return answer;
                        }
                    }
                    Polled::Served => {}
                    Polled::Nothing => self.events.changed().await,
                }
            }
        };
        let answer = self
            .runtime
            .block_on(async { tokio::time::timeout(within, answer).await });
        Ok(answer.unwrap_or(Answer::Silence))
    }

    /// What an error says of the offset that is looked at; nothing where a broker is away for a moment.
    fn judge(&self, failed: &Failed) -> Option<Answer> {
        if failed.code == RDKafkaErrorCode::PartitionEOF {
            return Some(Answer::Readable);
        }
        is_unreadable(failed).then(|| {
            let same = |place: &Place| place.offset == self.place.offset;
            match failed.place.as_ref().is_some_and(same) {
                true => Answer::SameBatch,
                false => Answer::Readable,
            }
        })
    }

    fn unreachable(&self) -> KafkaError {
        let Place {
            topic, partition, ..
        } = &self.place;
        KafkaError::Refused(format!(
            "nothing comes from partition {partition} of {topic}"
        ))
    }
}

/// Where a group goes on in a partition, if it has committed something of it.
fn committed(consumer: &BaseConsumer<Context>, place: &Place) -> Option<i64> {
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
    use super::*;

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
