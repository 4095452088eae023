//! Reads a topic without a group: for following statuses and alerts, and for tools.

use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{Offset, TopicPartitionList};
use triad_runtime::InputRecord;

use crate::config::KafkaConfig;
use crate::context::{Context, explain};
use crate::error::{KafkaError, unusable};
use crate::first_token::await_token;
use crate::source::{Source, SourceEvent};

/// Wait after a read that failed.
const AFTER_ERROR: Duration = Duration::from_millis(100);

/// Start position of a [`Reader`] in each partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReaderStart {
    /// From the first record that the topic still keeps.
    Beginning,
    /// From the end: only records that are written after the opening.
    End,
}

/// Result of one read.
#[derive(Debug, Clone, PartialEq)]
pub enum Polled {
    /// The next record, as stored by the broker.
    Record(InputRecord),
    /// No record: none came in time, or records could not be read, which is logged. The caller should read
    /// again.
    Nothing,
}

/// A reader of whole topics, without a consumer group: nothing is committed, and no other reader is
/// disturbed. It has no end; see [`HeldRecords`](crate::HeldRecords) for a reading that ends.
pub struct Reader {
    source: Source,
}

impl Reader {
    /// Opens existing topics and fixes the start positions. Blocks the thread, for at most `within` for each answer
    /// of a broker (one for a topic, one for a partition). A topic that does not exist is read as an empty one, even
    /// if it is created later; partitions that are added later are not read.
    ///
    /// # Errors
    /// [`KafkaError::Settings`] if librdkafka refuses the settings, [`KafkaError::Unreachable`] or
    /// [`KafkaError::Login`] if a broker does not answer in time or refuses the login.
    pub fn open(
        config: &KafkaConfig,
        topics: &[&str],
        start: ReaderStart,
        within: Duration,
    ) -> Result<Self, KafkaError> {
        let consumer: BaseConsumer<Context> = config
            .reading(&[
                ("group.id", "triad-reader"),
                ("enable.auto.commit", "false"),
                ("enable.partition.eof", "false"),
            ])
            .create_with_context(config.context())
            .map_err(|e| unusable(&e))?;
        await_token(&consumer);
        let unreachable = |e| explain(&consumer, &config.brokers, &e);
        let mut assignment = TopicPartitionList::new();
        for topic in topics {
            let topic = &*config.in_kafka(topic);
            let metadata = consumer
                .fetch_metadata(Some(topic), within)
                .map_err(unreachable)?;
            for partition in metadata.topics().iter().flat_map(|t| t.partitions()) {
                let (low, high) = consumer
                    .fetch_watermarks(topic, partition.id(), within)
                    .map_err(unreachable)?;
                let at = match start {
                    ReaderStart::Beginning => low,
                    ReaderStart::End => high,
                };
                assignment
                    .add_partition_offset(topic, partition.id(), Offset::Offset(at))
                    .map_err(unreachable)?;
            }
        }
        consumer.assign(&assignment).map_err(unreachable)?;
        Ok(Self {
            source: Source::new(consumer, config, "triad-reader")?,
        })
    }

    /// The next record of any partition; [`Polled::Nothing`] if none has come within `within`, or earlier if records
    /// could not be read. Nothing is lost if the future is dropped.
    pub async fn next(&self, within: Duration) -> Polled {
        receive(&self.source, within).await
    }
}

/// The next record, waiting for at most `within`. Nothing is lost if the future is dropped.
pub(crate) async fn receive(source: &Source, within: Duration) -> Polled {
    match tokio::time::timeout(within, source.next()).await {
        Ok(SourceEvent::Record(record)) => Polled::Record(record),
        Ok(SourceEvent::Failed(failed)) => {
            tracing::debug!(error = failed.reason, "records cannot be read for now");
            tokio::time::sleep(AFTER_ERROR).await;
            Polled::Nothing
        }
        // Already logged.
        Ok(SourceEvent::Unreadable(_) | SourceEvent::End(_)) | Err(_) => Polled::Nothing,
    }
}
