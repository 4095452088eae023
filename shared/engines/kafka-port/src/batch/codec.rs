//! Decompression, with a bound: a small batch must not become a large one.

use std::io::{self, Read};

use ruzstd::decoding::StreamingDecoder;

/// Bound: bytes of a batch's records once they are decompressed, in every codec; as in the Kafka client.
pub(super) const MAX_BYTES: usize = 32 * 1024 * 1024;

/// How the blocks of the Java clients' Snappy begin (`snappy-java`'s stream format).
const SNAPPY_BLOCKS: &[u8] = &[0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
/// Bytes before the first block: the beginning and two versions.
const SNAPPY_HEADER: usize = 16;

/// The records of a batch with these attributes, decompressed.
///
/// # Errors
/// Why that cannot be done, for people.
pub(super) fn decompress(attributes: i16, bytes: &[u8]) -> Result<Vec<u8>, String> {
    let done = match attributes & 0x07 {
        1 => bounded(flate2::read::MultiGzDecoder::new(bytes)),
        2 => snappy(bytes),
        3 => bounded(lz4_flex::frame::FrameDecoder::new(bytes)),
        4 => zstd(bytes),
        other => Err(io::Error::other(format!("there is no codec {other}"))),
    };
    done.map_err(|error| format!("it cannot be decompressed: {error}"))
}

fn bounded(reader: impl Read) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    let most = MAX_BYTES as u64 + 1;
    reader.take(most).read_to_end(&mut out)?;
    within_bound(out.len())?;
    Ok(out)
}

fn within_bound(length: usize) -> io::Result<()> {
    match length {
        0..=MAX_BYTES => Ok(()),
        _ => Err(io::Error::other(format!(
            "it becomes more than {MAX_BYTES} bytes"
        ))),
    }
}

/// Frame after frame: a decoder ends with the first.
fn zstd(mut bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let frame = StreamingDecoder::new(&mut bytes).map_err(io::Error::other)?;
        let frame = bounded(frame)?;
        within_bound(out.len() + frame.len())?;
        out.extend(frame);
    }
    Ok(out)
}

/// One block, or the Java clients' blocks, each behind its length.
fn snappy(bytes: &[u8]) -> io::Result<Vec<u8>> {
    if !bytes.starts_with(SNAPPY_BLOCKS) {
        let mut out = Vec::new();
        add_block(&mut out, bytes)?;
        return Ok(out);
    }
    let mut out = Vec::new();
    let mut rest = bytes.get(SNAPPY_HEADER..).unwrap_or_default();
    while let Some((length, behind)) = rest.split_first_chunk::<4>() {
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        let (block, next) = behind
            .split_at_checked(length)
            .ok_or_else(|| io::Error::other("a block is cut short"))?;
        add_block(&mut out, block)?;
        rest = next;
    }
    match rest {
        [] => Ok(out),
        _ => Err(io::Error::other("a block is cut short")),
    }
}

fn add_block(out: &mut Vec<u8>, block: &[u8]) -> io::Result<()> {
    let becomes = snap::raw::decompress_len(block).map_err(io::Error::other)?;
    within_bound(out.len().saturating_add(becomes))?;
    let before = out.len();
    out.resize(before + becomes, 0);
    let done = snap::raw::Decoder::new().decompress(block, &mut out[before..]);
    done.map(|_| ()).map_err(io::Error::other)
}
