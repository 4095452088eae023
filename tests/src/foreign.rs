//! Record batches built byte by byte, with content that no client of Triad writes.
//!
//! Layout: Kafka protocol guide, "Record Batch", magic 2, and Produce version 3.

use std::io::{Read, Write};
use std::net::TcpStream;

/// A record with arbitrary bytes.
#[derive(Debug, Clone, Default)]
pub struct Foreign {
    /// Key, if it has one.
    pub key: Option<Vec<u8>>,
    /// Value; `None` is a tombstone.
    pub value: Option<Vec<u8>>,
    /// Headers; their names need not be text.
    pub headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

/// Compression codecs of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i16)]
pub enum Codec {
    /// Not compressed.
    None = 0,
    /// gzip.
    Gzip = 1,
    /// Snappy.
    Snappy = 2,
    /// LZ4 frames.
    Lz4 = 3,
    /// Zstandard.
    Zstd = 4,
    /// A number that the protocol assigns to no codec.
    Unknown = 7,
}

/// The bytes of a batch after its header, uncompressed.
pub fn records(all: &[Foreign]) -> Vec<u8> {
    let mut out = Vec::new();
    for (at, record) in all.iter().enumerate() {
        let mut one = vec![0];
        put_varint(&mut one, 0);
        put_varint(&mut one, at as i64);
        put_bytes(&mut one, record.key.as_deref());
        put_bytes(&mut one, record.value.as_deref());
        put_varint(&mut one, record.headers.len() as i64);
        for (name, value) in &record.headers {
            put_bytes(&mut one, Some(name));
            put_bytes(&mut one, value.as_deref());
        }
        put_varint(&mut out, one.len() as i64);
        out.extend_from_slice(&one);
    }
    out
}

/// A batch whose header claims `count` records in this codec, with any content and a correct checksum.
pub fn batch(codec: Codec, count: i32, content: &[u8]) -> Vec<u8> {
    const CRC_FROM: usize = 21;
    let mut out = vec![0; 61];
    out.extend_from_slice(content);
    let length = i32::try_from(out.len() - 12).expect("a small batch");
    out[8..12].copy_from_slice(&length.to_be_bytes());
    out[16] = 2;
    out[21..23].copy_from_slice(&(codec as i16).to_be_bytes());
    out[23..27].copy_from_slice(&(count - 1).to_be_bytes());
    // Producer id, epoch and sequence are -1: the producer is not idempotent.
    out[43..57].fill(0xff);
    out[57..61].copy_from_slice(&count.to_be_bytes());
    let crc = crc32c::crc32c(&out[CRC_FROM..]);
    out[17..21].copy_from_slice(&crc.to_be_bytes());
    out
}

/// Writes a batch into a partition of a topic; returns the offset of its first record.
///
/// # Panics
/// If the broker refuses it.
pub fn produce(brokers: &str, topic: &str, partition: i32, batch: &[u8]) -> i64 {
    offer(brokers, topic, partition, batch).expect("the broker takes the batch")
}

/// Offers a batch to a partition of a topic; returns the offset of its first record.
///
/// # Errors
/// The protocol's error code, if the broker refuses it.
pub fn offer(brokers: &str, topic: &str, partition: i32, batch: &[u8]) -> Result<i64, i16> {
    let mut body: Vec<u8> = Vec::new();
    let mut put = |bytes: &[u8]| body.extend_from_slice(bytes);
    // Produce, version 3: correlation id 1, no client id, no transaction, acknowledgement by all replicas, timeout 30
    // s.
    put(&[0, 0, 0, 3, 0, 0, 0, 1, 0xff, 0xff]);
    put(&[0xff, 0xff, 0xff, 0xff]);
    put(&30_000_i32.to_be_bytes());
    put(&1_i32.to_be_bytes());
    put(&i16::try_from(topic.len())
        .expect("a short name")
        .to_be_bytes());
    put(topic.as_bytes());
    put(&1_i32.to_be_bytes());
    put(&partition.to_be_bytes());
    put(&i32::try_from(batch.len())
        .expect("a small batch")
        .to_be_bytes());
    put(batch);
    let mut broker = TcpStream::connect(brokers).expect("the broker is there");
    let length = i32::try_from(body.len()).expect("a small request");
    broker.write_all(&length.to_be_bytes()).expect("it reads");
    broker.write_all(&body).expect("it reads");
    let mut length = [0; 4];
    broker.read_exact(&mut length).expect("it answers");
    let mut answer = vec![0; u32::from_be_bytes(length) as usize];
    broker.read_exact(&mut answer).expect("it answers in full");
    // Skips the correlation id, the number of topics, the name, the number of partitions, and the partition's number.
    let at = 4 + 4 + 2 + topic.len() + 4 + 4;
    let error = i16::from_be_bytes([answer[at], answer[at + 1]]);
    if error != 0 {
        return Err(error);
    }
    let mut offset = [0; 8];
    offset.copy_from_slice(&answer[at + 2..at + 10]);
    Ok(i64::from_be_bytes(offset))
}

fn put_bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    put_varint(out, bytes.map_or(-1, |b| b.len() as i64));
    out.extend_from_slice(bytes.unwrap_or_default());
}

fn put_varint(out: &mut Vec<u8>, value: i64) {
    let mut zigzag = ((value << 1) ^ (value >> 63)).cast_unsigned();
    while zigzag >= 0x80 {
        out.push((zigzag & 0x7f) as u8 | 0x80);
        zigzag >>= 7;
    }
    out.push(zigzag as u8);
}
