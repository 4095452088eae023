//! Topics of one machine: tables in the store's file, or queues in memory.
//!
//! A topic is a number of partitions, and a partition a sequence of records with rising offsets, as in Kafka. The
//! [`TopicSettings`] say which topics are in memory: those between the handlers of one process, whose content a start
//! makes again from the stored orders. All others are tables: a record is acknowledged, and can be read, once its row
//! is synced, in the same group commit as the writes of orders. A write of an order may take messages with it, in one
//! transaction.
//!
//! Offsets in memory do not survive the process. Each start gives them a new range above all earlier ones, so an outer
//! reader that stays connected, or has committed an offset, goes on with the first record of the new range.
//!
//! | module | contents |
//! |---|---|
//! | `state` | the catalogue, and the records in memory |
//! | `writer` | writes in the transaction of a group |
//! | `read` | records, from memory or from the file |
//! | `producers` | duplicates of idempotent producers |
//! | `retention` | deletion of old records |
//! | `bus`, `consumer` | bus and consumers for the handlers of this process |

mod bus;
mod consumer;
mod partitioner;
mod producers;
mod read;
mod record;
mod retention;
mod state;
mod writer;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::Connection;
use triad_runtime::StoreError;
use uuid::Uuid;

pub use bus::LocalBus;
pub use consumer::{LocalBroker, LocalConsumer};
pub use producers::Sequence;
pub use read::{Found, PartitionRead, Position};
pub use record::{Headers, NewRecord, StoredRecord};
pub use state::Committed;
pub use writer::fresh_id;
pub(crate) use writer::{TopicWriter, tables};

use crate::engine::Engine;
use state::State;

/// Bound: partitions of all topics that ever were in one file, because a record's row number holds its partition.
const MAX_PARTITION_ID: i64 = (1 << 19) - 1;

/// How the topics of a file are kept.
#[derive(Debug, Clone)]
pub struct TopicSettings {
    /// Whether the topic of this name is in memory. Default: none is.
    pub in_memory: fn(&str) -> bool,
    /// Bound: bytes of all topics in memory together. Beyond it their oldest records are dropped. Default 64 MiB.
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

/// Facts about a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicShape {
    /// The topic's name.
    pub name: String,
    /// The topic's id, which is never given to another topic.
    pub id: Uuid,
    /// How many partitions the topic has; they are numbered from 0.
    pub partitions: i32,
    /// Settings given at creation, as text, in Kafka's names.
    pub settings: BTreeMap<String, String>,
    /// Largest record that the topic takes, in bytes.
    pub max_record_bytes: usize,
}

/// The offsets of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marks {
    /// Offset of the first record that is kept.
    pub start: i64,
    /// Offset of the next record.
    pub end: i64,
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

/// The topics of a file. Clones share them.
#[derive(Debug, Clone)]
pub struct Topics(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    settings: TopicSettings,
    engine: Engine,
    state: Arc<Mutex<State>>,
}

/// While it is there, this process is shown as a member of a group.
#[derive(Debug)]
pub struct Attending(#[expect(dead_code, reason = "it is there")] Arc<()>);

impl Topics {
    pub(crate) async fn open(engine: Engine, settings: TopicSettings) -> Result<Self, StoreError> {
        let state: Arc<Mutex<State>> = Arc::default();
        let writer = TopicWriter::new(state.clone(), settings.clone());
        engine
            .write_with(move |group| group.topics.insert(writer).load(group.db))
            .await?;
        Ok(Self(Arc::new(Shared {
            settings,
            engine,
            state,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0.state)
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> &TopicSettings {
        &self.0.settings
    }

    /// An id of the file that no other has.
    #[must_use]
    pub fn cluster_id(&self) -> String {
        self.state().cluster_id.clone()
    }

    /// Whether so many writes wait for the disk that no more requests should be read.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.0.engine.is_behind()
    }

    /// All topics, by name.
    #[must_use]
    pub fn all(&self) -> Vec<TopicShape> {
        let state = self.state();
        let shapes = state
            .topics
            .iter()
            .map(|(name, topic)| self.shape(name, topic));
        shapes.collect()
    }

    /// A topic; `None` if there is none of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<TopicShape> {
        let state = self.state();
        let topic = state.topics.get(name)?;
        Some(self.shape(name, topic))
    }

    /// The name of the topic with this id.
    #[must_use]
    pub fn name_of(&self, id: Uuid) -> Option<String> {
        self.state().names.get(&id).cloned()
    }

    /// The offsets of a partition; `None` if there is no such partition.
    #[must_use]
    pub fn marks(&self, topic: &str, partition: i32) -> Option<Marks> {
        let state = self.state();
        let partition = state.partition(topic, partition)?;
        Some(Marks {
            start: partition.start,
            end: partition.end,
        })
    }

    /// Makes a topic with at least one partition. The call is queued at once; the returned future completes once the
    /// topic is in the file. A topic that is in memory is in the file too, without its records.
    ///
    /// # Errors
    /// [`TopicError::Exists`], [`TopicError::TooManyPartitions`] or [`TopicError::Store`].
    pub fn create(
        &self,
        name: &str,
        partitions: i32,
        settings: BTreeMap<String, String>,
    ) -> impl Future<Output = Result<Uuid, TopicError>> + Send + use<> {
        let name = name.to_owned();
        self.submit(move |writer, db| writer.create(db, name, partitions, settings))
    }

    /// Adds partitions to a topic.
    ///
    /// # Errors
    /// [`TopicError::NoTopic`], [`TopicError::TooManyPartitions`] or [`TopicError::Store`].
    pub fn add_partitions(
        &self,
        name: &str,
        more: i32,
    ) -> impl Future<Output = Result<(), TopicError>> + Send + use<> {
        let name = name.to_owned();
        self.submit(move |writer, db| writer.add_partitions(db, &name, more))
    }

    /// Deletes a topic with its records and the offsets of all groups in it.
    ///
    /// # Errors
    /// [`TopicError::NoTopic`] or [`TopicError::Store`].
    pub fn delete(
        &self,
        name: &str,
    ) -> impl Future<Output = Result<(), TopicError>> + Send + use<> {
        let name = name.to_owned();
        self.submit(move |writer, db| writer.delete(db, &name))
    }

    /// Appends records to one partition, all or none, and returns the first one's offset and the partition's start.
    /// Records of a table are queued at once; the future completes once they are synced.
    ///
    /// # Errors
    /// [`TopicError::NoTopic`], [`TopicError::TooLarge`], [`TopicError::Full`], [`TopicError::Store`], or of an
    /// idempotent producer [`TopicError::ProducerEpoch`], [`TopicError::OutOfOrder`] and [`TopicError::Duplicate`].
    pub fn append(
        &self,
        topic: &str,
        partition: i32,
        records: Vec<NewRecord>,
        sequence: Option<Sequence>,
    ) -> impl Future<Output = Result<Appended, TopicError>> + Send + use<> {
        let submitted = {
            let mut state = self.state();
            match state.takes(topic, partition, &records, &self.0.settings) {
                Err(error) => Err(Err(error)),
                Ok((id, true)) => {
                    let most = self.0.settings.memory_bytes;
                    let base = state.append_in_memory(id, records, sequence, most);
                    let start = state.partitions.get(&id).map_or(0, |p| p.start);
                    Err(base.map(|base| Appended { base, start }))
                }
                Ok((_, false)) if self.is_full(&state) => Err(Err(TopicError::Full)),
                Ok((id, false)) => {
                    drop(state);
                    Ok(self.submit(move |writer, db| writer.append(db, id, records, sequence)))
                }
            }
        };
        async move {
            match submitted {
                Ok(appending) => appending.await,
                Err(appended) => appended,
            }
        }
    }

    /// A producer id that was never given out before.
    ///
    /// # Errors
    /// [`TopicError::Store`].
    pub fn new_producer_id(&self) -> impl Future<Output = Result<i64, TopicError>> + Send + use<> {
        self.submit(|_, db| writer::new_producer_id(db).map(Ok))
    }

    /// Commits offsets of a group, all or none. The future completes once they are durable.
    ///
    /// # Errors
    /// [`TopicError::NoTopic`], [`TopicError::TooManyGroups`] or [`TopicError::Store`].
    pub fn commit(
        &self,
        group: &str,
        commits: Vec<(String, Commit)>,
    ) -> impl Future<Output = Result<(), TopicError>> + Send + use<> {
        let group = group.to_owned();
        self.submit(move |writer, db| writer.commit(db, group, commits))
    }

    /// The offsets that a group has committed, by topic; empty for a group that has none.
    #[must_use]
    pub fn committed(&self, group: &str) -> Vec<(String, Vec<Commit>)> {
        self.state().commits_of(group)
    }

    /// The groups with committed offsets.
    #[must_use]
    pub fn groups(&self) -> Vec<String> {
        self.state().offsets.keys().cloned().collect()
    }

    /// Whether a group has committed offsets.
    #[must_use]
    pub fn has_group(&self, group: &str) -> bool {
        self.state().offsets.contains_key(group)
    }

    /// Removes offsets of a group: of these partitions, or of all.
    ///
    /// # Errors
    /// [`TopicError::Store`].
    pub fn forget(
        &self,
        group: &str,
        partitions: Option<Vec<(String, i32)>>,
    ) -> impl Future<Output = Result<(), TopicError>> + Send + use<> {
        let group = group.to_owned();
        self.submit(move |writer, db| writer.forget(db, group, partitions))
    }

    /// Shows this process as a member of a group, until the returned value is dropped.
    #[must_use]
    pub fn attend(&self, group: &str) -> Attending {
        let attending = Arc::new(());
        let mut state = self.state();
        state.attending.retain(|_, all| {
            all.retain(|one| one.strong_count() > 0);
            !all.is_empty()
        });
        let all = state.attending.entry(group.to_owned()).or_default();
        all.push(Arc::downgrade(&attending));
        Attending(attending)
    }

    /// The groups of which this process is shown as a member, and how often.
    #[must_use]
    pub fn attended(&self) -> BTreeMap<String, usize> {
        let state = self.state();
        let attended = state.attended();
        attended
            .map(|(group, count)| (group.clone(), count))
            .collect()
    }

    fn is_full(&self, state: &State) -> bool {
        u64::try_from(state.table_bytes()).unwrap_or(0) >= self.0.settings.table_bytes
    }

    fn shape(&self, name: &str, topic: &state::Topic) -> TopicShape {
        TopicShape {
            name: name.to_owned(),
            id: topic.id,
            partitions: i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX),
            settings: topic.settings.clone(),
            max_record_bytes: topic.max_record_bytes(&self.0.settings),
        }
    }

    /// Executes a write of topics in the next group.
    fn submit<T, W>(
        &self,
        write: W,
    ) -> impl Future<Output = Result<T, TopicError>> + Send + use<T, W>
    where
        T: Send + 'static,
        W: FnOnce(&mut TopicWriter, &Connection) -> rusqlite::Result<Result<T, TopicError>>
            + Send
            + 'static,
    {
        let submitted = self.0.engine.submit(move |group| match group.topics {
            Some(writer) => write(writer, group.db),
            None => Ok(Err(TopicError::NoTopic)),
        });
        async move { submitted.await? }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
