//! Recovery: from the files of a crashed process to the state that it had acknowledged.
//!
//! The snapshot says how far each segment file is valid. Later bytes come from tail flushes; the write-ahead log has
//! them too, so they are cut off and replayed from there. The last write-ahead log ends with its last intact record:
//! a torn record was never acknowledged, and behind it are bytes of an earlier file. Damage elsewhere means that the
//! disk lost acknowledged data: the intact data is served, the loss is logged as an error, and its offsets are not
//! given out again.

use std::collections::{HashSet, VecDeque};
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::{Store, log_dir, log_id_of};
use crate::error::Error;
use crate::log::batch::BatchHeader;
use crate::log::meta::{LogId, LogSnapshot, Snapshot};
use crate::log::partition::PartitionLog;
use crate::log::producers::Producers;
use crate::log::segment::{self, Segment};
use crate::log::topics::Topic;
use crate::log::wal::{self, Reader, Record};

/// An active segment up to this size is checked batch by batch at the start and appended to; a
/// larger one is sealed, so that starting stays quick however much data there is.
const REOPEN_BYTES: u64 = 1 << 20;

/// Creates the directory if needed and takes its lock.
pub(super) fn lock(dir: &Path) -> Result<File, Error> {
    let mut made = DirBuilder::new();
    made.recursive(true).mode(0o700);
    made.create(dir.join("logs"))?;
    let file = File::create(dir.join("lock"))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::Locked {
            path: dir.to_owned(),
        }),
        Err(TryLockError::Error(e)) => Err(Error::Storage(e)),
    }
}

/// Fills an empty store; returns the newest generation of write-ahead log that exists.
pub(super) fn recover(dir: &Path, store: &mut Store) -> Result<u64, Error> {
    let mut generation = 0;
    let mut missing = Vec::new();
    if let Some(snapshot) = Snapshot::read(dir)? {
        generation = snapshot.generation;
        missing = load(dir, store, snapshot)?;
    }
    let mut wals = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if let Some(g) = wal::generation_of(&path).filter(|&g| g >= generation) {
            wals.push((g, path));
        }
    }
    wals.sort();
    let newest = wals.len();
    for (i, (g, path)) in wals.into_iter().enumerate() {
        let bytes = fs::read(&path)?;
        let (behind, has_more) = replay(store, &bytes, g)?;
        if behind > 0 && i + 1 < newest {
            // The next file got its name only after this one was synced to its end.
            return Err(Error::Damaged { path });
        }
        if has_more {
            // A loss of power causes this, too, if a later part of a round was written before an earlier one.
            tracing::error!(
                path = %path.display(),
                behind,
                "the write-ahead log is damaged, with intact records behind: what was acknowledged may be lost"
            );
        }
        tracing::debug!(path = %path.display(), behind, "a write-ahead log was read to its last record");
        generation = generation.max(g);
    }
    for (id, path, end) in missing {
        // Records that have expired since the checkpoint do not count as lost.
        if store.log(id).is_some_and(|log| log.start < end) {
            told_of_loss(&path);
        }
    }
    for (_, log) in store.logs_mut() {
        log.high_watermark = log.next;
    }
    remove_orphans(dir, store)?;
    Ok(generation)
}

/// A log whose active segment at the checkpoint is missing: its directory, and where the segment ended.
type Missing = (LogId, PathBuf, i64);

fn load(dir: &Path, store: &mut Store, snapshot: Snapshot) -> Result<Vec<Missing>, Error> {
    store.restore_counters(&snapshot);
    let mut missing = Vec::new();
    for topic in snapshot.topics {
        let logs = topic.partitions.iter().map(|p| p.log).collect();
        for (i, saved) in topic.partitions.into_iter().enumerate() {
            let id = saved.log;
            let path = log_dir(dir, &topic.name, i, id);
            let end = saved.next;
            let (log, is_whole) = open_log(&path, saved)?;
            store.restore_log(id, log);
            missing.extend((!is_whole).then_some((id, path, end)));
        }
        store.topics.insert(
            topic.name,
            Topic {
                id: topic.id,
                configs: topic.configs,
                logs,
            },
        );
    }
    for (group, offsets) in snapshot.offsets {
        store.offsets.commit(&group, offsets);
    }
    Ok(missing)
}

fn told_of_loss(dir: &Path) {
    tracing::error!(dir = %dir.display(), "acknowledged records are missing from a segment file; serving what is intact");
}

/// Opens one partition's files as of the checkpoint; returns whether its active segment exists.
fn open_log(dir: &Path, saved: LogSnapshot) -> Result<(PartitionLog, bool), Error> {
    let mut found = Vec::new();
    if dir.is_dir() {
        for entry in fs::read_dir(dir)? {
            let path = entry?.path();
            if let Some(base) = segment::base_of(&path) {
                found.push((base, path));
            }
        }
    }
    found.sort();
    let mut segments = VecDeque::new();
    let mut lost = false;
    let mut had_active = saved.active_bytes == 0;
    for (base, path) in found {
        if base > saved.active_base {
            // Begun after the checkpoint; the write-ahead log has all its records.
            fs::remove_file(path)?;
            continue;
        }
        let length = fs::metadata(&path)?.len();
        if base < saved.active_base {
            segments.push_back(Segment::existing(path, base, length));
            continue;
        }
        had_active = true;
        let mut active = Segment::existing(path, base, length);
        let mut keep = saved.active_bytes;
        if keep <= REOPEN_BYTES || length < keep {
            active.written = length.min(keep);
            let intact = active.intact(keep)?;
            lost = intact < keep;
            keep = intact;
        }
        active.truncate(keep)?;
        segments.push_back(active);
    }
    let seal = segments.back().is_some_and(|s| s.written > REOPEN_BYTES) || !had_active;
    if seal && segments.back().is_none_or(|s| s.base < saved.next) {
        segments.push_back(Segment::create(Some(dir), saved.next));
    }
    if lost {
        told_of_loss(dir);
    }
    let mut log =
        PartitionLog::from_segments(Some(dir.to_owned()), segments, saved.start, saved.next);
    log.producers = Producers::import(saved.producers);
    Ok((log, had_active))
}

/// Applies one write-ahead log; returns the number of bytes behind the last record, and whether there are intact
/// records among them.
fn replay(store: &mut Store, bytes: &[u8], generation: u64) -> Result<(usize, bool), Error> {
    let mut reader = Reader::new(bytes, generation);
    while let Some(record) = reader.next() {
        match record {
            Record::Meta(record) => store.apply(record)?,
            Record::Batch(id, batch) => {
                let Some(header) = BatchHeader::parse(batch) else {
                    continue;
                };
                // The log was deleted by a later record of an earlier process.
                let Some(log) = store.log(id) else { continue };
                if header.base_offset < log.next {
                    continue;
                }
                if header.base_offset > log.next {
                    tracing::error!(
                        log = id.0,
                        from = log.next,
                        to = header.base_offset,
                        "offsets are missing from the write-ahead log"
                    );
                    log.skip_to(header.base_offset)?;
                }
                store.replay_batch(id, &header, batch)?;
            }
        }
    }
    Ok((reader.rest(), reader.has_more_behind()))
}

/// Directories of topics whose deletion was interrupted.
fn remove_orphans(dir: &Path, store: &mut Store) -> io::Result<()> {
    let live: HashSet<_> = store.logs_mut().map(|(id, _)| *id).collect();
    for entry in fs::read_dir(dir.join("logs"))? {
        let path = entry?.path();
        if log_id_of(&path).is_none_or(|id| !live.contains(&id)) {
            fs::remove_dir_all(path)?;
        }
    }
    Ok(())
}
