//! librdkafka's LZ4, with a bound: its own makes of a batch what its frame says, 255 times as much
//! at most.
//!
//! How functions of librdkafka are replaced: [`super::codecs`].
#![expect(unsafe_code, reason = "C functions are replaced, with C's memory")]

use std::ffi::{c_char, c_int, c_void};
use std::io::Write;

use lz4_flex::frame::{FrameDecoder, FrameEncoder};
use twox_hash::XxHash32;

use super::room::Room;

/// `RD_KAFKA_RESP_ERR_NO_ERROR`.
const NO_ERROR: c_int = 0;
/// `RD_KAFKA_RESP_ERR__BAD_COMPRESSION`.
const BAD_COMPRESSION: c_int = -198;
/// How an LZ4 frame begins.
const MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];
/// Where its flags stand.
const FLAGS: usize = MAGIC.len();
/// How many times its size a batch is expected to have once it is decompressed.
const USUAL_RATIO: usize = 4;

/// `rd_slice_t`, which only librdkafka looks into.
#[repr(C)]
struct Slice {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    /// The next bytes of a slice; none at its end.
    fn rd_slice_reader(slice: *mut Slice, bytes: *mut *const c_void) -> usize;
}

type Decompress = unsafe extern "C" fn(
    *mut c_void,
    c_int,
    i64,
    *mut c_char,
    usize,
    *mut *mut c_void,
    *mut usize,
) -> c_int;
type Compress = unsafe extern "C" fn(
    *mut c_void,
    c_int,
    c_int,
    *mut Slice,
    *mut *mut c_void,
    *mut usize,
) -> c_int;

/// Has the linker take these functions.
pub(super) fn link() {
    let decompress: Decompress = rd_kafka_lz4_decompress;
    let compress: Compress = rd_kafka_lz4_compress;
    std::hint::black_box((decompress, compress));
}

/// Decompresses a batch into memory that the caller frees.
///
/// # Safety
/// `bytes` are so many as is said and may be written, as may `out` and `size`.
#[unsafe(no_mangle)]
unsafe extern "C" fn rd_kafka_lz4_decompress(
    _broker: *mut c_void,
    has_sound_header: c_int,
    _offset: i64,
    bytes: *mut c_char,
    length: usize,
    out: *mut *mut c_void,
    size: *mut usize,
) -> c_int {
    // SAFETY: the caller's.
    let bytes = unsafe { std::slice::from_raw_parts_mut(bytes.cast::<u8>(), length) };
    if has_sound_header == 0 {
        mend_header(bytes);
    }
    // SAFETY: the caller's.
    unsafe { hand_over(decompressed(bytes), out, size) }
}

/// What one frame holds, if the bytes are one and no more.
fn decompressed(frame: &[u8]) -> Option<Room> {
    let mut decoder = FrameDecoder::new(frame);
    let expected = frame.len().saturating_mul(USUAL_RATIO);
    let room = Room::filled(&mut decoder, expected)?;
    // The decoder takes the end of its input for the end of the frame.
    (decoder.into_inner().is_empty() && is_whole(frame)).then_some(room)
}

/// Whether a frame ends with its end mark, a block of no bytes, and the checksum if it has one.
fn is_whole(frame: &[u8]) -> bool {
    let has_checksum = frame.get(FLAGS).is_some_and(|flags| flags & 0b100 != 0);
    let behind = if has_checksum { 4 } else { 0 };
    let mark = frame.len().checked_sub(behind);
    mark.is_some_and(|end| frame[..end].ends_with(&[0; 4]))
}

/// Compresses what a slice holds into memory that the caller frees.
///
/// # Safety
/// `slice` is one of librdkafka's; `out` and `size` may be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn rd_kafka_lz4_compress(
    _broker: *mut c_void,
    _has_sound_header: c_int,
    _level: c_int,
    slice: *mut Slice,
    out: *mut *mut c_void,
    size: *mut usize,
) -> c_int {
    let mut frame = FrameEncoder::new(Vec::new());
    // Bounded: a slice has an end.
    loop {
        let mut bytes = std::ptr::null();
        // SAFETY: the caller's; it gives bytes that stay while the slice does.
        let next = unsafe {
            let length = rd_slice_reader(slice, &raw mut bytes);
            match length {
                0 => break,
                _ => std::slice::from_raw_parts(bytes.cast::<u8>(), length),
            }
        };
        if frame.write_all(next).is_err() {
            return BAD_COMPRESSION;
        }
    }
    let room = frame.finish().ok().and_then(|frame| {
        let mut room = Room::new(frame.len())?;
        room.bytes().copy_from_slice(&frame);
        Some(room)
    });
    // SAFETY: the caller's.
    unsafe { hand_over(room, out, size) }
}

/// # Safety
/// `out` and `size` may be written.
unsafe fn hand_over(room: Option<Room>, out: *mut *mut c_void, size: *mut usize) -> c_int {
    let Some(room) = room else {
        return BAD_COMPRESSION;
    };
    let (memory, length) = room.into_raw();
    // SAFETY: the caller's.
    unsafe {
        *out = memory;
        *size = length;
    }
    NO_ERROR
}

/// Puts the right checksum of the header in place of the one that clients from before Kafka 0.10
/// wrote, which counts the magic number in
/// (<https://cwiki.apache.org/confluence/display/KAFKA/KIP-57+-+Interoperable+LZ4+Framing>).
fn mend_header(frame: &mut [u8]) {
    if !frame.starts_with(&MAGIC) {
        return;
    }
    let has_size = frame.get(FLAGS).is_some_and(|flags| flags & 0b1000 != 0);
    let end = if has_size { 14 } else { 6 };
    if frame.len() > end {
        let hash = XxHash32::oneshot(0, &frame[MAGIC.len()..end]);
        frame[end] = (hash >> 8) as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(content: &[u8]) -> Vec<u8> {
        let mut frame = FrameEncoder::new(Vec::new());
        frame.write_all(content).expect("memory takes it");
        frame.finish().expect("memory takes it")
    }

    fn called(bytes: &mut [u8], has_sound_header: bool) -> Option<Vec<u8>> {
        let (mut out, mut size) = (std::ptr::null_mut(), 0);
        // SAFETY: all of it is ours.
        let error = unsafe {
            rd_kafka_lz4_decompress(
                std::ptr::null_mut(),
                c_int::from(has_sound_header),
                0,
                bytes.as_mut_ptr().cast(),
                bytes.len(),
                &raw mut out,
                &raw mut size,
            )
        };
        (error == NO_ERROR).then(|| {
            // SAFETY: it says that it has given so much. A test may leak it.
            unsafe { std::slice::from_raw_parts(out.cast::<u8>(), size) }.to_vec()
        })
    }

    #[test]
    fn a_frame_is_read_whole_or_not_at_all() {
        let content: Vec<u8> = (0..200_000_u32).map(|n| (n / 7) as u8).collect();
        let good = frame(&content);
        assert_eq!(called(&mut good.clone(), true), Some(content));
        for cut in [0, 1, 6, good.len() / 2, good.len() - 1] {
            assert_eq!(called(&mut good[..cut].to_vec(), true), None, "{cut}");
        }
    }

    #[test]
    fn a_header_of_the_old_way_is_mended_only_where_it_may_be() {
        let mut old = frame(b"as it was before KIP-57");
        old[6] ^= 0xff;
        assert_eq!(called(&mut old.clone(), true), None);
        let read = called(&mut old, false);
        assert_eq!(read.as_deref(), Some(&b"as it was before KIP-57"[..]));
    }
}
