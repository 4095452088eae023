//! Reads the records that a topic holds, to its end: for tools that list and search.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{Offset, TopicPartitionList};
use triad_runtime::InputRecord;

use crate::config::KafkaConfig;
use crate::context::{Context, explain};
use crate::error::{KafkaError, no_topic, unusable};
use crate::first_token::await_token;
use crate::source::{Source, SourceEvent};

/// Longest time without a record before reading fails.
const PATIENCE: Duration = Duration::from_secs(15);

/// Beginnings of a topic's partitions, and the ends of non-empty ones.
struct HeldOffsets {
    begins: BTreeMap<i32, i64>,
    ends: BTreeMap<i32, i64>,
    /// Next offset of each partition.
    next: BTreeMap<i32, i64>,
}

impl HeldOffsets {
    fn of(
        consumer: &BaseConsumer<Context>,
        config: &KafkaConfig,
        topic: &str,
        within: Duration,
    ) -> Result<Self, KafkaError> {
        let unreachable = |e| explain(consumer, &config.brokers, &e);
        let metadata = consumer
            .fetch_metadata(Some(topic), within)
            .map_err(unreachable)?;
        let partitions = metadata.topics().iter().flat_map(|t| t.partitions());
        let (mut begins, mut ends) = (BTreeMap::new(), BTreeMap::new());
        let mut next = BTreeMap::new();
        for partition in partitions.map(|p| p.id()) {
            let (low, high) = consumer
                .fetch_watermarks(topic, partition, within)
                .map_err(unreachable)?;
            begins.insert(partition, low);
            next.insert(partition, high);
            if low < high {
                ends.insert(partition, high);
            }
        }
        if begins.is_empty() {
            return Err(no_topic(topic, &config.brokers));
        }
        Ok(Self { begins, ends, next })
    }
}

/// A client that reads, and commits nothing.
fn consumer(config: &KafkaConfig, group: &str) -> Result<BaseConsumer<Context>, KafkaError> {
    let consumer: BaseConsumer<Context> = config
        .reading(&[
            ("group.id", group),
            ("enable.auto.commit", "false"),
            ("queued.max.messages.kbytes", "16384"),
            ("fetch.queue.backoff.ms", "50"),
            // The last offset of a partition may hold no record.
            ("enable.partition.eof", "true"),
        ])
        .create_with_context(config.context())
        .map_err(|e| unusable(&e))?;
    await_token(&consumer);
    Ok(consumer)
}

/// The records that one topic held when it was opened, to be read once. Records of one partition
/// come in their order; partitions are mixed. Nothing is committed.
pub struct HeldRecords {
    source: Source,
    brokers: String,
    topic: String,
    /// The offset that the next record of each partition gets, as of the opening.
    next: BTreeMap<i32, i64>,
    /// Ends of the partitions that are not read to their end yet.
    ends: BTreeMap<i32, i64>,
    size: u64,
    read: u64,
}

impl HeldRecords {
    /// Opens a topic, from its beginning or, with `since_ms` (milliseconds since the Unix epoch), from the
    /// first record of each partition whose timestamp is not before it. With `last`, at most so many records
    /// of each partition are read, the last ones; `None`: all. Blocks the thread for at most `within` for each answer of a broker. If the client logs in with tokens, it
    /// also waits at most 5 s for a token.
    ///
    /// # Errors
    /// [`KafkaError::Settings`] if librdkafka refuses the settings, [`KafkaError::Unreachable`] or
    /// [`KafkaError::Login`] if a broker does not answer in time or does not let the client in,
    /// [`KafkaError::Refused`] if there is no such topic or the login may not see it.
    pub fn open(
        config: &KafkaConfig,
        topic: &str,
        since_ms: Option<i64>,
        last: Option<u32>,
        within: Duration,
    ) -> Result<Self, KafkaError> {
        let topic = &*config.in_kafka(topic);
        let consumer = consumer(config, "triad-reader")?;
        let unreachable = |e| explain(&consumer, &config.brokers, &e);
        let held = HeldOffsets::of(&consumer, config, topic, within)?;
        let mut starts = TopicPartitionList::new();
        for (partition, low) in &held.begins {
            // `offsets_for_times` takes a timestamp in place of an offset.
            let from = Offset::Offset(since_ms.unwrap_or(*low));
            starts
                .add_partition_offset(topic, *partition, from)
                .map_err(unreachable)?;
        }
        if since_ms.is_some() {
            starts = consumer
                .offsets_for_times(starts, within)
                .map_err(unreachable)?;
        }
        let starts = starts.elements();
        let starts = starts.iter().filter_map(|start| match start.offset() {
            Offset::Offset(from) => Some((start.partition(), from)),
            // The partition has no record that is new enough.
            _ => None,
        });
        let mut starts: BTreeMap<i32, i64> = starts.collect();
        if let Some(last) = last {
            for (partition, from) in &mut starts {
                let end = held.ends.get(partition).copied().unwrap_or(*from);
                *from = (end - i64::from(last)).max(*from);
            }
        }
        Self::from(consumer, config, topic, held, starts)
    }

    /// Opens the records of a topic that a consumer group has not taken. Each partition is read from the position that
    /// the group has committed, or from its beginning if there is none. The group is not joined. Blocks the thread for
    /// at most `within` for each answer of a broker. If the client logs in with tokens, it also waits at most 5 s for a
    /// token, twice.
    ///
    /// # Errors
    /// The same as those of [`open`](Self::open).
    pub fn unread(
        config: &KafkaConfig,
        topic: &str,
        group: &str,
        within: Duration,
    ) -> Result<Self, KafkaError> {
        let topic = &*config.in_kafka(topic);
        let own = consumer(config, "triad-reader")?;
        let mut held = HeldOffsets::of(&own, config, topic, within)?;
        let mut starts = held.begins.clone();
        let member = consumer(config, group)?;
        let unreachable = |e| explain(&member, &config.brokers, &e);
        let mut asked = TopicPartitionList::new();
        for partition in held.begins.keys() {
            asked.add_partition(topic, *partition);
        }
        let committed = member.committed_offsets(asked, within);
        for position in committed.map_err(unreachable)?.elements() {
            if let (Offset::Offset(at), Some(start)) =
                (position.offset(), starts.get_mut(&position.partition()))
            {
                *start = at.max(*start);
            }
        }
        held.ends
            .retain(|partition, end| starts.get(partition).is_some_and(|from| from < end));
        Self::from(own, config, topic, held, starts)
    }

    fn from(
        consumer: BaseConsumer<Context>,
        config: &KafkaConfig,
        topic: &str,
        held: HeldOffsets,
        starts: BTreeMap<i32, i64>,
    ) -> Result<Self, KafkaError> {
        let unreachable = |e| explain(&consumer, &config.brokers, &e);
        let next = held.next;
        // A partition that is empty, or has no record that is new enough, is not read.
        let mut ends = held.ends;
        ends.retain(|partition, _| starts.contains_key(partition));
        let mut assignment = TopicPartitionList::new();
        let mut size = 0;
        for (partition, end) in &ends {
            let from = starts.get(partition).copied().unwrap_or_default();
            size += u64::try_from(end - from).unwrap_or(0);
            assignment
                .add_partition_offset(topic, *partition, Offset::Offset(from))
                .map_err(unreachable)?;
        }
        consumer.assign(&assignment).map_err(unreachable)?;
        Ok(Self {
            source: Source::new(consumer, config, "triad-reader")?,
            brokers: config.brokers.clone(),
            topic: topic.to_owned(),
            next,
            ends,
            size,
            read: 0,
        })
    }

    /// How many partitions the topic had when it was opened, those without records included.
    #[must_use]
    pub fn partitions(&self) -> usize {
        self.next.len()
    }

    /// The offset that the next record of each partition gets, as of when the topic was opened.
    #[must_use]
    pub fn next_offsets(&self) -> &BTreeMap<i32, i64> {
        &self.next
    }

    /// The next record. `None` once every record that the topic had when it was opened has been read. Records
    /// that cannot be read are passed over and logged. After an error the call may be repeated.
    ///
    /// # Errors
    /// [`KafkaError::Unreachable`] if no record has come within 15 s of the call, whatever the reason; the
    /// error has the last reason that is known.
    pub async fn next(&mut self) -> Result<Option<InputRecord>, KafkaError> {
        let began = Instant::now();
        let seconds = PATIENCE.as_secs();
        let mut reason = format!("no record of the topic {} came for {seconds} s", self.topic);
        while !self.ends.is_empty() {
            let left = PATIENCE.saturating_sub(began.elapsed());
            let found = match tokio::time::timeout(left, self.source.next()).await {
                Ok(found) if !left.is_zero() => found,
                _ => {
                    return Err(KafkaError::Unreachable {
                        brokers: self.brokers.clone(),
                        reason,
                    });
                }
            };
            match found {
                SourceEvent::Record(record) => {
                    let (partition, next) = (record.partition, record.offset + 1);
                    // The partition may have grown after the opening.
                    let Some(end) = self.ends.get(&partition).copied() else {
                        continue;
                    };
                    if next >= end {
                        self.ends.remove(&partition);
                    }
                    if next <= end {
                        self.read += 1;
                        return Ok(Some(record));
                    }
                }
                SourceEvent::End(partition) => {
                    self.ends.remove(&partition);
                }
                // Already logged.
                SourceEvent::Unreadable(unreadable) => {
                    let partition = unreadable.partition;
                    if self
                        .ends
                        .get(&partition)
                        .is_some_and(|end| unreadable.next >= *end)
                    {
                        self.ends.remove(&partition);
                    }
                }
                SourceEvent::Failed(failed) => reason = failed.reason,
            }
        }
        Ok(None)
    }

    /// How many records have been read so far, and about how many there are in all. Offsets without a record
    /// are counted in the second number too, so the first number may never reach it.
    #[must_use]
    pub fn progress(&self) -> (u64, u64) {
        (self.read, self.size.max(self.read))
    }
}
