//! Durable state besides batches: topics, committed offsets, ids. A change is a record in the write-ahead log; a
//! snapshot has the result of all changes up to a checkpoint.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::producers::Producer;
use crate::error::Error;
use crate::offsets::Committed;

/// Identifies a partition's log; never reused, so that records of a deleted topic in the write-ahead log cannot end
/// up in a new topic of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct LogId(pub(crate) u32);

/// One durable change that is not a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum MetaRecord {
    TopicCreated {
        name: String,
        id: Uuid,
        configs: BTreeMap<String, String>,
        logs: Vec<LogId>,
    },
    PartitionsAdded {
        name: String,
        logs: Vec<LogId>,
    },
    TopicDeleted {
        name: String,
    },
    Committed {
        group: String,
        offsets: Vec<Committed>,
    },
    OffsetsRemoved {
        group: String,
        partitions: Vec<(String, i32)>,
    },
    GroupDeleted {
        group: String,
    },
    /// Ids below this one were given out.
    ProducerIds {
        next: i64,
    },
    /// Retention moved a log's start.
    Started {
        log: LogId,
        start: i64,
    },
}

/// A topic in the snapshot.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TopicSnapshot {
    pub(crate) name: String,
    pub(crate) id: Uuid,
    pub(crate) configs: BTreeMap<String, String>,
    pub(crate) partitions: Vec<LogSnapshot>,
}

/// A log at the checkpoint: all of it below these marks was synced to its segment files.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LogSnapshot {
    pub(crate) log: LogId,
    pub(crate) start: i64,
    pub(crate) next: i64,
    pub(crate) active_base: i64,
    pub(crate) active_bytes: u64,
    pub(crate) producers: Vec<Producer>,
}

/// All state except the batches.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    /// Version of this layout.
    pub(crate) version: u32,
    pub(crate) cluster_id: String,
    /// Write-ahead logs of this generation and later ones come after the snapshot.
    pub(crate) generation: u64,
    pub(crate) next_log: u32,
    pub(crate) next_producer_id: i64,
    pub(crate) topics: Vec<TopicSnapshot>,
    pub(crate) offsets: Vec<(String, Vec<Committed>)>,
}

/// The layout that this build writes and reads.
pub(crate) const LAYOUT: u32 = 1;
const FILE: &str = "snapshot";

impl Snapshot {
    /// Encodes a checksum line, then JSON.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, Error> {
        let json = serde_json::to_vec(self).map_err(|e| Error::Storage(e.into()))?;
        let mut out = format!("{:08x}\n", crc32c::crc32c(&json)).into_bytes();
        out.extend_from_slice(&json);
        Ok(out)
    }

    /// Replaces the snapshot in `dir` atomically and durably.
    pub(crate) fn write(dir: &Path, encoded: &[u8]) -> io::Result<()> {
        let temporary = dir.join("snapshot.new");
        let mut file = File::create(&temporary)?;
        file.write_all(encoded)?;
        file.sync_all()?;
        fs::rename(&temporary, dir.join(FILE))?;
        sync_dir(dir)
    }

    /// The snapshot in `dir`; `None` in a new directory.
    ///
    /// A damaged snapshot is an error, not an empty broker: it is replaced atomically, so damage means that the disk
    /// lost data, and starting empty would lose the rest.
    pub(crate) fn read(dir: &Path) -> Result<Option<Self>, Error> {
        let path = dir.join(FILE);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::Storage(e)),
        };
        let damaged = || Error::Damaged { path: path.clone() };
        let (line, json) = bytes.split_at_checked(9).ok_or_else(damaged)?;
        if line != format!("{:08x}\n", crc32c::crc32c(json)).as_bytes() {
            return Err(damaged());
        }
        let snapshot: Self = serde_json::from_slice(json).map_err(|_| damaged())?;
        if snapshot.version == LAYOUT {
            Ok(Some(snapshot))
        } else {
            Err(damaged())
        }
    }
}

/// Makes creations, renames and removals in a directory durable.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}
