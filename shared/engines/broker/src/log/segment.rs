//! One append-only file of record batches, with a sparse index in memory.
//!
//! A segment is written in whole batches only, by [`super::partition::PartitionLog`]. Positions
//! are bytes from the start of the segment. Reading goes through the page cache with positioned
//! reads; a local file that was just written answers from memory, which is why the server's one
//! thread may read it directly.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::batch::{self, BatchHeader, HEADER_BYTES};

/// Bytes for each index entry. With 64 MiB segments an index has at most 8,192 entries (200 KiB), and a look-up walks
/// at most this far.
const INDEX_EVERY: u64 = 8 * 1024;
/// Bytes in one read while walking all batch headers of a file.
const WALK_CHUNK: usize = 64 * 1024;
/// Bytes in one read while looking for a batch: the distance of two index entries, and some more.
const FIND_CHUNK: usize = 10 * 1024;

/// Index entry: the batches from `position` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct IndexEntry {
    offset: i64,
    position: u64,
    /// Largest timestamp from here to the next entry.
    max_timestamp: i64,
}

/// A segment: its first offset, its length, and access to its bytes.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) base: i64,
    /// Bytes in the file. The active segment has more in its partition's tail.
    pub(crate) written: u64,
    /// When its first record was appended, by this machine's clock; without records, when it was created. For a file
    /// that existed at the start: when it was last written.
    pub(crate) born: SystemTime,
    /// `None` for a file without a name (memory mode), which is always open.
    path: Option<PathBuf>,
    file: Option<Arc<File>>,
    /// `None` until needed, if the file has batches already.
    index: Option<Vec<IndexEntry>>,
}

/// A batch found in a segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchPosition {
    pub(crate) position: u64,
    pub(crate) header: BatchHeader,
}

/// This machine's time, which determines the age of segments.
#[expect(
    clippy::disallowed_methods,
    reason = "a broker has no ports: it is an engine beside them, and files have this time, too"
)]
pub(crate) fn now() -> SystemTime {
    SystemTime::now()
}

/// The file name of the segment that starts at `base`.
fn file_name(base: i64) -> String {
    format!("{base:020}.log")
}

/// The first offset in a segment's file name.
pub(crate) fn base_of(path: &Path) -> Option<i64> {
    path.file_name()?
        .to_str()?
        .strip_suffix(".log")?
        .parse()
        .ok()
}

impl Segment {
    /// A new, empty segment. Without a directory its file has no name and vanishes with the process. The file is
    /// created at the first write.
    pub(crate) fn create(dir: Option<&Path>, base: i64) -> Self {
        let path = dir.map(|d| d.join(file_name(base)));
        Self {
            base,
            written: 0,
            born: now(),
            path,
            file: None,
            index: Some(Vec::new()),
        }
    }

    /// A segment on disk, whose first `written` bytes are valid.
    pub(crate) fn existing(path: PathBuf, base: i64, written: u64) -> Self {
        let modified = path.metadata().and_then(|file| file.modified());
        Self {
            base,
            written,
            born: modified.unwrap_or_else(|_| now()),
            path: Some(path),
            file: None,
            index: None,
        }
    }

    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    pub(crate) fn is_open(&self) -> bool {
        self.file.is_some()
    }

    /// Closes the file and drops the index, if they can be restored. Only for sealed segments.
    pub(crate) fn close(&mut self) {
        if self.path.is_some() {
            self.file = None;
            self.index = None;
        }
    }

    /// Appends whole batches to the file. The index has them already (see [`Segment::note`]).
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<Arc<File>> {
        let at = self.written;
        let file = self.file()?;
        file.write_all_at(bytes, at)?;
        self.written += bytes.len() as u64;
        Ok(file)
    }

    /// Enters a batch at `position` into the index.
    pub(crate) fn note(&mut self, header: &BatchHeader, position: u64) -> io::Result<()> {
        note(self.index()?, header, position);
        Ok(())
    }

    fn file(&mut self) -> io::Result<Arc<File>> {
        if let Some(file) = &self.file {
            return Ok(Arc::clone(file));
        }
        let file = match &self.path {
            Some(path) => {
                if let Some(dir) = path.parent() {
                    std::fs::create_dir_all(dir)?;
                }
                OpenOptions::new()
                    .read(true)
                    .write(true)
                    .create(true)
                    .truncate(false)
                    .open(path)?
            }
            None => tempfile::tempfile()?,
        };
        let file = Arc::new(file);
        self.file = Some(Arc::clone(&file));
        Ok(file)
    }

    fn index(&mut self) -> io::Result<&mut Vec<IndexEntry>> {
        if self.index.is_none() {
            let mut index = Vec::new();
            walk(
                &*self.file()?,
                0,
                self.written,
                WALK_CHUNK,
                |header, position, _| {
                    note(&mut index, header, position);
                    true
                },
            )?;
            self.index = Some(index);
        }
        Ok(self.index.get_or_insert_default())
    }

    /// Reads `buf.len()` bytes at `position`.
    pub(crate) fn read(&mut self, position: u64, buf: &mut [u8]) -> io::Result<()> {
        self.file()?.read_exact_at(buf, position)
    }

    /// Where to start walking for `offset`: at or before its batch.
    pub(crate) fn floor(&mut self, offset: i64) -> io::Result<u64> {
        let index = self.index()?;
        let after = index.partition_point(|e| e.offset <= offset);
        Ok(after.checked_sub(1).map_or(0, |i| index[i].position))
    }

    /// Where to start walking for the first batch that has a record at or after `timestamp`;
    /// `None` if the segment has none.
    pub(crate) fn floor_timestamp(&mut self, timestamp: i64) -> io::Result<Option<u64>> {
        let index = self.index()?;
        Ok(index
            .iter()
            .find(|e| e.max_timestamp >= timestamp)
            .map(|e| e.position))
    }

    /// The first batch in the file, from `position` on, that `wanted` accepts.
    pub(crate) fn find(
        &mut self,
        position: u64,
        wanted: impl Fn(&BatchHeader) -> bool,
    ) -> io::Result<Option<BatchPosition>> {
        let written = self.written;
        let mut found = None;
        walk(
            &*self.file()?,
            position,
            written,
            FIND_CHUNK,
            |header, position, _| {
                if wanted(header) {
                    found = Some(BatchPosition {
                        position,
                        header: *header,
                    });
                }
                found.is_none()
            },
        )?;
        Ok(found)
    }

    /// Length of the intact prefix: whole batches whose checksums hold and whose offsets rise.
    pub(crate) fn intact(&mut self, at_most: u64) -> io::Result<u64> {
        let mut good = 0;
        let mut next = self.base;
        let file = self.file()?;
        let at_most = at_most.min(file.metadata()?.len());
        walk(&file, 0, at_most, WALK_CHUNK, |header, position, file| {
            let mut bytes = vec![0; header.size];
            let whole = position + header.size as u64 <= at_most
                && header.base_offset >= next
                && file.read_exact_at(&mut bytes, position).is_ok()
                && batch::crc_matches(&bytes);
            if whole {
                good = position + header.size as u64;
                next = header.last_offset() + 1;
            }
            whole
        })?;
        Ok(good)
    }

    /// Cuts the file off after `length` bytes and drops the index.
    pub(crate) fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.file()?.set_len(length)?;
        self.written = length;
        self.close();
        Ok(())
    }
}

/// Adds a batch to a sparse index.
fn note(index: &mut Vec<IndexEntry>, header: &BatchHeader, position: u64) {
    match index.last_mut() {
        Some(last) if position < last.position + INDEX_EVERY => {
            last.max_timestamp = last.max_timestamp.max(header.max_timestamp);
        }
        _ => index.push(IndexEntry {
            offset: header.base_offset,
            position,
            max_timestamp: header.max_timestamp,
        }),
    }
}

/// Calls `visit` with each batch header between two positions until it returns false or the bytes are no batch.
fn walk(
    file: &File,
    from: u64,
    to: u64,
    step: usize,
    mut visit: impl FnMut(&BatchHeader, u64, &File) -> bool,
) -> io::Result<()> {
    let mut chunk = Vec::new();
    let mut chunk_at = from;
    let mut position = from;
    while position + HEADER_BYTES as u64 <= to {
        let inside = usize::try_from(position - chunk_at).unwrap_or(usize::MAX);
        if inside.saturating_add(HEADER_BYTES) > chunk.len() {
            let length = usize::try_from(to - position).unwrap_or(step).min(step);
            chunk.resize(length, 0);
            file.read_exact_at(&mut chunk, position)?;
            chunk_at = position;
            continue;
        }
        let Some(header) = BatchHeader::parse(&chunk[inside..]) else {
            return Ok(());
        };
        if !visit(&header, position, file) {
            return Ok(());
        }
        position += header.size as u64;
    }
    Ok(())
}
