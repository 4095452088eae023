//! A copy of a store's file while others write.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use crate::error::OpenError;
use crate::schema;

/// Pages of one step of the copy: 2 MiB.
const STEP_PAGES: i32 = 512;
/// Pause between two steps, for other users of the disk.
const PAUSE: Duration = Duration::from_millis(5);
/// Tries in a row for a lock of the file, each with a pause: ten seconds.
const MAX_TRIES: u32 = 2_000;

/// Why [`snapshot`] has made no copy that can be used.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The store cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The file of the copy, named here, exists already; it is not changed.
    #[error("{0} is there already: name another directory")]
    There(PathBuf),
    /// SQLite failed while the store was copied or the copy was checked.
    #[error("the store cannot be copied: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// Another process kept the store's file locked for ten seconds.
    #[error("another process has kept the store's file locked for ten seconds: try again")]
    Locked,
    /// SQLite's check has found a fault in the copy; the text says which.
    #[error("the copy is damaged: {0}")]
    Damaged(String),
}

/// Copies the store in the directory `from`, as it is at one moment, to the directory `to`, which must exist and have
/// no store. Other processes may write meanwhile and do not wait; their writes are not in the copy, and stay in the
/// write-ahead log until the copy is done. `progress` is called after each step of the copy but the last, and while
/// the copy waits for a lock, with the number of pages that are copied and the number of all pages. Every page and
/// index of the copy is checked. Blocks the thread.
///
/// # Errors
/// [`SnapshotError::Open`] if there is no store in `from` that can be opened, [`SnapshotError::There`] if
/// `to` has a store. After the other errors a part of a copy may be left in `to`, which the caller should
/// delete: [`SnapshotError::Sqlite`], [`SnapshotError::Locked`] and [`SnapshotError::Damaged`].
pub fn snapshot(
    from: &Path,
    to: &Path,
    mut progress: impl FnMut(u64, u64),
) -> Result<(), SnapshotError> {
    // The tables must exist and have this version, and nothing is created.
    let source = schema::guest(from)?;
    let file = schema::file(to);
    if file.exists() {
        return Err(SnapshotError::There(file));
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let mut copy = Connection::open_with_flags(&file, flags)?;
    copy.pragma_update(None, "synchronous", "FULL")?;
    // The copy is made in one transaction. Without it each write of another process would restart the copy.
    source.execute_batch("BEGIN")?;
    let _: i64 = source.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    copy_pages(&source, &mut copy, &mut progress)?;
    source.execute_batch("COMMIT")?;
    check(&copy)?;
    copy.close().map_err(|(_, e)| e)?;
    Ok(())
}

fn copy_pages(
    source: &Connection,
    copy: &mut Connection,
    progress: &mut impl FnMut(u64, u64),
) -> Result<(), SnapshotError> {
    let backup = Backup::new(source, copy)?;
    let mut tries = 0;
    // The loop ends: each step copies pages, and the file does not grow for this connection.
    loop {
        match backup.step(STEP_PAGES)? {
            StepResult::Done => return Ok(()),
            StepResult::More => tries = 0,
            _ if tries < MAX_TRIES => tries += 1,
            _ => return Err(SnapshotError::Locked),
        }
        let at = backup.progress();
        let number = |pages: i32| u64::try_from(pages).unwrap_or(0);
        progress(number(at.pagecount - at.remaining), number(at.pagecount));
        schema::pause(PAUSE);
    }
}

fn check(copy: &Connection) -> Result<(), SnapshotError> {
    let found: String = copy.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    match found.as_str() {
        "ok" => Ok(()),
        _ => Err(SnapshotError::Damaged(found)),
    }
}
