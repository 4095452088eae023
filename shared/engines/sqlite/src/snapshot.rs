//! A copy of a store's file, and a check of the file, while others write.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use tokio_util::sync::CancellationToken;

use crate::error::OpenError;
use crate::schema;

/// Pages of one step of the copy: 2 MiB.
const STEP_PAGES: i32 = 512;
/// Steps after which what was copied is synced: 64 MiB. One sync of everything at the end would hold up the syncs of the
/// store, which shares the disk.
const SYNC_STEPS: u32 = 32;
/// Faults of a file that [`check_file`] names, at most.
const MAX_FAULTS: u32 = 100;
/// SQLite's instructions between two looks whether to stop.
const LOOK_EVERY: i32 = 100_000;
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
    /// SQLite failed while the store was copied or checked.
    #[error("the store cannot be read or copied: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// Another process kept the store's file locked for ten seconds.
    #[error("another process has kept the store's file locked for ten seconds: try again")]
    Locked,
    /// SQLite's check has found a fault in the copy; the text says which.
    #[error("the copy is damaged: {0}")]
    Damaged(String),
    /// The copy was synced to the disk without success.
    #[error("the copy cannot be written: {0}")]
    Unsynced(#[from] std::io::Error),
    /// The caller has stopped it.
    #[error("it was stopped")]
    Stopped,
}

/// Copies the store in the directory `from`, as it is at one moment, to the directory `to`, which must exist and have
/// no store. Other processes may write meanwhile and do not wait; their writes are not in the copy, and stay in the
/// write-ahead log until the copy is done. `progress` is called after each step of the copy but the last, and while
/// the copy waits for a lock, with the number of pages that are copied and the number of all pages. Every page and
/// index of the copy is checked. Ends soon after `stop` is cancelled. Blocks the thread.
///
/// # Errors
/// [`SnapshotError::Open`] if there is no store in `from` that can be opened, [`SnapshotError::There`] if
/// `to` has a store. After the other errors a part of a copy may be left in `to`, which the caller should
/// delete.
pub fn snapshot(
    from: &Path,
    to: &Path,
    stop: &CancellationToken,
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
    // Nobody else has the copy open, so there are no locks of SQLite that closing this would release.
    let synced = File::open(&file)?;
    copy_pages(&source, &mut copy, &synced, stop, &mut progress)?;
    source.execute_batch("COMMIT")?;
    let found = integrity(&mut copy, 1, stop)?;
    if let Some(fault) = found.into_iter().next() {
        return Err(SnapshotError::Damaged(fault));
    }
    copy.close().map_err(|(_, e)| e)?;
    Ok(())
}

/// Checks every page and every index of the store in a directory, as it is at one moment, while other processes may
/// write. Returns the faults in SQLite's words, at most 100; none if the file is sound. Changes nothing. Ends soon after
/// `stop` is cancelled. Blocks the thread.
///
/// # Errors
/// [`SnapshotError::Open`] if there is no store that can be opened, [`SnapshotError::Sqlite`] if it cannot be read,
/// [`SnapshotError::Stopped`] if it was stopped.
pub fn check_file(dir: &Path, stop: &CancellationToken) -> Result<Vec<String>, SnapshotError> {
    let mut db = schema::guest(dir)?;
    integrity(&mut db, MAX_FAULTS, stop)
}

fn copy_pages(
    source: &Connection,
    copy: &mut Connection,
    synced: &File,
    stop: &CancellationToken,
    progress: &mut impl FnMut(u64, u64),
) -> Result<(), SnapshotError> {
    let backup = Backup::new(source, copy)?;
    let (mut tries, mut steps) = (0, 0_u32);
    // The loop ends: each step copies pages, and the file does not grow for this connection.
    loop {
        if stop.is_cancelled() {
            return Err(SnapshotError::Stopped);
        }
        match backup.step(STEP_PAGES)? {
            StepResult::Done => return Ok(()),
            StepResult::More => tries = 0,
            _ if tries < MAX_TRIES => tries += 1,
            _ => return Err(SnapshotError::Locked),
        }
        let at = backup.progress();
        let number = |pages: i32| u64::try_from(pages).unwrap_or(0);
        progress(number(at.pagecount - at.remaining), number(at.pagecount));
        steps += 1;
        if steps.is_multiple_of(SYNC_STEPS) {
            synced.sync_data()?;
        }
        schema::pause(PAUSE);
    }
}

/// The faults that SQLite finds, at most `most`.
fn integrity(
    db: &mut Connection,
    most: u32,
    stop: &CancellationToken,
) -> Result<Vec<String>, SnapshotError> {
    let is_stopped = {
        let stop = stop.clone();
        move || stop.is_cancelled()
    };
    db.progress_handler(LOOK_EVERY, Some(is_stopped))?;
    let mut read = db.prepare(&format!("PRAGMA integrity_check({most})"))?;
    let found: rusqlite::Result<Vec<String>> = read.query_map([], |row| row.get(0))?.collect();
    match found {
        Ok(found) if found == ["ok"] => Ok(Vec::new()),
        Ok(found) => Ok(found),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => {
            Err(SnapshotError::Stopped)
        }
        // A page that cannot be read at all.
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) => {
            Ok(vec![error.to_string()])
        }
        Err(error) => Err(error.into()),
    }
}
