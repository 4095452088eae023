//! Checkpoints, after which the write-ahead log is not needed any more; made while the broker runs, and when it
//! stops.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use super::Store;
use crate::error::Error;
use crate::log::flusher::{Flush, Flusher, Lsn, NextFile};
use crate::log::meta::{self, LAYOUT, LogId, LogSnapshot, Snapshot, TopicSnapshot};
use crate::log::topics::Topic;
use crate::log::wal;

/// The parts that make the store durable.
#[derive(Debug)]
pub(super) struct Durable {
    pub(super) dir: PathBuf,
    /// Kept for its lock.
    pub(super) _lock: File,
    pub(super) flusher: Flusher,
    pub(super) generation: u64,
    pub(super) generation_bytes: u64,
    pub(super) checkpoint: Option<JoinHandle<()>>,
}

impl Store {
    pub(super) fn snapshot(&self, generation: u64) -> Snapshot {
        let log = |id: &LogId| {
            let log = self.logs.get(id)?;
            let (active_base, active_bytes) = log.active();
            Some(LogSnapshot {
                log: *id,
                start: log.start,
                next: log.next,
                active_base,
                active_bytes,
                producers: log.producers.export(),
            })
        };
        let topic = |(name, topic): (&String, &Topic)| TopicSnapshot {
            name: name.clone(),
            id: topic.id,
            configs: topic.configs.clone(),
            partitions: topic.logs.iter().filter_map(log).collect(),
        };
        Snapshot {
            version: LAYOUT,
            cluster_id: self.cluster_id.clone(),
            generation,
            next_log: self.next_log,
            next_producer_id: self.next_producer_id,
            topics: self.topics.iter().map(topic).collect(),
            offsets: self.offsets.export(),
        }
    }

    pub(super) fn checkpoint_if_due(&mut self) {
        let due = self.durable.as_ref().is_some_and(|d| {
            d.generation_bytes >= self.checkpoint_bytes
                && d.checkpoint.as_ref().is_none_or(JoinHandle::is_finished)
        });
        if due && let Err(error) = self.checkpoint() {
            self.fault.set(error);
        }
    }

    /// Starts a new write-ahead log, and makes the old one unnecessary in the background.
    fn checkpoint(&mut self) -> Result<(), Error> {
        self.write_tails()?;
        let Some(durable) = &mut self.durable else {
            return Ok(());
        };
        if durable.flusher.is_rotating() {
            return Ok(());
        }
        let generation = durable.generation + 1;
        durable.flusher.rotate(NextFile {
            wal: wal::Writer::next(&durable.dir)?,
            names: [
                wal::next_path(&durable.dir),
                wal::path_of(&durable.dir, generation),
            ],
        });
        durable.generation = generation;
        durable.generation_bytes = 0;
        let dirty = std::mem::take(&mut self.dirty);
        let dir = durable.dir.clone();
        let fault = Arc::clone(&self.fault);
        let encoded = self.snapshot(generation).encode()?;
        // On a thread of its own, because syncing many files must delay neither the flusher nor the server. It runs
        // once for each checkpoint.
        let work = move || {
            if let Err(error) = finish_checkpoint(&dir, &encoded, generation, dirty.values()) {
                fault.set(error);
            }
        };
        let thread = std::thread::Builder::new()
            .name("broker-checkpoint".into())
            .spawn(work)?;
        if let Some(durable) = &mut self.durable {
            durable.checkpoint = Some(thread);
        }
        Ok(())
    }

    /// Makes everything durable and leaves a snapshot, so that the next start has nothing to replay.
    pub(crate) fn close(mut self) -> Result<(), Error> {
        self.write_tails()?;
        let Some(mut durable) = self.durable.take() else {
            return Ok(());
        };
        durable.flusher.stop();
        if let Some(thread) = durable.checkpoint.take() {
            thread.join().map_err(|_| Error::Thread)?;
        }
        if let Some(why) = self.fault.why() {
            return Err(Error::Failed(why));
        }
        let generation = durable.generation + 1;
        let encoded = self.snapshot(generation).encode()?;
        finish_checkpoint(&durable.dir, &encoded, generation, self.dirty.values())
    }
}

impl Durable {
    pub(super) fn submit<E>(
        &mut self,
        when: Flush,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Lsn, E> {
        let before = self.flusher.submitted();
        let lsn = self.flusher.submit(when, encode)?;
        self.generation_bytes += lsn - before;
        Ok(lsn)
    }
}

impl Drop for Durable {
    /// The next opener of the directory must not meet a running checkpoint of this process.
    fn drop(&mut self) {
        if let Some(thread) = self.checkpoint.take()
            && thread.join().is_err()
        {
            tracing::error!("the checkpoint thread panicked");
        }
    }
}

/// Syncs segment files first, then writes the snapshot that depends on them, then deletes what it makes unnecessary.
pub(super) fn finish_checkpoint<'a>(
    dir: &Path,
    encoded: &[u8],
    generation: u64,
    dirty: impl Iterator<Item = &'a Arc<File>>,
) -> Result<(), Error> {
    for file in dirty {
        file.sync_data()?;
    }
    let logs = dir.join("logs");
    for entry in fs::read_dir(&logs)? {
        match meta::sync_dir(&entry?.path()) {
            // The topic was deleted meanwhile.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            other => other?,
        }
    }
    meta::sync_dir(&logs)?;
    Snapshot::write(dir, encoded)?;
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if wal::generation_of(&path).is_some_and(|g| g < generation) {
            fs::rename(path, wal::spare_path(dir))?;
        }
    }
    Ok(())
}
