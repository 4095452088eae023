//! A group consumer with manual commits.

use std::time::Duration;

use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::RDKafkaErrorCode;

use crate::config::{KafkaConfig, KafkaError, unusable};
use crate::context::Context;
use crate::native::commit_within;
use crate::reader::Read;
use crate::source::{Found, Source};

/// How often stored offsets are committed.
pub(crate) const COMMIT_EVERY: Duration = Duration::from_millis(250);

/// Longest wait for a commit, where its answer is waited for.
const COMMIT_WITHIN: Duration = Duration::from_secs(5);

// Commits what is stored before partitions are taken away.
impl ConsumerContext for Context {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Revoke(partitions) = rebalance {
            commit(consumer, CommitMode::Sync);
            let all = partitions.elements();
            self.revoke(all.iter().map(|p| (p.topic().to_owned(), p.partition())));
        }
    }
}

/// Wait after a read that failed.
const AFTER_ERROR: Duration = Duration::from_millis(100);

/// The next record, waiting for at most `within`. Nothing is lost if the future is dropped.
pub(crate) async fn receive(source: &Source, within: Duration) -> Read {
    match tokio::time::timeout(within, source.next()).await {
        Ok(Found::Record(record)) => Read::Record(record),
        Ok(Found::Failed(failed)) => {
            tracing::debug!(error = failed.reason, "records cannot be read for now");
            tokio::time::sleep(AFTER_ERROR).await;
            Read::Nothing
        }
        // It has been told.
        Ok(Found::Unreadable(_) | Found::End(_)) | Err(_) => Read::Nothing,
    }
}

/// Joins a group that reads one topic.
pub(crate) fn join(config: &KafkaConfig, group: &str, topic: &str) -> Result<Source, KafkaError> {
    let consumer: BaseConsumer<Context> = config
        .reading(&[
            ("group.id", group),
            ("enable.auto.commit", "false"),
            ("enable.auto.offset.store", "false"),
            ("auto.offset.reset", "earliest"),
            ("session.timeout.ms", "10000"),
            ("heartbeat.interval.ms", "2000"),
            // Bounds on what is fetched ahead of the handlers; a full queue is looked at again
            // soon, or large records would come at the pace of these looks.
            ("queued.min.messages", "2000"),
            ("queued.max.messages.kbytes", "8192"),
            ("fetch.queue.backoff.ms", "50"),
            ("fetch.wait.max.ms", "500"),
            ("partition.assignment.strategy", "range,roundrobin"),
        ])
        .create_with_context(config.login.context())
        .map_err(|e| unusable(&e))?;
    consumer
        .subscribe(&[topic])
        .map_err(|e| KafkaError::Refused(e.to_string()))?;
    Source::new(consumer, config, group)
}

/// Commits the stored offsets, and waits for it for a bounded time where it is to be waited for.
pub(crate) fn commit(consumer: &BaseConsumer<Context>, mode: CommitMode) {
    use RDKafkaErrorCode::{AssignmentLost, NoOffset};
    let error = match mode {
        CommitMode::Sync => commit_within(consumer, COMMIT_WITHIN).err(),
        CommitMode::Async => {
            let begun = consumer.commit_consumer_state(mode);
            begun.err().and_then(|e| e.rdkafka_error_code())
        }
    };
    match error {
        None | Some(NoOffset | AssignmentLost) => {}
        Some(error) => {
            tracing::warn!(%error, "offsets could not be committed; records may come again");
        }
    }
}

/// Marks everything before `next` of a partition as done.
pub(crate) fn store(consumer: &BaseConsumer<Context>, topic: &str, partition: i32, next: i64) {
    let mut offsets = TopicPartitionList::with_capacity(1);
    let added = offsets.add_partition_offset(topic, partition, rdkafka::Offset::Offset(next));
    let stored = added.and_then(|()| consumer.store_offsets(&offsets));
    if let Err(e) = stored {
        // The partition has moved to another member: its records come again there.
        tracing::debug!(error = %e, topic, partition, "an offset could not be stored");
    }
}
