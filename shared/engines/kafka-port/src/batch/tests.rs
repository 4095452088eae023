use std::sync::Arc;

use kafka_protocol::error::ResponseError;
use triad_sqlite::topics::{NewRecord, Sequence, StoredRecord};

use super::*;

fn new(offset: i64, time: i64, value: Option<&[u8]>) -> NewRecord {
    NewRecord {
        timestamp_ms: time,
        key: Some(format!("o{offset}").into_bytes()),
        value: value.map(<[u8]>::to_vec),
        headers: vec![
            ("a".into(), Some(b"1".to_vec())),
            ("a".into(), None),
            (String::new(), Some(Vec::new())),
        ],
    }
}

fn stored(offset: i64, time: i64, value: Option<&[u8]>) -> Arc<StoredRecord> {
    Arc::new(new(offset, time, value).at(offset))
}

fn written(records: &[Arc<StoredRecord>]) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out, records);
    out
}

/// The same batch with other records and codec, its checksum made anew.
fn repacked(batch: &[u8], codec: u8, records: &[u8]) -> Vec<u8> {
    let mut out = batch[..HEADER_BYTES].to_vec();
    out.extend_from_slice(records);
    let length = (out.len() - LENGTH_PREFIX) as u32;
    out[8..12].copy_from_slice(&length.to_be_bytes());
    out[22] = codec;
    sealed(out)
}

fn sealed(mut batch: Vec<u8>) -> Vec<u8> {
    let crc = crc32c::crc32c(&batch[CRC_FROM..]);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
    batch
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(bytes).expect("it is compressed");
    out.finish().expect("it is compressed")
}

#[test]
fn what_is_written_is_read() {
    let long = vec![7; 300_000];
    let sent = [
        (40, 1_234, Some(&b"one"[..])),
        (41, 1_200, None),
        (42, 1_300, Some(b"")),
        (43, 1_301, Some(&long)),
    ];
    let records = sent.map(|(offset, time, value)| stored(offset, time, value));
    let bytes = written(&records);
    assert_eq!(&bytes[..8], 40_i64.to_be_bytes());
    assert_eq!(&bytes[35..43], 1_301_i64.to_be_bytes(), "the greatest time");
    let produced = read(&bytes, usize::MAX).expect("a batch");
    let expected = sent.map(|(offset, time, value)| new(offset, time, value));
    assert_eq!(produced.records, expected);
    assert_eq!(produced.sequence, None);
}

#[test]
fn an_idempotent_producers_batch_names_its_sequence() {
    let mut bytes = written(&[stored(0, 5, Some(b"v")), stored(1, 5, Some(b"v"))]);
    bytes[43..51].copy_from_slice(&7_i64.to_be_bytes());
    bytes[51..53].copy_from_slice(&2_i16.to_be_bytes());
    bytes[53..57].copy_from_slice(&30_i32.to_be_bytes());
    let produced = read(&sealed(bytes), usize::MAX).expect("a batch");
    let expected = Sequence {
        producer: 7,
        epoch: 2,
        first: 30,
        more: 1,
    };
    assert_eq!(produced.sequence, Some(expected));
}

#[test]
fn every_codec_is_read() {
    let plain = written(&[stored(0, 5, Some(b"value"))]);
    let records = &plain[HEADER_BYTES..];
    let block = snap::raw::Encoder::new()
        .compress_vec(records)
        .expect("it is compressed");
    let mut blocks = [
        0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1,
    ]
    .to_vec();
    blocks.extend_from_slice(&(block.len() as u32).to_be_bytes());
    blocks.extend_from_slice(&block);
    let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
    std::io::Write::write_all(&mut lz4, records).expect("it is compressed");
    let lz4 = lz4.finish().expect("it is compressed");
    let zstd = zstd::bulk::compress(records, 1).expect("it is compressed");
    let (one, other) = records.split_at(records.len() / 2);
    let frames = [one, other].map(|part| zstd::bulk::compress(part, 1).expect("it is compressed"));
    let expected = read(&plain, usize::MAX).expect("a batch");
    for (codec, packed) in [
        (1, gzip(records)),
        (2, block),
        (2, blocks),
        (3, lz4),
        (4, zstd),
        (4, frames.concat()),
    ] {
        let found = read(&repacked(&plain, codec, &packed), usize::MAX);
        assert_eq!(found.as_ref(), Ok(&expected), "codec {codec}");
    }
}

#[test]
fn each_kind_of_damage_has_the_protocols_error() {
    let good = written(&[stored(0, 5, Some(b"a")), stored(1, 5, Some(b"b"))]);
    let records = &good[HEADER_BYTES..];
    let changed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        bytes
    };
    let bomb = gzip(&vec![0; codec::MAX_BYTES + 1]);
    for (what, bytes, error) in [
        (
            "cut",
            changed(&|b| b.truncate(10)),
            ResponseError::CorruptMessage,
        ),
        (
            "cut in the records",
            changed(&|b| b.truncate(65)),
            ResponseError::CorruptMessage,
        ),
        (
            "checksum",
            changed(&|b| b[64] ^= 1),
            ResponseError::CorruptMessage,
        ),
        (
            "old format",
            changed(&|b| b[16] = 1),
            ResponseError::UnsupportedForMessageFormat,
        ),
        (
            "more bytes",
            changed(&|b| b.push(0)),
            ResponseError::InvalidRecord,
        ),
        (
            "of a transaction",
            sealed(changed(&|b| b[22] |= 0x10)),
            ResponseError::InvalidRecord,
        ),
        (
            "count",
            sealed(changed(&|b| b[60] = 3)),
            ResponseError::InvalidRecord,
        ),
        (
            "codec",
            repacked(&good, 5, records),
            ResponseError::InvalidRecord,
        ),
        (
            "no gzip",
            repacked(&good, 1, b"no gzip"),
            ResponseError::InvalidRecord,
        ),
        (
            "fewer records",
            repacked(&good, 0, &records[..3]),
            ResponseError::InvalidRecord,
        ),
        (
            "too large unpacked",
            repacked(&good, 1, &bomb),
            ResponseError::InvalidRecord,
        ),
    ] {
        assert_eq!(read(&bytes, usize::MAX), Err(error), "{what}");
    }
    assert_eq!(read(&good, 50), Err(ResponseError::MessageTooLarge));
}

/// Whatever is in a batch, reading it ends without a panic.
#[test]
fn no_damage_makes_it_loop_or_panic() {
    let good = written(&[stored(7, 5, Some(b"value"))]);
    for place in HEADER_BYTES..good.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut records = good[HEADER_BYTES..].to_vec();
            records[place - HEADER_BYTES] = value;
            let _ = read(&repacked(&good, 0, &records), usize::MAX);
        }
    }
    for length in 0..good.len() {
        assert!(
            read(&good[..length], usize::MAX).is_err(),
            "cut at {length}"
        );
    }
}
