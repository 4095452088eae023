//! A member of a consumer group that commits only on its owner's call: for tools with their own loop.

use std::time::Duration;

use rdkafka::consumer::CommitMode;
use triad_runtime::InputRecord;

use crate::config::KafkaConfig;
use crate::consumer::{commit, join, store};
use crate::error::KafkaError;
use crate::reader::{Polled, receive};
use crate::source::Source;

/// A member of a consumer group that reads one topic: each partition from the offset that the group has
/// committed, or from its first record if the group has committed none.
pub struct Member {
    source: Source,
}

impl Member {
    /// Joins a group. The consumer connects later, and keeps trying.
    ///
    /// # Errors
    /// [`KafkaError::Settings`] if librdkafka refuses the settings, [`KafkaError::Refused`] if it refuses the topic's
    /// name.
    pub fn join(config: &KafkaConfig, group: &str, topic: &str) -> Result<Self, KafkaError> {
        let source = join(config, group, topic)?;
        Ok(Self { source })
    }

    /// The next record; [`Polled::Nothing`] if none has come within `within`, or earlier if records could not be
    /// read. Nothing is lost if the future is dropped. Call it more often than every five minutes: otherwise the
    /// group removes the member and gives its partitions to others.
    pub async fn next(&self, within: Duration) -> Polled {
        receive(&self.source, within).await
    }

    /// Commits that this record, and all before it in its partition, are done. Blocks the thread for at most 5 s; a
    /// commit that fails is only logged, and the records are then redelivered.
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
