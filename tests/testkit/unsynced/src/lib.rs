//! The effect of a loss of power: unsynced writes to a directory's files are lost.
//!
//! `kill -9` ends a process, but the operating system keeps its writes, so it shows nothing about syncs. Here a note
//! of the replaced bytes is made before each write ([`Journal`], kept by the preloaded library of
//! `tests/testkit/unsynced/layer`), and the notes of a file are dropped after a successful sync of it. Once the
//! process is dead, [`lose`] uses the remaining notes to revert, for each file, the writes of a random part of the
//! pages since its last sync, because a disk may write pages in any order.
//!
//! **Names are not lost**: a creation, a renaming and a removal are durable at once, so a file may be left empty or
//! with old contents under its new name, but it always exists. Writes through a memory map are not noted; SQLite uses
//! one only for its shared-memory file, which has no meaning after a crash.

mod before_image;
mod journal;
mod lose;

pub use journal::Journal;
pub use lose::{Lost, lose};
