//! The record batch as bytes: reading its fixed header and checking it.
//!
//! The broker never looks inside the records (they may be compressed) except to answer "which
//! offset has this timestamp" for an uncompressed batch. It rewrites exactly two fields, the base
//! offset and the leader epoch, neither of which the batch's own CRC covers.
//!
//! Layout: Kafka protocol guide, "Record Batch", magic 2.

use kafka_protocol::error::ResponseError;

/// Bytes before the first record.
pub(crate) const HEADER_BYTES: usize = 61;
/// Bytes of base offset and length, which the length field does not count.
const LENGTH_PREFIX: usize = 12;
/// The CRC covers everything from the attributes on.
const CRC_FROM: usize = 21;
const COMPRESSION_MASK: i16 = 0x07;
const LOG_APPEND_TIME: i16 = 0x08;
const TRANSACTIONAL: i16 = 0x10;
const CONTROL: i16 = 0x20;

/// The parts of a batch header that the broker uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BatchHeader {
    pub(crate) base_offset: i64,
    /// Size of the whole batch in bytes, length prefix included.
    pub(crate) size: usize,
    pub(crate) attributes: i16,
    pub(crate) last_offset_delta: i32,
    pub(crate) base_timestamp: i64,
    pub(crate) max_timestamp: i64,
    pub(crate) producer_id: i64,
    pub(crate) producer_epoch: i16,
    pub(crate) base_sequence: i32,
    pub(crate) records: i32,
}

fn be<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

impl BatchHeader {
    /// Reads the header at the start of `bytes`; `None` if it is cut short or not a magic 2 batch.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < HEADER_BYTES || bytes[16] != 2 {
            return None;
        }
        let length = i32::from_be_bytes(be(bytes, 8));
        let size = usize::try_from(length).ok()?.checked_add(LENGTH_PREFIX)?;
        if size < HEADER_BYTES {
            return None;
        }
        Some(Self {
            base_offset: i64::from_be_bytes(be(bytes, 0)),
            size,
            attributes: i16::from_be_bytes(be(bytes, 21)),
            last_offset_delta: i32::from_be_bytes(be(bytes, 23)),
            base_timestamp: i64::from_be_bytes(be(bytes, 27)),
            max_timestamp: i64::from_be_bytes(be(bytes, 35)),
            producer_id: i64::from_be_bytes(be(bytes, 43)),
            producer_epoch: i16::from_be_bytes(be(bytes, 51)),
            base_sequence: i32::from_be_bytes(be(bytes, 53)),
            records: i32::from_be_bytes(be(bytes, 57)),
        })
    }

    pub(crate) fn last_offset(&self) -> i64 {
        self.base_offset + i64::from(self.last_offset_delta)
    }

    pub(crate) fn is_idempotent(&self) -> bool {
        self.producer_id >= 0
    }
}

/// Checks a producer's bytes for one partition: exactly one intact magic 2 batch.
///
/// Errors are the protocol's own: old formats are `UNSUPPORTED_FOR_MESSAGE_FORMAT`, a broken checksum or length
/// `CORRUPT_MESSAGE`, more than `max_bytes` `MESSAGE_TOO_LARGE`, and a batch whose fields contradict each other
/// `INVALID_RECORD`.
pub(crate) fn validate(bytes: &[u8], max_bytes: usize) -> Result<BatchHeader, ResponseError> {
    if bytes.len() <= 16 {
        return Err(ResponseError::CorruptMessage);
    }
    if bytes[16] < 2 {
        return Err(ResponseError::UnsupportedForMessageFormat);
    }
    let header = BatchHeader::parse(bytes).ok_or(ResponseError::CorruptMessage)?;
    if header.size > max_bytes {
        return Err(ResponseError::MessageTooLarge);
    }
    if header.size > bytes.len() {
        return Err(ResponseError::CorruptMessage);
    }
    if header.size < bytes.len() {
        // Since produce version 3 a partition carries exactly one batch.
        return Err(ResponseError::InvalidRecord);
    }
    if !crc_matches(bytes) {
        return Err(ResponseError::CorruptMessage);
    }
    let counted = header.records > 0 && header.last_offset_delta == header.records - 1;
    let clients_own = header.attributes & (TRANSACTIONAL | CONTROL) == 0;
    let sequenced =
        !header.is_idempotent() || (header.base_sequence >= 0 && header.producer_epoch >= 0);
    if counted && clients_own && sequenced {
        Ok(header)
    } else {
        Err(ResponseError::InvalidRecord)
    }
}

/// Whether the stored checksum matches the bytes. `bytes` is exactly one batch.
pub(crate) fn crc_matches(bytes: &[u8]) -> bool {
    u32::from_be_bytes(be(bytes, 17)) == crc32c::crc32c(&bytes[CRC_FROM..])
}

/// Sets the fields that a broker owns. There is only one leader, so its epoch is 0.
pub(crate) fn assign_offset(batch: &mut [u8], base_offset: i64) {
    batch[0..8].copy_from_slice(&base_offset.to_be_bytes());
    batch[12..16].copy_from_slice(&0_i32.to_be_bytes());
}

/// The first record of `batch` that is not older than `timestamp`, as (offset, timestamp).
///
/// A compressed batch is opaque here, so the answer is its first offset: a reader that starts
/// there sees the wanted record, after a few older ones of the same batch.
pub(crate) fn seek_timestamp(batch: &[u8], header: &BatchHeader, timestamp: i64) -> (i64, i64) {
    let first = (header.base_offset, header.base_timestamp);
    if header.attributes & COMPRESSION_MASK != 0 || header.attributes & LOG_APPEND_TIME != 0 {
        return first;
    }
    let mut rest = &batch[HEADER_BYTES..];
    for _ in 0..header.records {
        let Some(length) = varint(&mut rest).and_then(|n| usize::try_from(n).ok()) else {
            break;
        };
        let Some((mut record, after)) = rest.split_at_checked(length) else {
            break;
        };
        rest = after;
        let Some((_, deltas)) = record.split_at_checked(1) else {
            break;
        };
        record = deltas;
        let (Some(time), Some(offset)) = (varint(&mut record), varint(&mut record)) else {
            break;
        };
        let at = header.base_timestamp.saturating_add(time);
        if at >= timestamp {
            return (header.base_offset.saturating_add(offset), at);
        }
    }
    first
}

/// A zigzag varint of at most 10 bytes; `None` if it is cut short or longer.
pub(super) fn varint(bytes: &mut &[u8]) -> Option<i64> {
    let mut value = 0_u64;
    for shift in (0..70).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        if byte & 0x80 == 0 {
            #[expect(
                clippy::cast_possible_wrap,
                reason = "zigzag is defined on the bit pattern"
            )]
            return Some((value >> 1) as i64 ^ -((value & 1) as i64));
        }
    }
    None
}

#[cfg(test)]
pub(crate) mod testing {
    //! Hand-made batches, so that the log's tests need no client.

    use super::{CRC_FROM, HEADER_BYTES};

    /// One uncompressed batch of `values`, one millisecond apart from `timestamp` on.
    pub(crate) fn batch(producer: (i64, i16, i32), timestamp: i64, values: &[&[u8]]) -> Vec<u8> {
        let mut out = vec![0; HEADER_BYTES];
        for (i, value) in values.iter().enumerate() {
            let delta = i64::try_from(i).unwrap();
            let mut record = vec![0];
            put_varint(&mut record, delta);
            put_varint(&mut record, delta);
            put_varint(&mut record, -1);
            put_varint(&mut record, i64::try_from(value.len()).unwrap());
            record.extend_from_slice(value);
            put_varint(&mut record, 0);
            put_varint(&mut out, i64::try_from(record.len()).unwrap());
            out.extend_from_slice(&record);
        }
        let count = i32::try_from(values.len()).unwrap();
        let length = i32::try_from(out.len() - 12).unwrap();
        out[8..12].copy_from_slice(&length.to_be_bytes());
        out[16] = 2;
        out[23..27].copy_from_slice(&(count - 1).to_be_bytes());
        out[27..35].copy_from_slice(&timestamp.to_be_bytes());
        out[35..43].copy_from_slice(&(timestamp + i64::from(count) - 1).to_be_bytes());
        out[43..51].copy_from_slice(&producer.0.to_be_bytes());
        out[51..53].copy_from_slice(&producer.1.to_be_bytes());
        out[53..57].copy_from_slice(&producer.2.to_be_bytes());
        out[57..61].copy_from_slice(&count.to_be_bytes());
        seal(&mut out);
        out
    }

    /// Recomputes the checksum after a test changed something.
    pub(crate) fn seal(batch: &mut [u8]) {
        let crc = crc32c::crc32c(&batch[CRC_FROM..]);
        batch[17..21].copy_from_slice(&crc.to_be_bytes());
    }

    fn put_varint(out: &mut Vec<u8>, value: i64) {
        let mut zigzag = ((value << 1) ^ (value >> 63)).cast_unsigned();
        while zigzag >= 0x80 {
            out.push(u8::try_from(zigzag & 0x7f).unwrap() | 0x80);
            zigzag >>= 7;
        }
        out.push(u8::try_from(zigzag).unwrap());
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{batch, seal};
    use super::*;

    const NOBODY: (i64, i16, i32) = (-1, -1, -1);

    #[test]
    fn an_intact_batch_passes_and_keeps_its_checksum_when_offsets_are_assigned() {
        let mut bytes = batch(NOBODY, 5, &[b"a", b"b"]);
        let header = validate(&bytes, 1000).unwrap();
        assert_eq!((header.records, header.max_timestamp), (2, 6));
        assign_offset(&mut bytes, 42);
        let header = validate(&bytes, 1000).unwrap();
        assert_eq!((header.base_offset, header.last_offset()), (42, 43));
    }

    #[test]
    fn each_kind_of_damage_has_the_protocols_error() {
        let good = batch(NOBODY, 5, &[b"a"]);
        let damaged = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = good.clone();
            change(&mut bytes);
            validate(&bytes, 1000).unwrap_err()
        };
        assert_eq!(damaged(&|b| b.truncate(10)), ResponseError::CorruptMessage);
        assert_eq!(damaged(&|b| b.truncate(65)), ResponseError::CorruptMessage);
        assert_eq!(damaged(&|b| b[64] ^= 1), ResponseError::CorruptMessage);
        assert_eq!(
            damaged(&|b| b[16] = 1),
            ResponseError::UnsupportedForMessageFormat
        );
        assert_eq!(damaged(&|b| b.push(0)), ResponseError::InvalidRecord);
        let transactional = damaged(&|b| {
            b[22] |= 0x10;
            seal(b);
        });
        assert_eq!(transactional, ResponseError::InvalidRecord);
        assert_eq!(
            validate(&good, 50).unwrap_err(),
            ResponseError::MessageTooLarge
        );
    }

    #[test]
    fn a_timestamp_is_found_inside_a_plain_batch_and_at_the_start_of_a_compressed_one() {
        let mut bytes = batch(NOBODY, 100, &[b"a", b"b", b"c"]);
        assign_offset(&mut bytes, 10);
        let header = BatchHeader::parse(&bytes).unwrap();
        assert_eq!(seek_timestamp(&bytes, &header, 102), (12, 102));
        let compressed = BatchHeader {
            attributes: 1,
            ..header
        };
        assert_eq!(seek_timestamp(&bytes, &compressed, 102), (10, 100));
    }
}
