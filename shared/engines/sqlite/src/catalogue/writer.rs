//! Writes of topics in the transaction of a group.
//!
//! The file decides: a write changes the catalogue in memory, and a record can be read, only once its transaction is
//! committed and synced. If the transaction fails, nothing of it has happened.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use rusqlite::{Connection, OptionalExtension};
use triad_core::Envelope;
use uuid::Uuid;

use super::load::{fresh_id, read};
use super::producers::{self, Sequence, Verdict};
use super::record::{NewRecord, StoredRecord, now_ms};
use super::rows::{headers_as_json, place, text_or_bytes};
use super::state::{Committed, Partition, PartitionId, State, Topic};
use super::{Appended, Commit, MAX_PARTITION_ID, TopicError, TopicSettings, lock, partitioner};

/// A partition's end within the present transaction.
#[derive(Debug, Clone, Copy)]
struct End {
    offset: i64,
    latest: i64,
    total: i64,
}

/// What a committed transaction changes in memory.
type Change = Box<dyn FnOnce(&mut State) + Send>;

/// The writing side of the topics, owned by the thread that writes the file.
pub(crate) struct TopicWriter {
    state: Arc<Mutex<State>>,
    settings: TopicSettings,
    /// The ends of partitions to which this transaction has appended.
    ends: HashMap<PartitionId, End>,
    /// The records of this transaction, in their order.
    appended: Vec<(PartitionId, Arc<StoredRecord>)>,
    changes: Vec<Change>,
    /// Offsets of consumers in this process that this transaction writes.
    offsets: Vec<((Arc<str>, PartitionId), i64)>,
    /// Counts messages without a key, which go to the partitions in turn.
    turn: usize,
}

/// A record that its partition takes.
pub(crate) struct Prepared(PartitionId, NewRecord);

type Written<T> = rusqlite::Result<Result<T, TopicError>>;

impl TopicWriter {
    pub(crate) fn new(state: Arc<Mutex<State>>, settings: TopicSettings) -> Self {
        Self {
            state,
            settings,
            ends: HashMap::new(),
            appended: Vec::new(),
            changes: Vec::new(),
            offsets: Vec::new(),
            turn: 0,
        }
    }

    /// Reads the catalogue, and counts a run of the process.
    pub(crate) fn load(&mut self, db: &Connection) -> rusqlite::Result<()> {
        let state = read(db, &self.settings)?;
        self.changes.push(Box::new(move |present| *present = state));
        Ok(())
    }

    /// Whether no consumer's offset waits to be written.
    pub(crate) fn is_idle(&self) -> bool {
        lock(&self.state).unwritten.is_empty()
    }

    /// Writes the offsets that consumers of this process have committed.
    pub(crate) fn write_offsets(&mut self, db: &Connection) -> rusqlite::Result<()> {
        {
            let state = lock(&self.state);
            let unwritten = state.unwritten.iter();
            self.offsets.clear();
            self.offsets
                .extend(unwritten.map(|(key, offset)| (key.clone(), *offset)));
        }
        for ((group, partition), offset) in &self.offsets {
            put_offset(
                db,
                group,
                *partition,
                &Committed {
                    offset: *offset,
                    leader_epoch: -1,
                    metadata: String::new(),
                },
            )?;
        }
        Ok(())
    }

    /// Makes the transaction's effects visible if it is committed; else forgets them.
    pub(crate) fn ended(&mut self, is_committed: bool) {
        self.ends.clear();
        if !is_committed {
            self.appended.clear();
            self.changes.clear();
            self.offsets.clear();
            return;
        }
        if self.appended.is_empty() && self.changes.is_empty() && self.offsets.is_empty() {
            return;
        }
        let state = &mut *lock(&self.state);
        for change in self.changes.drain(..) {
            change(state);
        }
        for (id, record) in self.appended.drain(..) {
            if let Some(partition) = state.partitions.get_mut(&id) {
                partition.push(record);
                partition.wake();
            }
        }
        for (key, offset) in self.offsets.drain(..) {
            if state.unwritten.get(&key) == Some(&offset) {
                state.unwritten.remove(&key);
            }
        }
    }

    pub(crate) fn create(
        &mut self,
        db: &Connection,
        name: String,
        partitions: i32,
        settings: BTreeMap<String, String>,
    ) -> Written<Uuid> {
        if topic_number(db, &name)?.is_some() {
            return Ok(Err(TopicError::Exists));
        }
        if !self.has_room(db, partitions)? {
            return Ok(Err(TopicError::TooManyPartitions));
        }
        let id = fresh_id();
        db.execute(
            "INSERT INTO topics (Name, Id, Settings) VALUES (?1, ?2, ?3)",
            (
                &name,
                id.to_string(),
                serde_json::to_string(&settings).unwrap_or_default(),
            ),
        )?;
        let number = db.last_insert_rowid();
        let added = add_partitions(db, number, 0..partitions)?;
        let topic = Topic {
            id,
            in_memory: (self.settings.in_memory)(&name),
            settings,
            partitions: added.clone(),
        };
        self.changes.push(Box::new(move |state| {
            state.start_partitions(&added, topic.in_memory);
            state.add_topic(name, topic);
        }));
        Ok(Ok(id))
    }

    pub(crate) fn add_partitions(&mut self, db: &Connection, name: &str, more: i32) -> Written<()> {
        let Some(number) = topic_number(db, name)? else {
            return Ok(Err(TopicError::NoTopic));
        };
        if !self.has_room(db, more)? {
            return Ok(Err(TopicError::TooManyPartitions));
        }
        let first: i32 = db.query_row(
            "SELECT count(*) FROM partitions WHERE Topic = ?1",
            [number],
            |row| row.get(0),
        )?;
        let added = add_partitions(db, number, first..first.saturating_add(more))?;
        let name = name.to_owned();
        self.changes.push(Box::new(move |state| {
            let in_memory = state.topics.get(&name).is_some_and(|t| t.in_memory);
            state.start_partitions(&added, in_memory);
            if let Some(topic) = state.topics.get_mut(&name) {
                topic.partitions.extend(added);
            }
        }));
        Ok(Ok(()))
    }

    /// Removes a topic from the catalogue. Its records are deleted later, a bounded number at a time.
    pub(crate) fn delete(&mut self, db: &Connection, name: &str) -> Written<()> {
        let Some(number) = topic_number(db, name)? else {
            return Ok(Err(TopicError::NoTopic));
        };
        db.execute(
            "DELETE FROM group_offsets WHERE Partition IN
                (SELECT Partition FROM partitions WHERE Topic = ?1)",
            [number],
        )?;
        db.execute("DELETE FROM topics WHERE Topic = ?1", [number])?;
        let name = name.to_owned();
        self.changes
            .push(Box::new(move |state| state.remove_topic(&name)));
        Ok(Ok(()))
    }

    fn has_room(&self, db: &Connection, more: i32) -> rusqlite::Result<bool> {
        let (count, last): (i64, i64) = db.query_row(
            "SELECT (SELECT count(*) FROM partitions WHERE Topic IN (SELECT Topic FROM topics)),
                ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'partitions'), 0)",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        let more = i64::from(more);
        let most = i64::try_from(self.settings.max_partitions).unwrap_or(i64::MAX);
        Ok(count + more <= most && last + more <= MAX_PARTITION_ID)
    }

    /// Appends records to a partition of a table.
    pub(crate) fn append(
        &mut self,
        db: &Connection,
        id: PartitionId,
        records: Vec<NewRecord>,
        sequence: Option<Sequence>,
    ) -> Written<Appended> {
        let found = {
            let state = lock(&self.state);
            state.partitions.get(&id).map(|partition| {
                let end = End {
                    offset: partition.end,
                    latest: partition.latest,
                    total: partition.total,
                };
                (partition.start, end)
            })
        };
        let Some((start, end)) = found else {
            return Ok(Err(TopicError::NoTopic));
        };
        let end = self.ends.get(&id).copied().unwrap_or(end);
        let base = end.offset;
        if let Some(sequence) = sequence {
            match judge(db, id, sequence, base)? {
                Ok(Verdict::Append) => {}
                Ok(Verdict::Duplicate(base)) => return Ok(Ok(Appended { base, start })),
                Err(error) => return Ok(Err(error)),
            }
        }
        let end = self.ends.entry(id).or_insert(end);
        let mut insert = db.prepare_cached(
            "INSERT INTO records (Place, Time, Latest, Appended, Total, Key, Value, Headers)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?;
        let now = now_ms();
        for record in records {
            let record = record.at(end.offset);
            end.offset += 1;
            end.latest = end.latest.max(record.timestamp_ms);
            end.total += record.bytes().cast_signed() as i64;
            insert.execute((
                place(id, record.offset),
                record.timestamp_ms,
                end.latest,
                now,
                end.total,
                text_or_bytes(record.key()),
                text_or_bytes(record.value()),
                headers_as_json(&record),
            ))?;
            self.appended.push((id, Arc::new(record)));
        }
        Ok(Ok(Appended { base, start }))
    }

    /// The records of messages that are to be stored with a write of the same transaction. `None` if there is no
    /// message, or if one of them is for no table or is too large.
    pub(crate) fn prepare(&mut self, messages: &[Envelope]) -> Option<Vec<Prepared>> {
        if messages.is_empty() {
            return None;
        }
        let now = now_ms();
        let state = lock(&self.state);
        let prepared = messages.iter().map(|message| {
            self.turn = self.turn.wrapping_add(1);
            let partition = state.partition_of(message, self.turn)?;
            let record = NewRecord::of(message.clone(), now);
            let taken = std::slice::from_ref(&record);
            match state.takes(&message.topic, partition, taken, &self.settings) {
                Ok((id, false)) => Some(Prepared(id, record)),
                Ok((_, true)) | Err(_) => None,
            }
        });
        prepared.collect()
    }

    /// Appends prepared records.
    pub(crate) fn append_prepared(
        &mut self,
        db: &Connection,
        prepared: Vec<Prepared>,
    ) -> rusqlite::Result<()> {
        for Prepared(id, record) in prepared {
            // Partitions are removed on this thread alone, so each is still there.
            let _ = self.append(db, id, vec![record], None)?;
        }
        Ok(())
    }

    pub(crate) fn commit(
        &mut self,
        db: &Connection,
        group: String,
        commits: Vec<(String, Commit)>,
    ) -> Written<()> {
        let known = {
            let state = lock(&self.state);
            if !state.offsets.contains_key(&group)
                && state.offsets.len() >= self.settings.max_groups
            {
                return Ok(Err(TopicError::TooManyGroups));
            }
            let ids = commits.into_iter().map(|(topic, commit)| {
                let id = state.partition_id(&topic, commit.partition)?;
                Some((id, commit.committed))
            });
            ids.collect::<Option<Vec<_>>>()
        };
        let Some(known) = known else {
            return Ok(Err(TopicError::NoTopic));
        };
        for (id, committed) in &known {
            put_offset(db, &group, *id, committed)?;
        }
        self.changes.push(Box::new(move |state| {
            for (id, committed) in known {
                state.commit(&group, id, committed);
            }
        }));
        Ok(Ok(()))
    }

    pub(crate) fn forget(
        &mut self,
        db: &Connection,
        group: String,
        partitions: Option<Vec<(String, i32)>>,
    ) -> Written<()> {
        let ids: Option<Vec<PartitionId>> = partitions.map(|partitions| {
            let state = lock(&self.state);
            let ids = partitions.iter();
            ids.filter_map(|(topic, number)| state.partition_id(topic, *number))
                .collect()
        });
        match &ids {
            None => {
                db.execute("DELETE FROM group_offsets WHERE GroupName = ?1", [&group])?;
            }
            Some(ids) => {
                let mut delete = db.prepare_cached(
                    "DELETE FROM group_offsets WHERE GroupName = ?1 AND Partition = ?2",
                )?;
                for id in ids {
                    delete.execute((&group, id))?;
                }
            }
        }
        self.changes.push(Box::new(move |state| match ids {
            None => {
                state.offsets.remove(&group);
                state.unwritten.retain(|(of, _), _| **of != *group);
            }
            Some(ids) => {
                for id in ids {
                    if let Some(offsets) = state.offsets.get_mut(&group) {
                        offsets.remove(&id);
                    }
                    state.unwritten.remove(&(group.as_str().into(), id));
                }
            }
        }));
        Ok(Ok(()))
    }

    /// Notes that a partition in a table begins at `start` now, and that so many of its bytes are deleted in all.
    pub(crate) fn started(&mut self, id: PartitionId, start: i64, deleted: i64) {
        self.changes.push(Box::new(move |state| {
            if let Some(partition) = state.partitions.get_mut(&id) {
                partition.start = partition.start.max(start);
                partition.deleted = partition.deleted.max(deleted);
            }
        }));
    }
}

impl State {
    fn start_partitions(&mut self, added: &[PartitionId], in_memory: bool) {
        let start = if in_memory { self.memory_start } else { 0 };
        for id in added {
            self.partitions
                .insert(*id, Partition::new(in_memory, start));
        }
    }

    /// The partition of a message; `turn` chooses it if the message has no key.
    pub(crate) fn partition_of(&self, message: &Envelope, turn: usize) -> Option<i32> {
        let count = self.topics.get(&message.topic)?.partitions.len();
        let count = i32::try_from(count).unwrap_or(i32::MAX);
        Some(match &message.key {
            Some(key) => partitioner::of(key, count),
            None => i32::try_from(turn % usize::try_from(count).unwrap_or(1).max(1)).unwrap_or(0),
        })
    }
}

fn topic_number(db: &Connection, name: &str) -> rusqlite::Result<Option<i64>> {
    db.prepare_cached("SELECT Topic FROM topics WHERE Name = ?1")?
        .query_row([name], |row| row.get(0))
        .optional()
}

fn add_partitions(
    db: &Connection,
    topic: i64,
    numbers: std::ops::Range<i32>,
) -> rusqlite::Result<Vec<PartitionId>> {
    let mut insert = db.prepare_cached("INSERT INTO partitions (Topic, Number) VALUES (?1, ?2)")?;
    let insert = |number| insert.insert((topic, number));
    numbers.map(insert).collect()
}

fn put_offset(
    db: &Connection,
    group: &str,
    partition: PartitionId,
    committed: &Committed,
) -> rusqlite::Result<()> {
    db.prepare_cached("INSERT OR REPLACE INTO group_offsets VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute((
            group,
            partition,
            committed.offset,
            committed.leader_epoch,
            &committed.metadata,
        ))?;
    Ok(())
}

/// Judges records of an idempotent producer by its row, and writes the row anew if they are to be appended.
fn judge(
    db: &Connection,
    partition: PartitionId,
    sequence: Sequence,
    base: i64,
) -> Written<Verdict> {
    let stored: Option<String> = db
        .prepare_cached("SELECT State FROM producers WHERE Partition = ?1 AND Producer = ?2")?
        .query_row((partition, sequence.producer), |row| row.get(0))
        .optional()?;
    let mut known = stored.and_then(|text| serde_json::from_str(&text).ok());
    let verdict = producers::judge(&mut known, sequence, base);
    if verdict == Ok(Verdict::Append) {
        let text = serde_json::to_string(&known).unwrap_or_default();
        db.prepare_cached("INSERT OR REPLACE INTO producers VALUES (?1, ?2, ?3, ?4)")?
            .execute((partition, sequence.producer, text, base))?;
    }
    Ok(verdict)
}

/// Gives out a producer id.
pub(crate) fn new_producer_id(db: &Connection) -> rusqlite::Result<i64> {
    db.query_row(
        "UPDATE bus SET NextProducer = NextProducer + 1 RETURNING NextProducer - 1",
        [],
        |row| row.get(0),
    )
}
