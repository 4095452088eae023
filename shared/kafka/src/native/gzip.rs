//! librdkafka's decompression of gzip, with a bound.
//!
//! Its own has none: a batch of a megabyte may become a gigabyte. librdkafka is linked from an archive
//! whose members are taken when a symbol is missing; this crate comes before it, so its symbol is
//! there already and the archive's `rdgz.o`, which has no other one, is never taken. What is refused
//! here is a batch that cannot be decompressed, and is passed over as such. A test holds that it is
//! this one that is called (`tests/tests/foreign.rs`).
#![expect(unsafe_code, reason = "a C function is replaced, with C's memory")]

use std::ffi::{c_int, c_void};
use std::io::Read;
use std::ptr::null_mut;

use flate2::bufread::GzDecoder;

/// Bound: bytes of a gzip batch once it is decompressed.
const MAX_BYTES: usize = 32 * 1024 * 1024;

unsafe extern "C" {
    fn malloc(size: usize) -> *mut c_void;
    fn free(memory: *mut c_void);
}

/// Has the linker take this function.
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
    if compressed.is_null() || length < 4 {
        return null_mut();
    }
    // SAFETY: the caller's.
    let bytes = unsafe { std::slice::from_raw_parts(compressed.cast::<u8>(), length) };
    // A gzip member ends with the length of what is in it.
    let mut said = [0; 4];
    said.copy_from_slice(&bytes[length - 4..]);
    let said = u32::from_le_bytes(said) as usize;
    if said > MAX_BYTES {
        return null_mut();
    }
    // SAFETY: one byte more than said, so never none; what is returned is checked.
    let memory = unsafe { malloc(said + 1) };
    if memory.is_null() {
        return null_mut();
    }
    // SAFETY: the memory is so long, ours alone, and written before it is read.
    let room = unsafe {
        memory.cast::<u8>().write_bytes(0, said + 1);
        std::slice::from_raw_parts_mut(memory.cast::<u8>(), said + 1)
    };
    if inflate(bytes, &mut room[..said]) {
        // SAFETY: the caller's.
        unsafe { *size = said as u64 };
        memory
    } else {
        // SAFETY: it is ours, and not used any more.
        unsafe { free(memory) };
        null_mut()
    }
}

/// Whether the bytes are one gzip member that fills the room, and no more.
fn inflate(bytes: &[u8], room: &mut [u8]) -> bool {
    let mut member = GzDecoder::new(bytes);
    // The member's end, where its checksum is looked at.
    member.read_exact(room).is_ok() && matches!(member.read(&mut [0]), Ok(0))
}
