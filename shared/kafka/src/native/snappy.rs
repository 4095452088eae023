//! librdkafka's Snappy, with a bound: its own takes as much memory as a batch says that it needs, up
//! to 4 GiB for each of its blocks, before it looks at one, and ends the process where there is not
//! so much.
//!
//! How functions of librdkafka are replaced: [`super::codecs`].
#![expect(unsafe_code, reason = "C functions are replaced, with C's memory")]

use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;

use snap::raw::{Decoder, Encoder, decompress_len, max_compress_len};

use super::room::{MAX_BYTES, Room};

/// `-EINVAL`.
const INVALID: c_int = -22;

/// `struct iovec`.
#[repr(C)]
struct Part {
    bytes: *mut c_void,
    length: usize,
}

/// Has the linker take these functions.
pub(super) fn link() {
    let begin: unsafe extern "C" fn(*mut c_void, bool) -> c_int = rd_kafka_snappy_init_env_sg;
    let end: unsafe extern "C" fn(*mut c_void) = rd_kafka_snappy_free_env;
    let bound: unsafe extern "C" fn(usize) -> usize = rd_kafka_snappy_max_compressed_length;
    let compress: unsafe extern "C" fn(*mut c_void, *const Part, usize, usize, *mut Part) -> c_int =
        rd_kafka_snappy_compress_iov;
    std::hint::black_box((begin, end, bound, compress));
    let length: unsafe extern "C" fn(*const c_char, usize, *mut usize) -> bool =
        rd_kafka_snappy_uncompressed_length;
    let decompress: unsafe extern "C" fn(*const c_char, usize, *mut c_char) -> c_int =
        rd_kafka_snappy_uncompress;
    let blocks: unsafe extern "C" fn(
        *const c_char,
        usize,
        *mut usize,
        *mut c_char,
        usize,
    ) -> *mut c_char = rd_kafka_snappy_java_uncompress;
    std::hint::black_box((length, decompress, blocks));
}

/// Begins a compression; there is nothing to keep between its calls.
///
/// # Safety
/// None is needed.
#[unsafe(no_mangle)]
unsafe extern "C" fn rd_kafka_snappy_init_env_sg(_kept: *mut c_void, _in_parts: bool) -> c_int {
    0
}

/// Ends a compression.
///
/// # Safety
/// None is needed.
#[unsafe(no_mangle)]
unsafe extern "C" fn rd_kafka_snappy_free_env(_kept: *mut c_void) {}

/// Bytes that so many bytes may become at most.
///
/// # Safety
/// None is needed.
#[unsafe(no_mangle)]
unsafe extern "C" fn rd_kafka_snappy_max_compressed_length(length: usize) -> usize {
    max_compress_len(length)
}

/// Compresses parts, `length` bytes in all, into memory of the caller that has room for
/// [`rd_kafka_snappy_max_compressed_length`] bytes; 0 if that went well.
///
/// # Safety
/// The parts are as they say, and the memory of `out` may be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn rd_kafka_snappy_compress_iov(
    _kept: *mut c_void,
    parts: *const Part,
    count: usize,
    length: usize,
    out: *mut Part,
) -> c_int {
    let mut all = Vec::with_capacity(length);
    // SAFETY: the caller's.
    let (parts, out) = unsafe { (std::slice::from_raw_parts(parts, count), &mut *out) };
    for part in parts.iter().filter(|part| part.length > 0) {
        // SAFETY: the caller's.
        let bytes = unsafe { std::slice::from_raw_parts(part.bytes.cast::<u8>(), part.length) };
        all.extend_from_slice(bytes);
    }
    let Ok(compressed) = Encoder::new().compress_vec(&all) else {
        return INVALID;
    };
    if compressed.len() > out.length {
        return INVALID;
    }
    // SAFETY: the caller's; it was looked at whether it fits.
    unsafe {
        let memory = out.bytes.cast::<u8>();
        std::ptr::copy_nonoverlapping(compressed.as_ptr(), memory, compressed.len());
    }
    out.length = compressed.len();
    0
}

/// Says how many bytes a block becomes; false if it is none, or too large.
///
/// # Safety
/// `block` is so long as is said, and `size` may be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn rd_kafka_snappy_uncompressed_length(
    block: *const c_char,
    length: usize,
    size: *mut usize,
) -> bool {
    // SAFETY: the caller's.
    let block = unsafe { std::slice::from_raw_parts(block.cast::<u8>(), length) };
    let Some(becomes) = length_of(block) else {
        return false;
    };
    // SAFETY: the caller's.
    unsafe { *size = becomes };
    true
}

/// Decompresses a block into memory of the caller that has room for what
/// [`rd_kafka_snappy_uncompressed_length`] has said; 0 if that went well.
///
/// # Safety
/// `block` is so long as is said, and the memory may be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn rd_kafka_snappy_uncompress(
    block: *const c_char,
    length: usize,
    out: *mut c_char,
) -> c_int {
    // SAFETY: the caller's.
    let block = unsafe { std::slice::from_raw_parts(block.cast::<u8>(), length) };
    let Some(becomes) = length_of(block) else {
        return INVALID;
    };
    // SAFETY: the caller's; it is written before it is read.
    let out = unsafe {
        out.cast::<u8>().write_bytes(0, becomes);
        std::slice::from_raw_parts_mut(out.cast::<u8>(), becomes)
    };
    match Decoder::new().decompress(block, out) {
        Ok(written) if written == becomes => 0,
        _ => INVALID,
    }
}

/// Decompresses blocks as the Java client frames them, into memory that the caller frees; null if
/// they are none, or too large together.
///
/// # Safety
/// `blocks` are so long as is said; `size` may be written, and `error` so far as is said.
#[unsafe(no_mangle)]
unsafe extern "C" fn rd_kafka_snappy_java_uncompress(
    blocks: *const c_char,
    length: usize,
    size: *mut usize,
    error: *mut c_char,
    error_size: usize,
) -> *mut c_char {
    // SAFETY: the caller's.
    let blocks = unsafe { std::slice::from_raw_parts(blocks.cast::<u8>(), length) };
    let Some(room) = of_blocks(blocks) else {
        if error_size > 0 {
            // SAFETY: the caller's.
            unsafe { *error = 0 };
        }
        return null_mut();
    };
    let (memory, length) = room.into_raw();
    // SAFETY: the caller's.
    unsafe { *size = length };
    memory.cast()
}

/// Bytes that a block says it becomes; `None` if it says nothing, or more than may be.
fn length_of(block: &[u8]) -> Option<usize> {
    let said = decompress_len(block).ok()?;
    (said <= MAX_BYTES).then_some(said)
}

/// The blocks one after the other, each after its length in four bytes.
fn of_blocks(all: &[u8]) -> Option<Room> {
    let mut becomes = 0;
    for block in Blocks(all) {
        becomes += length_of(block?)?;
        if becomes > MAX_BYTES {
            return None;
        }
    }
    if becomes == 0 {
        return None;
    }
    let mut room = Room::new(becomes)?;
    let mut rest = room.bytes();
    let mut decoder = Decoder::new();
    for block in Blocks(all) {
        let block = block?;
        let (out, behind) = rest.split_at_mut(length_of(block)?);
        decoder.decompress(block, out).ok()?;
        rest = behind;
    }
    Some(room)
}

/// Blocks with their lengths before them; `None` for what is no whole block, and then no more.
struct Blocks<'a>(&'a [u8]);

impl<'a> Iterator for Blocks<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let all = std::mem::take(&mut self.0);
        let Some((length, rest)) = all.split_first_chunk::<4>() else {
            return Some(None);
        };
        let length = u32::from_be_bytes(*length) as usize;
        let Some((block, rest)) = rest.split_at_checked(length) else {
            return Some(None);
        };
        self.0 = rest;
        Some(Some(block))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(blocks: &[&[u8]]) -> Vec<u8> {
        let mut all = Vec::new();
        for block in blocks {
            let block = Encoder::new().compress_vec(block).expect("it is small");
            all.extend_from_slice(&(block.len() as u32).to_be_bytes());
            all.extend_from_slice(&block);
        }
        all
    }

    #[test]
    fn blocks_are_read_in_their_order_or_not_at_all() {
        let all = framed(&[b"one ", b"", b"two ", b"three"]);
        let mut read = of_blocks(&all).expect("they are sound");
        assert_eq!(read.bytes(), b"one two three");
        for cut in 1..all.len() {
            let whole = of_blocks(&all[..cut]).is_some_and(|mut r| r.bytes() == b"one two three");
            assert!(!whole, "cut at {cut}");
        }
        assert!(of_blocks(&framed(&[b""])).is_none());
    }

    /// A block that says it becomes so much, and holds nothing.
    fn saying(mut becomes: usize) -> Vec<u8> {
        let mut block = Vec::new();
        while becomes >= 0x80 {
            block.push(becomes as u8 | 0x80);
            becomes >>= 7;
        }
        block.push(becomes as u8);
        block
    }

    #[test]
    fn what_a_block_says_is_not_believed_above_the_bound() {
        assert_eq!(length_of(&saying(MAX_BYTES)), Some(MAX_BYTES));
        assert_eq!(length_of(&saying(MAX_BYTES + 1)), None);
        assert_eq!(length_of(&saying(u32::MAX as usize)), None);
        // Each within the bound, and together far above it.
        let half = saying(MAX_BYTES / 2 + 1);
        let one = [&(half.len() as u32).to_be_bytes()[..], &half].concat();
        assert!(of_blocks(&one.repeat(2)).is_none());
    }
}
