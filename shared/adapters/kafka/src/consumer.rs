//! A group consumer with manual commits.

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::topic_partition_list::TopicPartitionListElem;
use rdkafka::{Offset, TopicPartitionList};
use triad_consume::COMMIT_WITHIN;

use crate::config::KafkaConfig;
use crate::context::Context;
use crate::error::{KafkaError, of_topic, unusable};
use crate::native::{commit_within, high_watermark};
use crate::source::Source;

// Commits the stored offsets before partitions are revoked, and resumes assigned ones.
impl ConsumerContext for Context {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Revoke(partitions) = rebalance {
            commit(consumer, CommitMode::Sync);
            let all = partitions.elements();
            let topic = |p: &TopicPartitionListElem<'_>| self.topic(p.topic().to_owned());
            self.assignment()
                .revoke(all.iter().map(|p| (topic(p), p.partition())));
        }
    }

    fn post_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Assign(partitions) = rebalance {
            // librdkafka keeps a pause across assignments: a partition that is revoked and assigned again would stay
            // paused, and would not be read.
            if let Err(error) = consumer.resume(partitions) {
                tracing::warn!(%error, "assigned partitions could not be resumed");
            }
        }
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
            // Bounds of prefetching. A full queue is checked again soon; otherwise large records would arrive only at
            // the pace of these checks.
            ("queued.min.messages", "2000"),
            ("queued.max.messages.kbytes", "8192"),
            ("fetch.queue.backoff.ms", "50"),
            ("fetch.wait.max.ms", "500"),
            ("partition.assignment.strategy", "range,roundrobin"),
        ])
        .create_with_context(config.context())
        .map_err(|e| unusable(&e))?;
    let name = config.in_kafka(topic);
    consumer
        .subscribe(&[&name])
        .map_err(|e| of_topic(&name, &e))?;
    Source::new(consumer, config, group)
}

/// Commits the stored offsets; waits for it, for a bounded time, if the mode says so.
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

/// Number of records between the consumer's positions and the ends of its partitions, by the last fetches.
pub(crate) fn unread(consumer: &BaseConsumer<Context>) -> Option<u64> {
    let positions = consumer.position().ok()?;
    let elements = positions.elements();
    let behind = elements.iter().filter_map(|one| {
        let Offset::Offset(position) = one.offset() else {
            return None;
        };
        let end = high_watermark(consumer, &(one.topic().to_owned(), one.partition()))?;
        u64::try_from(end - position).ok()
    });
    (!elements.is_empty()).then(|| behind.sum())
}

/// Stores everything before `next` of a partition as done.
pub(crate) fn store(consumer: &BaseConsumer<Context>, topic: &str, partition: i32, next: i64) {
    let topic = &*consumer.context().in_kafka(topic);
    let mut offsets = TopicPartitionList::with_capacity(1);
    let added = offsets.add_partition_offset(topic, partition, Offset::Offset(next));
    let stored = added.and_then(|()| consumer.store_offsets(&offsets));
    if let Err(e) = stored {
        // The partition has moved to another member, which gets its records again.
        tracing::debug!(error = %e, topic, partition, "an offset could not be stored");
    }
}
