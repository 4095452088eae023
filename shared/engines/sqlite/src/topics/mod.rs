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
//! | `read` | records, from memory or from the file |
//! | `retention` | deletion of old records |
//! | `bus`, `consumer` | bus and consumers for the handlers of this process |
//! | `catalogue`, beside this module | the topics and their records in memory, and writes in a transaction |

mod bus;
mod consumer;
mod read;
mod retention;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use rusqlite::Connection;
use triad_runtime::StoreError;
use uuid::Uuid;

pub use bus::LocalBus;
pub use consumer::{LocalBroker, LocalConsumer};
pub use read::{Found, PartitionRead, Position};

pub use crate::catalogue::{
    Appended, Commit, Committed, Headers, NewRecord, Sequence, StoredRecord, TopicError,
    TopicSettings, fresh_id,
};
use crate::catalogue::{State, Topic, TopicWriter, lock, new_producer_id};
use crate::engine::Engine;

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
        self.submit(|_, db| new_producer_id(db).map(Ok))
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

    fn shape(&self, name: &str, topic: &Topic) -> TopicShape {
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
