//! The effect of a loss of power: unsynced writes to a directory's files are lost.
//!
//! `kill -9` ends a process and leaves its writes with the system, so it shows nothing about syncs. Here a note of
//! the replaced bytes precedes each write ([`Journal`], kept by the preloaded library of `tests/testkit/unsynced/layer`),
//! and the notes of a file are dropped after a successful sync of it. Once the process is dead, [`lose`] uses the
//! remaining notes to take back, for each file, a random part of the pages that were written since its last sync, in
//! any order, as a disk may have them.
//!
//! **Names are not lost**: a creation, a renaming and a removal are durable at once, so a file may be left empty or
//! with old contents under its new name, but it always exists. Writes through a memory map are not noted; SQLite uses
//! one only for its shared-memory file, which has no meaning after a crash.

mod before_image;
mod journal;
mod lose;

pub use journal::Journal;
pub use lose::{Lost, lose};
