//! Reading the topic of dead letters from Kafka, in a process that does other things meanwhile.

use std::time::Duration;

use triad_core::{Timestamp, topics};
use triad_kafka::{HeldRecords, KafkaConfig, KafkaError};
use triad_operator::dead_letters::{LetterRecords, LetterTopic};
use triad_runtime::InputRecord;

/// Longest wait for one answer of a broker.
const ANSWER: Duration = Duration::from_secs(5);

/// The topic `dead-letter` of one Kafka cluster, for programs that list and search dead letters.
pub struct KafkaLetters(KafkaConfig);

impl KafkaLetters {
    /// The topic `dead-letter` on these brokers. Nothing is asked of the brokers yet.
    pub fn of(kafka: KafkaConfig) -> Self {
        Self(kafka)
    }
}

/// The records that the topic `dead-letter` held when it was opened, to be read once.
pub struct Records(HeldRecords);

impl LetterTopic for KafkaLetters {
    type Error = KafkaError;
    type Records = Records;

    async fn open(&self, since: Option<Timestamp>) -> Result<Records, KafkaError> {
        let since = since.map(|at| i64::try_from(at.0).unwrap_or(i64::MAX));
        let kafka = self.0.clone();
        // It blocks.
        let opened = tokio::task::spawn_blocking(move || {
            HeldRecords::open(&kafka, topics::DEAD_LETTER, since, ANSWER)
        });
        match opened.await {
            Ok(opened) => Ok(Records(opened?)),
            Err(e) => Err(KafkaError::Unreachable {
                brokers: self.0.brokers.clone(),
                reason: e.to_string(),
            }),
        }
    }
}

impl LetterRecords for Records {
    type Error = KafkaError;

    async fn next(&mut self) -> Result<Option<InputRecord>, KafkaError> {
        self.0.next().await
    }
}
