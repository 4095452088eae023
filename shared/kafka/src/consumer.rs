//! A group consumer with manual commits.

use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::{Offset, TopicPartitionList};
use triad_runtime::deaths::Mark;

use crate::config::KafkaConfig;
use crate::context::Context;
use crate::error::{KafkaError, of_topic, unusable};
use crate::native::{commit_within, marks, metadata};
use crate::source::Source;

/// How often stored offsets are committed.
pub(crate) const COMMIT_EVERY: Duration = Duration::from_millis(250);

/// How often they are committed though nothing was stored since: a commit may have failed, and
/// librdkafka does not say so of one that is not waited for. Where nothing is left to commit, it
/// asks the broker nothing.
const COMMIT_AGAIN_EVERY: Duration = Duration::from_secs(5);

/// Longest wait for a commit, where its answer is waited for.
const COMMIT_WITHIN: Duration = Duration::from_secs(5);

// Commits what is stored before partitions are taken away, and takes back what is noted of them: who
// gets them need not think that this process has died. Of those that come, reads what is noted.
impl ConsumerContext for Context {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Revoke(partitions) = rebalance {
            take_back(consumer);
            commit(consumer, CommitMode::Sync);
            let all = partitions.elements();
            self.revoke(all.iter().map(|p| (p.topic().to_owned(), p.partition())));
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
                Ok(committed) => self.meet(marks(&committed)),
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

/// When the stored offsets of a consumer are to be committed, without waiting for it.
#[derive(Debug, Default)]
pub(crate) struct Commits {
    has_stored: bool,
    last: Option<Instant>,
}

impl Commits {
    /// Something was stored.
    pub(crate) fn stored(&mut self) {
        self.has_stored = true;
    }

    /// Commits, if there is something new or the last time was long ago.
    pub(crate) fn commit(&mut self, consumer: &BaseConsumer<Context>) {
        if self.is_due(Instant::now()) {
            commit(consumer, CommitMode::Async);
        }
    }

    fn is_due(&mut self, now: Instant) -> bool {
        let is_long_ago = self.last.is_none_or(|at| now - at >= COMMIT_AGAIN_EVERY);
        let is_due = std::mem::take(&mut self.has_stored) || is_long_ago;
        if is_due {
            self.last = Some(now);
        }
        is_due
    }
}

/// What is noted of a partition.
pub(crate) struct Note<'a> {
    pub(crate) partition: &'a (String, i32),
    /// The offset before which all is done.
    pub(crate) position: i64,
    /// From which offset on records are in hand, and how; none if none are.
    pub(crate) in_hand: Option<(i64, Mark)>,
}

/// Notes with the group what is in hand. Blocks for at most 5 s.
pub(crate) fn note<'a>(
    consumer: &BaseConsumer<Context>,
    notes: impl IntoIterator<Item = Note<'a>>,
) {
    let mut offsets = TopicPartitionList::new();
    for one in notes {
        let (topic, partition) = one.partition;
        let added = offsets.add_partition_offset(topic, *partition, Offset::Offset(one.position));
        let place = offsets.find_partition(topic, *partition);
        if let (Ok(()), Some(mut place), Some((offset, mark))) = (added, place, one.in_hand) {
            place.set_metadata(metadata(offset, mark));
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

/// Takes back all that a consumer has noted and nobody has answered: none of it is in hand any more.
pub(crate) fn take_back(consumer: &BaseConsumer<Context>) {
    let noted = consumer.context().take_noted();
    note(
        consumer,
        noted.iter().map(|(partition, position)| Note {
            partition,
            position: *position,
            in_hand: None,
        }),
    );
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_committed_and_once_more_in_case_that_failed() {
        let mut commits = Commits::default();
        let began = Instant::now();
        let mut at = |ms| commits.is_due(began + Duration::from_millis(ms));
        assert!(at(0));
        assert!(!at(250));
        assert!(!at(4_999));
        assert!(at(5_000));
        assert!(!at(9_999));
        commits.stored();
        assert!(commits.is_due(began + Duration::from_millis(9_999)));
        assert!(!commits.is_due(began + Duration::from_millis(14_998)));
    }
}
