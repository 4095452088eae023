//! What a loss of power takes: the writes to a directory's files that were not synced.
//!
//! `kill -9` ends a process and leaves its writes with the system, so it shows nothing about syncs. Here each
//! write is preceded by a note of what it replaces ([`Journal`], kept by the preloaded library of
//! `testkit/unsynced/layer`), and the notes of a file are dropped when a sync of it has come back. Once the
//! process is dead, [`lose`] takes back what notes are left for: of each file a random part of the pages that were
//! written since its last sync, in any order, as a disk may have them.
//!
//! **What is not lost**: names. A creation, a renaming and a removal last at once, so a file may be left empty
//! or with old contents under its new name, but is always there. Writes through a memory map are not seen; SQLite
//! makes none but to its shared-memory file, which says nothing after a crash.

mod before_image;
mod journal;
mod lose;

pub use journal::Journal;
pub use lose::{Lost, lose};
