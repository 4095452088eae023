//! Memory of C's for what a batch becomes, within a bound.
#![expect(unsafe_code, reason = "librdkafka frees it with C's free")]

use std::ffi::c_void;
use std::io::{self, Read};

/// Bound: bytes of a batch once it is decompressed, in every codec. For Zstandard librdkafka has the
/// same one, `receive.message.max.bytes` (`crate::config`).
pub(super) const MAX_BYTES: usize = 32 * 1024 * 1024;

unsafe extern "C" {
    fn calloc(count: usize, size: usize) -> *mut c_void;
    fn realloc(memory: *mut c_void, size: usize) -> *mut c_void;
    fn free(memory: *mut c_void);
}

/// Bytes in C's memory. They are freed when it is dropped, or by who takes them.
pub(super) struct Room {
    memory: *mut u8,
    length: usize,
}

impl Room {
    /// Room for `length` bytes, all zero; `None` for more than [`MAX_BYTES`], or if there is no memory for
    /// them.
    pub fn new(length: usize) -> Option<Self> {
        if length > MAX_BYTES {
            return None;
        }
        // SAFETY: one byte more than asked, so never none; what is returned is checked.
        let memory = unsafe { calloc(1, length + 1) }.cast::<u8>();
        (!memory.is_null()).then_some(Self { memory, length })
    }

    /// All that a reader gives, in room for `expected` bytes that grows where that was too little.
    /// `None` if the reader fails or gives more than [`MAX_BYTES`].
    pub fn filled(mut reader: impl Read, expected: usize) -> Option<Self> {
        let mut room = Self::new(expected.clamp(1024, MAX_BYTES))?;
        let mut filled = 0;
        // Bounded: every turn reads something or makes the room larger, and that has a bound.
        loop {
            if filled == room.length {
                // One byte tells whether it was all.
                let mut next = [0];
                if read(&mut reader, &mut next).ok()? == 0 {
                    break;
                }
                room = room.grown()?;
                room.bytes()[filled] = next[0];
                filled += 1;
            }
            match read(&mut reader, &mut room.bytes()[filled..]).ok()? {
                0 => break,
                more => filled += more,
            }
        }
        room.length = filled;
        Some(room)
    }

    /// Twice the room, at most [`MAX_BYTES`]; `None` if it has so much.
    fn grown(mut self) -> Option<Self> {
        let length = (self.length * 2).min(MAX_BYTES);
        if length == self.length {
            return None;
        }
        // SAFETY: the memory is ours and from calloc; if there is no more, it stays as it is, and is
        // dropped with this.
        let memory = unsafe { realloc(self.memory.cast(), length + 1) }.cast::<u8>();
        if memory.is_null() {
            return None;
        }
        // SAFETY: what was added is within the new memory.
        unsafe {
            memory
                .add(self.length)
                .write_bytes(0, length + 1 - self.length)
        };
        (self.memory, self.length) = (memory, length);
        Some(self)
    }

    /// The bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the memory is so long, ours alone, and was written before.
        unsafe { std::slice::from_raw_parts_mut(self.memory, self.length) }
    }

    /// The memory and its length. Whoever takes it frees it.
    pub fn into_raw(self) -> (*mut c_void, usize) {
        let room = std::mem::ManuallyDrop::new(self);
        (room.memory.cast(), room.length)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // SAFETY: it is ours, and not used any more.
        unsafe { free(self.memory.cast()) };
    }
}

/// Reads; what was interrupted is read again.
fn read(reader: &mut impl Read, room: &mut [u8]) -> io::Result<usize> {
    loop {
        match reader.read(room) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zeros(count: usize) -> impl Read {
        io::repeat(0).take(count as u64)
    }

    #[test]
    fn what_a_reader_gives_is_kept_whatever_was_expected() {
        let all: Vec<u8> = (0..100_000_u32).map(|n| n as u8).collect();
        for expected in [0, 1, 1_024, 99_999, 100_000, 100_001, usize::MAX] {
            let mut room = Room::filled(&all[..], expected).expect("it fits");
            assert!(*room.bytes() == all[..], "expected {expected}");
        }
        let mut none = Room::filled(&[][..], 0).expect("it fits");
        assert!(none.bytes().is_empty());
    }

    #[test]
    fn no_more_than_the_bound_is_kept() {
        let mut all = Room::filled(zeros(MAX_BYTES), 0).expect("it fits");
        assert_eq!(all.bytes().len(), MAX_BYTES);
        assert!(Room::filled(zeros(MAX_BYTES + 1), 0).is_none());
        assert!(Room::filled(zeros(MAX_BYTES + 1), usize::MAX).is_none());
        assert!(Room::new(MAX_BYTES + 1).is_none());
        assert!(Room::new(MAX_BYTES).is_some());
    }
}
