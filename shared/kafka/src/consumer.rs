//! A group consumer with manual commits.

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::{Offset, TopicPartitionList};
use triad_consume::{COMMIT_WITHIN, Note};

use crate::config::KafkaConfig;
use crate::context::Context;
use crate::error::{KafkaError, of_topic, unusable};
use crate::native::{commit_within, high_watermark, marks};
use crate::source::Source;

// Commits what is stored before partitions are taken away, and takes back what is noted of them: who
// gets them need not think that this process has died. Of those that come, reads what is noted.
impl ConsumerContext for Context {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Revoke(partitions) = rebalance {
            note(consumer, &consumer.context().assignment().take_notes_back());
            commit(consumer, CommitMode::Sync);
            let all = partitions.elements();
            self.assignment()
                .revoke(all.iter().map(|p| (p.topic().to_owned(), p.partition())));
        }
    }

    fn post_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Assign(partitions) = rebalance {
            // A pause outlives its assignment: of one that has gone and come back to this member nobody
            // would know any more that it is paused, and it would be read by nobody.
            if let Err(error) = consumer.resume(partitions) {
                tracing::warn!(%error, "partitions that have come could not be resumed");
            }
            match consumer.committed_offsets((*partitions).clone(), COMMIT_WITHIN) {
                Ok(committed) => self.assignment().meet(marks(&committed)),
                // What is noted there is met another time.
                Err(error) => tracing::warn!(%error, "committed offsets could not be read"),
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
        .map_err(|e| of_topic(topic, &e))?;
    Source::new(consumer, config, group)
}

/// Commits the stored offsets, and waits for it for a bounded time where it is to be waited for.
pub(crate) fn commit(consumer: &BaseConsumer<Context>, mode: CommitMode) {
    use RDKafkaErrorCode::{AssignmentLost, NoOffset};
    let error = match mode {
        CommitMode::Sync => commit_within(consumer, None, COMMIT_WITHIN).err(),
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

/// Records between where the consumer is and the ends of its partitions, as fetches told them.
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

/// Commits positions with what is in hand from there on. Blocks for at most 5 s.
pub(crate) fn note(consumer: &BaseConsumer<Context>, notes: &[Note]) {
    let mut offsets = TopicPartitionList::new();
    for one in notes {
        let (topic, partition) = &one.partition;
        let added = offsets.add_partition_offset(topic, *partition, Offset::Offset(one.position));
        let place = offsets.find_partition(topic, *partition);
        if let (Ok(()), Some(mut place), Some(in_hand)) = (added, place, one.in_hand) {
            place.set_metadata(in_hand.to_string());
        }
    }
    if offsets.count() == 0 {
        return;
    }
    if let Err(error) = commit_within(consumer, Some(&offsets), COMMIT_WITHIN) {
        // A death with them in hand is not counted then, or one that never was is.
        tracing::warn!(%error, "what is in hand could not be noted with the group");
    }
}

/// Marks everything before `next` of a partition as done.
pub(crate) fn store(consumer: &BaseConsumer<Context>, topic: &str, partition: i32, next: i64) {
    let mut offsets = TopicPartitionList::with_capacity(1);
    let added = offsets.add_partition_offset(topic, partition, Offset::Offset(next));
    let stored = added.and_then(|()| consumer.store_offsets(&offsets));
    if let Err(e) = stored {
        // The partition has moved to another member: its records come again there.
        tracing::debug!(error = %e, topic, partition, "an offset could not be stored");
    }
}
