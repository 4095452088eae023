//! Items that a consumer delivers.

use triad_runtime::InputRecord;

/// One item that a consumer delivers to its loop.
#[derive(Debug, Clone, PartialEq)]
pub enum Polled {
    /// The next record of a partition.
    Record(InputRecord),
    /// Records that cannot be read. The next item of their partition is at [`Unreadable::next`] or behind it.
    Unreadable(Unreadable),
    /// The consumer had an error.
    Failed {
        /// Description of the error, for the log.
        reason: String,
        /// True if the consumer is unusable from now on. If false, it recovers without action.
        is_fatal: bool,
    },
}

/// Records of one partition that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// Name of the topic.
    pub topic: String,
    /// Number of the partition, from 0.
    pub partition: i32,
    /// The offset of the first record that cannot be read.
    pub first: i64,
    /// The offset behind the last of these records, at which reading goes on. It may be the end of the
    /// partition, and the records from it on may be unreadable too.
    pub next: i64,
    /// Why these records cannot be read, for people.
    pub reason: String,
}
