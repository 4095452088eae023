use triad_core::Envelope;
use triad_runtime::InputRecord;

use super::codec::MAX_BYTES;
use super::*;

fn message(key: Option<&str>, value: &[u8], headers: &[(&str, Option<&str>)]) -> Envelope {
    let header = |(name, value): &(&str, Option<&str>)| {
        ((*name).to_owned(), value.map(|v| v.as_bytes().to_vec()))
    };
    Envelope {
        topic: "t".into(),
        key: key.map(|k| k.as_bytes().to_vec()),
        value: value.to_vec(),
        headers: headers.iter().map(header).collect(),
        trace: None,
    }
}

/// A batch at an offset, as the broker stores it.
fn at(offset: i64, mut bytes: Vec<u8>) -> Vec<u8> {
    bytes[0..8].copy_from_slice(&offset.to_be_bytes());
    bytes
}

fn read(bytes: Vec<u8>, from: i64) -> (Vec<Readable>, i64) {
    let mut batches = Batches::new("t".into(), 3, bytes, from);
    let read: Vec<Readable> = std::iter::from_fn(|| batches.read()).collect();
    (read, batches.position())
}

fn record(found: &Readable) -> &InputRecord {
    match found {
        Readable::Record(record) => record,
        Readable::Not(unreadable) => panic!("{unreadable:?}"),
    }
}

/// The same batch with its records in another form, its checksum made anew.
fn repacked(batch: &[u8], codec: u8, records: &[u8]) -> Vec<u8> {
    let mut out = batch[..HEADER_BYTES].to_vec();
    out.extend_from_slice(records);
    let length = (out.len() - LENGTH_PREFIX) as u32;
    out[8..12].copy_from_slice(&length.to_be_bytes());
    out[22] = codec;
    let crc = crc32c::crc32c(&out[CRC_FROM..]);
    out[17..21].copy_from_slice(&crc.to_be_bytes());
    out
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
    let written = [
        message(
            Some("o1"),
            b"one",
            &[("a", Some("1")), ("a", None), ("", Some(""))],
        ),
        message(None, b"", &[]),
        message(Some(""), &long, &[("traceparent", Some("x"))]),
    ];
    let bytes = encode(&written.iter().collect::<Vec<_>>(), 1_234);
    assert!(bytes.len() <= HEADER_BYTES + written.iter().map(size).sum::<usize>());
    let (found, next) = read(at(40, bytes), 40);
    assert_eq!((found.len(), next), (3, 43));
    for (n, (found, sent)) in found.iter().zip(&written).enumerate() {
        let expected = InputRecord {
            topic: "t".into(),
            partition: 3,
            offset: 40 + n as i64,
            timestamp_ms: 1_234,
            key: sent.key.clone(),
            value: Some(sent.value.clone()),
            headers: sent.headers.clone(),
        };
        assert_eq!(record(found), &expected);
    }
}

#[test]
fn records_before_the_wanted_offset_are_left_out() {
    let written = [message(None, b"0", &[]), message(None, b"1", &[])];
    let all: Vec<&Envelope> = written.iter().collect();
    let bytes = [at(10, encode(&all, 0)), at(12, encode(&all, 0))].concat();
    for from in 10..=14 {
        let (found, next) = read(bytes.clone(), from);
        let offsets: Vec<i64> = found.iter().map(|f| record(f).offset).collect();
        assert_eq!(offsets, (from..14).collect::<Vec<_>>());
        assert_eq!(next, 14);
    }
}

#[test]
fn every_codec_of_others_is_read() {
    let plain = encode(&[&message(Some("k"), b"value", &[])], 5);
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
    let (expected, _) = read(plain.clone(), 0);
    for (codec, packed) in [
        (1, gzip(records)),
        (2, block),
        (2, blocks),
        (3, lz4),
        (4, zstd),
        (4, frames.concat()),
    ] {
        let (found, next) = read(repacked(&plain, codec, &packed), 0);
        assert_eq!((&found, next), (&expected, 1), "codec {codec}");
    }
}

#[test]
fn a_batch_that_cannot_be_read_is_passed_over_and_the_next_one_is_read() {
    let good = encode(
        &[&message(None, b"good", &[]), &message(None, b"too", &[])],
        0,
    );
    let records = good[HEADER_BYTES..].to_vec();
    let mut torn = at(20, good.clone());
    let last = torn.len() - 1;
    torn[last] ^= 1;
    let bad = [
        ("checksum", torn),
        ("codec", at(20, repacked(&good, 5, &records))),
        ("decompressed", at(20, repacked(&good, 1, b"no gzip"))),
        ("no records", at(20, repacked(&good, 0, &records[..3]))),
        (
            "more than",
            at(20, repacked(&good, 1, &gzip(&vec![0; MAX_BYTES + 1]))),
        ),
    ];
    for (why, bad) in bad {
        let bytes = [bad, at(22, good.clone())].concat();
        let (found, next) = read(bytes, 20);
        assert_eq!((found.len(), next), (3, 24), "{why}");
        let Readable::Not(unreadable) = &found[0] else {
            panic!("{why}: {:?}", found[0]);
        };
        assert_eq!((unreadable.first, unreadable.next), (20, 22), "{why}");
        assert!(unreadable.reason.contains(why), "{}", unreadable.reason);
        assert_eq!(record(&found[1]).value.as_deref(), Some(&b"good"[..]));
    }
}

#[test]
fn a_batch_that_is_damaged_behind_its_first_record_gives_that_one() {
    let good = encode(
        &[&message(None, b"good", &[]), &message(None, b"bad", &[])],
        0,
    );
    let mut records = good[HEADER_BYTES..].to_vec();
    let second = records.len() - 10;
    records[second..].fill(0xff);
    let (found, next) = read(at(5, repacked(&good, 0, &records)), 5);
    assert_eq!(record(&found[0]).value.as_deref(), Some(&b"good"[..]));
    assert!(matches!(&found[1], Readable::Not(u) if (u.first, u.next) == (6, 7)));
    assert_eq!((found.len(), next), (2, 7));
}

/// Whatever stands in a batch, reading ends, and ends behind it.
#[test]
fn no_damage_makes_it_loop_or_panic() {
    let good = at(
        7,
        encode(&[&message(Some("k"), b"value", &[("h", Some("v"))])], 0),
    );
    for place in HEADER_BYTES..good.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut records = good[HEADER_BYTES..].to_vec();
            records[place - HEADER_BYTES] = value;
            let (found, next) = read(repacked(&good, 0, &records), 7);
            assert_eq!((found.len(), next), (1, 8), "{value} at {place}");
        }
    }
    for length in 0..good.len() {
        let (found, next) = read(good[..length].to_vec(), 7);
        assert_eq!((found.len(), next), (0, 7), "cut at {length}");
    }
}
