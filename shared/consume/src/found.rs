//! What a consumer finds.

use triad_runtime::InputRecord;

/// What a consumer has.
#[derive(Debug, Clone, PartialEq)]
pub enum Found {
    /// A record.
    Record(InputRecord),
    /// What cannot be read; what comes next of its partition is behind it.
    Unreadable(Unreadable),
    /// Something is wrong.
    Failed {
        /// What it is, for the log.
        reason: String,
        /// The consumer cannot be used any more. Otherwise it goes on by itself.
        is_fatal: bool,
    },
}

/// Records of one partition that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The offset of the first of them.
    pub first: i64,
    /// The first offset that can be read again, or the partition's end.
    pub next: i64,
    /// Why, for people.
    pub reason: String,
}
