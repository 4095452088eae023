//! Reading a producer's batch. Everything in it may be anything.

use std::borrow::Cow;

use kafka_protocol::error::ResponseError;
use triad_sqlite::topics::{Headers, NewRecord, Sequence};

use super::codec::decompress;
use super::{CRC_FROM, HEADER_BYTES, LENGTH_PREFIX};

/// The bits of the attributes that name the codec.
const CODEC: i16 = 0x07;
/// The bit of the attributes that says that all records have the batch's greatest time.
const LOG_APPEND_TIME: i16 = 0x08;
/// The bits of batches that only transactions and brokers write.
const NOT_CLIENTS: i16 = 0x10 | 0x20;

/// What a producer has sent for one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Produced {
    pub(crate) records: Vec<NewRecord>,
    /// Of an idempotent producer.
    pub(crate) sequence: Option<Sequence>,
}

/// The fields of a batch's header.
#[derive(Debug, Clone, Copy)]
struct Header {
    crc: u32,
    attributes: i16,
    base_time: i64,
    max_time: i64,
    producer: i64,
    epoch: i16,
    first_sequence: i32,
    count: i32,
    last_delta: i32,
}

/// Reads exactly one intact batch of magic 2.
///
/// Errors are the protocol's own: old formats are `UNSUPPORTED_FOR_MESSAGE_FORMAT`, a broken checksum or length
/// `CORRUPT_MESSAGE`, more than `max_bytes` `MESSAGE_TOO_LARGE`, and a batch whose fields contradict each other or that
/// cannot be decompressed `INVALID_RECORD`.
pub(crate) fn read(bytes: &[u8], max_bytes: usize) -> Result<Produced, ResponseError> {
    if bytes.len() <= 16 {
        return Err(ResponseError::CorruptMessage);
    }
    if bytes[16] < 2 {
        return Err(ResponseError::UnsupportedForMessageFormat);
    }
    let (size, header) = header(bytes).ok_or(ResponseError::CorruptMessage)?;
    if size > max_bytes {
        return Err(ResponseError::MessageTooLarge);
    }
    if size > bytes.len() {
        return Err(ResponseError::CorruptMessage);
    }
    if size < bytes.len() {
        // Since produce version 3 a partition carries exactly one batch.
        return Err(ResponseError::InvalidRecord);
    }
    if header.crc != crc32c::crc32c(&bytes[CRC_FROM..]) {
        return Err(ResponseError::CorruptMessage);
    }
    let is_counted = header.count > 0 && header.last_delta == header.count - 1;
    let sequence = (header.producer >= 0).then_some(Sequence {
        producer: header.producer,
        epoch: header.epoch,
        first: header.first_sequence,
        more: header.last_delta,
    });
    let is_sequenced = sequence.is_none_or(|s| s.first >= 0 && s.epoch >= 0);
    if !is_counted || !is_sequenced || header.attributes & NOT_CLIENTS != 0 {
        return Err(ResponseError::InvalidRecord);
    }
    let body = &bytes[HEADER_BYTES..];
    let body = match header.attributes & CODEC {
        0 => Cow::Borrowed(body),
        _ => decompress(header.attributes, body).map_or_else(
            |why| {
                tracing::debug!(why, "a batch cannot be decompressed");
                Err(ResponseError::InvalidRecord)
            },
            |unpacked| Ok(Cow::Owned(unpacked)),
        )?,
    };
    let records = records(&header, Fields(&body)).ok_or(ResponseError::InvalidRecord)?;
    Ok(Produced { records, sequence })
}

/// The size of the whole batch, and its header; `None` if it is cut short.
fn header(bytes: &[u8]) -> Option<(usize, Header)> {
    let mut fields = Fields(bytes.get(..HEADER_BYTES)?);
    let _base: [u8; 8] = fields.take()?;
    let length = usize::try_from(i32::from_be_bytes(fields.take()?)).ok()?;
    let _epoch_and_magic: [u8; 5] = fields.take()?;
    let crc = u32::from_be_bytes(fields.take()?);
    let attributes = i16::from_be_bytes(fields.take()?);
    let last_delta = i32::from_be_bytes(fields.take()?);
    let header = Header {
        crc,
        attributes,
        last_delta,
        base_time: i64::from_be_bytes(fields.take()?),
        max_time: i64::from_be_bytes(fields.take()?),
        producer: i64::from_be_bytes(fields.take()?),
        epoch: i16::from_be_bytes(fields.take()?),
        first_sequence: i32::from_be_bytes(fields.take()?),
        count: i32::from_be_bytes(fields.take()?),
    };
    let size = length.checked_add(LENGTH_PREFIX)?;
    (size >= HEADER_BYTES).then_some((size, header))
}

/// All records of a batch; `None` if they are not as many as the header says, or one of them cannot be read.
fn records(header: &Header, mut body: Fields<'_>) -> Option<Vec<NewRecord>> {
    let mut records = Vec::new();
    for number in 0..i64::from(header.count) {
        let length = usize::try_from(body.varint()?).ok()?;
        let mut fields = Fields(body.bytes(length)?);
        let _attributes: [u8; 1] = fields.take()?;
        let time = fields.varint()?;
        if fields.varint()? != number {
            return None;
        }
        let key = fields.nullable()?.map(<[u8]>::to_vec);
        let value = fields.nullable()?.map(<[u8]>::to_vec);
        records.push(NewRecord {
            timestamp_ms: match header.attributes & LOG_APPEND_TIME {
                0 => header.base_time.saturating_add(time),
                _ => header.max_time,
            },
            key,
            value,
            headers: fields.headers()?,
        });
    }
    body.0.is_empty().then_some(records)
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

    /// The headers. Names are bytes too: U+FFFD stands in place of what is no UTF-8.
    fn headers(&mut self) -> Option<Headers> {
        let mut headers = Vec::new();
        for _ in 0..self.varint()? {
            let name = self.nullable()?.unwrap_or_default();
            let name = String::from_utf8_lossy(name).into_owned();
            headers.push((name, self.nullable()?.map(<[u8]>::to_vec)));
        }
        Some(headers)
    }
}
