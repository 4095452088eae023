//! A store that several processes share: one owner and its guests.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rusqlite::Connection;
use serde_json::{Value, json};
use triad_core::{Order, OrderId, Timestamp, WorkflowRef};
use triad_runtime::ports::OrderPage;
use triad_runtime::{
    Created, DefinitionStore, DuePage, NewOrder, OutputsOf, StateStore, StoreError, Write, Written,
};
use triad_sim::contract::{self, OnThreads};
use triad_sqlite::{Foreign, OpenError, SqliteStore, is_taken};
use triad_workflow::{DefinitionHash, Millis, WorkflowName};

use crate::common::{Hand, Timed, id, new};

const RETENTION: Millis = Millis(86_400_000);

fn own(dir: &Path) -> SqliteStore<Hand> {
    SqliteStore::open(dir, Hand::at(10_000), RETENTION).unwrap()
}

fn join(dir: &Path) -> SqliteStore<Hand> {
    SqliteStore::join(dir, Hand::at(10_000), RETENTION).unwrap()
}

/// The owner and its guests as one store: the calls go to each in turn.
#[derive(Clone)]
struct Turns(Arc<[SqliteStore<Hand>]>, Arc<AtomicUsize>);

impl Turns {
    fn next(&self) -> &SqliteStore<Hand> {
        &self.0[self.1.fetch_add(1, Ordering::Relaxed) % self.0.len()]
    }
}

impl StateStore for Turns {
    async fn create(&self, orders: Vec<NewOrder>) -> Vec<Result<Created, StoreError>> {
        self.next().create(orders).await
    }
    async fn commit(&self, writes: Vec<Write>) -> Vec<Result<Written, StoreError>> {
        self.next().commit(writes).await
    }
    async fn load(&self, orders: Vec<OrderId>) -> Vec<Result<Option<Order>, StoreError>> {
        self.next().load(orders).await
    }
    async fn details(&self, orders: Vec<OrderId>) -> Vec<Result<Option<Arc<Value>>, StoreError>> {
        self.next().details(orders).await
    }
    async fn outputs(&self, wanted: Vec<OutputsOf>) -> Vec<Result<Vec<Arc<Value>>, StoreError>> {
        self.next().outputs(wanted).await
    }
    async fn due(
        &self,
        shard: u32,
        until: Timestamp,
        limit: u32,
        page: Option<String>,
    ) -> Result<DuePage, StoreError> {
        self.next().due(shard, until, limit, page).await
    }
    async fn list(
        &self,
        state: Option<String>,
        page: Option<String>,
    ) -> Result<OrderPage, StoreError> {
        self.next().list(state, page).await
    }
}

impl DefinitionStore for Turns {
    async fn publish(&self, definition: WorkflowRef, json: String) -> Result<(), StoreError> {
        self.next().publish(definition, json).await
    }
    async fn current(&self, name: WorkflowName) -> Result<Option<DefinitionHash>, StoreError> {
        self.next().current(name).await
    }
    async fn definition(&self, definition: WorkflowRef) -> Result<Option<String>, StoreError> {
        self.next().definition(definition).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn owner_and_guests_together_keep_the_contract_of_a_state_store() {
    let dir = tempfile::tempdir().unwrap();
    let all = [own(dir.path()), join(dir.path()), join(dir.path())];
    let store = Turns(all.into(), Arc::default());
    contract::store::all(&store, "contract", &OnThreads).await;
}

#[tokio::test]
async fn a_guest_keeps_the_contract_of_an_operators_store() {
    let dir = tempfile::tempdir().unwrap();
    let _owner = own(dir.path());
    contract::operator::all(&join(dir.path()), "contract").await;
}

#[tokio::test]
async fn a_guest_keeps_the_contracts_of_expiry_and_of_a_control_store() {
    let dir = tempfile::tempdir().unwrap();
    let _owner = own(dir.path());
    let clock = Hand::at(Timed::FROM);
    let guest = SqliteStore::join(dir.path(), clock.clone(), Millis(0)).unwrap();
    let timed = Timed(guest, clock);
    contract::expiry::all(&timed, "expiry").await;
    contract::control::all(&timed, "control").await;
}

/// Ids of the orders that several processes write at the same time.
const SHARED: [&str; 3] = ["one", "two", "three"];
const WINS: u64 = 60;
/// The orders' first due time; each write moves it later.
const DUE: u64 = 5_000;

/// Writes each shared order until this process has written it [`WINS`] times.
async fn compete(store: &SqliteStore<Hand>, token: u64) {
    for round in 0..WINS {
        for (at, name) in SHARED.into_iter().enumerate() {
            let token = token + round * SHARED.len() as u64 + at as u64;
            loop {
                let before = store.load(vec![id(name)]).await.remove(0).unwrap().unwrap();
                let mut next = before.clone();
                next.version = before.version.next();
                next.due = before.due.map(|due| Timestamp(due.0 + 1));
                let write = Write::silent(before.version, Arc::new(next), token);
                match store.commit(vec![write]).await.remove(0).unwrap() {
                    Written::Written | Written::WithMessages => break,
                    Written::Conflict => {}
                }
            }
        }
    }
}

/// Environment variable for a second process of this binary: the store to join, and the first write token.
const JOINS: &str = "TRIAD_SQLITE_TEST_JOINS";
const TOKEN: &str = "TRIAD_SQLITE_TEST_TOKEN";

/// Not a test by itself: a guest process of [`no_update_of_any_process_is_lost`].
#[tokio::test]
async fn competes_as_a_guest() {
    let Some(dir) = std::env::var_os(JOINS) else {
        return;
    };
    let token = std::env::var_os(TOKEN).unwrap().into_string().unwrap();
    let store = join(Path::new(&dir));
    println!("joined");
    compete(&store, token.parse().unwrap()).await;
}

fn guest_process(dir: &Path, token: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "guests::competes_as_a_guest", "--nocapture"])
        .env(JOINS, dir)
        .env(TOKEN, token.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_update_of_any_process_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let owner = own(dir.path());
    for name in SHARED {
        let created = owner.create(vec![new(name)]).await;
        assert_eq!(created, [Ok(Created::Created)]);
    }
    let mut guests = [1_000_000, 2_000_000].map(|token| guest_process(dir.path(), token));
    for guest in &mut guests {
        let lines = BufReader::new(guest.stdout.as_mut().unwrap()).lines();
        let mut lines = lines.map_while(Result::ok);
        assert!(lines.any(|line| line.contains("joined")), "it has joined");
    }
    compete(&owner, 3_000_000).await;
    for guest in guests {
        let ended = guest.wait_with_output().unwrap();
        assert!(ended.status.success(), "{ended:?}");
    }
    for name in SHARED {
        let order = owner.load(vec![id(name)]).await.remove(0).unwrap().unwrap();
        assert_eq!(order.version.0, 1 + 3 * WINS, "{name}");
        assert_eq!(order.due, Some(Timestamp(DUE + 3 * WINS)), "{name}");
    }
}

/// Opens a connection to the file, as another process would.
fn other(dir: &Path) -> Connection {
    let other = Connection::open(triad_sqlite::file(dir)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    other
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_waits_for_another_process_that_writes() {
    let dir = tempfile::tempdir().unwrap();
    let owner = own(dir.path());
    let other = other(dir.path());
    let waiting = tokio::spawn({
        let owner = owner.clone();
        async move { owner.create(vec![new("1")]).await }
    });
    // With a timeout of 50 ms, its answer comes after it has tried to get the lock.
    let hasty = owner.clone().answering_within(Duration::from_millis(50));
    let given_up = hasty.create(vec![new("2")]).await;
    assert!(given_up[0].is_err(), "{given_up:?}");
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(waiting.await.unwrap(), [Ok(Created::Created)]);
}

#[tokio::test]
async fn a_write_that_waits_too_long_for_another_process_fails_and_the_next_one_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let owner = own(dir.path());
    let other = other(dir.path());
    let failed = owner.create(vec![new("1"), new("2")]).await;
    let is_locked =
        |e: &StoreError| matches!(e, StoreError::Transient(why) if why.contains("locked"));
    let is_expected = |r: &Result<_, _>| r.as_ref().is_err_and(is_locked);
    assert!(failed.iter().all(is_expected), "{failed:?}");
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(owner.create(vec![new("1")]).await, [Ok(Created::Created)]);
}

#[tokio::test]
async fn the_log_stays_bounded_beside_a_guest() {
    let dir = tempfile::tempdir().unwrap();
    let owner = own(dir.path());
    let guest = join(dir.path());
    // Three times as much as the write-ahead log may hold.
    for batch in 0..50 {
        let orders = (0..50).map(|n| {
            let mut new = new(&format!("{batch}-{n}"));
            new.details = Arc::new(json!({"text": "x".repeat(40_000)}));
            new
        });
        let orders: Vec<NewOrder> = orders.collect();
        let created = owner.create(orders).await;
        assert!(created.iter().all(Result::is_ok), "{created:?}");
        let seen = guest.load(vec![id(&format!("{batch}-7"))]).await;
        assert!(matches!(seen[..], [Ok(Some(_))]), "{seen:?}");
    }
    let log = std::fs::metadata(dir.path().join("triad.sqlite-wal")).unwrap();
    assert!(log.len() < 48 << 20, "{} bytes", log.len());
}

#[tokio::test]
async fn a_guest_is_let_in_when_nobody_owns_the_store_and_leaves_it_to_its_owner() {
    let dir = tempfile::tempdir().unwrap();
    let owner = own(dir.path());
    assert_eq!(owner.create(vec![new("1")]).await, [Ok(Created::Created)]);
    assert!(is_taken(dir.path()));
    drop(owner);
    let guest = join(dir.path());
    assert!(!is_taken(dir.path()), "a guest does not own it");
    let owner = own(dir.path());
    assert_eq!(guest.create(vec![new("2")]).await, [Ok(Created::Created)]);
    drop(guest);
    let read = owner.load(vec![id("1"), id("2")]).await;
    assert!(matches!(read[..], [Ok(Some(_)), Ok(Some(_))]), "{read:?}");
}

#[test]
fn a_guest_makes_nothing_where_there_is_no_store() {
    let dir = tempfile::tempdir().unwrap();
    let none = |dir: &Path| {
        let why = SqliteStore::join(dir, Hand::at(0), RETENTION).unwrap_err();
        assert!(matches!(why, OpenError::Missing { .. }), "{why}");
        assert!(why.to_string().contains(&dir.display().to_string()));
    };
    none(dir.path());
    none(&dir.path().join("no-such-directory"));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    // An empty file, as a process leaves it that died before it created the tables.
    std::fs::write(triad_sqlite::file(dir.path()), "").unwrap();
    none(dir.path());
    assert_eq!(std::fs::read(triad_sqlite::file(dir.path())).unwrap(), b"");
}

#[test]
fn a_guest_refuses_a_file_of_another_version_or_program() {
    for (pragma, number, foreign) in [
        (
            "user_version",
            7,
            Foreign::Later {
                version: 7,
                known: 6,
            },
        ),
        (
            "user_version",
            0,
            Foreign::Earlier {
                version: 0,
                known: 6,
            },
        ),
        ("application_id", 7, Foreign::Program),
    ] {
        let dir = tempfile::tempdir().unwrap();
        drop(own(dir.path()));
        let db = Connection::open(triad_sqlite::file(dir.path())).unwrap();
        db.pragma_update(None, pragma, number).unwrap();
        drop(db);
        let refused = SqliteStore::join(dir.path(), Hand::at(0), RETENTION).unwrap_err();
        let OpenError::Foreign { why, .. } = refused else {
            panic!("{refused}");
        };
        assert_eq!(why, foreign);
    }
}
