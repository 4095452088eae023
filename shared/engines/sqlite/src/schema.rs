//! The tables, their indexes, and how the file is opened.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use crate::error::{Foreign, OpenError};
use crate::{catalogue, record, tally};

/// Application id in the file's header: "TRIA".
const APPLICATION: i32 = 0x5452_4941;
/// Version of the tables: 2 added the topics, 3 the events of orders, 4 their amendments, 5 their parents, 6 when they
/// start. A file of a later version is not opened, and one of an earlier version is upgraded by its owner.
const VERSION: i32 = 6;
/// Name of the file in the directory.
const FILE: &str = "triad.sqlite";
/// The file of version 1 in the directory.
const FILE_1: &str = "store/state.sqlite";
/// The directory of the topics of version 1 in the directory.
const LOG_1: &str = "broker";
/// Name of the file in the directory that the owner locks.
const LOCK: &str = "triad.sqlite.lock";
/// Size of the writer's page cache, in KiB.
const WRITER_CACHE_KIB: i32 = 16 * 1024;
/// Size of the reader's page cache, in KiB.
const READER_CACHE_KIB: i32 = 8 * 1024;
/// Size of the page cache of short reads, in KiB.
const SHORT_READER_CACHE_KIB: i32 = 2 * 1024;
/// Pages of the write-ahead log after which a commit checkpoints them into the file.
const CHECKPOINT_PAGES: i32 = 4_000;
/// Largest write-ahead log that stays on disk while no reader needs it, in bytes.
const LOG_BYTES: i64 = 32 << 20;

/// Tries for a lock of the file that another process holds, a millisecond apart: four to six seconds. A process holds
/// one while it syncs a group. SQLite's own wait is up to a tenth of a second between two tries, in which a busy
/// writer releases and takes the lock many times.
const LOCK_TRIES: i32 = 4_000;
/// Tries for the directory, ten milliseconds apart: [`is_taken`] locks it for an instant.
const DIRECTORY_TRIES: u32 = 20;

/// A directory that this process has locked.
#[derive(Debug)]
pub(crate) struct Directory {
    /// The lock lasts until the file is closed.
    _lock: File,
}

impl Directory {
    pub(crate) fn take(dir: &Path) -> Result<Self, OpenError> {
        let unusable = |why| OpenError::Directory {
            dir: dir.to_owned(),
            why,
        };
        let mut made = DirBuilder::new();
        made.recursive(true).mode(0o700);
        made.create(dir).map_err(unusable)?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(dir.join(LOCK))
            .map_err(unusable)?;
        for _ in 0..DIRECTORY_TRIES {
            match lock.try_lock() {
                Ok(()) => return Ok(Self { _lock: lock }),
                Err(TryLockError::WouldBlock) => pause(Duration::from_millis(10)),
                Err(TryLockError::Error(why)) => return Err(unusable(why)),
            }
        }
        Err(OpenError::Taken {
            dir: dir.to_owned(),
        })
    }
}

/// Whether a process owns the store in this directory at the moment. False too if there is no store, or if
/// its lock file cannot be read.
#[must_use]
pub fn is_taken(dir: &Path) -> bool {
    let lock = File::open(dir.join(LOCK));
    lock.is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// Whether there is a store in this directory, of this version or an earlier one.
#[must_use]
pub fn exists(dir: &Path) -> bool {
    [FILE, FILE_1].iter().any(|file| dir.join(file).exists())
}

/// Path of the file with the store in this directory, whether or not it exists.
///
/// A process that has the store open must not also open this file directly: closing it would release SQLite's locks
/// on the file.
#[must_use]
pub fn file(dir: &Path) -> PathBuf {
    dir.join(FILE)
}

/// Whether commits are synced before they are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Syncs {
    /// Every commit.
    Every,
    /// No commit: the store need not survive a stop of the machine.
    Never,
}

/// The writing connection of the process that owns the directory. Creates the tables in a new file.
pub(crate) fn owner(dir: &Path, syncs: Syncs) -> Result<Connection, OpenError> {
    let file = file(dir);
    upgrade(dir, &file)?;
    let db = connect(&file, OpenFlags::SQLITE_OPEN_CREATE)?;
    let (application, version) = numbers(&db, &file)?;
    let added = |known: usize| {
        let new = &record::ADDED[known..];
        add_columns(&db, new).map_err(|e| OpenError::of_file(&file, &e))
    };
    match (application, version) {
        // The first case is a new file, or one whose process died before it had created the tables.
        (0, 0) | (APPLICATION, VERSION) => {}
        (APPLICATION, 2) => added(0)?,
        (APPLICATION, 3) => added(1)?,
        (APPLICATION, 4) => added(2)?,
        (APPLICATION, 5) => added(3)?,
        _ => return Err(foreign(file, application, version)),
    }
    let failed = |e| OpenError::of_file(&file, &e);
    configure_writer(&db, syncs).map_err(failed)?;
    db.execute_batch(&tables()).map_err(failed)?;
    db.pragma_update(None, "application_id", APPLICATION)
        .map_err(failed)?;
    db.pragma_update(None, "user_version", VERSION)
        .map_err(failed)?;
    Ok(db)
}

/// Upgrades the tables of an earlier version, which have no such columns. SQLite changes no row for that.
fn add_columns(db: &Connection, missing: &[&str]) -> rusqlite::Result<()> {
    let add = missing
        .iter()
        .map(|name| format!("ALTER TABLE order_state ADD COLUMN {name}"));
    let add = add.collect::<Vec<_>>().join("; ");
    let tx = format!("BEGIN IMMEDIATE; {add}; PRAGMA user_version = {VERSION}; COMMIT");
    db.execute_batch(&tx)
}

/// Copies the file of version 1, if the directory has one and no later file. The tables of version 2 are those of
/// version 1 and the topics'. The earlier file stays as it is.
fn upgrade(dir: &Path, file: &Path) -> Result<(), OpenError> {
    let earlier = dir.join(FILE_1);
    if file.exists() || !earlier.exists() {
        return Ok(());
    }
    let new = dir.join(format!("{FILE}.new"));
    let failed = |e: rusqlite::Error| OpenError::of_file(&earlier, &e);
    let source = connect(&earlier, OpenFlags::empty())?;
    match numbers(&source, &earlier)? {
        (APPLICATION, 1) => {}
        (application, version) => return Err(foreign(earlier, application, version)),
    }
    // What an upgrade has left that was cut short.
    let _ = std::fs::remove_file(&new);
    let into = new.display().to_string();
    source.execute("VACUUM INTO ?1", [into]).map_err(failed)?;
    let copy = connect(&new, OpenFlags::empty())?;
    copy.pragma_update(None, "user_version", 2)
        .map_err(failed)?;
    drop(copy);
    let unusable = |why| OpenError::Directory {
        dir: dir.to_owned(),
        why,
    };
    File::open(&new)
        .and_then(|f| f.sync_all())
        .map_err(unusable)?;
    std::fs::rename(&new, file).map_err(unusable)?;
    File::open(dir)
        .and_then(|f| f.sync_all())
        .map_err(unusable)?;
    tracing::info!(
        from = %earlier.display(),
        to = %file.display(),
        "the store was upgraded; the earlier file is kept as a copy"
    );
    let log = dir.join(LOG_1);
    if log.exists() {
        tracing::warn!(
            log = %log.display(),
            "messages in the topics of version 1 are not taken over: dead letters, statuses, and orders sent over Kafka that were not taken in yet; `triad export` of the earlier version writes the orders, and `triad import` of this one reads them"
        );
    }
    Ok(())
}

/// Rewrites the version in the file's first page, and nothing else.
pub(crate) fn rewrite_version(db: &Connection) -> rusqlite::Result<()> {
    db.pragma_update(None, "user_version", VERSION)
}

/// The writing connection of a guest. The tables must exist and have this version: only the owner creates and changes
/// them.
pub(crate) fn guest(dir: &Path) -> Result<Connection, OpenError> {
    let file = file(dir);
    let missing = || OpenError::Missing {
        dir: dir.to_owned(),
    };
    if matches!(file.try_exists(), Ok(false)) {
        return Err(match dir.join(FILE_1).exists() {
            true => foreign(dir.join(FILE_1), APPLICATION, 1),
            false => missing(),
        });
    }
    let db = connect(&file, OpenFlags::empty())?;
    match numbers(&db, &file)? {
        (0, 0) => return Err(missing()),
        (APPLICATION, VERSION) => {}
        (application, version) => return Err(foreign(file, application, version)),
    }
    configure_writer(&db, Syncs::Every).map_err(|e| OpenError::of_file(&file, &e))?;
    Ok(db)
}

/// A connection that only reads committed data. The tables must exist.
pub(crate) fn reader(dir: &Path) -> Result<Connection, OpenError> {
    reading(dir, READER_CACHE_KIB)
}

/// A reading connection that fails where the other one waits for a lock.
pub(crate) fn short_reader(dir: &Path) -> Result<Connection, OpenError> {
    let db = reading(dir, SHORT_READER_CACHE_KIB)?;
    db.busy_timeout(Duration::ZERO)
        .map_err(|e| OpenError::of_file(&file(dir), &e))?;
    Ok(db)
}

fn reading(dir: &Path, cache_kib: i32) -> Result<Connection, OpenError> {
    let file = file(dir);
    let failed = |e| OpenError::of_file(&file, &e);
    let db = connect(&file, OpenFlags::empty())?;
    configure(&db, cache_kib, Syncs::Every).map_err(failed)?;
    db.pragma_update(None, "query_only", true).map_err(failed)?;
    Ok(db)
}

fn connect(file: &Path, further: OpenFlags) -> Result<Connection, OpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | further;
    let db = Connection::open_with_flags(file, flags);
    let mut db = db.map_err(|e| OpenError::of_file(file, &e))?;
    db.busy_handler(Some(try_again))
        .map_err(|e| OpenError::of_file(file, &e))?;
    Ok(db)
}

/// Whether to try once more for a lock of the file, after a short sleep.
fn try_again(tries: i32) -> bool {
    pause(Duration::from_millis(1));
    tries < LOCK_TRIES
}

#[expect(
    clippy::disallowed_methods,
    reason = "nobody tells when another process gives a lock back; the tries are bounded"
)]
pub(crate) fn pause(span: Duration) {
    std::thread::sleep(span);
}

/// The application id and the version in the file's header.
fn numbers(db: &Connection, file: &Path) -> Result<(i32, i32), OpenError> {
    let number = |name: &str| {
        db.pragma_query_value(None, name, |row| row.get::<_, i32>(0))
            .map_err(|e| OpenError::of_file(file, &e))
    };
    Ok((number("application_id")?, number("user_version")?))
}

/// Refuses a file of another program or another version.
fn foreign(file: PathBuf, application: i32, version: i32) -> OpenError {
    let known = VERSION;
    let why = match (application, version) {
        (APPLICATION, VERSION..) => Foreign::Later { version, known },
        (APPLICATION, _) => Foreign::Earlier { version, known },
        _ => Foreign::Program,
    };
    OpenError::Foreign { file, why }
}

fn configure_writer(db: &Connection, syncs: Syncs) -> rusqlite::Result<()> {
    configure(db, WRITER_CACHE_KIB, syncs)?;
    db.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    db.pragma_update(None, "journal_size_limit", LOG_BYTES)
}

/// Sets the pragmas of every connection.
fn configure(db: &Connection, cache_kib: i32, syncs: Syncs) -> rusqlite::Result<()> {
    // Readers do not wait for the writer.
    db.pragma_update(None, "journal_mode", "WAL")?;
    let synchronous = match syncs {
        Syncs::Every => "FULL",
        Syncs::Never => "OFF",
    };
    db.pragma_update(None, "synchronous", synchronous)?;
    db.pragma_update(None, "cache_size", -cache_kib)?;
    db.pragma_update(None, "temp_store", "MEMORY")?;
    // Reads detect pages whose cells are out of bounds.
    db.pragma_update(None, "cell_size_check", true)?;
    db.set_prepared_statement_cache_capacity(64);
    Ok(())
}

/// The tables as SQL. Each index holds only the rows that its queries return.
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
        CREATE INDEX IF NOT EXISTS search_1 ON order_state (Search1, SubmittedAt, OrderID)
            WHERE Search1 IS NOT NULL;
        CREATE INDEX IF NOT EXISTS search_2 ON order_state (Search2, SubmittedAt, OrderID)
            WHERE Search2 IS NOT NULL;
        CREATE INDEX IF NOT EXISTS order_state_expiry ON order_state (ExpiresAt)
            WHERE ExpiresAt IS NOT NULL;
        CREATE TABLE IF NOT EXISTS orders (
            OrderID TEXT NOT NULL UNIQUE, Details TEXT NOT NULL, Digest TEXT NOT NULL,
            ExpiresAt INTEGER, Checksum INTEGER NOT NULL);
        CREATE INDEX IF NOT EXISTS orders_expiry ON orders (ExpiresAt)
            WHERE ExpiresAt IS NOT NULL;
        CREATE TABLE IF NOT EXISTS outputs (
            OrderID TEXT NOT NULL, Digest TEXT NOT NULL, Output TEXT NOT NULL,
            UNIQUE (OrderID, Digest));
        CREATE TRIGGER IF NOT EXISTS delete_outputs AFTER DELETE ON order_state BEGIN
            DELETE FROM outputs WHERE OrderID = OLD.OrderID; END;
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
        CREATE INDEX IF NOT EXISTS finished ON order_state (FinishedAt, ProcessState, SubmittedAt)
            WHERE FinishedAt IS NOT NULL;
        CREATE INDEX IF NOT EXISTS submitted ON order_state (SubmittedAt);
        {}
        {}
        COMMIT;",
        columns.join(", "),
        tally::tables(),
        catalogue::tables()
    )
}
