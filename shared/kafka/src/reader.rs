//! Reading a topic without a group: for following statuses and alerts, and for tools.

use std::time::Duration;

use rdkafka::consumer::{Consumer, StreamConsumer};
use rdkafka::{Offset, TopicPartitionList};
use triad_runtime::InputRecord;

use crate::config::{KafkaConfig, KafkaError};
use crate::consumer::record;
use crate::login::{Context, await_token};

/// Where to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReaderStart {
    /// With the first record that is kept.
    Beginning,
    /// With the records that come from now on.
    End,
}

/// What a read found.
#[derive(Debug, Clone, PartialEq)]
pub enum Read {
    /// A record.
    Record(InputRecord),
    /// Nothing came in time.
    Nothing,
}

/// A reader of whole topics.
pub struct Reader {
    consumer: StreamConsumer<Context>,
}

impl Reader {
    /// Opens topics that exist. Positions are fixed before it returns.
    ///
    /// # Errors
    /// [`KafkaError`] if the broker does not answer within `within`.
    pub fn open(
        config: &KafkaConfig,
        topics: &[&str],
        start: ReaderStart,
        within: Duration,
    ) -> Result<Self, KafkaError> {
        let consumer: StreamConsumer<Context> = config
            .client(&[
                ("group.id", "triad-reader"),
                ("enable.auto.commit", "false"),
                ("enable.partition.eof", "false"),
            ])
            .create_with_context(config.login.context())
            .map_err(|e| KafkaError::Settings(e.to_string()))?;
        await_token(&consumer);
        let unreachable = |e: rdkafka::error::KafkaError| KafkaError::Unreachable {
            brokers: config.brokers.clone(),
            reason: e.to_string(),
        };
        let mut assignment = TopicPartitionList::new();
        for topic in topics {
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
        Ok(Self { consumer })
    }

    /// The next record, waiting for at most `within`.
    pub async fn next(&self, within: Duration) -> Read {
        match tokio::time::timeout(within, self.consumer.recv()).await {
            Ok(Ok(message)) => Read::Record(record(&message)),
            Ok(Err(e)) => {
                tracing::debug!(error = %e, "records cannot be read for now");
                tokio::time::sleep(Duration::from_millis(20)).await;
                Read::Nothing
            }
            Err(_) => Read::Nothing,
        }
    }
}
