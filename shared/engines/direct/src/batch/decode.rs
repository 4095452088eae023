//! Reading batches: everything in them may be anything, since others write them too.

use std::ops::Range;
use std::sync::Arc;

use triad_consume::Unreadable;
use triad_runtime::InputRecord;

use super::codec::decompress;
use super::{CRC_FROM, HEADER_BYTES, LENGTH_PREFIX};

/// The bit of the attributes that says that the broker has set the time.
const LOG_APPEND_TIME: i16 = 0x08;
/// The bits of the attributes that name the codec.
const CODEC: i16 = 0x07;

/// What a log holds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Readable {
    Record(InputRecord),
    Not(Unreadable),
}

/// Whole batches of one partition, to be read record by record: a batch is decompressed when it is come
/// to, and a record copied when it is asked for.
///
/// A batch that cannot be read, or not to its end, ends in one [`Readable::Not`]; what comes behind it is
/// read. Bytes at the end that are no whole batch are passed over.
#[derive(Debug)]
pub(crate) struct Batches {
    topic: Arc<str>,
    partition: i32,
    bytes: Vec<u8>,
    /// Where the next batch begins.
    at: usize,
    /// The offset of the first record that is wanted.
    next: i64,
    open: Option<OpenBatch>,
}

impl Batches {
    /// What was read of a partition; `from` is the offset of the first record that is wanted.
    pub(crate) fn new(topic: Arc<str>, partition: i32, bytes: Vec<u8>, from: i64) -> Self {
        Self {
            topic,
            partition,
            bytes,
            at: 0,
            next: from,
            open: None,
        }
    }

    /// The offset behind all that was given.
    pub(crate) fn position(&self) -> i64 {
        self.next
    }

    /// What comes next; nothing at the end.
    pub(crate) fn read(&mut self) -> Option<Readable> {
        loop {
            if self.open.is_none() {
                let (header, body) = self.header()?;
                if header.end() <= self.next {
                    continue;
                }
                match header.open(&self.bytes, body) {
                    Ok(open) => self.open = Some(open),
                    Err(reason) => return Some(self.unreadable(&header, reason)),
                }
            }
            let open = self.open.as_mut()?;
            let header = open.header;
            match open.read(&self.bytes) {
                NextRecord::Record(offset, _) if offset < self.next => {}
                NextRecord::Record(offset, fields) => {
                    let record = fields.record(&header, &self.topic, self.partition, offset);
                    self.next = offset.saturating_add(1);
                    return Some(Readable::Record(record));
                }
                NextRecord::End => {
                    self.open = None;
                    self.next = header.end();
                }
                NextRecord::NoRecord => {
                    self.open = None;
                    let reason = "what it holds are no records".to_owned();
                    return Some(self.unreadable(&header, reason));
                }
            }
        }
    }

    /// The header of the next batch, and where its body is. The broker takes none that is not of magic 2.
    fn header(&mut self) -> Option<(Header, Range<usize>)> {
        let rest = self.bytes.get(self.at..)?;
        let header = Header::read(rest)?;
        let end = self.at.checked_add(header.size)?;
        let body = self.at + HEADER_BYTES..end;
        self.bytes.get(body.clone())?;
        self.at = end;
        Some((header, body))
    }

    fn unreadable(&mut self, header: &Header, reason: String) -> Readable {
        let first = header.base.max(self.next);
        self.next = header.end();
        Readable::Not(Unreadable {
            topic: self.topic.to_string(),
            partition: self.partition,
            first,
            next: self.next,
            reason,
        })
    }
}

/// What a batch says of itself.
#[derive(Debug, Clone, Copy)]
struct Header {
    base: i64,
    /// Bytes of all of it.
    size: usize,
    crc: u32,
    attributes: i16,
    last_delta: i32,
    base_time: i64,
    max_time: i64,
    count: i32,
}

impl Header {
    fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes.get(..HEADER_BYTES)?);
        let base = i64::from_be_bytes(fields.take()?);
        let length = usize::try_from(i32::from_be_bytes(fields.take()?)).ok()?;
        let _epoch_and_magic: [u8; 5] = fields.take()?;
        let crc = u32::from_be_bytes(fields.take()?);
        let attributes = i16::from_be_bytes(fields.take()?);
        let last_delta = i32::from_be_bytes(fields.take()?);
        let base_time = i64::from_be_bytes(fields.take()?);
        let max_time = i64::from_be_bytes(fields.take()?);
        let _producer: [u8; 14] = fields.take()?;
        let count = i32::from_be_bytes(fields.take()?);
        Some(Self {
            base,
            size: length.checked_add(LENGTH_PREFIX)?,
            crc,
            attributes,
            last_delta,
            base_time,
            max_time,
            count,
        })
    }

    /// The offset behind the last record.
    fn end(&self) -> i64 {
        let behind = i64::from(self.last_delta).saturating_add(1);
        self.base.saturating_add(behind)
    }

    /// The records, decompressed; `body` is where they are in `bytes`.
    fn open(self, bytes: &[u8], body: Range<usize>) -> Result<OpenBatch, String> {
        let checked = bytes.get(body.start - HEADER_BYTES + CRC_FROM..body.end);
        if checked.map(crc32c::crc32c) != Some(self.crc) {
            return Err("its checksum is not that of its bytes".to_owned());
        }
        let packed = bytes.get(body.clone()).unwrap_or_default();
        Ok(match self.attributes & CODEC {
            0 => OpenBatch {
                header: self,
                unpacked: None,
                rest: body,
                left: self.count,
            },
            _ => {
                let unpacked = decompress(self.attributes, packed)?;
                OpenBatch {
                    header: self,
                    rest: 0..unpacked.len(),
                    unpacked: Some(unpacked),
                    left: self.count,
                }
            }
        })
    }
}

/// A batch whose records are being read.
#[derive(Debug)]
struct OpenBatch {
    header: Header,
    /// The records, if they were compressed; otherwise they are among the bytes that were read.
    unpacked: Option<Vec<u8>>,
    /// Where the records are that were not read yet.
    rest: Range<usize>,
    /// How many.
    left: i32,
}

enum NextRecord<'a> {
    /// A record's offset and, from its time on, its fields.
    Record(i64, Fields<'a>),
    End,
    NoRecord,
}

impl OpenBatch {
    fn read<'a>(&'a mut self, bytes: &'a [u8]) -> NextRecord<'a> {
        if self.left <= 0 {
            return NextRecord::End;
        }
        self.left -= 1;
        self.record(bytes)
            .map_or(NextRecord::NoRecord, |(offset, fields)| {
                NextRecord::Record(offset, fields)
            })
    }

    fn record<'a>(&'a mut self, bytes: &'a [u8]) -> Option<(i64, Fields<'a>)> {
        let all = self.unpacked.as_deref().unwrap_or(bytes);
        let mut fields = Fields(all.get(self.rest.clone())?);
        let length = usize::try_from(fields.varint()?).ok()?;
        let record = fields.bytes(length)?;
        self.rest.start = self.rest.end - fields.0.len();
        let mut fields = Fields(record);
        let _attributes: [u8; 1] = fields.take()?;
        let behind = Fields(fields.0);
        let _time = fields.varint()?;
        let delta = fields.varint()?;
        let is_inside = (0..=i64::from(self.header.last_delta)).contains(&delta);
        // What a record is made of is looked at before anything of it is copied.
        let _key = fields.nullable()?;
        let _value = fields.nullable()?;
        fields.headers(|_, _| ())?;
        let offset = self.header.base.checked_add(delta)?;
        is_inside.then_some((offset, behind))
    }
}

/// Bytes that are read from their beginning.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (first, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(first)
    }

    /// A zigzag varint of at most ten bytes.
    fn varint(&mut self) -> Option<i64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let [byte] = self.take()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed());
            }
        }
        None
    }

    /// Bytes behind their length; a negative one stands for none.
    #[expect(clippy::option_option, reason = "unreadable, absent and empty differ")]
    fn nullable(&mut self) -> Option<Option<&'a [u8]>> {
        match usize::try_from(self.varint()?) {
            Ok(length) => self.bytes(length).map(Some),
            Err(_) => Some(None),
        }
    }

    /// Reads the headers one by one. Names are bytes too: U+FFFD stands in place of what is no UTF-8.
    fn headers(&mut self, mut each: impl FnMut(&[u8], Option<&[u8]>)) -> Option<()> {
        let count = self.varint()?;
        for _ in 0..count {
            let name = self.nullable()?.unwrap_or_default();
            each(name, self.nullable()?);
        }
        Some(())
    }

    /// The record whose fields these are, from its time on; they were looked at before.
    fn record(mut self, header: &Header, topic: &str, partition: i32, offset: i64) -> InputRecord {
        let time = self.varint().unwrap_or_default();
        let _delta = self.varint();
        let key = self.nullable().flatten().map(<[u8]>::to_vec);
        let value = self.nullable().flatten().map(<[u8]>::to_vec);
        let mut headers = Vec::new();
        let _all = self.headers(|name, value| {
            let name = String::from_utf8_lossy(name).into_owned();
            headers.push((name, value.map(<[u8]>::to_vec)));
        });
        InputRecord {
            topic: topic.to_owned(),
            partition,
            offset,
            timestamp_ms: match header.attributes & LOG_APPEND_TIME {
                0 => header.base_time.saturating_add(time),
                _ => header.max_time,
            },
            key,
            value,
            headers,
        }
    }
}
