//! Reading partitions: from memory if the records are there, else from the file.

use std::sync::Arc;

use rusqlite::Connection;
use tokio::sync::Notify;

use super::{Marks, StoredRecord, TopicError, Topics};
use crate::catalogue::{Look, PartitionId, place, record_of};

/// Where to read a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Number of the partition, from 0.
    pub partition: i32,
    /// Offset of the first wanted record.
    pub offset: i64,
    /// Most bytes of this partition.
    pub max_bytes: usize,
}

/// What was found in a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// Records with rising offsets; empty at the end of the partition.
    Records(Vec<Arc<StoredRecord>>),
    /// The offset is before the start or behind the end.
    OutOfRange,
    /// There is no such topic or partition.
    NoPartition,
}

/// Result of reading one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionRead {
    /// Number of the partition, from 0.
    pub partition: i32,
    /// The partition's offsets; both -1 if there is no such partition.
    pub marks: Marks,
    /// What was found.
    pub found: Found,
}

/// A part of a read that only the file can answer.
#[derive(Debug, Clone, Copy)]
struct FileRead {
    /// Number of the result that it is for.
    slot: usize,
    id: PartitionId,
    offset: i64,
    end: i64,
    max_bytes: usize,
}

impl Topics {
    /// Reads a topic from these positions, without waiting for records: at most `max_bytes` in all, but with
    /// `at_least_one` the first record however large it is. `watcher` is woken once when there is more to read.
    ///
    /// # Errors
    /// [`TopicError::Store`] if the file cannot be read.
    pub async fn read(
        &self,
        topic: &str,
        positions: &[Position],
        max_bytes: usize,
        at_least_one: bool,
        watcher: Option<&Arc<Notify>>,
    ) -> Result<Vec<PartitionRead>, TopicError> {
        let (mut reads, in_file) = self.look(topic, positions, max_bytes, at_least_one, watcher);
        if in_file.is_empty() {
            return Ok(reads);
        }
        let wanted = in_file.clone();
        let is_first = at_least_one && has_none(&reads);
        let rows = self.0.engine.read(move |db| {
            let mut left = max_bytes;
            let mut is_first = is_first;
            let one = |part: &FileRead| {
                let most = part.max_bytes.min(left);
                let found = rows(db, part, most, is_first)?;
                let bytes: usize = found.iter().map(|r| r.bytes()).sum();
                left = left.saturating_sub(bytes);
                is_first &= found.is_empty();
                Ok(found)
            };
            wanted.iter().map(one).collect::<rusqlite::Result<Vec<_>>>()
        });
        for (part, found) in in_file.into_iter().zip(rows.await?) {
            reads[part.slot].found = Found::Records(found);
        }
        Ok(reads)
    }

    /// As [`read`](Self::read), of what is in memory; `None` if a part of it is only in the file.
    #[must_use]
    pub fn read_at_hand(
        &self,
        topic: &str,
        positions: &[Position],
        max_bytes: usize,
    ) -> Option<Vec<PartitionRead>> {
        let (reads, in_file) = self.look(topic, positions, max_bytes, true, None);
        in_file.is_empty().then_some(reads)
    }

    fn look(
        &self,
        topic: &str,
        positions: &[Position],
        max_bytes: usize,
        at_least_one: bool,
        watcher: Option<&Arc<Notify>>,
    ) -> (Vec<PartitionRead>, Vec<FileRead>) {
        let mut state = self.state();
        let mut left = max_bytes;
        let (mut reads, mut in_file) = (Vec::with_capacity(positions.len()), Vec::new());
        for at in positions {
            let id = state.partition_id(topic, at.partition);
            let known = id.and_then(|id| Some((id, state.partitions.get(&id)?)));
            let Some((id, partition)) = known else {
                reads.push(PartitionRead {
                    partition: at.partition,
                    marks: Marks { start: -1, end: -1 },
                    found: Found::NoPartition,
                });
                continue;
            };
            let most = at.max_bytes.min(left);
            let found = match partition.look(at.offset, most) {
                Look::Records(records) => {
                    let bytes: usize = records.iter().map(|r| r.bytes()).sum();
                    // Only the first record of all may be larger than what is left.
                    match bytes > most && !(at_least_one && has_none(&reads)) {
                        true => Found::Records(Vec::new()),
                        false => {
                            left = left.saturating_sub(bytes);
                            Found::Records(records)
                        }
                    }
                }
                Look::OutOfRange => Found::OutOfRange,
                Look::InFile => {
                    in_file.push(FileRead {
                        slot: reads.len(),
                        id,
                        offset: at.offset,
                        end: partition.end,
                        max_bytes: at.max_bytes,
                    });
                    Found::Records(Vec::new())
                }
            };
            reads.push(PartitionRead {
                partition: at.partition,
                marks: Marks {
                    start: partition.start,
                    end: partition.end,
                },
                found,
            });
        }
        if let Some(watcher) = watcher {
            for at in positions {
                if let Some(partition) = state.partition_mut(topic, at.partition) {
                    partition.watch(watcher);
                }
            }
        }
        (reads, in_file)
    }

    /// The first record that is not older than `time`, as offset and time; `None` if there is none.
    ///
    /// # Errors
    /// [`TopicError::NoTopic`], or [`TopicError::Store`] if the file cannot be read.
    pub async fn first_since(
        &self,
        topic: &str,
        partition: i32,
        time: i64,
    ) -> Result<Option<(i64, i64)>, TopicError> {
        let (id, start, end) = {
            let state = self.state();
            let id = state.partition_id(topic, partition);
            let id = id.ok_or(TopicError::NoTopic)?;
            let partition = state.partitions.get(&id).ok_or(TopicError::NoTopic)?;
            if partition.in_memory {
                let found = partition.first_since(time);
                return Ok(found.map(|r| (r.offset, r.timestamp_ms)));
            }
            (id, partition.start, partition.end)
        };
        let found = self.0.engine.read(move |db| {
            // The greatest time so far rises with the offset, and the first record with a great one has that time.
            let latest = |offset: i64| -> rusqlite::Result<i64> {
                db.prepare_cached("SELECT Latest FROM records WHERE Place = ?1")?
                    .query_row([place(id, offset)], |row| row.get(0))
            };
            let (mut low, mut high) = (start, end);
            while low < high {
                let middle = low + (high - low) / 2;
                if latest(middle)? >= time {
                    high = middle;
                } else {
                    low = middle + 1;
                }
            }
            match low < end {
                true => Ok(Some((low, latest(low)?))),
                false => Ok(None),
            }
        });
        Ok(found.await?)
    }
}

/// Whether no record was found yet.
fn has_none(reads: &[PartitionRead]) -> bool {
    reads.iter().all(|read| match &read.found {
        Found::Records(records) => records.is_empty(),
        Found::OutOfRange | Found::NoPartition => false,
    })
}

/// Records of one partition; the first one is read even if it is larger than `most`, if `at_least_one`.
fn rows(
    db: &Connection,
    part: &FileRead,
    most: usize,
    at_least_one: bool,
) -> rusqlite::Result<Vec<Arc<StoredRecord>>> {
    let mut read = db.prepare_cached(
        "SELECT Place, Time, Key, Value, Headers FROM records
        WHERE Place >= ?1 AND Place < ?2 ORDER BY Place",
    )?;
    let mut rows = read.query((place(part.id, part.offset), place(part.id, part.end)))?;
    let (mut found, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let (offset, record) = record_of(row)?;
        let record = record.at(offset);
        bytes += record.bytes();
        let is_allowed = bytes <= most || (found.is_empty() && at_least_one);
        if !is_allowed {
            break;
        }
        found.push(Arc::new(record));
    }
    Ok(found)
}
