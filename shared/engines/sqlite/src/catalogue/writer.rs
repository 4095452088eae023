//! Writes of topics in the transaction of a group.
//!
//! The file decides: a write changes the catalogue in memory, and a record can be read, only once its transaction is
//! committed and synced. If the transaction fails, nothing of it has happened.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use rusqlite::{Connection, OptionalExtension};
use serde_json::Value as Json;
use triad_core::Envelope;
use uuid::Uuid;

use super::producers::{self, Sequence, Verdict};
use super::record::{Headers, NewRecord, StoredRecord, now_ms};
use super::state::{Committed, Partition, PartitionId, State, Topic};
use super::{Appended, Commit, MAX_PARTITION_ID, TopicError, TopicSettings, lock, partitioner};

/// Bits of a record's row number that hold its offset; those above hold its partition.
const OFFSET_BITS: u32 = 44;
/// Bits of an offset in memory that count within one run of the process; those above count the runs.
const RUN_BITS: u32 = 40;

/// Row number of a record.
pub(crate) fn place(partition: PartitionId, offset: i64) -> i64 {
    (partition << OFFSET_BITS) + offset
}

/// Offset of the record with this row number.
pub(crate) fn offset_of(place: i64) -> i64 {
    place & ((1 << OFFSET_BITS) - 1)
}

/// The tables of the topics, as SQL.
pub(crate) fn tables() -> &'static str {
    "CREATE TABLE IF NOT EXISTS bus (
        Id INTEGER PRIMARY KEY CHECK (Id = 1), Cluster TEXT NOT NULL,
        NextProducer INTEGER NOT NULL, Runs INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS topics (
        Topic INTEGER PRIMARY KEY AUTOINCREMENT, Name TEXT NOT NULL UNIQUE, Id TEXT NOT NULL, Settings TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS partitions (
        Partition INTEGER PRIMARY KEY AUTOINCREMENT, Topic INTEGER NOT NULL, Number INTEGER NOT NULL,
        Next INTEGER NOT NULL DEFAULT 0, UNIQUE (Topic, Number));
    CREATE TABLE IF NOT EXISTS records (
        Place INTEGER PRIMARY KEY, Time INTEGER NOT NULL, Latest INTEGER NOT NULL, Appended INTEGER NOT NULL,
        Total INTEGER NOT NULL, Key, Value, Headers TEXT);
    CREATE TABLE IF NOT EXISTS group_offsets (
        GroupName TEXT NOT NULL, Partition INTEGER NOT NULL, Offset INTEGER NOT NULL,
        LeaderEpoch INTEGER NOT NULL, Metadata TEXT NOT NULL,
        PRIMARY KEY (GroupName, Partition)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS producers (
        Partition INTEGER NOT NULL, Producer INTEGER NOT NULL, State TEXT NOT NULL, Last INTEGER NOT NULL,
        PRIMARY KEY (Partition, Producer)) WITHOUT ROWID;
    CREATE VIEW IF NOT EXISTS messages AS SELECT t.Name AS Topic, p.Number AS Partition,
        r.Place & 17592186044415 AS Offset, r.Time AS Time, r.Key AS Key, r.Value AS Value, r.Headers AS Headers
        FROM records r JOIN partitions p ON p.Partition = r.Place >> 44 JOIN topics t ON t.Topic = p.Topic;"
}

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
        db.execute(
            "INSERT INTO bus VALUES (1, ?1, 0, 0) ON CONFLICT DO UPDATE SET Runs = Runs + 1",
            [fresh_id().simple().to_string()],
        )?;
        let (cluster_id, runs): (String, i64) =
            db.query_row("SELECT Cluster, Runs FROM bus", [], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
        let memory_start = runs << RUN_BITS;
        let mut state = State::new(cluster_id, memory_start);
        let mut topics = db.prepare("SELECT Topic, Name, Id, Settings FROM topics")?;
        let rows = topics.query_map([], |row| {
            Ok((
                row.get::<_, i64>(0)?,
                row.get::<_, String>(1)?,
                row.get::<_, String>(2)?,
                row.get::<_, String>(3)?,
            ))
        })?;
        for row in rows {
            let (number, name, id, settings) = row?;
            let in_memory = (self.settings.in_memory)(&name);
            let mut topic = Topic {
                id: id.parse().unwrap_or_default(),
                in_memory,
                settings: serde_json::from_str(&settings).unwrap_or_default(),
                partitions: Vec::new(),
            };
            let mut partitions = db.prepare_cached(
                "SELECT Partition, Next FROM partitions WHERE Topic = ?1 ORDER BY Number",
            )?;
            let rows = partitions.query_map([number], |row| Ok((row.get(0)?, row.get(1)?)))?;
            for row in rows {
                let (id, next): (PartitionId, i64) = row?;
                let partition = match in_memory {
                    true => Partition::new(true, memory_start),
                    false => stored_partition(db, id, next)?,
                };
                topic.partitions.push(id);
                state.partitions.insert(id, partition);
            }
            state.add_topic(name, topic);
        }
        load_offsets(db, &mut state)?;
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

/// A partition of a table as the file has it. `next`: the offset behind its last record if that was deleted.
fn stored_partition(db: &Connection, id: PartitionId, next: i64) -> rusqlite::Result<Partition> {
    let range = (place(id, 0), place(id + 1, 0));
    let first: Option<(i64, i64)> = db
        .prepare_cached(
            "SELECT Place, Total FROM records WHERE Place >= ?1 AND Place < ?2
            ORDER BY Place LIMIT 1",
        )?
        .query_row(range, |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let last = db
        .prepare_cached(
            "SELECT Place, Latest, Total FROM records WHERE Place >= ?1 AND Place < ?2
            ORDER BY Place DESC LIMIT 1",
        )?
        .query_row(range, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let (end, latest, total) = last.map_or((next, 0, 0), |(place, latest, total)| {
        (offset_of(place) + 1, latest, total)
    });
    let start = first.map_or(end, |(place, _)| offset_of(place));
    let mut partition = Partition::new(false, start);
    // Without the first record, whose size is not known here.
    partition.deleted = first.map_or(total, |(_, total)| total);
    (partition.end, partition.latest, partition.total) = (end, latest, total);
    Ok(partition)
}

/// Reads the offsets of all groups. In memory a new run of the process begins, behind all that a group has read.
fn load_offsets(db: &Connection, state: &mut State) -> rusqlite::Result<()> {
    let mut offsets = db
        .prepare("SELECT GroupName, Partition, Offset, LeaderEpoch, Metadata FROM group_offsets")?;
    let rows = offsets.query_map([], |row| {
        let committed = Committed {
            offset: row.get(2)?,
            leader_epoch: row.get(3)?,
            metadata: row.get(4)?,
        };
        Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?, committed))
    })?;
    for row in rows {
        let (group, id, mut committed) = row?;
        let Some(partition) = state.partitions.get(&id) else {
            continue;
        };
        if partition.in_memory {
            committed.offset = partition.start;
        }
        state
            .offsets
            .entry(group)
            .or_default()
            .insert(id, committed);
    }
    Ok(())
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

/// Text where the bytes are text, so that any client of SQLite can read it.
fn text_or_bytes(bytes: Option<&[u8]>) -> rusqlite::types::ToSqlOutput<'_> {
    use rusqlite::types::{ToSqlOutput, ValueRef};
    let Some(bytes) = bytes else {
        return ToSqlOutput::Borrowed(ValueRef::Null);
    };
    ToSqlOutput::Borrowed(match std::str::from_utf8(bytes) {
        Ok(_) => ValueRef::Text(bytes),
        Err(_) => ValueRef::Blob(bytes),
    })
}

/// Headers as a JSON array of pairs. A value that is no text is an array of its bytes.
fn headers_as_json(record: &StoredRecord) -> Option<String> {
    let pair = |(name, value): (&str, Option<&[u8]>)| {
        let value = value.map(|bytes| match std::str::from_utf8(bytes) {
            Ok(text) => Json::from(text),
            Err(_) => Json::from(bytes),
        });
        Json::from(vec![Json::from(name), Json::from(value)])
    };
    let pairs: Vec<Json> = record.headers().map(pair).collect();
    (!pairs.is_empty()).then(|| Json::from(pairs).to_string())
}

/// The reverse of [`headers_as_json`]; `None` if the text is damaged.
pub(crate) fn headers_from_json(text: &str) -> Option<Headers> {
    let pairs: Vec<(String, Json)> = serde_json::from_str(text).ok()?;
    let value = |value| match value {
        Json::Null => Some(None),
        Json::String(text) => Some(Some(text.into_bytes())),
        bytes => serde_json::from_value(bytes).ok().map(Some),
    };
    let pair = |(name, json)| Some((name, value(json)?));
    pairs.into_iter().map(pair).collect()
}

/// A unique id; not secret.
#[must_use]
pub fn fresh_id() -> Uuid {
    use std::hash::{BuildHasher, RandomState};
    // The standard library seeds each `RandomState` from the system's random source.
    let half = |n: u64| RandomState::new().hash_one(n);
    uuid::Builder::from_u128((u128::from(half(1)) << 64) | u128::from(half(2)))
        .with_variant(uuid::Variant::RFC4122)
        .with_version(uuid::Version::Random)
        .into_uuid()
}
