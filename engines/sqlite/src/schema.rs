//! The tables, their indexes, and how the file is opened.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use crate::error::OpenError;
use crate::record;

/// Says in the file's header whose it is: "TRIA".
const APPLICATION: i32 = 0x5452_4941;
/// Version of the tables. A file of a later version is not opened.
const VERSION: i32 = 1;
/// Name of the file in the directory.
const FILE: &str = "state.sqlite";
/// Bound on the pages that the writer keeps in memory, in KiB.
const WRITER_CACHE_KIB: i32 = 16 * 1024;
/// Bound on the pages that the reader keeps in memory, in KiB.
const READER_CACHE_KIB: i32 = 8 * 1024;
/// Pages of the write-ahead log after which a commit writes them into the file.
const CHECKPOINT_PAGES: i32 = 4_000;
/// Bound on the write-ahead log that is kept on disk while nobody reads, in bytes.
const LOG_BYTES: i64 = 32 << 20;

/// A directory that no other process has.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    /// Holds the lock for as long as it is open.
    _lock: File,
}

impl Directory {
    pub(crate) fn take(path: &Path) -> Result<Self, OpenError> {
        let unusable = |why| OpenError::Directory {
            dir: path.to_owned(),
            why,
        };
        std::fs::create_dir_all(path).map_err(unusable)?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path.join("LOCK"))
            .map_err(unusable)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self {
                path: path.to_owned(),
                _lock: lock,
            }),
            Err(TryLockError::WouldBlock) => Err(OpenError::Taken {
                dir: path.to_owned(),
            }),
            Err(TryLockError::Error(why)) => Err(unusable(why)),
        }
    }

    fn file(&self) -> PathBuf {
        self.path.join(FILE)
    }

    /// The connection that writes. Makes the tables where the file is new.
    pub(crate) fn writer(&self) -> Result<Connection, OpenError> {
        let file = self.file();
        let failed = |e: rusqlite::Error| OpenError::File {
            file: file.clone(),
            why: e.to_string(),
        };
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(&file, flags).map_err(failed)?;
        self.check(&db)?;
        settle(&db, WRITER_CACHE_KIB).map_err(failed)?;
        db.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)
            .map_err(failed)?;
        db.pragma_update(None, "journal_size_limit", LOG_BYTES)
            .map_err(failed)?;
        db.execute_batch(&tables()).map_err(failed)?;
        db.pragma_update(None, "application_id", APPLICATION)
            .map_err(failed)?;
        db.pragma_update(None, "user_version", VERSION)
            .map_err(failed)?;
        Ok(db)
    }

    /// A connection that only reads, from what is committed. The tables must be there.
    pub(crate) fn reader(&self) -> Result<Connection, OpenError> {
        let file = self.file();
        let failed = |e: rusqlite::Error| OpenError::File {
            file: file.clone(),
            why: e.to_string(),
        };
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(&file, flags).map_err(failed)?;
        settle(&db, READER_CACHE_KIB).map_err(failed)?;
        db.pragma_update(None, "query_only", true).map_err(failed)?;
        Ok(db)
    }

    /// Refuses what another program or a later version has written.
    fn check(&self, db: &Connection) -> Result<(), OpenError> {
        let file = self.file();
        let number = |name: &str| {
            db.pragma_query_value(None, name, |row| row.get::<_, i32>(0))
                .map_err(|e| OpenError::File {
                    file: file.clone(),
                    why: e.to_string(),
                })
        };
        let (application, version) = (number("application_id")?, number("user_version")?);
        let foreign = |why: String| {
            Err(OpenError::Foreign {
                file: file.clone(),
                why,
            })
        };
        match (application, version) {
            // Also where a process died before it had written them: then there are no tables yet.
            (0, 0) => Ok(()),
            (APPLICATION, 1..=VERSION) => Ok(()),
            (APPLICATION, later) => foreign(format!(
                "it has version {later} and this program knows {VERSION}: use a later version of it"
            )),
            _ => foreign("another program has written it".to_owned()),
        }
    }
}

/// What every connection is set to.
fn settle(db: &Connection, cache_kib: i32) -> rusqlite::Result<()> {
    // Readers go on beside the writer.
    db.pragma_update(None, "journal_mode", "WAL")?;
    // Every commit is synced before it is answered.
    db.pragma_update(None, "synchronous", "FULL")?;
    db.pragma_update(None, "cache_size", -cache_kib)?;
    db.pragma_update(None, "temp_store", "MEMORY")?;
    // Pages that do not fit what they point at are found when they are read.
    db.pragma_update(None, "cell_size_check", true)?;
    db.set_prepared_statement_cache_capacity(64);
    Ok(())
}

/// The tables as SQL. Each index holds only the rows that it is asked for.
fn tables() -> String {
    let columns: Vec<String> = record::COLUMNS
        .iter()
        .map(|name| match *name {
            record::KEY => format!("{name} TEXT NOT NULL UNIQUE"),
            name => name.to_owned(),
        })
        .collect();
    format!(
        "BEGIN;
        CREATE TABLE IF NOT EXISTS order_state (
            Row INTEGER PRIMARY KEY, {}, Checksum INTEGER NOT NULL);
        CREATE INDEX IF NOT EXISTS due ON order_state (DueShard, DueAt, OrderID, Workflow)
            WHERE DueShard IS NOT NULL;
        CREATE INDEX IF NOT EXISTS attention ON order_state (Attention, AttentionAt, OrderID)
            WHERE Attention IS NOT NULL;
        CREATE INDEX IF NOT EXISTS order_state_expiry ON order_state (ExpiresAt)
            WHERE ExpiresAt IS NOT NULL;
        CREATE TABLE IF NOT EXISTS orders (
            OrderID TEXT NOT NULL UNIQUE, Details TEXT NOT NULL, Digest TEXT NOT NULL,
            ExpiresAt INTEGER, Checksum INTEGER NOT NULL);
        CREATE INDEX IF NOT EXISTS orders_expiry ON orders (ExpiresAt)
            WHERE ExpiresAt IS NOT NULL;
        CREATE TABLE IF NOT EXISTS workflows (
            Name TEXT NOT NULL, Hash TEXT NOT NULL, Definition TEXT NOT NULL,
            PublishedAt INTEGER NOT NULL, PRIMARY KEY (Name, Hash)) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS current_workflows (
            Name TEXT NOT NULL PRIMARY KEY, Hash TEXT NOT NULL) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS control (
            Key TEXT NOT NULL PRIMARY KEY, Version INTEGER NOT NULL, Value TEXT NOT NULL,
            WriteToken INTEGER NOT NULL, ExpiresAt INTEGER) WITHOUT ROWID;
        CREATE INDEX IF NOT EXISTS control_expiry ON control (ExpiresAt)
            WHERE ExpiresAt IS NOT NULL;
        COMMIT;",
        columns.join(", ")
    )
}
