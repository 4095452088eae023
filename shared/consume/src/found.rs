//! What a consumer finds.

use triad_runtime::InputRecord;

/// What a consumer hands over to its loop.
#[derive(Debug, Clone, PartialEq)]
pub enum Found {
    /// The next record of a partition.
    Record(InputRecord),
    /// Records that cannot be read. The next record of their partition comes from behind them.
    Unreadable(Unreadable),
    /// The consumer has met an error.
    Failed {
        /// What the error is, for the log.
        reason: String,
        /// True if the consumer cannot be used any more. If false, it goes on by itself.
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
    /// The offset from which on records can be read again, or the end of the partition.
    pub next: i64,
    /// Why they cannot be read, for people.
    pub reason: String,
}
