//! The file itself: its copy, its check, its sizes, and its loss.

use std::fs;
use std::path::Path;

use rusqlite::Connection;
use tokio_util::sync::CancellationToken;
use triad_runtime::StoreError;
use triad_sqlite::{SnapshotError, SqliteStore, check_file, file, snapshot};
use triad_workflow::Millis;

use crate::common::Hand;

fn open(dir: &Path) -> SqliteStore<Hand> {
    SqliteStore::open(dir, Hand::at(1_000), Millis(1_000)).unwrap()
}

#[tokio::test]
async fn a_file_that_is_gone_or_replaced_takes_no_more_writes() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    assert_eq!(store.try_write().await, Ok(()));
    assert_eq!(store.check_place(), Ok(()));
    let room = store.room().unwrap();
    assert!(room.free > 0 && room.file > 0 && room.log > 0, "{room:?}");
    let away = dir.path().join("away");
    fs::rename(file(dir.path()), &away).unwrap();
    let is_gone = |result: Result<(), StoreError>| matches!(result, Err(StoreError::Configuration(why)) if why.contains("was removed or replaced"));
    assert!(is_gone(store.check_place()));
    assert!(is_gone(store.try_write().await));
    fs::write(file(dir.path()), "another file").unwrap();
    assert!(is_gone(store.try_write().await));
    assert_eq!(store.counted().failed, 2);
    fs::rename(&away, file(dir.path())).unwrap();
    assert_eq!(store.try_write().await, Ok(()), "it was moved back");
}

#[tokio::test]
async fn a_copy_is_checked_and_stops_when_it_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    drop(open(&from));
    fs::create_dir(&to).unwrap();
    // Several steps of the copy: each is 2 MiB.
    let db = Connection::open(file(&from)).unwrap();
    db.execute_batch(
        "WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < 100)
        INSERT INTO outputs SELECT value, value, hex(zeroblob(40000)) FROM n",
    )
    .unwrap();
    drop(db);
    let stop = CancellationToken::new();
    let mut steps = 0;
    let stopped = snapshot(&from, &to, &stop, |_, _| {
        steps += 1;
        stop.cancel();
    });
    assert!(
        matches!(stopped, Err(SnapshotError::Stopped)),
        "{stopped:?}"
    );
    assert_eq!(steps, 1);
    fs::remove_file(file(&to)).unwrap();
    let stop = CancellationToken::new();
    snapshot(&from, &to, &stop, |_, _| {}).unwrap();
    assert!(check_file(&to, &stop).unwrap().is_empty());
    let refused = snapshot(&from, &to, &stop, |_, _| {});
    assert!(
        matches!(refused, Err(SnapshotError::There(_))),
        "{refused:?}"
    );
}
