//! The catalogue of topics, and what of them is in memory: all of the topics in memory, and the newest records of the
//! tables. One lock guards it; every call under the lock is short and does not wait.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Weak};

use tokio::sync::Notify;
use uuid::Uuid;

use super::producers::{Producers, Sequence, Verdict};
use super::record::{NewRecord, StoredRecord};
use super::{Commit, TopicError, TopicSettings};

/// Number of a partition, unique among all topics that ever were in the file.
pub(crate) type PartitionId = i64;

/// Bound: bytes of the newest records that are kept in memory of a partition in a table, and of those that are done of
/// a partition in memory. Readers that keep up are served from them, and whoever looks what was sent.
const RECENT_BYTES: usize = 64 * 1024;

/// A topic.
#[derive(Debug, Clone)]
pub(crate) struct Topic {
    pub(crate) id: Uuid,
    pub(crate) in_memory: bool,
    /// Settings given at creation, as text, in Kafka's names.
    pub(crate) settings: BTreeMap<String, String>,
    pub(crate) partitions: Vec<PartitionId>,
}

impl Topic {
    /// Largest record that the topic takes, in bytes.
    pub(crate) fn max_record_bytes(&self, settings: &TopicSettings) -> usize {
        let own = self.number("max.message.bytes");
        let own = own.map(|most| usize::try_from(most).unwrap_or(usize::MAX));
        own.unwrap_or(settings.max_record_bytes)
    }

    /// A numeric setting, if the topic has it and it is not negative.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.settings.get(name)?.parse().ok()
    }
}

/// A partition.
#[derive(Debug, Default)]
pub(crate) struct Partition {
    pub(crate) in_memory: bool,
    /// Offset of the first record that is kept.
    pub(crate) start: i64,
    /// Offset of the next record.
    pub(crate) end: i64,
    /// The greatest time of a record so far.
    pub(crate) latest: i64,
    /// Bytes of all records so far.
    pub(crate) total: i64,
    /// Bytes of the records of a table that were deleted.
    pub(crate) deleted: i64,
    /// The newest records; of a topic in memory all records.
    recent: VecDeque<Arc<StoredRecord>>,
    recent_bytes: usize,
    /// The idempotent producers of a partition in memory.
    producers: Producers,
    /// Woken once when there is more to read.
    watchers: Vec<Arc<Notify>>,
}

/// Result of a look at a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Look {
    /// Records from the requested offset on; empty at the end of the partition.
    Records(Vec<Arc<StoredRecord>>),
    /// The records are in the file.
    InFile,
    /// The offset is before the start or behind the end.
    OutOfRange,
}

impl Partition {
    pub(crate) fn new(in_memory: bool, start: i64) -> Self {
        Self {
            in_memory,
            start,
            end: start,
            ..Self::default()
        }
    }

    /// Records from `offset` on, at most `max_bytes` of them but at least one. In a partition in memory an offset
    /// before the start stands for the start: what was there is handled or lost, and nothing else has its offset.
    pub(crate) fn look(&self, offset: i64, max_bytes: usize) -> Look {
        let offset = match self.in_memory {
            true => offset.max(self.start),
            false => offset,
        };
        if offset > self.end || offset < self.start {
            return Look::OutOfRange;
        }
        if offset == self.end {
            return Look::Records(Vec::new());
        }
        let first = self.recent.front().map_or(self.end, |r| r.offset);
        if offset < first {
            return Look::InFile;
        }
        let skipped = usize::try_from(offset - first).unwrap_or(usize::MAX);
        let mut bytes = 0;
        let wanted = self.recent.iter().skip(skipped).take_while(|record| {
            let is_first = bytes == 0;
            bytes += record.bytes();
            is_first || bytes <= max_bytes
        });
        Look::Records(wanted.cloned().collect())
    }

    /// The first record in memory that is not older than `time`; `None` if there is none, or if an earlier one may be
    /// in the file.
    pub(crate) fn first_since(&self, time: i64) -> Option<&Arc<StoredRecord>> {
        let found = self.recent.iter().find(|r| r.timestamp_ms >= time);
        found.filter(|_| self.in_memory)
    }

    /// Wakes `watcher` once when there is more to read.
    pub(crate) fn watch(&mut self, watcher: &Arc<Notify>) {
        // A watcher whose owner has dropped it has no other handle.
        self.watchers.retain(|w| Arc::strong_count(w) > 1);
        if !self.watchers.iter().any(|w| Arc::ptr_eq(w, watcher)) {
            self.watchers.push(watcher.clone());
        }
    }

    pub(crate) fn wake(&mut self) {
        for watcher in self.watchers.drain(..) {
            watcher.notify_one();
        }
    }

    /// Adds a record at the end.
    pub(crate) fn push(&mut self, record: Arc<StoredRecord>) {
        let bytes = record.bytes();
        self.end = record.offset + 1;
        self.latest = self.latest.max(record.timestamp_ms);
        self.total += bytes.cast_signed() as i64;
        self.recent_bytes += bytes;
        self.recent.push_back(record);
        while !self.in_memory && self.recent_bytes > RECENT_BYTES {
            self.pop();
        }
    }

    /// Removes the oldest record in memory; returns its size in bytes.
    fn pop(&mut self) -> Option<usize> {
        let bytes = self.recent.pop_front()?.bytes();
        self.recent_bytes -= bytes;
        Some(bytes)
    }

    /// Removes the records before an offset; returns how many bytes they had in memory.
    pub(crate) fn trim(&mut self, before: i64) -> usize {
        let mut gone = 0;
        while self.recent.front().is_some_and(|r| r.offset < before) {
            gone += self.pop().unwrap_or(0);
        }
        self.start = self.start.max(before.min(self.end));
        gone
    }
}

impl Partition {
    /// Removes records before an offset beyond the bytes that are kept of those; returns how many bytes they had.
    fn trim_done(&mut self, before: i64) -> usize {
        let mut gone = 0;
        while self.recent_bytes > RECENT_BYTES
            && self.recent.front().is_some_and(|r| r.offset < before)
        {
            gone += self.pop().unwrap_or(0);
        }
        self.start = self.recent.front().map_or(self.end, |r| r.offset);
        gone
    }
}

/// A committed offset of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// Offset of the next record to read: all records below it are done.
    pub offset: i64,
    /// The leader epoch that the client gave; -1: none.
    pub leader_epoch: i32,
    /// Text of the client.
    pub metadata: String,
}

/// The topics; see the module.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) cluster_id: String,
    pub(crate) topics: BTreeMap<String, Topic>,
    pub(crate) names: HashMap<Uuid, String>,
    pub(crate) partitions: HashMap<PartitionId, Partition>,
    pub(crate) offsets: BTreeMap<String, BTreeMap<PartitionId, Committed>>,
    /// Offsets that consumers of this process have committed in tables and that are not in the file yet.
    pub(crate) unwritten: BTreeMap<(Arc<str>, PartitionId), i64>,
    /// Readers of this process by group, as long as they are there.
    pub(crate) attending: BTreeMap<String, Vec<Weak<()>>>,
    /// The first offset of a new partition in memory.
    pub(crate) memory_start: i64,
    /// Bytes of all records in memory, of topics in memory alone.
    memory_bytes: usize,
    /// Records that were dropped from topics in memory because these were full.
    dropped: u64,
}

impl State {
    /// Without topics; `memory_start` is the first offset of partitions in memory.
    pub(crate) fn new(cluster_id: String, memory_start: i64) -> Self {
        Self {
            cluster_id,
            memory_start,
            ..Self::default()
        }
    }

    pub(crate) fn partition_id(&self, topic: &str, partition: i32) -> Option<PartitionId> {
        let topic = self.topics.get(topic)?;
        topic
            .partitions
            .get(usize::try_from(partition).ok()?)
            .copied()
    }

    pub(crate) fn partition(&self, topic: &str, partition: i32) -> Option<&Partition> {
        self.partitions.get(&self.partition_id(topic, partition)?)
    }

    pub(crate) fn partition_mut(&mut self, topic: &str, partition: i32) -> Option<&mut Partition> {
        let id = self.partition_id(topic, partition)?;
        self.partitions.get_mut(&id)
    }

    /// The partition for these records, and whether it is in memory.
    pub(crate) fn takes(
        &self,
        topic: &str,
        partition: i32,
        records: &[NewRecord],
        settings: &TopicSettings,
    ) -> Result<(PartitionId, bool), TopicError> {
        let id = self.partition_id(topic, partition);
        let id = id.ok_or(TopicError::NoTopic)?;
        let topic = self.topics.get(topic).ok_or(TopicError::NoTopic)?;
        let most = topic.max_record_bytes(settings);
        if records.iter().any(|record| record.content_bytes() > most) {
            return Err(TopicError::TooLarge);
        }
        Ok((id, topic.in_memory))
    }

    /// Bytes of the records that the tables keep.
    pub(crate) fn table_bytes(&self) -> i64 {
        let tables = self.partitions.values().filter(|p| !p.in_memory);
        tables
            .map(|partition| partition.total - partition.deleted)
            .sum()
    }

    /// Adds a topic that is in the file, with the partitions that it has there.
    pub(crate) fn add_topic(&mut self, name: String, topic: Topic) {
        self.names.insert(topic.id, name.clone());
        self.topics.insert(name, topic);
    }

    pub(crate) fn remove_topic(&mut self, name: &str) {
        let Some(topic) = self.topics.remove(name) else {
            return;
        };
        self.names.remove(&topic.id);
        for id in topic.partitions {
            if let Some(mut partition) = self.partitions.remove(&id) {
                let end = partition.end;
                let freed = partition.trim(end);
                self.memory_bytes -= if partition.in_memory { freed } else { 0 };
                partition.wake();
            }
            for offsets in self.offsets.values_mut() {
                offsets.remove(&id);
            }
            self.unwritten.retain(|(_, of), _| *of != id);
        }
    }

    /// Appends records to a partition in memory, and returns the first one's offset. While the topics in memory have
    /// more than `most` bytes, the oldest record of the fullest partition is dropped: its order goes on when its time
    /// is up.
    pub(crate) fn append_in_memory(
        &mut self,
        id: PartitionId,
        records: Vec<NewRecord>,
        sequence: Option<Sequence>,
        most: usize,
    ) -> Result<i64, TopicError> {
        let partition = self.partitions.get_mut(&id).ok_or(TopicError::NoTopic)?;
        let base = partition.end;
        if let Some(sequence) = sequence
            && let Verdict::Duplicate(base) = partition.producers.judge(sequence, base)?
        {
            return Ok(base);
        }
        for record in records {
            self.memory_bytes += record.bytes();
            let record = record.at(partition.end);
            partition.push(Arc::new(record));
        }
        partition.wake();
        while self.memory_bytes > most && self.drop_oldest(most) {}
        Ok(base)
    }

    /// Drops the oldest record of the partition in memory that has the most bytes: an agent that nobody serves must not
    /// take the room of the others. False if there is none.
    fn drop_oldest(&mut self, most: usize) -> bool {
        let in_memory = self.partitions.values_mut().filter(|p| p.in_memory);
        let fullest = in_memory.max_by_key(|p| p.recent_bytes);
        let Some(fullest) = fullest.filter(|p| !p.recent.is_empty()) else {
            return false;
        };
        let next = fullest.recent[0].offset + 1;
        self.memory_bytes -= fullest.trim(next);
        self.dropped += 1;
        if self.dropped.is_power_of_two() {
            tracing::warn!(
                dropped = self.dropped,
                most,
                "the queues in memory are full: messages were dropped, and their orders go on when their time is up"
            );
        }
        true
    }

    /// Notes a commit, and removes from a topic in memory what every reader of this process has done.
    pub(crate) fn commit(&mut self, group: &str, id: PartitionId, committed: Committed) {
        let Some(partition) = self.partitions.get_mut(&id) else {
            return;
        };
        let offset = committed.offset;
        match self.offsets.get_mut(group) {
            Some(offsets) => {
                offsets.insert(id, committed);
            }
            None => {
                let offsets = BTreeMap::from([(id, committed)]);
                self.offsets.insert(group.to_owned(), offsets);
            }
        }
        if !partition.in_memory || partition.start >= offset {
            return;
        }
        let attending = self.attending.iter();
        let attending = attending.filter(|(_, all)| all.iter().any(|a| a.strong_count() > 0));
        let done =
            attending.filter_map(|(group, _)| Some(self.offsets.get(group)?.get(&id)?.offset));
        if let Some(done) = done.min() {
            self.memory_bytes -= partition.trim_done(done);
        }
    }

    /// The commits of a group, by topic and partition.
    pub(crate) fn commits_of(&self, group: &str) -> Vec<(String, Vec<Commit>)> {
        let Some(offsets) = self.offsets.get(group) else {
            return Vec::new();
        };
        let of_topic = |(name, topic): (&String, &Topic)| {
            let partitions = (0..).zip(&topic.partitions);
            let commits = partitions.filter_map(|(number, id)| {
                Some(Commit {
                    partition: number,
                    committed: offsets.get(id)?.clone(),
                })
            });
            let commits: Vec<Commit> = commits.collect();
            (!commits.is_empty()).then(|| (name.clone(), commits))
        };
        self.topics.iter().filter_map(of_topic).collect()
    }

    /// The groups with attending readers, and how many.
    pub(crate) fn attended(&self) -> impl Iterator<Item = (&String, usize)> {
        let counts = self.attending.iter().map(|(group, all)| {
            let alive = all.iter().filter(|one| one.strong_count() > 0);
            (group, alive.count())
        });
        counts.filter(|(_, count)| *count > 0)
    }
}
