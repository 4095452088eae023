//! The catalogue as a file has it, when the file is opened.

use rusqlite::{Connection, OptionalExtension};
use uuid::Uuid;

use super::TopicSettings;
use super::rows::{damaged, offset_of, place, record_of};
use super::state::{Committed, Partition, PartitionId, State, Topic};

/// Bits of an offset in memory that count within one run of the process; those above count the runs.
const RUN_BITS: u32 = 40;

/// Reads the catalogue, and counts a run of the process.
pub(crate) fn read(db: &Connection, settings: &TopicSettings) -> rusqlite::Result<State> {
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
        let (number, name, id, set) = row?;
        let in_memory = (settings.in_memory)(&name);
        let mut topic = Topic {
            id: id.parse().map_err(|_| damaged("the id of a topic"))?,
            in_memory,
            settings: serde_json::from_str(&set).map_err(|_| damaged("the settings of a topic"))?,
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
            if in_memory {
                take_over(db, &mut state, id, settings.memory_bytes)?;
            }
        }
        state.add_topic(name, topic);
    }
    read_offsets(db, &mut state)?;
    Ok(state)
}

/// Moves the records of a partition from the file to memory: a process that keeps this topic in its table has left them,
/// such as an import.
fn take_over(
    db: &Connection,
    state: &mut State,
    id: PartitionId,
    most: usize,
) -> rusqlite::Result<()> {
    let range = (place(id, 0), place(id + 1, 0));
    let mut rows = db.prepare_cached(
        "SELECT Place, Time, Key, Value, Headers FROM records WHERE Place >= ?1 AND Place < ?2
        ORDER BY Place",
    )?;
    let mut rows = rows.query(range)?;
    while let Some(row) = rows.next()? {
        let (_, record) = record_of(row)?;
        // Cannot fail: the partition was just added, and no producer's order is checked.
        let _ = state.append_in_memory(id, vec![record], None, most);
    }
    db.prepare_cached("DELETE FROM records WHERE Place >= ?1 AND Place < ?2")?
        .execute(range)?;
    Ok(())
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
fn read_offsets(db: &Connection, state: &mut State) -> rusqlite::Result<()> {
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
