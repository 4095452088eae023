//! The contract of a state store. Every implementation is tested with it.
//!
//! Each function checks one behaviour and panics if the store does not have it. `prefix` separates the ids of one run
//! from those of another on the same tables: it must be new and valid in an id. [`all`] runs all functions.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use triad_core::due::shard_of;
use triad_core::{Event, Order, OrderId, Overdue, ProcessState, Timestamp, WorkflowRef};
use triad_runtime::{Created, DefinitionStore, OutputsOf, StateStore, StoreError, Write, Written};
use triad_workflow::{WorkflowName, hash};

use super::orders::{
    after, claimed, commit, create, every_state, id, life, load, new_order, with_output, workflow,
};
use super::race::{Racer, Racers};

/// Number of queries after which the due index, which may lag, must show a change.
const PATIENCE: usize = 1_000;
/// Limit on the pages of one read, including empty pages.
const MAX_PAGES: usize = 10_000;

/// Checks that a new order is read back as it was created, record and details. All ids begin with `prefix`, which
/// must be valid in an id and new to this store.
///
/// # Panics
/// If the store behaves differently, a call fails, or `prefix` is not valid in an id.
pub async fn creates_record_and_details<S: StateStore>(store: &S, prefix: &str) {
    let id = id(prefix, "whole");
    let details = json!({"text": "é \u{1f600} \"quoted\"", "n": 14.0, "i": -3, "none": null,
        "deep": {"list": [1, [2, {"x": true}]]}, "empty": {}, "long": "abc ".repeat(10_000)});
    let new = new_order(&id, 5_000, details.clone(), "d");
    let order = new.order.clone();
    assert_eq!(store.create(vec![new]).await, [Ok(Created::Created)]);
    assert_eq!(load(store, &id).await, Some(order));
    let read = store.details(vec![id]).await;
    assert_eq!(read, [Ok(Some(Arc::new(details)))]);
}

/// Checks that creating an order that exists writes nothing and answers with the digest that is stored. All ids begin
/// with `prefix`, which must be valid in an id and new to this store.
///
/// # Panics
/// If the store behaves differently, a call fails, or `prefix` is not valid in an id.
pub async fn never_creates_twice<S: StateStore>(store: &S, prefix: &str) {
    let id = id(prefix, "twice");
    let order = create(store, &id, 5_000).await;
    let next = claimed(&order, "c", 2_000);
    assert_eq!(commit(store, &order, &next, 1).await, Written::Written);
    let other = new_order(&id, 9_000, json!({"n": 2}), "other");
    let exists = Created::Exists { digest: "d".into() };
    assert_eq!(store.create(vec![other]).await, [Ok(exists)]);
    assert_eq!(load(store, &id).await, Some(next), "the record stands");
    let read = store.details(vec![id]).await;
    assert_eq!(
        read,
        [Ok(Some(Arc::new(json!({"n": 1}))))],
        "the details stand"
    );
}

/// Checks that an order whose record or whose details are larger than an item of DynamoDB may be is created with both
/// halves or not at all: a refused order leaves nothing behind. Returns true if the store has refused both orders,
/// false if it has taken at least one, as a store without such a bound does. All ids begin with `prefix`, which must
/// be valid in an id and new to this store.
///
/// # Panics
/// If one half is found without the other.
pub async fn creates_neither_where_one_half_is_refused<S: StateStore>(
    store: &S,
    prefix: &str,
) -> bool {
    // Hexadecimal digits of a random sequence, which exceed the limit even when compressed.
    let mut digits = String::new();
    let mut state = 1_u64;
    while digits.len() < 1_000_000 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        digits.push_str(&format!("{:08x}", state >> 32));
    }
    let large_details = new_order(
        &id(prefix, "details"),
        5_000,
        json!({"digits": digits.as_str()}),
        "d",
    );
    let mut large_record = new_order(&id(prefix, "record"), 5_000, json!({"n": 1}), "d");
    large_record.order.reply_topic = Some(digits);
    let mut refused = 0;
    for large in [large_record, large_details] {
        let id = large.order.id.clone();
        match store.create(vec![large]).await.remove(0) {
            Ok(created) => {
                assert_eq!(created, Created::Created);
                assert!(load(store, &id).await.is_some(), "both or neither");
                let details = store.details(vec![id]).await.remove(0);
                assert!(details.is_ok_and(|d| d.is_some()), "both or neither");
            }
            Err(why) => {
                assert!(matches!(why, StoreError::Item(_)), "{why:?}");
                assert_eq!(load(store, &id).await, None, "both or neither");
                let details = store.details(vec![id.clone()]).await;
                assert_eq!(details, [Ok(None)], "both or neither");
                create(store, &id, 5_000).await;
                refused += 1;
            }
        }
    }
    refused == 2
}

/// Checks that an output above its bound lies beside its record: the record is read without it, the output is read by
/// its digest, later writes leave it, and one that is not stored is an error of its order alone. All ids begin with
/// `prefix`, which must be valid in an id and new to this store.
///
/// # Panics
/// If the store behaves differently, a call fails, or `prefix` is not valid in an id.
pub async fn keeps_outputs_beside_the_record<S: StateStore>(store: &S, prefix: &str) {
    let (large, small) = (id(prefix, "large"), id(prefix, "small"));
    let order = create(store, &large, 5_000).await;
    let next = with_output(&order, 7_000);
    let output = next.steps[0].state.output().expect("it is completed");
    let output = output.value().expect("it is new").clone();
    // A write that loses its race may leave its output, which no record names.
    assert_eq!(commit(store, &next, &next, 1).await, Written::Conflict);
    assert_eq!(commit(store, &order, &next, 2).await, Written::Written);
    let read = load(store, &large).await.expect("it is stored");
    assert_eq!(read, next);
    assert_eq!(
        read.steps[0].state.output().expect("completed").value(),
        None
    );
    let last = Order {
        version: read.version.next(),
        ..read.clone()
    };
    assert_eq!(commit(store, &read, &last, 3).await, Written::Written);
    let of = |order: &OrderId| OutputsOf {
        order: order.clone(),
        digests: last.outputs_beside().cloned().collect(),
    };
    create(store, &small, 5_000).await;
    let found = store.outputs(vec![of(&small), of(&large)]).await;
    assert!(
        matches!(found[0], Err(StoreError::Item(_))),
        "{:?}",
        found[0]
    );
    assert_eq!(found[1], Ok(vec![Arc::new(output)]));
    let order = load(store, &small).await.expect("it is stored");
    let next = with_output(&order, 500);
    assert_eq!(commit(store, &order, &next, 4).await, Written::Written);
    let read = load(store, &small).await.expect("it is stored");
    assert_eq!(read.outputs_beside().count(), 0);
    assert_eq!(read, next);
}

/// Checks that results come in the order of the arguments, of which there may be more than 100. All ids begin with
/// `prefix`, which must be valid in an id and new to this store.
///
/// # Panics
/// If the store behaves differently, a call fails, or `prefix` is not valid in an id.
pub async fn answers_in_the_order_of_the_arguments<S: StateStore>(store: &S, prefix: &str) {
    let ids: Vec<OrderId> = (0..130).map(|n| id(prefix, &format!("many{n}"))).collect();
    for chunk in ids.chunks(60) {
        let new = |i: &OrderId| new_order(i, 5_000, json!({"id": i.as_str()}), "d");
        let results = store.create(chunk.iter().map(new).collect()).await;
        assert!(results.iter().all(|r| *r == Ok(Created::Created)));
    }
    let mut asked = ids.clone();
    asked.insert(7, id(prefix, "nobody"));
    asked.push(ids[3].clone());
    let loaded = store.load(asked.clone()).await;
    let details = store.details(asked.clone()).await;
    assert_eq!((loaded.len(), details.len()), (asked.len(), asked.len()));
    for ((wanted, order), details) in asked.iter().zip(loaded).zip(details) {
        let order = order.expect("the store works");
        let details = details.expect("the store works");
        let known = ids.contains(wanted);
        assert_eq!(order.map(|o| o.id), known.then(|| wanted.clone()));
        let expected = json!({"id": wanted.as_str()});
        assert_eq!(details.as_deref(), known.then_some(&expected));
    }
    let again = new_order(&ids[0], 1, json!({}), "x");
    let fresh = new_order(&id(prefix, "fresh"), 5_000, json!({}), "x");
    let results = store.create(vec![again, fresh]).await;
    let exists = Created::Exists { digest: "d".into() };
    assert_eq!(results, [Ok(exists), Ok(Created::Created)]);
}

/// Checks that a record is read back as it was written, in every state of an order's life. All ids begin with
/// `prefix`, which must be valid in an id and new to this store.
///
/// # Panics
/// If the store behaves differently, a call fails, or `prefix` is not valid in an id.
pub async fn keeps_every_state<S: StateStore>(store: &S, prefix: &str) {
    let id = id(prefix, "life");
    let order = create(store, &id, 5_000).await;
    let life = life(&order);
    let mut states = BTreeSet::new();
    for (at, pair) in life.windows(2).enumerate() {
        let token = u64::MAX - at as u64;
        let done = commit(store, &pair[0], &pair[1], token).await;
        assert_eq!(done, Written::Written);
        assert_eq!(load(store, &id).await.as_ref(), Some(&pair[1]));
        states.insert(pair[1].state.name());
    }
    let wanted = [
        "Compensating",
        "CompensationFailed",
        "Pending",
        "Processing",
    ];
    assert_eq!(states, BTreeSet::from(wanted));
}

/// Checks that a write that expects an earlier version is a conflict and changes nothing. All ids begin with
/// `prefix`, which must be valid in an id and new to this store.
///
/// # Panics
/// If the store behaves differently, a call fails, or `prefix` is not valid in an id.
pub async fn refuses_a_stale_write<S: StateStore>(store: &S, prefix: &str) {
    let id = id(prefix, "stale");
    let order = create(store, &id, 5_000).await;
    let next = claimed(&order, "first", 2_000);
    assert_eq!(commit(store, &order, &next, 1).await, Written::Written);
    let late = claimed(&order, "second", 2_500);
    assert_eq!(commit(store, &order, &late, 2).await, Written::Conflict);
    assert_eq!(load(store, &id).await, Some(next));
}

/// Checks that a write to a record that does not exist is a conflict and creates nothing. All ids begin with
/// `prefix`, which must be valid in an id and new to this store.
///
/// # Panics
/// If the store behaves differently, a call fails, or `prefix` is not valid in an id.
pub async fn never_creates_by_a_write<S: StateStore>(store: &S, prefix: &str) {
    let id = id(prefix, "absent");
    let order = new_order(&id, 5_000, json!({}), "d").order;
    let next = claimed(&order, "c", 2_000);
    assert_eq!(commit(store, &order, &next, 1).await, Written::Conflict);
    assert_eq!(load(store, &id).await, None);
    assert_eq!(store.details(vec![id]).await, [Ok(None)]);
}

/// Checks that a write that is repeated with the same token is answered as written. All ids begin with `prefix`,
/// which must be valid in an id and new to this store.
///
/// # Panics
/// If the store behaves differently, a call fails, or `prefix` is not valid in an id.
pub async fn recognises_its_own_success<S: StateStore>(store: &S, prefix: &str) {
    let id = id(prefix, "own");
    let order = create(store, &id, 5_000).await;
    let next = claimed(&order, "c", 2_000);
    for _ in 0..2 {
        let done = commit(store, &order, &next, 0xfeed_beef_dead_cafe).await;
        assert_eq!(done, Written::Written);
    }
    let later = after(&next, Event::Overdue(Overdue::default()), 900_000);
    assert_eq!(commit(store, &next, &later, 7).await, Written::Written);
    let done = commit(store, &order, &next, 0xfeed_beef_dead_cafe).await;
    assert_eq!(done, Written::Conflict, "somebody has gone on from it");
    assert_eq!(load(store, &id).await, Some(later));
}

/// Checks that a record of every process state is written, read as it was written, and found among those in its state
/// and among no others. All ids begin with `prefix`, which must be valid in an id and new to this store.
///
/// # Panics
/// If the store behaves differently, a call fails, or `prefix` is not valid in an id.
pub async fn writes_reads_and_finds_every_state<S: StateStore>(store: &S, prefix: &str) {
    let mut written = BTreeMap::new();
    for state in every_state() {
        let name = state.name();
        let id = id(prefix, &format!("state-{name}"));
        let order = create(store, &id, 5_000).await;
        let mut next = order.clone();
        next.version = order.version.next();
        next.due = (!state.is_finished()).then_some(Timestamp(9_000));
        next.state = state;
        assert_eq!(commit(store, &order, &next, 1).await, Written::Written);
        assert_eq!(load(store, &id).await.as_ref(), Some(&next), "{name}");
        eventually_due(store, &id, 9_000, !next.state.is_finished()).await;
        written.insert(name, id);
    }
    let names: BTreeSet<_> = written.keys().copied().collect();
    assert_eq!(names, BTreeSet::from(ProcessState::NAMES), "every state");
    for name in names {
        let found = listed(store, Some(name)).await;
        let states: Vec<_> = found.iter().map(|o| o.state.name()).collect();
        assert!(states.iter().all(|s| *s == name), "{name}: {states:?}");
        let mine: Vec<_> = (found.iter().map(|o| &o.id))
            .filter(|id| written.values().any(|w| w == *id))
            .collect();
        assert_eq!(mine, [&written[name]], "{name}");
    }
}

/// Number of writers in one race.
const RACERS: u64 = 12;
/// Number of races: enough that some calls overlap inside the store on any machine.
const ROUNDS: u64 = 16;

/// Counts how many calls are inside the store at the same time.
#[derive(Debug, Default)]
struct Inside {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Inside {
    async fn the_store<F: Future>(&self, call: F) -> F::Output {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        let answer = call.await;
        self.now.fetch_sub(1, Ordering::SeqCst);
        answer
    }

    /// # Panics
    /// If no two calls overlapped, so that there was no race.
    fn assert_a_race(&self) {
        assert!(self.most.load(Ordering::SeqCst) > 1, "{self:?}");
    }
}

/// Checks that of several writes on the same version, which `racers` runs at the same time, exactly one is written.
/// All ids begin with `prefix`, which must be valid in an id and new to this store.
///
/// # Panics
/// If the store behaves differently, a call fails, or `prefix` is not valid in an id.
pub async fn lets_one_of_many_win<S, R>(store: &S, prefix: &str, racers: &R)
where
    S: StateStore + Clone + 'static,
    R: Racers,
{
    let id = id(prefix, "race");
    let inside = Arc::new(Inside::default());
    let mut standing = create(store, &id, 5_000).await;
    for round in 1..=ROUNDS {
        let nexts = (0..RACERS).map(|n| {
            let mut next = standing.clone();
            next.version = standing.version.next();
            // The sequence number shows which write has won.
            next.sequence = u32::try_from(100 * round + n).expect("a small number");
            next
        });
        let nexts: Vec<Order> = nexts.collect();
        let writes = nexts.iter().map(|next| -> Racer<Written> {
            let (store, before, next) = (store.clone(), standing.clone(), next.clone());
            let inside = inside.clone();
            Box::pin(async move {
                let token = u64::from(next.sequence);
                inside
                    .the_store(commit(&store, &before, &next, token))
                    .await
            })
        });
        let results = racers.at_once(writes.collect()).await;
        let won = nexts.iter().zip(results);
        let mut won = won.filter(|(_, result)| *result == Written::Written);
        let (Some((winner, _)), None) = (won.next(), won.next()) else {
            panic!("exactly one wins")
        };
        assert_eq!(load(store, &id).await.as_ref(), Some(winner));
        standing = winner.clone();
    }
    inside.assert_a_race();
}

/// Checks that of several creations of one order, which `racers` runs at the same time, exactly one creates it, and
/// the others get its digest. All ids begin with `prefix`, which must be valid in an id and new to this store.
///
/// # Panics
/// If the store behaves differently, a call fails, or `prefix` is not valid in an id.
pub async fn lets_one_of_many_create<S, R>(store: &S, prefix: &str, racers: &R)
where
    S: StateStore + Clone + 'static,
    R: Racers,
{
    let inside = Arc::new(Inside::default());
    for round in 0..ROUNDS {
        let id = id(prefix, &format!("first{round}"));
        let creations = (0..RACERS).map(|n| -> Racer<_> {
            let new = new_order(&id, 5_000, json!({"n": n}), &format!("d{n}"));
            let (store, inside) = (store.clone(), inside.clone());
            Box::pin(async move { inside.the_store(store.create(vec![new])).await.remove(0) })
        });
        let results = racers.at_once(creations.collect()).await;
        let mut created = Vec::new();
        let mut told = Vec::new();
        for (n, result) in results.into_iter().enumerate() {
            match result {
                Ok(Created::Created | Created::WithMessages) => created.push(n),
                Ok(Created::Exists { digest }) => told.push(digest),
                // A transaction may fail because of a concurrent one; that shows nothing.
                Err(_) => {}
            }
        }
        let [first] = created[..] else {
            panic!("created by {created:?}")
        };
        assert!(told.iter().all(|d| *d == format!("d{first}")), "{told:?}");
        let details = store.details(vec![id]).await;
        assert_eq!(details, [Ok(Some(Arc::new(json!({"n": first}))))]);
    }
    inside.assert_a_race();
}

/// Checks that the conflict of one write in a batch does not change the result of another. All ids begin with
/// `prefix`, which must be valid in an id and new to this store.
///
/// # Panics
/// If the store behaves differently, a call fails, or `prefix` is not valid in an id.
pub async fn writes_of_a_batch_stand_alone<S: StateStore>(store: &S, prefix: &str) {
    let (first, second) = (id(prefix, "batch1"), id(prefix, "batch2"));
    let a = create(store, &first, 5_000).await;
    let b = create(store, &second, 5_000).await;
    let moved = claimed(&a, "c", 2_000);
    assert_eq!(commit(store, &a, &moved, 1).await, Written::Written);
    let writes = [&a, &b].map(|o| Write::silent(o.version, Arc::new(claimed(o, "d", 2_000)), 2));
    let results = store.commit(writes.to_vec()).await;
    assert_eq!(results, [Ok(Written::Conflict), Ok(Written::Written)]);
}

/// Reads all rows of one shard up to this time, page by page.
async fn due<S: StateStore>(store: &S, shard: u32, until: u64, limit: u32) -> Vec<OrderId> {
    let mut all = Vec::new();
    let mut page = None;
    for _ in 0..MAX_PAGES {
        let until = Timestamp(until);
        let found = store.due(shard, until, limit, page).await;
        let found = found.expect("the store works");
        assert!(found.rows.len() <= limit as usize, "at most a page");
        all.extend(found.rows.into_iter().map(|r| r.order));
        match found.next {
            Some(next) => page = Some(next),
            None => return all,
        }
    }
    panic!("the pages do not end");
}

/// Queries the due index, which may lag, until it has a row of the order, or until it has none.
async fn eventually_due<S: StateStore>(store: &S, order: &OrderId, until: u64, wanted: bool) {
    for _ in 0..PATIENCE {
        let rows = due(store, shard_of(order), until, 50).await;
        if rows.contains(order) == wanted {
            return;
        }
    }
    panic!("{order} is in the due index until {until}: must be {wanted}");
}

/// Checks that the due index has an order from its hint on, under the new hint after a write that changes it, and no
/// more after a write without a hint. All ids begin with `prefix`, which must be valid in an id and new to this
/// store.
///
/// # Panics
/// If the store behaves differently, a call fails, or `prefix` is not valid in an id.
pub async fn the_due_index_follows_the_hint<S: StateStore>(store: &S, prefix: &str) {
    let id = id(prefix, "due");
    let order = create(store, &id, 5_000).await;
    eventually_due(store, &id, 5_000, true).await;
    eventually_due(store, &id, 4_999, false).await;
    let mut moved = claimed(&order, "c", 2_000);
    moved.due = Some(Timestamp(8_000));
    assert_eq!(commit(store, &order, &moved, 1).await, Written::Written);
    eventually_due(store, &id, 7_999, false).await;
    eventually_due(store, &id, 8_000, true).await;
    let mut gone = moved.clone();
    gone.version = gone.version.next();
    gone.due = None;
    assert_eq!(commit(store, &moved, &gone, 2).await, Written::Written);
    eventually_due(store, &id, u64::from(u32::MAX), false).await;
    let other = (shard_of(&id) + 1) % triad_core::due::SHARDS;
    assert!(
        !due(store, other, 8_000, 50).await.contains(&id),
        "a row is in its own shard"
    );
}

/// Checks that the pages of one shard of the due index have every row once, the earliest hint first. All ids begin
/// with `prefix`, which must be valid in an id and new to this store.
///
/// # Panics
/// If the store behaves differently, a call fails, or `prefix` is not valid in an id.
pub async fn pages_of_the_due_index_are_complete_and_ordered<S: StateStore>(
    store: &S,
    prefix: &str,
) {
    let shard = shard_of(&id(prefix, "page0"));
    let mut hints = BTreeMap::new();
    for n in 0..400_u64 {
        let id = id(prefix, &format!("page{n}"));
        if shard_of(&id) == shard {
            // Several orders have the same hint.
            let hint = 3_000 + (400 - n) / 60;
            create(store, &id, hint).await;
            hints.insert(id, hint);
        }
    }
    assert!(hints.len() > 7, "the shard has rows enough");
    for id in hints.keys() {
        eventually_due(store, id, 4_000, true).await;
    }
    for limit in [1, 3, 100] {
        let rows = due(store, shard, 4_000, limit).await;
        let mine: Vec<&OrderId> = rows.iter().filter(|r| hints.contains_key(r)).collect();
        let distinct: BTreeSet<_> = mine.iter().collect();
        assert_eq!((mine.len(), distinct.len()), (hints.len(), hints.len()));
        assert!(
            mine.windows(2).all(|w| hints[w[0]] <= hints[w[1]]),
            "earliest first"
        );
    }
}

/// Reads all records, or those in one state, page by page.
pub(super) async fn listed<S: StateStore>(store: &S, state: Option<&str>) -> Vec<Order> {
    let mut all = Vec::new();
    let mut page = None;
    for _ in 0..MAX_PAGES {
        let found = store.list(state.map(str::to_owned), page.take()).await;
        let found = found.expect("the store works");
        all.extend(found.orders);
        page = found.next;
        if page.is_none() {
            return all;
        }
    }
    panic!("the pages do not end");
}

/// Checks that listing, page by page, has every record once, and with a state only the records in it. All ids begin
/// with `prefix`, which must be valid in an id and new to this store.
///
/// # Panics
/// If the store behaves differently, a call fails, or `prefix` is not valid in an id.
pub async fn lists_every_record_once<S: StateStore>(store: &S, prefix: &str) {
    let mut wanted = BTreeSet::new();
    for n in 0..9 {
        let id = id(prefix, &format!("list{n}"));
        let order = create(store, &id, 5_000).await;
        if n % 3 == 0 {
            let next = claimed(&order, "c", 2_000);
            assert_eq!(commit(store, &order, &next, 1).await, Written::Written);
        } else {
            wanted.insert(id);
        }
    }
    let mine = format!("{prefix}-list");
    let mut read = Vec::new();
    for state in [Some("Pending"), None] {
        let all = listed(store, state).await.into_iter().map(|o| o.id);
        let mut all: Vec<OrderId> = all.collect();
        all.retain(|id| id.as_str().starts_with(&mine));
        read.push(all);
    }
    assert_eq!(read[0].len(), wanted.len());
    assert_eq!(read[0].iter().cloned().collect::<BTreeSet<_>>(), wanted);
    assert_eq!(read[1].len(), 9);
}

/// Checks that a published definition is the present version of its name, and that earlier versions can still be
/// read. All ids begin with `prefix`, which must be valid in an id and new to this store.
///
/// # Panics
/// If the store behaves differently, a call fails, or `prefix` is not valid in an id.
pub async fn keeps_every_definition<S: DefinitionStore>(store: &S, prefix: &str) {
    let name = WorkflowName::new(format!("w-{}", prefix.to_lowercase())).expect("a fit prefix");
    assert_eq!(store.current(name.clone()).await, Ok(None));
    let mut published: Vec<(WorkflowRef, String)> = Vec::new();
    for calls in 1..4 {
        let mut definition = workflow().definition.clone();
        definition.workflow = name.to_string();
        definition.steps[0].retry = Some(triad_workflow::model::RetryDefinition {
            calls_per_run: None,
            calls_per_attempt: calls,
            initial: None,
            max: None,
        });
        let json = hash::canonical_json(&definition);
        let identity = WorkflowRef {
            name: name.clone(),
            hash: triad_workflow::DefinitionHash::of(&definition),
        };
        assert_eq!(store.definition(identity.clone()).await, Ok(None));
        for _ in 0..2 {
            let done = store.publish(identity.clone(), json.clone()).await;
            assert_eq!(done, Ok(()), "also when it is there already");
        }
        let current = store.current(name.clone()).await;
        assert_eq!(current, Ok(Some(identity.hash.clone())));
        published.push((identity, json));
    }
    for (identity, json) in published {
        assert_eq!(store.definition(identity).await, Ok(Some(json)));
    }
}

/// Runs every function of this contract. `racers` runs the calls that are made at the same time. All ids begin with
/// `prefix`, which must be valid in an id and new to this store.
///
/// # Panics
/// If one of these functions panics: a behaviour is missing, a call fails, or `prefix` is not valid in an id.
pub async fn all<S, R>(store: &S, prefix: &str, racers: &R)
where
    S: StateStore + DefinitionStore + Clone + 'static,
    R: Racers,
{
    // Runs first, because it reads the whole table for each state.
    writes_reads_and_finds_every_state(store, prefix).await;
    creates_record_and_details(store, prefix).await;
    never_creates_twice(store, prefix).await;
    let _ = creates_neither_where_one_half_is_refused(store, prefix).await;
    answers_in_the_order_of_the_arguments(store, prefix).await;
    keeps_every_state(store, prefix).await;
    refuses_a_stale_write(store, prefix).await;
    never_creates_by_a_write(store, prefix).await;
    recognises_its_own_success(store, prefix).await;
    keeps_outputs_beside_the_record(store, prefix).await;
    lets_one_of_many_win(store, prefix, racers).await;
    lets_one_of_many_create(store, prefix, racers).await;
    writes_of_a_batch_stand_alone(store, prefix).await;
    the_due_index_follows_the_hint(store, prefix).await;
    pages_of_the_due_index_are_complete_and_ordered(store, prefix).await;
    lists_every_record_once(store, prefix).await;
    keeps_every_definition(store, prefix).await;
}
