//! One partition's log: sealed segments, one active segment, and a tail in memory.
//!
//! Appends go to the tail, a plain byte buffer that continues the active segment's file. The tail
//! is written to the file in one piece when it has grown (or when the store makes a checkpoint),
//! so a thousand small batches cost one write, and a consumer that keeps up is served from memory.
//! With a data directory the write-ahead log has what the tail holds; without one there is nothing
//! to recover.
//!
//! Architecture invariant: offsets only rise. A batch becomes visible when the high watermark
//! passes it, which is after it is durable.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::batch::{self, BatchHeader};
use super::producers::Producers;
use super::segment::{self, BatchPosition, Segment};

/// Bound: open sealed segments (file handle and index) a partition on disk. The rest is closed
/// and opened again when read.
const MAX_OPEN_SEALED: usize = 4;

/// A partition's log.
#[derive(Debug)]
pub(crate) struct PartitionLog {
    dir: Option<PathBuf>,
    /// Never empty; the last one is active. Base offsets rise.
    segments: VecDeque<Segment>,
    /// Bytes that follow the active segment's file.
    tail: Vec<u8>,
    /// Position and base offset of the newest batch, which most reads want.
    newest: Option<(u64, i64)>,
    pub(crate) start: i64,
    pub(crate) next: i64,
    pub(crate) high_watermark: i64,
    pub(crate) producers: Producers,
}

/// Result of a read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReadResult {
    /// How many bytes of whole batches were added to the buffer; 0 if there are none yet.
    Bytes(usize),
    /// The offset is before the start or after the end.
    OutOfRange,
}

impl PartitionLog {
    /// A log that begins at `start` with an empty active segment.
    pub(crate) fn new(dir: Option<PathBuf>, start: i64) -> Self {
        let active = Segment::create(dir.as_deref(), start);
        Self::from_segments(dir, VecDeque::from([active]), start, start)
    }

    /// A log over segments on disk.
    pub(crate) fn from_segments(
        dir: Option<PathBuf>,
        mut segments: VecDeque<Segment>,
        start: i64,
        next: i64,
    ) -> Self {
        if segments.is_empty() {
            segments.push_back(Segment::create(dir.as_deref(), next));
        }
        Self {
            dir,
            segments,
            tail: Vec::new(),
            newest: None,
            start,
            next,
            high_watermark: next,
            producers: Producers::default(),
        }
    }

    pub(crate) fn dir(&self) -> Option<&Path> {
        self.dir.as_deref()
    }

    /// Bytes in memory that are in no segment file yet.
    pub(crate) fn tail_bytes(&self) -> usize {
        self.tail.len()
    }

    /// Bytes of the whole log.
    pub(crate) fn bytes(&self) -> u64 {
        self.segments.iter().map(|s| s.written).sum::<u64>() + self.tail.len() as u64
    }

    /// Base offset and file length of the active segment, for the snapshot.
    pub(crate) fn active(&self) -> (i64, u64) {
        let active = &self.segments[self.segments.len() - 1];
        (active.base, active.written)
    }

    fn active_mut(&mut self) -> &mut Segment {
        let last = self.segments.len() - 1;
        &mut self.segments[last]
    }

    /// Appends a validated batch at the next offset. Returns its place in the tail, so that the caller can log the
    /// same bytes, and the file that a roll completed.
    pub(crate) fn append(
        &mut self,
        header: &BatchHeader,
        bytes: &[u8],
        segment_bytes: u64,
    ) -> io::Result<Appended> {
        let position = self.active_mut().written + self.tail.len() as u64;
        let mut sealed = None;
        let rolled = position > 0 && position + bytes.len() as u64 > segment_bytes;
        if rolled {
            sealed = self.roll()?;
        }
        let base_offset = self.next;
        let position = self.active_mut().written + self.tail.len() as u64;
        if position == 0 {
            self.active_mut().born = segment::now();
        }
        let placed = BatchHeader {
            base_offset,
            ..*header
        };
        self.active_mut().note(&placed, position)?;
        let at = self.tail.len();
        self.tail.extend_from_slice(bytes);
        batch::assign_offset(&mut self.tail[at..], base_offset);
        self.newest = Some((position, base_offset));
        self.next = placed.last_offset() + 1;
        self.producers.record(header, base_offset);
        Ok(Appended {
            base_offset,
            at,
            sealed,
            rolled,
        })
    }

    /// The bytes of the tail from `at` on.
    pub(crate) fn tail_from(&self, at: usize) -> &[u8] {
        &self.tail[at..]
    }

    /// Leaves a gap: the next batch gets `offset`. Only recovery does this, when acknowledged offsets were lost with
    /// a damaged file and must not be given out again.
    pub(crate) fn skip_to(&mut self, offset: i64) -> io::Result<()> {
        if offset > self.next {
            self.roll()?;
            self.next = offset;
            let base = Segment::create(self.dir.as_deref(), offset);
            let last = self.segments.len() - 1;
            if self.segments[last].written == 0 {
                self.segments[last] = base;
            } else {
                self.segments.push_back(base);
            }
        }
        Ok(())
    }

    /// Writes the tail to the active segment's file. Returns the file if there was anything to write.
    pub(crate) fn write_tail(&mut self) -> io::Result<Option<Arc<File>>> {
        if self.tail.is_empty() {
            return Ok(None);
        }
        let mut tail = std::mem::take(&mut self.tail);
        let written = self.active_mut().write(&tail);
        if written.is_ok() {
            tail.clear();
            // Keeps the allocation for the next batches, unless it grew large.
            tail.shrink_to(1 << 20);
        }
        self.tail = tail;
        written.map(Some)
    }

    /// Seals the active segment and starts a new one.
    fn roll(&mut self) -> io::Result<Option<Arc<File>>> {
        let sealed = self.write_tail()?;
        if self.active_mut().written > 0 {
            self.segments
                .push_back(Segment::create(self.dir.as_deref(), self.next));
            self.newest = None;
            self.limit_open();
        }
        Ok(sealed)
    }

    /// Seals the active segment if it has records, the first of which was appended at `old` or before. Returns the
    /// completed file.
    pub(crate) fn roll_if_older(&mut self, old: SystemTime) -> io::Result<Option<Arc<File>>> {
        let active = self.active_mut();
        let (born, written) = (active.born, active.written);
        match born <= old && written + self.tail.len() as u64 > 0 {
            true => self.roll(),
            false => Ok(None),
        }
    }

    fn limit_open(&mut self) {
        let sealed = self.segments.len() - 1;
        let mut open = self
            .segments
            .iter()
            .take(sealed)
            .filter(|s| s.is_open())
            .count();
        for segment in self.segments.iter_mut().take(sealed) {
            if open <= MAX_OPEN_SEALED {
                break;
            }
            if segment.is_open() {
                segment.close();
                open -= usize::from(!segment.is_open());
            }
        }
    }

    /// Adds whole batches to `out`, from the one that contains `offset`, at most `max_bytes`, below the high
    /// watermark. With `at_least_one` the first batch is added even if it is larger.
    pub(crate) fn read(
        &mut self,
        offset: i64,
        max_bytes: usize,
        at_least_one: bool,
        out: &mut Vec<u8>,
    ) -> io::Result<ReadResult> {
        if offset < self.start || offset > self.high_watermark {
            return Ok(ReadResult::OutOfRange);
        }
        if offset == self.high_watermark {
            return Ok(ReadResult::Bytes(0));
        }
        let Some((segment, found)) = self.locate(offset)? else {
            return Ok(ReadResult::Bytes(0));
        };
        if found.header.size > max_bytes && !at_least_one {
            return Ok(ReadResult::Bytes(0));
        }
        let budget = max_bytes.max(found.header.size);
        let before = out.len();
        let active = segment + 1 == self.segments.len();
        let written = self.segments[segment].written;
        if active && found.position >= written {
            let from = usize::try_from(found.position - written).unwrap_or(usize::MAX);
            let available = &self.tail[from..];
            let length = whole_batches(available, budget, self.high_watermark);
            out.extend_from_slice(&available[..length]);
        } else {
            let length = usize::try_from(written - found.position)
                .unwrap_or(budget)
                .min(budget);
            out.resize(before + length, 0);
            self.segments[segment].read(found.position, &mut out[before..])?;
            let length = whole_batches(&out[before..], budget, self.high_watermark);
            out.truncate(before + length);
        }
        if !active {
            self.limit_open();
        }
        Ok(ReadResult::Bytes(out.len() - before))
    }

    /// The segment and batch that contain `offset`, or the first batch after it.
    fn locate(&mut self, offset: i64) -> io::Result<Option<(usize, BatchPosition)>> {
        let last = self.segments.len() - 1;
        if let Some((position, base)) = self.newest
            && offset >= base
            && let Some(header) = self.header_in_tail(position)
        {
            return Ok(Some((last, BatchPosition { position, header })));
        }
        let after = self.segments.partition_point(|s| s.base <= offset);
        let first = after.saturating_sub(1);
        for i in first..self.segments.len() {
            let from = self.segments[i].floor(offset)?;
            if let Some(found) = self.find_in(i, from, |h| h.last_offset() >= offset)? {
                return Ok(Some((i, found)));
            }
        }
        Ok(None)
    }

    fn header_in_tail(&self, position: u64) -> Option<BatchHeader> {
        let written = self.segments[self.segments.len() - 1].written;
        let at = usize::try_from(position.checked_sub(written)?).ok()?;
        BatchHeader::parse(self.tail.get(at..)?)
    }

    /// The first wanted batch of a segment (its file, then the tail if it is active).
    fn find_in(
        &mut self,
        segment: usize,
        from: u64,
        wanted: impl Fn(&BatchHeader) -> bool,
    ) -> io::Result<Option<BatchPosition>> {
        let written = self.segments[segment].written;
        if from < written
            && let Some(found) = self.segments[segment].find(from, &wanted)?
        {
            return Ok(Some(found));
        }
        if segment + 1 < self.segments.len() {
            return Ok(None);
        }
        let mut position = from.max(written);
        while let Some(header) = self.header_in_tail(position) {
            if wanted(&header) {
                return Ok(Some(BatchPosition { position, header }));
            }
            position += header.size as u64;
        }
        Ok(None)
    }

    /// The first visible record that is not older than `timestamp`, as (offset, timestamp).
    pub(crate) fn find_timestamp(&mut self, timestamp: i64) -> io::Result<Option<(i64, i64)>> {
        for i in 0..self.segments.len() {
            let Some(from) = self.segments[i].floor_timestamp(timestamp)? else {
                continue;
            };
            let start = self.start;
            let wanted = |h: &BatchHeader| h.max_timestamp >= timestamp && h.last_offset() >= start;
            let Some(found) = self.find_in(i, from, wanted)? else {
                continue;
            };
            if found.header.base_offset >= self.high_watermark {
                return Ok(None);
            }
            let mut bytes = vec![0; found.header.size];
            let written = self.segments[i].written;
            if found.position >= written {
                let at = usize::try_from(found.position - written).unwrap_or(usize::MAX);
                bytes.copy_from_slice(&self.tail[at..at + found.header.size]);
            } else {
                self.segments[i].read(found.position, &mut bytes)?;
            }
            return Ok(Some(batch::seek_timestamp(
                &bytes,
                &found.header,
                timestamp,
            )));
        }
        Ok(None)
    }

    /// Removes whole sealed segments from the front, while `goes` accepts the next segment and the number of bytes
    /// that would be left. The log then starts with the rest; the files still exist.
    pub(crate) fn drop_front(&mut self, goes: impl Fn(&Segment, u64) -> bool) -> Vec<Segment> {
        let mut rest = self.bytes();
        let mut gone = Vec::new();
        while let (Some(first), Some(next)) = (self.segments.front(), self.segments.get(1)) {
            let without = rest - first.written;
            if !goes(next, without) {
                break;
            }
            rest = without;
            self.start = self.start.max(next.base);
            gone.extend(self.segments.pop_front());
        }
        gone
    }
}

/// Result of an append.
#[derive(Debug)]
pub(crate) struct Appended {
    pub(crate) base_offset: i64,
    /// Position of the batch in the tail.
    pub(crate) at: usize,
    /// The file that was completed because the segment was full.
    pub(crate) sealed: Option<Arc<File>>,
    /// Whether a new segment was begun.
    pub(crate) rolled: bool,
}

/// Length of the longest prefix of whole batches within `budget` and below `high_watermark`.
fn whole_batches(bytes: &[u8], budget: usize, high_watermark: i64) -> usize {
    let mut end = 0;
    while let Some(header) = BatchHeader::parse(&bytes[end..]) {
        let next = end + header.size;
        if next > bytes.len() || next > budget || header.base_offset >= high_watermark {
            break;
        }
        end = next;
    }
    end
}
