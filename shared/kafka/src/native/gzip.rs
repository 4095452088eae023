//! librdkafka's decompression of gzip, with a bound: its own has none, and a batch of a megabyte may
//! become a gigabyte.
//!
//! How a function of librdkafka is replaced: [`super::codecs`].
#![expect(unsafe_code, reason = "a C function is replaced, with C's memory")]

use std::ffi::{c_int, c_void};
use std::io::Read;
use std::ptr::null_mut;

use flate2::bufread::GzDecoder;

use super::room::Room;

/// Has the linker take these functions.
pub(super) fn link() {
    let function: unsafe extern "C" fn(*const c_void, c_int, *mut u64) -> *mut c_void =
        rd_gz_decompress;
    std::hint::black_box(function);
}

/// Decompresses a batch into memory that the caller frees; null if it is none, or too large.
///
/// # Safety
/// `compressed` is so long as is said, and `size` may be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn rd_gz_decompress(
    compressed: *const c_void,
    length: c_int,
    size: *mut u64,
) -> *mut c_void {
    let Ok(length) = usize::try_from(length) else {
        return null_mut();
    };
    if compressed.is_null() {
        return null_mut();
    }
    // SAFETY: the caller's.
    let bytes = unsafe { std::slice::from_raw_parts(compressed.cast::<u8>(), length) };
    let Some(room) = inflated(bytes) else {
        return null_mut();
    };
    let (memory, length) = room.into_raw();
    // SAFETY: the caller's.
    unsafe { *size = length as u64 };
    memory
}

/// What one gzip member holds, if the bytes are one and no more.
fn inflated(bytes: &[u8]) -> Option<Room> {
    // A gzip member ends with the length of what is in it.
    let said = u32::from_le_bytes(*bytes.last_chunk()?) as usize;
    let mut room = Room::new(said)?;
    let mut member = GzDecoder::new(bytes);
    member.read_exact(room.bytes()).ok()?;
    // The member's end, where its checksum is looked at.
    matches!(member.read(&mut [0]), Ok(0)).then_some(room)
}
