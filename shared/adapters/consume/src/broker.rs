//! The broker and its consumers, as the loops use them.

use std::time::Duration;

use triad_runtime::{Bus, BusError};

use crate::assignment::{Assignment, Partition};
use crate::polled::Polled;

/// A broker for the loops: they read records from it, and send dead letters to it.
pub trait Broker: Clone + Send + Sync + 'static {
    /// The type of a consumer that reads one topic.
    type Consumer: Consumer;
    /// The type of the bus that messages are sent through.
    type Bus: Bus + Clone;
    /// The error if no consumer can be made.
    type Error: std::fmt::Display;

    /// Makes a consumer that reads one topic as a member of a group. It begins each partition at the group's
    /// committed offset, or with the topic's first record if there is none.
    ///
    /// # Errors
    /// [`Self::Error`] if the settings are wrong or the topic is refused. A broker that does not answer yet is no
    /// error: the consumer keeps trying.
    fn join(&self, group: &str, topic: &str) -> Result<Self::Consumer, Self::Error>;

    /// Makes a bus through which dead letters and their alerts are sent.
    ///
    /// # Errors
    /// [`BusError::Permanent`] if the bus cannot be made.
    fn bus(&self) -> Result<Self::Bus, BusError>;

    /// Blocks the thread until every message that was sent through `bus` is acknowledged or refused, for at
    /// most `within`.
    fn flush(bus: &Self::Bus, within: Duration);

    /// Number of messages of a topic that a group has not committed, as far as that is known without asking anybody: 0
    /// by default.
    fn unhandled(&self, _group: &str, _topic: &str) -> u64 {
        0
    }

    /// The address of the broker, for the log.
    fn address(&self) -> &str;
}

/// A member of a consumer group that reads one topic. It commits an offset only after [`store`](Self::store).
///
/// One task reads from it; other tasks may store and commit offsets meanwhile.
pub trait Consumer: Send + Sync + 'static {
    /// Waits for the next item. Nothing is lost if the future is dropped.
    ///
    /// Records of a partition come in their order, each once as long as the partition stays with this
    /// consumer.
    fn next(&self) -> impl Future<Output = Polled> + Send;

    /// The next item if it has arrived, without waiting; `None` if none has. The call also keeps the consumer in its
    /// group: a loop calls it at least every 30 s, whatever a handler does.
    fn at_hand(&self) -> Option<Polled>;

    /// If `paused` is true, delivers no further records of this partition; if it is false, continues after the last
    /// delivered record. Does nothing for a partition that is no longer this consumer's. A newly assigned partition
    /// is not paused.
    fn pause(&self, partition: &Partition, paused: bool);

    /// Notes that every record of this partition with an offset below `next` is done. The next commit includes it.
    /// Does nothing for a partition that is no longer this consumer's.
    fn store(&self, partition: &Partition, next: i64);

    /// Begins to commit the stored offsets, and does not wait for the answer. If the commit fails, the next one
    /// covers it.
    fn commit(&self);

    /// How soon after a record is done its offset should be committed. `None`, the default: within
    /// [`COMMIT_EVERY`](crate::COMMIT_EVERY). If the process dies, uncommitted records are handled again, so a broker
    /// with cheap commits returns a shorter time.
    fn commits_after(&self) -> Option<Duration> {
        None
    }

    /// Commits the stored offsets and blocks the thread until the commit is answered, for at most 5 s. A failure is
    /// only logged: the records are then redelivered.
    fn commit_and_wait(&self);

    /// Number of undelivered records of the consumer's partitions, as far as known without a request to the broker;
    /// for metrics. `None` if unknown.
    fn unread(&self) -> Option<u64>;

    /// Changes of this consumer's partitions.
    fn assignment(&self) -> &Assignment;
}
