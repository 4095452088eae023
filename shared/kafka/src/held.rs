//! Reading what a topic holds, to its end: for tools that list and search.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{Offset, TopicPartitionList};
use triad_runtime::InputRecord;

use crate::config::KafkaConfig;
use crate::context::{Context, explain};
use crate::error::{KafkaError, unusable};
use crate::first_token::await_token;
use crate::source::{Found, Source};

/// Longest time without a record before reading is given up.
const PATIENCE: Duration = Duration::from_secs(15);

/// What one topic holds at the moment of opening. Records come in the order of their partition;
/// partitions come mixed.
pub struct HeldRecords {
    source: Source,
    brokers: String,
    /// Where each partition that is not read to its end yet ends.
    ends: BTreeMap<i32, i64>,
    size: u64,
    read: u64,
}

impl HeldRecords {
    /// Opens a topic, from its beginning or from the first record that is not older than
    /// `since_ms` (milliseconds since the Unix epoch). Blocks for at most `within` an answer.
    ///
    /// # Errors
    /// [`KafkaError`] if the broker does not answer, or has no such topic.
    pub fn open(
        config: &KafkaConfig,
        topic: &str,
        since_ms: Option<i64>,
        within: Duration,
    ) -> Result<Self, KafkaError> {
        let consumer: BaseConsumer<Context> = config
            .reading(&[
                ("group.id", "triad-reader"),
                ("enable.auto.commit", "false"),
                ("queued.max.messages.kbytes", "16384"),
                ("fetch.queue.backoff.ms", "50"),
                // The last offset of a partition may hold no record.
                ("enable.partition.eof", "true"),
            ])
            .create_with_context(config.login.context())
            .map_err(|e| unusable(&e))?;
        await_token(&consumer);
        let unreachable = |e| explain(&consumer, &config.brokers, &e);
        let metadata = consumer
            .fetch_metadata(Some(topic), within)
            .map_err(unreachable)?;
        let partitions = metadata.topics().iter().flat_map(|t| t.partitions());
        let mut starts = TopicPartitionList::new();
        let mut ends = BTreeMap::new();
        for partition in partitions.map(|p| p.id()) {
            let (low, high) = consumer
                .fetch_watermarks(topic, partition, within)
                .map_err(unreachable)?;
            // What `offsets_for_times` takes in place of an offset.
            let from = since_ms.unwrap_or(low);
            starts
                .add_partition_offset(topic, partition, Offset::Offset(from))
                .map_err(unreachable)?;
            if low < high {
                ends.insert(partition, high);
            }
        }
        if starts.count() == 0 {
            return Err(KafkaError::Refused(format!("there is no topic {topic}")));
        }
        if since_ms.is_some() {
            starts = consumer
                .offsets_for_times(starts, within)
                .map_err(unreachable)?;
        }
        let mut assignment = TopicPartitionList::new();
        let mut size = 0;
        for start in starts.elements() {
            let partition = start.partition();
            let (Some(end), Offset::Offset(from)) = (ends.get(&partition), start.offset()) else {
                // Empty, or nothing in it is as new.
                ends.remove(&partition);
                continue;
            };
            size += u64::try_from(end - from).unwrap_or(0);
            assignment
                .add_partition_offset(topic, partition, Offset::Offset(from))
                .map_err(unreachable)?;
        }
        consumer.assign(&assignment).map_err(unreachable)?;
        Ok(Self {
            source: Source::new(consumer, config, "triad-reader")?,
            brokers: config.brokers.clone(),
            ends,
            size,
            read: 0,
        })
    }

    /// The next record; `None` once all that was there at the opening has been read.
    ///
    /// # Errors
    /// [`KafkaError::Unreachable`] if nothing has come for 15 s.
    pub async fn next(&mut self) -> Result<Option<InputRecord>, KafkaError> {
        let began = Instant::now();
        let mut reason = "no record came".to_owned();
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
                Found::Record(record) => {
                    let (partition, next) = (record.partition, record.offset + 1);
                    // A partition at its end may have grown meanwhile.
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
                Found::End(partition) => {
                    self.ends.remove(&partition);
                }
                // It has been told.
                Found::Unreadable(unreadable) => {
                    let partition = unreadable.partition;
                    if self
                        .ends
                        .get(&partition)
                        .is_some_and(|end| unreadable.next >= *end)
                    {
                        self.ends.remove(&partition);
                    }
                }
                Found::Failed(failed) => reason = failed.reason,
            }
        }
        Ok(None)
    }

    /// Records read so far, and about how many there are.
    #[must_use]
    pub fn progress(&self) -> (u64, u64) {
        (self.read, self.size.max(self.read))
    }
}
