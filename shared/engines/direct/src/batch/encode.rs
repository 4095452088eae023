//! Writing a batch.

use triad_core::Envelope;

use super::{CRC_FROM, HEADER_BYTES, LENGTH_PREFIX};

/// Bytes of a record beside its key, value and headers, at most.
const RECORD_BYTES: usize = 32;
/// Bytes of a header beside its name and value, at most.
const HEADER_FIELD_BYTES: usize = 10;

/// How many bytes a record takes in a batch, at most.
pub(crate) fn size(record: &Envelope) -> usize {
    let headers = record.sent_headers().map(|(name, value)| {
        name.len() + value.as_ref().map_or(0, |value| value.len()) + HEADER_FIELD_BYTES
    });
    let key = record.key.as_ref().map_or(0, Vec::len);
    RECORD_BYTES + key + record.value.len() + headers.sum::<usize>()
}

/// A batch of records of one partition, all with this timestamp (milliseconds since the Unix epoch).
/// There is at least one record, and not more than `i32` counts.
pub(crate) fn encode(records: &[&Envelope], timestamp_ms: i64) -> Vec<u8> {
    let bytes = records.iter().map(|record| size(record)).sum::<usize>();
    let mut out = Vec::with_capacity(HEADER_BYTES + bytes);
    out.resize(HEADER_BYTES, 0);
    let mut body = Vec::new();
    for (delta, record) in (0_i64..).zip(records) {
        body.clear();
        put_record(&mut body, delta, record);
        put_length(&mut out, body.len());
        out.extend_from_slice(&body);
    }
    let count = i32::try_from(records.len()).unwrap_or(i32::MAX);
    let length = i32::try_from(out.len() - LENGTH_PREFIX).unwrap_or(i32::MAX);
    out[8..12].copy_from_slice(&length.to_be_bytes());
    out[16] = 2;
    out[23..27].copy_from_slice(&(count - 1).to_be_bytes());
    out[27..35].copy_from_slice(&timestamp_ms.to_be_bytes());
    out[35..43].copy_from_slice(&timestamp_ms.to_be_bytes());
    // Producer id, epoch and sequence are -1: the batch is not of an idempotent producer.
    out[43..57].fill(0xff);
    out[57..61].copy_from_slice(&count.to_be_bytes());
    let crc = crc32c::crc32c(&out[CRC_FROM..]);
    out[17..21].copy_from_slice(&crc.to_be_bytes());
    out
}

fn put_record(out: &mut Vec<u8>, delta: i64, record: &Envelope) {
    // The record has no attributes, and the time of its batch.
    out.push(0);
    put_varint(out, 0);
    put_varint(out, delta);
    put_bytes(out, record.key.as_deref());
    put_bytes(out, Some(&record.value));
    put_length(out, record.sent_headers().count());
    for (name, value) in record.sent_headers() {
        put_bytes(out, Some(name.as_bytes()));
        put_bytes(out, value.as_deref());
    }
}

/// Bytes behind their length, which is -1 for none.
fn put_bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        None => put_varint(out, -1),
        Some(bytes) => {
            put_length(out, bytes.len());
            out.extend_from_slice(bytes);
        }
    }
}

fn put_length(out: &mut Vec<u8>, length: usize) {
    put_varint(out, i64::try_from(length).unwrap_or(i64::MAX));
}

/// A zigzag varint.
fn put_varint(out: &mut Vec<u8>, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)).cast_unsigned();
    while rest >= 0x80 {
        out.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}
