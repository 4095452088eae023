//! Reads the topics of dead letters and alerts from Kafka, within an async process.

use std::time::Duration;

use triad_kafka::{HeldRecords, KafkaConfig, KafkaError};
use triad_operator::topic::{Extent, LogTopic, TopicReader, TopicRecords};
use triad_runtime::InputRecord;

/// Longest wait for one answer of a broker.
const ANSWER: Duration = Duration::from_secs(5);

/// The topics `dead-letter` and `alerts` of one Kafka cluster, for programs that list and search them.
pub struct KafkaTopics(KafkaConfig);

impl KafkaTopics {
    /// The topics on these brokers. No request is sent yet.
    pub fn of(kafka: KafkaConfig) -> Self {
        Self(kafka)
    }
}

/// The records that a topic held when it was opened, to be read once.
pub struct LetterRecords(HeldRecords);

impl TopicReader for KafkaTopics {
    type Error = KafkaError;
    type Records = LetterRecords;

    async fn open(&self, topic: LogTopic, extent: Extent) -> Result<LetterRecords, KafkaError> {
        let since = extent
            .since
            .map(|at| i64::try_from(at.0).unwrap_or(i64::MAX));
        let kafka = self.0.clone();
        // Opening blocks.
        let opened = tokio::task::spawn_blocking(move || {
            HeldRecords::open(&kafka, topic.name(), since, extent.last, ANSWER)
        });
        match opened.await {
            Ok(opened) => Ok(LetterRecords(opened?)),
            Err(e) => Err(KafkaError::Unreachable {
                brokers: self.0.brokers.clone(),
                reason: e.to_string(),
            }),
        }
    }
}

impl TopicRecords for LetterRecords {
    type Error = KafkaError;

    async fn next(&mut self) -> Result<Option<InputRecord>, KafkaError> {
        self.0.next().await
    }
}
