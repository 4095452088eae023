//! The store fulfils the ports' contracts, loses nothing when its process is killed, and reports damaged and foreign
//! files.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rusqlite::Connection;
use serde_json::{Value, json};
use triad_core::children::Parent;
use triad_core::received::KeptEvent;
use triad_core::{Attempt, Order, StepState, Timestamp, Version};
use triad_runtime::ports::OperatorStore;
use triad_runtime::{Created, DefinitionStore, StateStore, StoreError, Write, Written};
use triad_sim::contract::{self, OnThreads, TimedStore};
use triad_sim::{calm_ports, run_on};
use triad_sqlite::topics::TopicSettings;
use triad_sqlite::{Foreign, OpenError, SqliteStore};
use triad_workflow::{Millis, StepId};

use crate::common::{Hand, Timed, id, new};

fn open(dir: &Path) -> SqliteStore<Hand> {
    SqliteStore::open(dir, Hand::at(10_000), Millis(86_400_000)).unwrap()
}

async fn create(store: &SqliteStore<Hand>, ids: impl IntoIterator<Item = String>) {
    for id in ids {
        let created = store.create(vec![new(&id)]).await;
        assert_eq!(created, [Ok(Created::Created)], "{id}");
    }
}

#[tokio::test]
async fn a_damaged_row_is_no_ones_failure_but_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    create(&store, ["bad", "fine", "lost"].map(String::from)).await;
    let db = Connection::open(triad_sqlite::file(dir.path())).unwrap();
    let damage = "UPDATE orders SET Digest = x'ff' WHERE OrderID = 'bad';
        UPDATE order_state SET LockedBy = x'ff' WHERE OrderID = 'bad';
        UPDATE order_state SET OrderID = x'ff' WHERE OrderID = 'lost';";
    db.execute_batch(damage).unwrap();
    let created = store.create(vec![new("bad"), new("newer")]).await;
    assert!(
        matches!(created[0], Err(StoreError::Item(_))),
        "{created:?}"
    );
    assert_eq!(created[1], Ok(Created::Created));
    let details = store.details(vec![id("bad"), id("fine")]).await;
    assert!(details[0].is_err() && details[1].is_ok(), "{details:?}");
    let orders = ["bad", "fine"].map(|name| {
        let order = new(name).order;
        let mut next = order.clone();
        next.version = order.version.next();
        Write::silent(order.version, Arc::new(next), 1)
    });
    let written = store.commit(orders.to_vec()).await;
    assert!(
        matches!(written[0], Err(StoreError::Item(_))),
        "{written:?}"
    );
    assert_eq!(written[1], Ok(Written::Written));
    let mut due = Vec::new();
    for shard in 0..triad_core::due::SHARDS {
        let until = Timestamp(u64::MAX >> 1);
        let page = store.due(shard, until, 10, None).await.unwrap();
        due.extend(page.rows.into_iter().map(|row| row.order));
    }
    due.sort();
    assert_eq!(due, ["bad", "fine", "newer"].map(id));
}

#[tokio::test]
async fn trying_to_write_reaches_the_disk_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    create(&store, ["one".to_owned()]).await;
    let log = triad_sqlite::file(dir.path()).with_extension("sqlite-wal");
    let length = || std::fs::metadata(&log).unwrap().len();
    let before = length();
    store.try_write().await.unwrap();
    assert!(length() > before);
    assert!(
        store.load(vec![id("one")]).await[0]
            .as_ref()
            .unwrap()
            .is_some()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn it_keeps_the_contract_of_a_state_store() {
    let dir = tempfile::tempdir().unwrap();
    contract::store::all(&open(dir.path()), "contract", &OnThreads).await;
}

#[tokio::test]
async fn it_keeps_the_contract_of_an_operators_store() {
    let dir = tempfile::tempdir().unwrap();
    contract::operator::all(&open(dir.path()), "contract").await;
}

/// SQLite before 3.51.3 may corrupt the file when two connections write or checkpoint at once, which an owner and a
/// guest process do: <https://sqlite.org/wal.html>, the WAL-reset bug.
#[test]
fn the_bundled_sqlite_does_not_have_the_wal_reset_bug() {
    let db = Connection::open_in_memory().unwrap();
    let version: String = db
        .query_row("SELECT sqlite_version()", [], |row| row.get(0))
        .unwrap();
    let parts: Vec<u32> = version
        .split('.')
        .map(|part| part.parse().unwrap())
        .collect();
    assert!(parts >= vec![3, 51, 3], "{version}");
}

fn timed(dir: &Path) -> Timed {
    let clock = Hand::at(Timed::FROM);
    let store = SqliteStore::open(dir, clock.clone(), Millis(0)).unwrap();
    Timed(store, clock)
}

#[tokio::test]
async fn it_keeps_the_contract_of_expiry() {
    let dir = tempfile::tempdir().unwrap();
    contract::expiry::all(&timed(dir.path()), "contract").await;
}

#[tokio::test]
async fn it_keeps_the_contract_of_a_control_store() {
    let dir = tempfile::tempdir().unwrap();
    contract::control::all(&timed(dir.path()), "contract").await;
}

#[tokio::test]
async fn it_keeps_the_contract_of_moving() {
    let dirs = [(); 4].map(|()| tempfile::tempdir().unwrap());
    let [from, to, other, third] = dirs.each_ref().map(|dir| open(dir.path()));
    contract::moving::moves_everything_and_knows_it_again(&from, &to).await;
    contract::moving::leaves_what_stands(&other).await;
    contract::moving::keeps_halves_and_control_records(&third).await;
}

#[tokio::test]
async fn a_half_that_is_too_large_is_refused_with_the_other_half() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let refused = contract::store::creates_neither_where_one_half_is_refused(&store, "half").await;
    assert!(refused, "nothing is kept that DynamoDB would not take");
}

#[tokio::test]
async fn it_answers_random_calls_as_the_simulated_store_does() {
    for seed in 0..8 {
        let ports = calm_ports(1);
        let simulated = Arc::new(Mutex::new(Vec::new()));
        let (store, seen) = (ports.clone(), simulated.clone());
        run_on(&ports, async move {
            let observed = contract::random::observed(&store, "r", seed, 300).await;
            *seen.lock().unwrap() = observed;
        });
        let simulated = std::mem::take(&mut *simulated.lock().unwrap());
        let dir = tempfile::tempdir().unwrap();
        let own = contract::random::observed(&open(dir.path()), "r", seed, 300).await;
        assert_eq!(simulated.len(), 300);
        for (call, (own, simulated)) in own.iter().zip(&simulated).enumerate() {
            assert_eq!(own, simulated, "seed {seed}, call {call}");
        }
    }
}

#[tokio::test]
async fn what_is_stored_is_there_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    create(&store, (0..20).map(|n| n.to_string())).await;
    drop(store);
    let store = open(dir.path());
    for n in 0..20 {
        let read = store.load(vec![id(&n.to_string())]).await;
        assert_eq!(read, [Ok(Some(new(&n.to_string()).order))]);
    }
}

/// Environment variable for a second process of this binary: the directory in which it creates orders until it is
/// killed.
const WRITES_IN: &str = "TRIAD_SQLITE_TEST_WRITES_IN";

/// Not a test by itself: the process that [`no_answered_write_is_lost_by_kill`] kills. It prints the id of each order
/// whose write was answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_until_it_is_killed() {
    let Some(dir) = std::env::var_os(WRITES_IN) else {
        return;
    };
    let store = open(Path::new(&dir));
    let from: usize = store.list(None, None).await.unwrap().orders.len() * 1_000;
    let writers = (0..8).map(|writer| {
        let store = store.clone();
        tokio::spawn(async move {
            // Limited, in case the process is not killed.
            for n in 0..100_000 {
                let id = format!("{from}-{writer}-{n}");
                let created = store.create(vec![new(&id)]).await;
                assert_eq!(created, [Ok(Created::Created)]);
                println!("kept {id}");
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
}

#[tokio::test]
async fn no_answered_write_is_lost_by_kill() {
    let dir = tempfile::tempdir().unwrap();
    let mut kept = Vec::new();
    for round in 0..4 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "store::writes_until_it_is_killed", "--nocapture"])
            .env(WRITES_IN, dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let answered = lines.map_while(Result::ok).filter_map(|line| {
            let (_, id) = line.split_once("kept ")?;
            Some(id.to_owned())
        });
        let wanted = 40 + 60 * round;
        for (n, id) in answered.enumerate() {
            kept.push(id);
            if n == wanted {
                // Ids that the process prints before it dies count as answered.
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        // A guest joins while no process has the file open; the write-ahead log is as the killed process left it.
        let guest = SqliteStore::join(dir.path(), Hand::at(10_000), Millis(86_400_000)).unwrap();
        let seen = guest.load(kept.iter().map(|kept| id(kept)).collect()).await;
        assert!(seen.iter().all(|seen| matches!(seen, Ok(Some(_)))));
        drop(guest);
        let store = open(dir.path());
        for id in kept.iter().map(|kept| id(kept)) {
            let found = store.load(vec![id.clone()]).await.remove(0).unwrap();
            let details = store.details(vec![id.clone()]).await.remove(0).unwrap();
            assert!(found.is_some() && details.is_some(), "{id} was answered");
        }
    }
    assert!(kept.len() > 4 * 40, "{}", kept.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writes_that_wait_share_a_sync() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let writers = (0..400).map(|n| {
        let store = store.clone();
        tokio::spawn(async move { store.create(vec![new(&n.to_string())]).await })
    });
    for writer in writers.collect::<Vec<_>>() {
        assert_eq!(writer.await.unwrap(), [Ok(Created::Created)]);
    }
    let counted = store.counted();
    assert_eq!(counted.writes, 400);
    assert!(counted.groups < 200, "{counted:?}");
}

/// Creates an order and ends it.
async fn finish(store: &SqliteStore<Hand>, id: &str, at: Timestamp) {
    let new = new(id);
    let mut next = new.order.clone();
    next.version = next.version.next();
    next.state = triad_core::ProcessState::Processed { at };
    next.due = None;
    let write = Write::silent(new.order.version, Arc::new(next), 1);
    assert_eq!(store.create(vec![new]).await, [Ok(Created::Created)]);
    let written = store.commit(vec![write]).await;
    assert_eq!(written, [Ok(Written::Written)]);
}

#[tokio::test]
async fn what_has_expired_is_deleted_in_bounded_parts() {
    let dir = tempfile::tempdir().unwrap();
    let timed = timed(dir.path());
    let store = timed.keeping(Millis(0)).keeping_details(Some(Millis(0)));
    for n in 0..620 {
        finish(&store, &n.to_string(), timed.now()).await;
    }
    timed.pass(Millis(2_000)).await;
    assert_eq!(store.delete_expired().await, Ok(true), "500 of 620");
    assert_eq!(store.delete_expired().await, Ok(false));
    // The expired order's id can be used again, because its details are deleted as well.
    assert_eq!(store.create(vec![new("7")]).await, [Ok(Created::Created)]);
}

/// How many rows a table has.
fn rows(dir: &Path, table: &str) -> u32 {
    let db = Connection::open(triad_sqlite::file(dir)).unwrap();
    let count = format!("SELECT count(*) FROM {table}");
    db.query_row(&count, [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn what_expires_while_it_runs_is_deleted_by_the_sweep() {
    let dir = tempfile::tempdir().unwrap();
    let timed = timed(dir.path());
    let kept = Millis(1_000);
    let store = timed.keeping(kept).keeping_details(Some(kept));
    let sweeping = store.clone();
    let sweep = tokio::spawn(async move { sweeping.sweep(Duration::from_millis(5)).await });
    for round in 0..2 {
        for n in 0..501 {
            finish(&store, &format!("{round}-{n}"), timed.now()).await;
        }
        assert_eq!(rows(dir.path(), "order_state"), 501, "none has expired");
        timed.pass(Millis(2_000)).await;
        tokio::time::timeout(Duration::from_secs(60), async {
            while rows(dir.path(), "order_state") + rows(dir.path(), "orders") > 0 {
                tokio::task::yield_now().await;
            }
        })
        .await
        .expect("what has expired is deleted");
    }
    sweep.abort();
}

/// Holds the write lock of the file, as a process would that hangs within a write.
fn blocked(dir: &Path) -> Connection {
    let other = Connection::open(triad_sqlite::file(dir)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    other
}

#[tokio::test]
async fn a_call_that_is_not_answered_is_given_up_and_may_have_taken_effect() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let hasty = store.clone().answering_within(Duration::from_millis(20));
    let other = blocked(dir.path());
    let given_up = hasty.create(vec![new("1")]).await.remove(0);
    let Err(StoreError::Transient(why)) = given_up else {
        panic!("{given_up:?}")
    };
    assert!(why.contains("20ms") && why.contains("may have"), "{why}");
    other.execute_batch("ROLLBACK").unwrap();
    let there = store.create(vec![new("1")]).await.remove(0);
    assert!(matches!(there, Ok(Created::Exists { .. })), "{there:?}");
}

#[test]
fn a_second_process_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let second = SqliteStore::open(dir.path(), Hand::at(0), Millis(0));
    let why = second.unwrap_err();
    assert!(matches!(why, OpenError::Taken { .. }), "{why}");
    assert!(why.to_string().contains(&dir.path().display().to_string()));
    drop(store);
    open(dir.path());
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let why = SqliteStore::open(&file, Hand::at(0), Millis(0)).unwrap_err();
    assert!(matches!(why, OpenError::Directory { .. }), "{why}");
    assert!(why.to_string().contains("file"), "{why}");
}

/// The file of a closed store with all its data. The store's two connections may close at the same time; then neither
/// is the last, and the latest writes are still in the write-ahead log.
fn whole_file(dir: &Path) -> PathBuf {
    let file = dir.join("triad.sqlite");
    let db = Connection::open(&file).unwrap();
    let is_busy = db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
    assert_eq!(is_busy, Ok(0), "nobody else has it open");
    file
}

/// Writes bytes into the file of a closed store.
fn overwrite(dir: &Path, at: u64, bytes: &[u8]) {
    let file = whole_file(dir);
    let mut file = std::fs::OpenOptions::new().write(true).open(file).unwrap();
    file.seek(SeekFrom::Start(at)).unwrap();
    file.write_all(bytes).unwrap();
}

#[test]
fn a_file_of_another_program_or_of_a_later_version_is_refused() {
    // Offsets in SQLite's file format: the user version at 60, the application id at 68.
    for (at, foreign) in [
        (
            60,
            Foreign::Later {
                version: 7,
                known: 6,
            },
        ),
        (68, Foreign::Program),
    ] {
        let dir = tempfile::tempdir().unwrap();
        drop(open(dir.path()));
        overwrite(dir.path(), at, &7_u32.to_be_bytes());
        let refused = SqliteStore::open(dir.path(), Hand::at(0), Millis(0)).unwrap_err();
        let OpenError::Foreign { why, .. } = refused else {
            panic!("{refused}");
        };
        assert_eq!(why, foreign);
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("triad.sqlite"), [b'x'; 4096]).unwrap();
    let why = SqliteStore::open(dir.path(), Hand::at(0), Millis(0)).unwrap_err();
    assert!(matches!(why, OpenError::File { .. }), "{why}");
}

#[tokio::test]
async fn a_record_that_was_damaged_is_reported_and_the_others_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    create(&store, ["one", "two-is-damaged", "three"].map(String::from)).await;
    drop(store);
    // The order's id occurs as plain text in the table and in its indexes.
    let bytes = std::fs::read(whole_file(dir.path())).unwrap();
    let steps = b"\"step\":\"a\"";
    let places: Vec<usize> = (0..bytes.len() - steps.len())
        .filter(|at| &bytes[*at..*at + steps.len()] == steps)
        .collect();
    // SQLite fills a page from its end, so the page's last record is the first one written.
    let [_, middle, _] = places[..] else {
        panic!("three records: {places:?}")
    };
    overwrite(dir.path(), middle as u64, b"\"step\":\"b\"");
    let store = open(dir.path());
    let read = store
        .load(["one", "two-is-damaged", "three"].map(id).to_vec())
        .await;
    assert!(
        matches!(
            read[..],
            [Ok(Some(_)), Err(StoreError::Item(_)), Ok(Some(_))]
        ),
        "{read:?}"
    );
    let page = store.list(None, None).await.unwrap();
    assert_eq!(page.orders.len(), 2);
    assert_eq!(page.unreadable[0].order_id, "two-is-damaged");
    assert!(page.unreadable[0].why.contains("checksum"), "{page:?}");
}

#[tokio::test]
async fn a_page_that_is_none_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let wrong = Some("x".to_owned());
    let due = store.due(0, Timestamp(1), 10, wrong.clone()).await;
    assert!(matches!(due, Err(StoreError::Item(_))), "{due:?}");
    let list = store.list(None, wrong.clone()).await;
    assert!(matches!(list, Err(StoreError::Item(_))), "{list:?}");
    let attention = store
        .attention(triad_core::Attention::Error, 0, wrong)
        .await;
    assert!(
        matches!(attention, Err(StoreError::Item(_))),
        "{attention:?}"
    );
}

/// Environment variable for a second process of this binary with a limit on file sizes: the directory to write to.
const FILLS: &str = "TRIAD_SQLITE_TEST_FILLS";

/// Not a test by itself: the process with a full disk. It writes until a write is refused, prints that, and then
/// reads its records.
#[tokio::test]
async fn writes_until_the_disk_is_full() {
    let Some(dir) = std::env::var_os(FILLS) else {
        return;
    };
    let store = open(Path::new(&dir));
    let mut kept = Vec::new();
    for n in 0..100_000 {
        let mut new = new(&n.to_string());
        new.details = Arc::new(json!({"text": "x".repeat(20_000)}));
        match store.create(vec![new]).await.remove(0) {
            Ok(_) => kept.push(id(&n.to_string())),
            Err(why) => {
                assert!(matches!(why, StoreError::Configuration(_)), "{why:?}");
                assert!(!why.to_string().contains("closed"), "{why:?}");
                let read = store.load(kept.clone()).await;
                assert!(read.iter().all(|r| matches!(r, Ok(Some(_)))), "{read:?}");
                println!("full after {}", kept.len());
                return;
            }
        }
    }
}

#[tokio::test]
async fn a_full_disk_is_said_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let own = std::env::current_exe().unwrap();
    // The limit is 2 MiB, or 4 MiB if the shell counts in kilobytes. SIGXFSZ is ignored, so a larger write fails as
    // on a full disk.
    let child = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 4096; exec \"$0\" \"$@\""])
        .arg(own)
        .args([
            "--exact",
            "store::writes_until_the_disk_is_full",
            "--nocapture",
        ])
        .env(FILLS, dir.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout).into_owned();
    let full = said.lines().find_map(|line| line.split_once("full after "));
    let (_, kept) = full.unwrap_or_else(|| panic!("it filled the disk: {said}"));
    let kept: usize = kept.trim().parse().unwrap();
    assert!(kept > 10, "{kept}");
    let store = open(dir.path());
    let ids = (0..kept).map(|n| id(&n.to_string())).collect();
    let read = store.load(ids).await;
    assert!(read.iter().all(|r| matches!(r, Ok(Some(_)))), "{read:?}");
    create(&store, ["after".to_owned()]).await;
}

#[tokio::test]
async fn what_is_counted_is_what_is_listed_whatever_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let Timed(store, clock) = timed(dir.path());
    let all = (0..700).map(|n| new(&format!("o-{n}"))).collect();
    assert!(store.create(all).await.iter().all(Result::is_ok));
    let count = async |what: &str| {
        let groups = store.tally(Timestamp(0)).await.unwrap().unwrap().groups;
        let of = groups.iter().filter(|group| group.state == what);
        of.map(|group| group.orders).sum::<u64>()
    };
    assert_eq!(count("Pending").await, 700);
    let short = store.keeping(Millis(1_000), clock.clone());
    let ended = |n: usize| {
        let mut next = new(&format!("o-{n}")).order;
        let expected = next.version;
        next.version = expected.next();
        let at = Timestamp(Timed::FROM);
        next.state = triad_core::ProcessState::Processed { at };
        next.due = None;
        Write::silent(expected, Arc::new(next), 1)
    };
    let written = short.commit((0..600).map(ended).collect()).await;
    assert!(written.iter().all(|w| *w == Ok(Written::Written)));
    assert_eq!(
        (count("Pending").await, count("Processed").await),
        (100, 600)
    );
    contract::operator::counts_what_it_lists(&store).await;
    let read = Connection::open(triad_sqlite::file(dir.path())).unwrap();
    let rows = || -> i64 {
        let of = "SELECT count(*) FROM order_state WHERE ProcessState = 'Processed'";
        read.query_row(of, [], |row| row.get(0)).unwrap()
    };
    // Two seconds later the records have expired, and the store deletes them.
    Timed(store.clone(), clock).pass(Millis(2_000)).await;
    assert_eq!((count("Processed").await, rows()), (0, 600));
    assert!(store.delete_expired().await.unwrap());
    assert_eq!((count("Processed").await, rows()), (0, 100));
    assert!(!store.delete_expired().await.unwrap());
    assert_eq!((count("Processed").await, count("Pending").await), (0, 100));
}

#[tokio::test]
async fn a_version_is_published_when_it_becomes_the_present_one() {
    let dir = tempfile::tempdir().unwrap();
    let Timed(store, clock) = timed(dir.path());
    let [old, new] = ["0123456789abcdef", "1111111111111111"].map(|hash| format!("w@{hash}"));
    let publish = async |version: &str| {
        let (version, content) = (version.parse().unwrap(), "{}".to_owned());
        store.publish(version, content).await.unwrap();
    };
    let published = async |version: &str| {
        let all = store.versions().await.unwrap();
        let found = all.iter().find(|v| v.definition.to_string() == version);
        found.unwrap().published_at
    };
    publish(&old).await;
    let first = published(&old).await;
    Timed(store.clone(), clock.clone())
        .pass(Millis(2_000))
        .await;
    publish(&old).await;
    assert_eq!(published(&old).await, first, "as each start does");
    publish(&new).await;
    publish(&old).await;
    assert_ne!(published(&old).await, first, "it is back");
}

#[tokio::test]
async fn what_has_expired_is_not_found_by_its_keys() {
    let dir = tempfile::tempdir().unwrap();
    let Timed(store, clock) = timed(dir.path());
    let key = triad_workflow::SearchKey::from_str("customer=ALFKI").unwrap();
    let mut new = new("gone");
    new.order.search = vec![key.clone()];
    let mut next = new.order.clone();
    next.version = next.version.next();
    next.state = triad_core::ProcessState::Processed {
        at: Timestamp(Timed::FROM),
    };
    next.due = None;
    let write = Write::silent(new.order.version, Arc::new(next), 1);
    assert_eq!(store.create(vec![new]).await, [Ok(Created::Created)]);
    let found = async || store.search(key.clone(), 0, None).await.unwrap().rows.len();
    assert_eq!(found().await, 1);
    let store_for_a_second = store.keeping(Millis(1_000), clock.clone());
    let written = store_for_a_second.commit(vec![write]).await;
    assert_eq!(written, [Ok(Written::Written)]);
    assert_eq!(found().await, 1, "until its time has come");
    Timed(store.clone(), clock).pass(Millis(2_000)).await;
    assert_eq!(found().await, 0);
}

#[tokio::test]
async fn an_output_is_deleted_with_its_record() {
    let dir = tempfile::tempdir().unwrap();
    let Timed(store, clock) = timed(dir.path());
    let short = store.keeping(Millis(1_000), clock.clone());
    for id in ["gone", "stays"] {
        let new = new(id);
        let mut next = new.order.clone();
        assert_eq!(store.create(vec![new]).await, [Ok(Created::Created)]);
        next.version = next.version.next();
        next.steps[0].state = StepState::Completed {
            attempt: Attempt(1),
            started: None,
            finished: Timestamp(Timed::FROM),
            position: 0,
            output: Value::from("x".repeat(2_000)).into(),
        };
        if id == "gone" {
            let at = Timestamp(Timed::FROM);
            next.state = triad_core::ProcessState::Processed { at };
            next.due = None;
        }
        let write = Write::silent(Version(next.version.0 - 1), Arc::new(next), 1);
        assert_eq!(short.commit(vec![write]).await, [Ok(Written::Written)]);
    }
    Timed(store.clone(), clock).pass(Millis(2_000)).await;
    store.delete_expired().await.unwrap();
    let read = Connection::open(triad_sqlite::file(dir.path())).unwrap();
    let left: String = read
        .query_row("SELECT OrderID FROM outputs", [], |row| row.get(0))
        .unwrap();
    assert_eq!(left, "stays");
}

/// Makes the tables those of an earlier version, which had no starts, before the fifth no parents, before the fourth no
/// amendments, and before the third no events.
fn of_version(db: &Connection, version: i32) {
    let later = ["StartAt", "Parent", "Amendment", "Events"]
        .into_iter()
        .take((6 - version.max(2)) as usize);
    for column in later {
        db.execute_batch(&format!("ALTER TABLE order_state DROP COLUMN {column}"))
            .unwrap();
    }
    db.pragma_update(None, "user_version", version).unwrap();
}

#[tokio::test]
async fn a_file_of_an_earlier_version_is_upgraded_in_its_place() {
    for version in [2, 3, 4, 5] {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path());
        assert_eq!(store.create(vec![new("7")]).await, [Ok(Created::Created)]);
        let mut is = store.load(vec![id("7")]).await.remove(0).unwrap().unwrap();
        if version >= 3 {
            is = kept(&store, &is, with_event).await;
        }
        drop(store);
        let db = Connection::open(dir.path().join("triad.sqlite")).unwrap();
        of_version(&db, version);
        drop(db);
        let store = open(dir.path());
        let read = store.load(vec![id("7")]).await.remove(0);
        assert_eq!(read, Ok(Some(is.clone())), "its checksum still fits");
        is = kept(&store, &is, |next| next.amendment = Some(json!({"a": 1.5}))).await;
        if version == 2 {
            is = kept(&store, &is, with_event).await;
        }
        is = kept(&store, &is, |next| next.parent = Some(Box::new(parent()))).await;
        is = kept(&store, &is, |next| next.start_at = Some(Timestamp(5))).await;
        kept(&store, &is, |next| next.amendment = None).await;
    }
}

fn parent() -> Parent {
    let step = StepId::new("ship").unwrap();
    Parent {
        order_id: id("6"),
        number: 1,
        attempt: 0,
        depth: 1,
        step,
    }
}

fn with_event(order: &mut Order) {
    order.events.push(KeptEvent {
        event: "paid".into(),
        id: "e-1".into(),
        at: Timestamp(1),
        step: None,
        by: None,
        data: Some(json!(7)),
    });
}

/// Writes the next version of an order, and reads it again.
async fn kept(store: &SqliteStore<Hand>, order: &Order, change: impl Fn(&mut Order)) -> Order {
    let mut next = order.clone();
    next.version = order.version.next();
    change(&mut next);
    let write = Write::silent(order.version, Arc::new(next.clone()), 1);
    assert_eq!(store.commit(vec![write]).await, [Ok(Written::Written)]);
    let read = store.load(vec![order.id.clone()]).await.remove(0);
    assert_eq!(read, Ok(Some(next.clone())));
    next
}

/// Version 1 had its file in a folder of its own, without topics.
#[tokio::test]
async fn a_file_of_the_first_version_is_upgraded_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let earlier = dir.path().join("store");
    let store = open(&earlier);
    assert_eq!(store.create(vec![new("7")]).await, [Ok(Created::Created)]);
    drop(store);
    std::fs::rename(earlier.join("triad.sqlite"), earlier.join("state.sqlite")).unwrap();
    let db = Connection::open(earlier.join("state.sqlite")).unwrap();
    db.execute_batch("DROP VIEW messages; DROP TABLE records; DROP TABLE topics;")
        .unwrap();
    of_version(&db, 1);
    let clock = Hand::at(10_000);
    let guest = SqliteStore::join(dir.path(), clock, Millis(1)).unwrap_err();
    assert!(guest.to_string().contains("has version 1"), "{guest}");
    let store = open(dir.path());
    let found = store.load(vec![id("7")]).await.remove(0).unwrap();
    assert!(found.is_some());
    let topics = store.open_topics(TopicSettings::default()).await.unwrap();
    let made = topics.create("t", 1, BTreeMap::new()).await;
    assert!(made.is_ok(), "{made:?}");
    assert!(
        earlier.join("state.sqlite").exists(),
        "it is kept as a copy"
    );
    drop((store, topics));
    let store = open(dir.path());
    let topics = store.open_topics(TopicSettings::default()).await.unwrap();
    assert!(topics.get("t").is_some(), "it is upgraded once");
}
