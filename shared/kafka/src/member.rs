//! A member of a consumer group that commits what its owner says, and nothing else: for tools
//! that have a loop of their own.

use std::time::Duration;

use rdkafka::consumer::CommitMode;
use triad_runtime::InputRecord;

use crate::config::KafkaConfig;
use crate::consumer::{commit, join, store};
use crate::error::KafkaError;
use crate::reader::{Read, receive};
use crate::source::Source;

/// A member of a group that reads one topic, from its first record on.
pub struct Member {
    source: Source,
}

impl Member {
    /// Joins a group.
    ///
    /// # Errors
    /// [`KafkaError`] if the consumer cannot be made; what fails later is retried.
    pub fn join(config: &KafkaConfig, group: &str, topic: &str) -> Result<Self, KafkaError> {
        let source = join(config, group, topic)?;
        Ok(Self { source })
    }

    /// The next record, waiting for at most `within`. Nothing is lost if the future is dropped.
    pub async fn next(&self, within: Duration) -> Read {
        receive(&self.source, within).await
    }

    /// Commits that a record, and all before it in its partition, need not come again.
    pub fn commit_through(&self, record: &InputRecord) {
        store(
            self.source.consumer(),
            &record.topic,
            record.partition,
            record.offset + 1,
        );
        commit(self.source.consumer(), CommitMode::Sync);
    }
}
