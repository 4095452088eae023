//! Writing a batch for a consumer.

use std::sync::Arc;

use triad_sqlite::topics::StoredRecord;

use super::{CRC_FROM, HEADER_BYTES, LENGTH_PREFIX};

/// Adds records of one partition to `out`, as one batch. Nothing is added if there is none.
pub(crate) fn write(out: &mut Vec<u8>, records: &[Arc<StoredRecord>]) {
    let (Some(first), Some(last)) = (records.first(), records.last()) else {
        return;
    };
    let begin = out.len();
    out.resize(begin + HEADER_BYTES, 0);
    let mut body = Vec::new();
    for record in records {
        body.clear();
        put_record(&mut body, first, record);
        put_length(out, body.len());
        out.extend_from_slice(&body);
    }
    let latest = records.iter().map(|record| record.timestamp_ms).max();
    let batch = &mut out[begin..];
    let length = i32::try_from(batch.len() - LENGTH_PREFIX).unwrap_or(i32::MAX);
    let delta = i32::try_from(last.offset - first.offset).unwrap_or(i32::MAX);
    let count = i32::try_from(records.len()).unwrap_or(i32::MAX);
    batch[0..8].copy_from_slice(&first.offset.to_be_bytes());
    batch[8..12].copy_from_slice(&length.to_be_bytes());
    batch[16] = 2;
    batch[23..27].copy_from_slice(&delta.to_be_bytes());
    batch[27..35].copy_from_slice(&first.timestamp_ms.to_be_bytes());
    batch[35..43].copy_from_slice(&latest.unwrap_or(-1).to_be_bytes());
    // Producer id, epoch and sequence are -1: the batch is of no idempotent producer.
    batch[43..57].fill(0xff);
    batch[57..61].copy_from_slice(&count.to_be_bytes());
    let crc = crc32c::crc32c(&batch[CRC_FROM..]);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
}

fn put_record(out: &mut Vec<u8>, first: &StoredRecord, record: &StoredRecord) {
    // The record has no attributes.
    out.push(0);
    put_varint(out, record.timestamp_ms.saturating_sub(first.timestamp_ms));
    put_varint(out, record.offset - first.offset);
    put_bytes(out, record.key());
    put_bytes(out, record.value());
    put_length(out, record.headers().count());
    for (name, value) in record.headers() {
        put_bytes(out, Some(name.as_bytes()));
        put_bytes(out, value);
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
