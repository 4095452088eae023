//! The write-ahead log: one file that all partitions and all metadata share, so that a round of appends to any number
//! of partitions costs one write and one sync.
//!
//! A record is `length u32 | crc32c u32 | kind u8 | log u32 | payload`, little endian. The length counts from the
//! kind on. The checksum covers the file's generation, too, so that a record of another file is never valid in this
//! one.
//!
//! A file is written in place: it is extended before it is written, and recycles a file that a checkpoint has made
//! unnecessary, if there is one. Then a sync need not wait for the file system's journal. So any bytes may follow the
//! last record, until the file is finished: then it ends there.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::meta::{self, LogId, MetaRecord};
use crate::error::Error;

const PREFIX_BYTES: usize = 8;
const KIND_AND_LOG: usize = 5;
const KIND_BATCH: u8 = 1;
const KIND_META: u8 = 2;

const KINDS: [u8; 2] = [KIND_BATCH, KIND_META];
/// Longest record in the search behind damage: more than any batch that a topic accepts by default.
const MAX_LOOKED_FOR: u32 = 2 << 20;

/// A decoded record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    /// A batch as stored, its base offset assigned.
    Batch(LogId, &'a [u8]),
    Meta(MetaRecord),
}

pub(crate) fn path_of(dir: &Path, generation: u64) -> PathBuf {
    dir.join(format!("wal-{generation:016}"))
}

/// Number of bytes by which a file is extended.
const AHEAD: u64 = 1 << 20;
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Path of the next generation's file, until the present one is finished.
pub(crate) fn next_path(dir: &Path) -> PathBuf {
    dir.join("wal-next")
}

/// Path of the recycled WAL segment.
pub(crate) fn spare_path(dir: &Path) -> PathBuf {
    dir.join("wal-spare")
}

/// Renames a file durably.
pub(crate) fn rename([from, to]: &[PathBuf; 2]) -> io::Result<()> {
    std::fs::rename(from, to)?;
    to.parent().map_or(Ok(()), meta::sync_dir)
}

/// A file being written.
#[derive(Debug)]
pub(crate) struct Writer {
    file: File,
    /// Position of the next record.
    at: u64,
    length: u64,
}

impl Writer {
    /// Opens the file of the next generation under its first name.
    pub(crate) fn next(dir: &Path) -> io::Result<Self> {
        let path = next_path(dir);
        match std::fs::rename(spare_path(dir), &path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let mut options = OpenOptions::new();
        let file = options
            .create(true)
            .truncate(false)
            .write(true)
            .open(path)?;
        let length = file.metadata()?.len();
        Ok(Self {
            file,
            at: 0,
            length,
        })
    }

    /// Appends whole records.
    pub(crate) fn append(&mut self, records: &[u8]) -> io::Result<()> {
        self.file.write_all_at(records, self.at)?;
        self.at += records.len() as u64;
        if self.at > self.length {
            let length = self.at.next_multiple_of(AHEAD);
            // If the extension fails, the records may still fit.
            self.length = match self.fill(length) {
                Ok(()) => length,
                Err(_) => self.at,
            };
        }
        Ok(())
    }

    /// Extends the file.
    fn fill(&self, length: u64) -> io::Result<()> {
        let mut from = self.at;
        while from < length {
            let count = usize::try_from(length - from).unwrap_or(usize::MAX);
            let count = count.min(ZEROS.len());
            self.file.write_all_at(&ZEROS[..count], from)?;
            from += count as u64;
        }
        Ok(())
    }

    /// Syncs appended records to the disk.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Truncates the file behind its last record, and syncs that.
    pub(crate) fn finish(&self) -> io::Result<()> {
        self.file.set_len(self.at)?;
        self.file.sync_all()
    }
}

/// The generation in a file name.
pub(crate) fn generation_of(path: &Path) -> Option<u64> {
    path.file_name()?
        .to_str()?
        .strip_prefix("wal-")?
        .parse()
        .ok()
}

fn put(out: &mut Vec<u8>, generation: u64, kind: u8, log: LogId, payload: &[u8]) {
    let length = u32::try_from(KIND_AND_LOG + payload.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_le_bytes());
    let crc_at = out.len();
    out.extend_from_slice(&[0; 4]);
    out.push(kind);
    out.extend_from_slice(&log.0.to_le_bytes());
    out.extend_from_slice(payload);
    let crc = checksum(generation, &out[crc_at + 4..]);
    out[crc_at..crc_at + 4].copy_from_slice(&crc.to_le_bytes());
}

fn checksum(generation: u64, body: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&generation.to_le_bytes()), body)
}

/// Encodes a stored batch.
pub(crate) fn put_batch(out: &mut Vec<u8>, generation: u64, log: LogId, batch: &[u8]) {
    put(out, generation, KIND_BATCH, log, batch);
}

/// Encodes a metadata change.
pub(crate) fn put_meta(
    out: &mut Vec<u8>,
    generation: u64,
    record: &MetaRecord,
) -> Result<(), Error> {
    let json = serde_json::to_vec(record).map_err(|e| Error::Storage(e.into()))?;
    put(out, generation, KIND_META, LogId(0), &json);
    Ok(())
}

/// Reads records until the bytes end or are invalid.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    generation: u64,
    position: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8], generation: u64) -> Self {
        Self {
            bytes,
            generation,
            position: 0,
        }
    }

    /// Bytes that no intact record covers: a torn tail, if there are any at the end.
    pub(crate) fn rest(&self) -> usize {
        self.bytes.len() - self.position
    }

    /// Whether an intact record follows invalid bytes: then these are damage, and not the end of the written part.
    pub(crate) fn has_more_behind(&self) -> bool {
        (self.position + 1..self.bytes.len()).any(|position| {
            let rest = &self.bytes[position..];
            let is_one = rest
                .get(PREFIX_BYTES)
                .is_some_and(|kind| KINDS.contains(kind));
            let length = rest
                .first_chunk::<4>()
                .map(|length| u32::from_le_bytes(*length));
            let is_likely = is_one && length.is_some_and(|length| length <= MAX_LOOKED_FOR);
            let at = Self {
                bytes: self.bytes,
                generation: self.generation,
                position,
            };
            is_likely && { at }.next().is_some()
        })
    }

    /// The next intact record.
    pub(crate) fn next(&mut self) -> Option<Record<'a>> {
        let rest = &self.bytes[self.position..];
        let (length, after) = rest.split_first_chunk::<4>()?;
        let (crc, after) = after.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let body = after.get(..length)?;
        if checksum(self.generation, body) != u32::from_le_bytes(*crc) {
            return None;
        }
        let (&kind, after) = body.split_first()?;
        let (log, payload) = after.split_first_chunk::<4>()?;
        let record = match kind {
            KIND_BATCH => Record::Batch(LogId(u32::from_le_bytes(*log)), payload),
            KIND_META => Record::Meta(serde_json::from_slice(payload).ok()?),
            _ => return None,
        };
        self.position += PREFIX_BYTES + length;
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        let mut bytes = Vec::new();
        put_batch(&mut bytes, 3, LogId(9), b"batch");
        put_meta(
            &mut bytes,
            3,
            &MetaRecord::TopicDeleted { name: "t".into() },
        )
        .unwrap();
        bytes
    }

    #[test]
    fn records_come_back_in_order() {
        let bytes = sample();
        let mut reader = Reader::new(&bytes, 3);
        assert_eq!(reader.next(), Some(Record::Batch(LogId(9), b"batch")));
        let deleted = MetaRecord::TopicDeleted { name: "t".into() };
        assert_eq!(reader.next(), Some(Record::Meta(deleted)));
        assert_eq!(reader.next(), None);
        assert_eq!(reader.rest(), 0);
    }

    #[test]
    fn reading_stops_at_every_possible_tear_and_at_every_flipped_byte() {
        let whole = sample();
        let first = PREFIX_BYTES + KIND_AND_LOG + 5;
        for cut in 0..whole.len() {
            let mut reader = Reader::new(&whole[..cut], 3);
            let count = std::iter::from_fn(|| reader.next().map(|_| ())).count();
            assert_eq!(count, usize::from(cut >= first), "cut at {cut}");
        }
        for flip in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[flip] ^= 0x40;
            let mut reader = Reader::new(&bytes, 3);
            let count = std::iter::from_fn(|| reader.next().map(|_| ())).count();
            assert_eq!(count, usize::from(flip >= first), "flipped {flip}");
        }
    }

    #[test]
    fn what_is_intact_behind_damage_is_found_and_what_was_there_before_is_not() {
        let has_more = |bytes: &[u8]| {
            let mut reader = Reader::new(bytes, 3);
            while reader.next().is_some() {}
            reader.has_more_behind()
        };
        let whole = sample();
        let mut other = Vec::new();
        put_batch(&mut other, 2, LogId(9), b"of the file that this one was");
        assert!(!has_more(&[&whole[..], &other, &[0; 1_000]].concat()));
        assert!(!has_more(&whole[..whole.len() - 1]), "a torn tail");
        let mut damaged = whole;
        damaged[PREFIX_BYTES + 2] ^= 1;
        assert!(has_more(&damaged));
    }

    #[test]
    fn a_record_of_another_generation_is_not_accepted() {
        let bytes = sample();
        assert_eq!(Reader::new(&bytes, 4).next(), None);
    }
}
