//! A group consumer with manual commits.

use std::time::Duration;

use rdkafka::TopicPartitionList;
use rdkafka::consumer::{
    BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance, StreamConsumer,
};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::{BorrowedMessage, Headers, Message};
use triad_runtime::InputRecord;

use crate::config::{KafkaConfig, KafkaError, unusable};
use crate::context::Context;
use crate::reader::Read;

/// How often stored offsets are committed.
pub(crate) const COMMIT_EVERY: Duration = Duration::from_millis(250);

// Commits what is stored before partitions are taken away.
impl ConsumerContext for Context {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Revoke(_) = rebalance {
            commit(consumer, CommitMode::Sync);
        }
    }
}

pub(crate) type GroupConsumer = StreamConsumer<Context>;

/// Wait after a read that failed.
const AFTER_ERROR: Duration = Duration::from_millis(100);

/// The next record, waiting for at most `within`. Nothing is lost if the future is dropped.
pub(crate) async fn receive(consumer: &GroupConsumer, within: Duration) -> Read {
    match tokio::time::timeout(within, consumer.recv()).await {
        Ok(Ok(message)) => Read::Record(record(&message)),
        Ok(Err(e)) => {
            tracing::debug!(error = %e, "records cannot be read for now");
            tokio::time::sleep(AFTER_ERROR).await;
            Read::Nothing
        }
        Err(_) => Read::Nothing,
    }
}

/// Joins a group that reads one topic.
pub(crate) fn join(
    config: &KafkaConfig,
    group: &str,
    topic: &str,
) -> Result<GroupConsumer, KafkaError> {
    let consumer: GroupConsumer = config
        .client(&[
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
            ("fetch.max.bytes", "8388608"),
            ("fetch.queue.backoff.ms", "50"),
            ("fetch.wait.max.ms", "500"),
            ("partition.assignment.strategy", "range,roundrobin"),
        ])
        .create_with_context(config.login.context())
        .map_err(|e| unusable(&e))?;
    consumer
        .subscribe(&[topic])
        .map_err(|e| KafkaError::Refused(e.to_string()))?;
    Ok(consumer)
}

/// Commits the stored offsets.
pub(crate) fn commit<C: ConsumerContext>(consumer: &impl Consumer<C>, mode: CommitMode) {
    use RDKafkaErrorCode::{AssignmentLost, NoOffset};
    match consumer.commit_consumer_state(mode) {
        Ok(()) => {}
        Err(e) if matches!(e.rdkafka_error_code(), Some(NoOffset | AssignmentLost)) => {}
        Err(e) => {
            tracing::warn!(error = %e, "offsets could not be committed; records may come again")
        }
    }
}

/// Marks everything before `next` of a partition as done.
pub(crate) fn store(consumer: &GroupConsumer, topic: &str, partition: i32, next: i64) {
    let mut offsets = TopicPartitionList::with_capacity(1);
    let added = offsets.add_partition_offset(topic, partition, rdkafka::Offset::Offset(next));
    let stored = added.and_then(|()| consumer.store_offsets(&offsets));
    if let Err(e) = stored {
        // The partition has moved to another member: its records come again there.
        tracing::debug!(error = %e, topic, partition, "an offset could not be stored");
    }
}

/// A record as handlers take it.
pub(crate) fn record(message: &BorrowedMessage<'_>) -> InputRecord {
    InputRecord {
        topic: message.topic().to_owned(),
        partition: message.partition(),
        offset: message.offset(),
        timestamp_ms: message.timestamp().to_millis().unwrap_or(-1),
        key: message.key().map(<[u8]>::to_vec),
        value: message.payload().map(<[u8]>::to_vec),
        headers: message.headers().map_or_else(Vec::new, |headers| {
            headers
                .iter()
                .map(|h| (h.key.to_owned(), h.value.map(<[u8]>::to_vec)))
                .collect()
        }),
    }
}
