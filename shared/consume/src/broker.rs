//! What the loops ask of a broker and of its consumers.

use std::time::Duration;

use triad_runtime::{Bus, BusError};

use crate::assignment::Assignment;
use crate::found::Found;
use crate::note::{Note, Partition};

/// Where records come from, and where dead letters go.
pub trait Broker: Clone + Send + Sync + 'static {
    /// What reads a topic.
    type Consumer: Consumer;
    /// What sends.
    type Bus: Bus + Clone;
    /// Why no consumer can be made.
    type Error: std::fmt::Display;

    /// Whether the broker ends with this process, and no other process handles what is in it. Then what
    /// handlers had in memory, and the last of what was acknowledged as
    /// [restorable](triad_core::Envelope::is_restorable), is gone at a start, and every alive order is to
    /// be driven on.
    const ENDS_WITH_US: bool = false;

    /// A consumer that reads one topic as a member of a group: from where the group has committed, or
    /// from the topic's first record where it has not.
    ///
    /// # Errors
    /// If the settings are wrong or the topic is refused. A broker that does not answer yet is none:
    /// the consumer goes on trying.
    fn join(&self, group: &str, topic: &str) -> Result<Self::Consumer, Self::Error>;

    /// Something to send dead letters and their alerts with.
    ///
    /// # Errors
    /// [`BusError::Permanent`] if it cannot be made.
    fn bus(&self) -> Result<Self::Bus, BusError>;

    /// Waits until what was sent is acknowledged or refused, for at most `within`; the thread is blocked
    /// meanwhile.
    fn flush(bus: &Self::Bus, within: Duration);

    /// Where it is, for the log.
    fn address(&self) -> &str;
}

/// A member of a consumer group that reads one topic. Offsets are committed by whoever reads, and no
/// sooner than it says.
///
/// One task reads it; offsets may be stored and committed from others meanwhile.
pub trait Consumer: Send + Sync + 'static {
    /// What comes next. Nothing is lost if the future is dropped.
    ///
    /// Records of a partition come in their order, each once as long as the partition stays with this
    /// consumer.
    fn next(&self) -> impl Future<Output = Found> + Send;

    /// What is at hand, without waiting. It also keeps the consumer in its group: it is called at least
    /// every 30 s, whatever a handler does.
    fn at_hand(&self) -> Option<Found>;

    /// Hands over nothing more of a partition, or goes on with it behind what was handed over last. A
    /// partition that has gone elsewhere is passed over. One that comes (back) is not paused.
    fn pause(&self, partition: &Partition, paused: bool);

    /// Says that everything before `next` of a partition is done, which the next commit tells the group.
    /// A partition that has gone elsewhere is passed over.
    fn store(&self, partition: &Partition, next: i64);

    /// Begins to commit what is stored, and does not wait for it. One that fails is made up for by the
    /// next one.
    fn commit(&self);

    /// How soon after a record is done a commit is worth its price, where that is sooner than
    /// [`COMMIT_EVERY`](crate::COMMIT_EVERY): what is done and not committed is done again after a death.
    fn commits_after(&self) -> Option<Duration> {
        None
    }

    /// Commits what is stored, and waits for it, for at most 5 s; the thread is blocked meanwhile. A
    /// failure is logged: the records come again.
    fn commit_and_wait(&self);

    /// Commits positions with what is in hand from there on, which whoever gets the partition next is
    /// told ([`Assignment::take_met`]). Waits as [`commit_and_wait`](Self::commit_and_wait) does.
    fn note(&self, notes: &[Note]);

    /// Records that lie in the consumer's partitions and were not handed over yet, as far as it knows without
    /// asking the broker; for metrics. `None` where it knows of no partition.
    fn unread(&self) -> Option<u64>;

    /// What the loop and the consumer tell each other of the partitions.
    fn assignment(&self) -> &Assignment;
}
