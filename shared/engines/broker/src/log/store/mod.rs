//! All durable state: topics, logs, committed offsets, producer ids.
//!
//! The server's thread owns the store. A change is applied in memory and submitted to the write-ahead log in the same
//! call, and the call returns the position that must be durable before the change may be acknowledged;
//! [`Store::advance`] reports the durable logs.
//!
//! Bounds: unwritten tails 128 KiB a log and 8 MiB in total; two generations of write-ahead log of `checkpoint_bytes`
//! plus the bytes of one flush round, and one such file to spare; disk by `max_total_bytes`.

mod changes;
mod checkpoint;
mod recovery;
mod retention;

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kafka_protocol::error::ResponseError;

use self::checkpoint::{Durable, finish_checkpoint};
use super::batch::BatchHeader;
use super::flusher::{Flush, Flusher, Lsn, Progress};
use super::meta::{LogId, Snapshot};
use super::partition::PartitionLog;
use super::producers::Verdict;
use super::topics::{Topic, Topics, fresh_uuid};
use super::{Fault, wal};
use crate::config::BrokerConfig;
use crate::error::Error;
use crate::offsets::Offsets;

const MAX_TAIL_BYTES: usize = 128 << 10;
const MAX_ALL_TAILS: usize = 8 << 20;
/// Beyond this much unsynced log, connections stop reading.
const MAX_BACKLOG: u64 = 32 << 20;

/// The durable state; see the module.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) topics: Topics,
    pub(crate) offsets: Offsets,
    pub(crate) cluster_id: String,
    logs: HashMap<LogId, PartitionLog>,
    next_log: u32,
    next_producer_id: i64,
    durable: Option<Durable>,
    fault: Arc<Fault>,
    root: Option<PathBuf>,
    /// Files written since the last checkpoint, to be synced by the next one. Keyed by address, so each is there
    /// once.
    dirty: HashMap<usize, Arc<File>>,
    /// Unneeded files, and the position after which they may be deleted.
    doomed: Vec<(Lsn, Doomed)>,
    /// How far [`Store::advance`] has come. Acknowledgements follow this and not the flusher's position, so that no
    /// record is acknowledged before a fetch can see it.
    acknowledged: Lsn,
    /// Appended, not yet durable: position, log, and the log's end with it.
    pending: VecDeque<(Lsn, LogId, i64)>,
    tail_bytes: usize,
    total_bytes: u64,
    segment_bytes: u64,
    checkpoint_bytes: u64,
    retention_bytes: Option<u64>,
    retention: Option<Duration>,
    own_groups: Option<String>,
    max_total_bytes: u64,
    max_partitions: usize,
    max_batch_bytes: usize,
}

/// When an appended batch may be read and is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AppendVisibility {
    /// Once the batch is durable.
    First,
    /// The batch is acknowledged at once, because its sender can restore it. It is readable at once, too, unless an
    /// earlier batch of its partition is not durable yet.
    Soon,
}

/// An accepted batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Accepted {
    pub(crate) base_offset: i64,
    pub(crate) log_start: i64,
    /// Acknowledge when this position is durable; 0: at once.
    pub(crate) lsn: Lsn,
}

impl Store {
    /// Opens the configured directory, or an empty store in memory.
    pub(crate) fn open(config: &BrokerConfig, progress: Progress) -> Result<Self, Error> {
        let mut store = Self {
            topics: Topics::default(),
            offsets: Offsets::default(),
            cluster_id: fresh_uuid().simple().to_string(),
            logs: HashMap::new(),
            next_log: 0,
            next_producer_id: 0,
            durable: None,
            fault: Arc::default(),
            root: config.data.clone(),
            dirty: HashMap::new(),
            doomed: Vec::new(),
            acknowledged: 0,
            pending: VecDeque::new(),
            tail_bytes: 0,
            total_bytes: 0,
            segment_bytes: config.segment_bytes,
            checkpoint_bytes: config.checkpoint_bytes,
            retention_bytes: config.retention_bytes,
            retention: config.retention,
            own_groups: config.own_groups.clone(),
            max_total_bytes: config.max_total_bytes,
            max_partitions: config.max_partitions,
            max_batch_bytes: config.max_batch_bytes,
        };
        let Some(dir) = &config.data else {
            return Ok(store);
        };
        let lock = recovery::lock(dir)?;
        let generation = recovery::recover(dir, &mut store)? + 1;
        let wal = wal::Writer::next(dir)?;
        wal::rename(&[wal::next_path(dir), wal::path_of(dir, generation)])?;
        store.write_tails()?;
        let dirty = std::mem::take(&mut store.dirty);
        // From here on the next start needs only the new, empty write-ahead log.
        finish_checkpoint(
            dir,
            &store.snapshot(generation).encode()?,
            generation,
            dirty.values(),
        )?;
        store.durable = Some(Durable {
            dir: dir.clone(),
            _lock: lock,
            flusher: Flusher::start(wal, config.flush, progress, Arc::clone(&store.fault))?,
            generation,
            generation_bytes: 0,
            checkpoint: None,
        });
        store.total_bytes = store.logs.values().map(PartitionLog::bytes).sum();
        Ok(store)
    }

    /// Appends a validated batch, unless it is a duplicate or out of order.
    pub(crate) fn append(
        &mut self,
        id: LogId,
        header: &BatchHeader,
        bytes: &[u8],
        segment_bytes: Option<u64>,
        kept: AppendVisibility,
    ) -> Result<Accepted, ResponseError> {
        if self.failed() || self.total_bytes + bytes.len() as u64 > self.max_total_bytes {
            return Err(ResponseError::KafkaStorageError);
        }
        let log = self
            .logs
            .get_mut(&id)
            .ok_or(ResponseError::UnknownTopicOrPartition)?;
        if header.is_idempotent()
            && let Verdict::Duplicate(base_offset) = log.producers.judge(header)?
        {
            // The first copy may not be durable yet, so the answer waits until everything so far is.
            let log_start = log.start;
            return Ok(Accepted {
                base_offset,
                log_start,
                lsn: self.end(),
            });
        }
        let before = log.tail_bytes();
        let segment_bytes = segment_bytes.unwrap_or(self.segment_bytes).min(1 << 30);
        let appended = log
            .append(header, bytes, segment_bytes)
            .map_err(storage_error(&self.fault))?;
        let rolled = appended.rolled;
        mark_dirty(&mut self.dirty, appended.sealed);
        self.total_bytes += bytes.len() as u64;
        let lsn = match &mut self.durable {
            None => {
                log.high_watermark = log.next;
                0
            }
            Some(durable) => {
                let generation = durable.generation;
                let stored = log.tail_from(appended.at);
                let when = match kept {
                    AppendVisibility::First => Flush::Now,
                    AppendVisibility::Soon => Flush::Soon,
                };
                let lsn = durable.submit(when, |out| {
                    wal::put_batch(out, generation, id, stored);
                    Ok::<(), Error>(())
                });
                let lsn = lsn.map_err(|_| ResponseError::KafkaStorageError)?;
                match kept {
                    AppendVisibility::First => {
                        self.pending.push_back((lsn, id, log.next));
                        lsn
                    }
                    AppendVisibility::Soon if log.high_watermark == appended.base_offset => {
                        log.high_watermark = log.next;
                        0
                    }
                    AppendVisibility::Soon => {
                        self.pending.push_back((lsn, id, log.next));
                        0
                    }
                }
            }
        };
        if log.tail_bytes() >= MAX_TAIL_BYTES {
            mark_dirty(
                &mut self.dirty,
                log.write_tail().map_err(storage_error(&self.fault))?,
            );
        }
        self.tail_bytes = (self.tail_bytes + log.tail_bytes()).saturating_sub(before);
        let accepted = Accepted {
            base_offset: appended.base_offset,
            log_start: log.start,
            lsn,
        };
        if rolled {
            self.retain(id).map_err(storage_error(&self.fault))?;
        }
        if self.tail_bytes > MAX_ALL_TAILS {
            self.write_tails().map_err(storage_error(&self.fault))?;
        }
        self.checkpoint_if_due();
        Ok(accepted)
    }

    pub(crate) fn log(&mut self, id: LogId) -> Option<&mut PartitionLog> {
        self.logs.get_mut(&id)
    }

    pub(crate) fn log_of(&mut self, topic: &str, partition: i32) -> Option<&mut PartitionLog> {
        let id = self.topics.log(topic, partition)?;
        self.logs.get_mut(&id)
    }

    /// Largest batch that a topic takes, in bytes.
    pub(crate) fn max_batch_bytes(&self, topic: &Topic) -> usize {
        let own = topic
            .number("max.message.bytes")
            .and_then(|n| usize::try_from(n).ok());
        own.unwrap_or(self.max_batch_bytes)
    }

    /// Appends a batch from the write-ahead log, at its own offset.
    pub(super) fn replay_batch(
        &mut self,
        id: LogId,
        header: &BatchHeader,
        bytes: &[u8],
    ) -> io::Result<()> {
        let Some(log) = self.logs.get_mut(&id) else {
            return Ok(());
        };
        let appended = log.append(header, bytes, self.segment_bytes)?;
        mark_dirty(&mut self.dirty, appended.sealed);
        if log.tail_bytes() >= MAX_TAIL_BYTES {
            mark_dirty(&mut self.dirty, log.write_tail()?);
        }
        Ok(())
    }

    /// Installs a recovered log.
    pub(super) fn restore_log(&mut self, id: LogId, log: PartitionLog) {
        self.next_log = self.next_log.max(id.0 + 1);
        self.logs.insert(id, log);
    }

    pub(super) fn restore_counters(&mut self, snapshot: &Snapshot) {
        self.cluster_id.clone_from(&snapshot.cluster_id);
        self.next_log = snapshot.next_log;
        self.next_producer_id = snapshot.next_producer_id;
    }

    pub(super) fn logs_mut(&mut self) -> impl Iterator<Item = (&LogId, &mut PartitionLog)> {
        self.logs.iter_mut()
    }

    fn end(&self) -> Lsn {
        self.durable.as_ref().map_or(0, |d| d.flusher.submitted())
    }

    /// Syncs everything appended so far without gathering more; returns its end.
    pub(crate) fn flush_now(&self) -> Lsn {
        self.durable.as_ref().map_or(0, |d| d.flusher.hurry())
    }

    /// The position up to which everything may be acknowledged.
    pub(crate) fn durable_to(&self) -> Lsn {
        if self.durable.is_some() {
            self.acknowledged
        } else {
            Lsn::MAX
        }
    }

    /// Whether the disk has failed, so that nothing may be acknowledged any more.
    pub(crate) fn failed(&self) -> bool {
        self.fault.is_set()
    }

    /// The fault of the disk, for its reason.
    pub(crate) fn fault(&self) -> Arc<Fault> {
        Arc::clone(&self.fault)
    }

    /// Whether requests that write should wait, because the disk is behind.
    pub(crate) fn is_behind(&self) -> bool {
        self.durable
            .as_ref()
            .is_some_and(|d| d.flusher.backlog() > MAX_BACKLOG)
    }

    /// Raises high watermarks to the durable position; returns the logs with something new to read.
    pub(crate) fn advance(&mut self) -> Vec<LogId> {
        let durable = self.durable.as_ref().map_or(0, |d| d.flusher.durable());
        self.acknowledged = durable;
        for (_, doomed) in self.doomed.extract_if(.., |(lsn, _)| *lsn <= durable) {
            doomed.remove();
        }
        let mut advanced = Vec::new();
        while let Some(&(lsn, id, end)) = self.pending.front()
            && lsn <= durable
        {
            self.pending.pop_front();
            if let Some(log) = self.logs.get_mut(&id) {
                log.high_watermark = log.high_watermark.max(end);
                if advanced.last() != Some(&id) {
                    advanced.push(id);
                }
            }
        }
        advanced
    }

    fn write_tails(&mut self) -> io::Result<()> {
        for log in self.logs.values_mut() {
            mark_dirty(&mut self.dirty, log.write_tail()?);
        }
        self.tail_bytes = 0;
        Ok(())
    }
}

/// Unneeded directories and files.
#[derive(Debug)]
enum Doomed {
    /// The directory of a deleted topic's log.
    Log(PathBuf),
    /// A segment before the start of its log.
    Segment(PathBuf),
}

impl Doomed {
    fn remove(&self) {
        let (path, removed) = match self {
            Self::Log(dir) => (dir, std::fs::remove_dir_all(dir)),
            Self::Segment(file) => (file, std::fs::remove_file(file)),
        };
        match removed {
            // A log without records on disk has no directory.
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, path = %path.display(), "files of deleted records remain");
            }
            Ok(()) | Err(_) => {}
        }
    }
}

fn mark_dirty(dirty: &mut HashMap<usize, Arc<File>>, file: Option<Arc<File>>) {
    if let Some(file) = file {
        dirty.insert(Arc::as_ptr(&file).addr(), file);
    }
}

/// The directory of one log; the id makes it unique for ever, the rest is for people.
pub(super) fn log_dir(root: &Path, topic: &str, partition: usize, id: LogId) -> PathBuf {
    root.join("logs")
        .join(format!("{topic}-{partition}@{}", id.0))
}

/// The id in a log directory's name.
pub(super) fn log_id_of(dir: &Path) -> Option<LogId> {
    dir.file_name()?
        .to_str()?
        .rsplit_once('@')?
        .1
        .parse()
        .ok()
        .map(LogId)
}

/// Error for a client whose change met a disk that cannot be written. The change is in memory and perhaps in the log,
/// and cannot be taken back; the broker accepts no further write.
fn storage_error(fault: &Fault) -> impl FnOnce(io::Error) -> ResponseError {
    |error| {
        fault.set(error);
        ResponseError::KafkaStorageError
    }
}
