//! Exports, imports and backups lose and duplicate nothing, from one kind of store to the other and back.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Cursor;
use std::sync::Arc;

use serde_json::json;
use triad_core::{OrderId, Timestamp, Version};
use triad_operator::moving::{FileError, Imported, MovedCounts, Reader, Writer, export, import};
use triad_runtime::moving::{MovingStore, StoredItem};
use triad_runtime::{Clock, ControlStore, ControlWrite, NewOrder, StateStore, Write, Written};
use triad_sim::contract::moving::everything;
use triad_sqlite::SqliteStore;
use triad_tests::bus::MemoryBus;
use triad_tests::clock::ManualClock;
use triad_tests::engines::{Store, workflow};
use triad_workflow::Millis;

use super::walk::{self, KINDS};

/// Number of unfinished orders.
const ALIVE: usize = 1_000;
/// Number of orders in tests that need no particular number.
const FEW: usize = 150;
/// Far from the real time, so that no engine deletes items before the test's clock expires them.
const NOW: Timestamp = Timestamp(4_102_444_800_000);
const RETENTION: Millis = Millis(86_400_000);

fn sqlite(dir: &tempfile::TempDir) -> SqliteStore<ManualClock> {
    let clock = ManualClock::at(NOW.0);
    SqliteStore::open(dir.path(), clock, RETENTION).expect("a store")
}

/// Stores unfinished orders in many states until there are `wanted`; returns their properties.
async fn fill<S>(store: &S, wanted: usize) -> BTreeSet<String>
where
    S: StateStore + triad_runtime::DefinitionStore + ControlStore,
{
    let workflow = workflow(walk::YAML);
    let definition = triad_core::WorkflowRef {
        name: workflow.name.clone(),
        hash: workflow.hash.clone(),
    };
    let json = triad_workflow::hash::canonical_json(&workflow.definition);
    let published = store.publish(definition, json).await;
    published.expect("a definition can be stored");
    let (mut kinds, mut alive, mut seed) = (BTreeSet::new(), 0, 0);
    while alive < wanted {
        seed += 1;
        let id = OrderId::new(format!("o-{seed}")).expect("an id");
        let details = json!({"n": seed, "price": 0.1 * seed as f64, "name": "Zürich"});
        let order = walk::new(&workflow, id, NOW, details.clone());
        let next = walk::walked(&workflow, &order, seed);
        kinds.extend(walk::kinds(&next));
        alive += usize::from(!next.state.is_finished());
        let new = NewOrder {
            order: order.clone(),
            details: Arc::new(details),
            digest: format!("digest-{seed}"),
            messages: Vec::new(),
        };
        let made = store.create(vec![new]).await.remove(0);
        made.expect("an order can be stored");
        if next == order {
            continue;
        }
        let next = match next.version {
            same if same == order.version => triad_core::Order {
                version: Version(same.0 + 1),
                ..next
            },
            _ => next,
        };
        let write = Write::silent(order.version, Arc::new(next), u64::MAX - seed);
        assert_eq!(store.commit(vec![write]).await, [Ok(Written::Written)]);
        if seed % 7 == 0 {
            let mark = ControlWrite {
                key: format!("call/{seed}"),
                value: json!({"allowance": 3}),
                expected: None,
                expires: Some(Timestamp(NOW.0 + 86_400_000 + seed)),
                token: seed,
            };
            assert_eq!(store.write(mark).await, Ok(Written::Written));
        }
    }
    let passing = ControlWrite {
        key: "rate/x".to_owned(),
        value: json!({}),
        expected: None,
        expires: None,
        token: 1,
    };
    assert_eq!(store.write(passing).await, Ok(Written::Written));
    kinds
}

async fn exported<S: MovingStore>(store: &S) -> (Vec<u8>, MovedCounts) {
    let clock = ManualClock::at(NOW.0);
    let mut file = Writer::begin(Vec::new(), "test", NOW).expect("memory takes everything");
    let done = export(store, &clock, &mut file, |_| {}).await;
    assert_eq!(done.expect("the store works").unreadable, 0);
    file.finish().expect("memory takes everything")
}

async fn imported<S: MovingStore>(store: &S, file: &[u8], dry_run: bool) -> Imported {
    let clock = ManualClock::at(NOW.0);
    let mut reader = Reader::begin(Cursor::new(file)).expect("it is an export");
    let ports = (store, None::<&MemoryBus>, &clock);
    let done = import(ports, &mut reader, dry_run, |_| {}).await;
    done.expect("the store works")
}

/// The items in the form in which they are moved: without the record of a rate, and with expiry times in whole
/// seconds, which every store can represent.
fn moved(mut all: BTreeMap<String, StoredItem>) -> BTreeMap<String, StoredItem> {
    all.remove("control record rate/x");
    for kept in all.values_mut() {
        if let StoredItem::Control(control) = kept {
            let seconds = |at: Timestamp| Timestamp(at.0.div_ceil(1000) * 1000);
            control.expires = control.expires.map(seconds);
        }
    }
    all
}

#[tokio::test]
async fn a_thousand_alive_orders_of_every_kind_go_to_the_other_store_and_back() {
    let dirs = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    let [from, back] = dirs.each_ref().map(sqlite);
    let kinds = fill(&from, ALIVE).await;
    for kind in KINDS {
        assert!(kinds.contains(kind), "no order is {kind}: {kinds:?}");
    }
    let engine = Store::start().await;
    let tables = engine.store_at(ManualClock::at(NOW.0));
    let was = moved(everything(&from).await);
    let (file, counts) = exported(&from).await;
    assert_eq!(counts.alive, ALIVE as u64);
    assert_eq!(counts.lines(), was.len() as u64);
    let there = imported(&tables, &file, false).await;
    assert!(there.is_whole(), "{:?}", there.named);
    assert_eq!(there.orders.new, counts.orders);
    assert_eq!(moved(everything(&tables).await), was);

    let (file, again) = exported(&tables).await;
    assert_eq!(again, counts);
    let home = imported(&back, &file, false).await;
    assert!(home.is_whole(), "{:?}", home.named);
    assert_eq!(moved(everything(&back).await), was);
}

#[tokio::test]
async fn an_import_is_simply_done_again_and_what_has_gone_on_stays() {
    let dirs = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    let [from, to] = dirs.each_ref().map(sqlite);
    let _ = fill(&from, FEW).await;
    let (file, counts) = exported(&from).await;
    // The beginning of the file, as an import that crashed has read it.
    let part = file.len() / 5 * 4;
    let cut = file[..part].iter().rposition(|byte| *byte == b'\n');
    let cut = cut.expect("there are lines") + 1;
    let mut reader = Reader::begin(Cursor::new(&file[..cut])).expect("it begins as an export");
    let clock = ManualClock::at(NOW.0);
    let ports = (&to, None::<&MemoryBus>, &clock);
    let died = import(ports, &mut reader, false, |_| {}).await;
    assert!(died.is_err(), "its last line is missing");
    let dry = imported(&to, &file, true).await;
    assert!(dry.orders.same > 0 && dry.orders.new > 0, "{dry:?}");
    let second = imported(&to, &file, false).await;
    assert_eq!(second, dry, "a dry run tells what will be");
    assert_eq!(second.orders.same + second.orders.new, counts.orders);
    let third = imported(&to, &file, false).await;
    assert_eq!((third.orders.same, third.orders.new), (counts.orders, 0));
    assert!(third.is_whole());

    let id = OrderId::new("o-1").expect("an id");
    let order = to.load(vec![id.clone()]).await.remove(0);
    let order = order.expect("the store works").expect("it is there");
    let mut next = order.clone();
    next.version = Version(order.version.0 + 1);
    let write = Write::silent(order.version, Arc::new(next.clone()), 5);
    assert_eq!(to.commit(vec![write]).await, [Ok(Written::Written)]);
    let fourth = imported(&to, &file, false).await;
    assert!(!fourth.is_whole());
    assert_eq!(fourth.orders.different, 1);
    assert_eq!(fourth.named[0].0, "order o-1");
    assert_eq!(to.load(vec![id]).await, [Ok(Some(next))]);
}

/// The error of reading this file to its end.
fn refused(file: &[u8]) -> FileError {
    let mut reader = match Reader::begin(Cursor::new(file)) {
        Ok(reader) => reader,
        Err(e) => return e,
    };
    loop {
        match reader.read() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the file was read to its end"),
            Err(e) => return e,
        }
    }
}

#[tokio::test]
async fn damage_is_named_by_its_line_and_a_file_that_was_cut_off_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = sqlite(&dir);
    let _ = fill(&store, FEW).await;
    let (file, _) = exported(&store).await;
    let lines: Vec<&[u8]> = file.split_inclusive(|byte| *byte == b'\n').collect();
    let joined = |lines: &[&[u8]]| lines.concat();
    let count = lines.len();

    let mut changed = lines[40].to_vec();
    let at = changed.len() / 2;
    changed[at] ^= 1;
    let mut all = lines.clone();
    all[40] = &changed;
    let damaged = refused(&joined(&all));
    assert!(
        matches!(damaged, FileError::Damaged { line: 41, .. }),
        "{damaged}"
    );
    let mut swapped = lines.clone();
    swapped.swap(50, 51);
    let damaged = refused(&joined(&swapped));
    assert!(
        matches!(damaged, FileError::Damaged { line: 51, .. }),
        "{damaged}"
    );
    let cut = refused(&joined(&lines[..60]));
    assert!(matches!(cut, FileError::Truncated(60)), "{cut}");
    let cut = refused(&file[..file.len() - 1]);
    assert!(matches!(cut, FileError::Truncated(_)), "{cut}");
    let more = refused(&[&file[..], lines[3]].concat());
    let is_last = matches!(more, FileError::Damaged { line, .. } if line == count as u64);
    assert!(is_last, "{more}");
    let other = String::from_utf8_lossy(lines[0]).replace("\"version\":1", "\"version\":2");
    let other = refused(other.as_bytes());
    assert!(matches!(other, FileError::Version(2)), "{other}");
    for none in [&b"{}\n"[..], b"orders\n", b"", b"\xff\n"] {
        let none = refused(none);
        let is_none = matches!(none, FileError::NoExport);
        assert!(is_none, "{none}");
    }
}

#[tokio::test]
async fn what_has_expired_since_the_export_is_left_out() {
    let dirs = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    let [from, to] = dirs.each_ref().map(sqlite);
    let _ = fill(&from, FEW).await;
    let (file, counts) = exported(&from).await;
    let clock = ManualClock::at(NOW.0);
    clock.advance(Millis(10 * 86_400_000));
    let mut reader = Reader::begin(Cursor::new(&file[..])).expect("it is an export");
    let ports = (&to, None::<&MemoryBus>, &clock);
    let done = import(ports, &mut reader, false, |_| {}).await;
    let done = done.expect("the store works");
    // Details are kept for ever, so they prevent a new use of the ids.
    assert_eq!(done.orders.new, counts.orders);
    let later = to.keeping(RETENTION, clock.clone());
    let all = everything(&later).await;
    let is_bare = |kept: &&StoredItem| matches!(kept, StoredItem::Order(o) if o.record.is_none());
    let bare = all.values().filter(is_bare).count();
    assert!(bare > 0, "some records have expired");
    assert!(done.control.expired > 0, "marks have expired");
    assert!(clock.now() > NOW);
}
