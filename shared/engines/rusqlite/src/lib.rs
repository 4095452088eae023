//! The present rusqlite, under the version number that the embedded DynamoDB engine (dynoxide) asks for.
//!
//! One lockfile holds one version of SQLite's C sources, and dynoxide pins an rusqlite whose sources have the WAL-reset
//! bug (<https://sqlite.org/wal.html#walresetbug>). `[patch.crates-io]` in the workspace's manifest puts this crate in its place. It goes when
//! dynoxide asks for rusqlite 0.39 or later.

pub use present::*;
