//! The topics of a file: what of them is in memory, and how a transaction changes them.
//!
//! | module | contents |
//! |---|---|
//! | `state` | the catalogue, and the records in memory |
//! | `load` | the catalogue as a file has it |
//! | `rows` | tables, row numbers, bytes as text |
//! | `writer` | writes in the transaction of a group |
//! | `record` | records |
//! | `producers` | duplicates of idempotent producers |
//! | `partitioner` | the partition of a key |

mod load;
mod partitioner;
mod producers;
mod record;
mod rows;
mod state;
mod writer;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use triad_runtime::StoreError;

pub use load::fresh_id;
pub use producers::Sequence;
pub(crate) use record::now_ms;
pub use record::{Headers, NewRecord, StoredRecord};
pub(crate) use rows::{offset_of, place, record_of, tables};
pub use state::Committed;
pub(crate) use state::{Look, PartitionId, State, Topic};
pub(crate) use writer::{TopicWriter, new_producer_id};

/// Bound: partitions of all topics that ever were in one file, because a record's row number holds its partition.
const MAX_PARTITION_ID: i64 = (1 << 19) - 1;

/// How the topics of a file are kept.
#[derive(Debug, Clone)]
pub struct TopicSettings {
    /// Whether the topic of this name is in memory. Default: none is.
    pub in_memory: fn(&str) -> bool,
    /// Bound: bytes of all topics in memory together. Beyond it the oldest records of the
    /// fullest partition are dropped. Default 64 MiB.
    pub memory_bytes: usize,
    /// Largest record that a topic takes, in bytes, unless its setting `max.message.bytes` says otherwise. Default
    /// 1,048,588, which is Kafka's.
    pub max_record_bytes: usize,
    /// Most partitions of all topics together. Default 1,000.
    pub max_partitions: usize,
    /// A partition's oldest records are deleted while the rest has at least this many bytes; a topic's
    /// `retention.bytes` takes its place for that topic. Default none.
    pub retention_bytes: Option<u64>,
    /// Age at which the records of a topic are deleted that a group of [`own_groups`](Self::own_groups) reads. A
    /// topic's `retention.ms` takes its place for that topic, whoever reads it. Default none.
    pub retention: Option<Duration>,
    /// Name prefix of the consumer groups of the installation's own handlers. A record that such a group still has to
    /// commit is deleted neither for its age nor for the bytes of its partition. Default none.
    pub own_groups: Option<String>,
    /// Bound: bytes of all records in tables. Beyond it [`Topics::append`] is refused until some are done and deleted;
    /// the messages of this process are not. Default 16 GiB.
    pub table_bytes: u64,
    /// Most consumer groups with committed offsets. Default 10,000.
    pub max_groups: usize,
}

impl Default for TopicSettings {
    fn default() -> Self {
        Self {
            in_memory: |_| false,
            memory_bytes: 64 << 20,
            max_record_bytes: 1_048_588,
            max_partitions: 1_000,
            retention_bytes: None,
            retention: None,
            own_groups: None,
            table_bytes: 16 << 30,
            max_groups: 10_000,
        }
    }
}

/// Why a call about a topic has failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopicError {
    /// There is no such topic or partition.
    #[error("there is no such topic or partition")]
    NoTopic,
    /// There is a topic of this name already.
    #[error("there is such a topic already")]
    Exists,
    /// The topics would have more partitions than [`TopicSettings::max_partitions`].
    #[error("the topics would have too many partitions")]
    TooManyPartitions,
    /// A record is larger than the topic takes.
    #[error("the record is larger than the topic takes")]
    TooLarge,
    /// The tables have as many bytes as [`TopicSettings::table_bytes`].
    #[error("the topics are full: records that are not done yet are kept")]
    Full,
    /// There are as many consumer groups as [`TopicSettings::max_groups`].
    #[error("there are too many consumer groups")]
    TooManyGroups,
    /// An idempotent producer with a later epoch has taken this producer's place.
    #[error("another producer has taken this one's place")]
    ProducerEpoch,
    /// Records of an idempotent producer are missing before these.
    #[error("the producer's records are not in their order")]
    OutOfOrder,
    /// The records were appended before, so long ago that their offset is not known any more.
    #[error("the records were appended before")]
    Duplicate,
    /// The file cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Where records were appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// Offset of the first record that was appended.
    pub base: i64,
    /// Offset of the first record that the partition keeps.
    pub start: i64,
}

/// A group's offset in one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// Number of the partition, from 0.
    pub partition: i32,
    /// The offset.
    pub committed: Committed,
}

pub(crate) fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
