//! The contract of a store's retention of finished records. Every implementation is tested with it.
//!
//! Each function checks one behaviour and panics if the store does not have it. `prefix` separates the ids of one run
//! from those of another: it must be new and valid in an id. [`all`] runs all functions.

use std::sync::Arc;

use serde_json::json;
use triad_core::order::{Hold, OperatorAct};
use triad_core::{Failure, FailureKind, Order, OrderId, ProcessState, Timestamp};
use triad_runtime::{Created, StateStore, StoreError, Written};
use triad_workflow::Millis;

use super::TimedStore;
use super::orders::{commit, create, id, load, new_order};

/// The retention of one writer; the other one's is longer.
const SHORT: Millis = Millis(20_000);
const LONG: Millis = Millis(200_000);
/// Margin in checks of times: a store may round a time down to seconds, and takes some time to answer.
const MARGIN: Millis = Millis(3_000);

fn cause() -> Failure {
    Failure::new(FailureKind::Permanent, "no", "")
}

/// The next version of an order in this state, with all messages sent.
fn next(order: &Order, state: ProcessState) -> Order {
    Order {
        version: order.version.next(),
        state,
        due: None,
        ..order.clone()
    }
}

/// Writes the next version and returns it.
async fn put<S: StateStore>(store: &S, before: &Order, next: Order) -> Order {
    let done = commit(store, before, &next, next.version.0 + 100).await;
    assert_eq!(done, Written::Written);
    next
}

/// Creates an order and ends it in this state.
async fn ended<T: TimedStore>(
    timed: &T,
    retention: Millis,
    prefix: &str,
    name: &str,
    state: fn(Timestamp) -> ProcessState,
) -> Order {
    let store = timed.keeping(retention);
    let order = create(&store, &id(prefix, name), timed.now().0).await;
    let state = state(timed.now());
    put(&store, &order, next(&order, state)).await
}

async fn is_there<T: TimedStore>(timed: &T, order: &Order) -> bool {
    load(&timed.keeping(LONG), &order.id).await.is_some()
}

/// Checks that the record of an order that ended well is kept for the retention and not longer. All ids begin with
/// `prefix`, which must be valid in an id and new to this store.
///
/// # Panics
/// If the store behaves differently, a call fails, or `prefix` is not valid in an id.
pub async fn keeps_a_finished_record_for_the_retention<T: TimedStore>(timed: &T, prefix: &str) {
    let processed = |at| ProcessState::Processed { at };
    let order = ended(timed, SHORT, prefix, "kept", processed).await;
    timed.pass(Millis(SHORT.0 - MARGIN.0)).await;
    assert!(is_there(timed, &order).await, "until its time has come");
    timed.pass(Millis(2 * MARGIN.0)).await;
    assert!(!is_there(timed, &order).await, "not longer");
}

/// Checks that a writer with a shorter retention than the writer before it does not shorten the time for which a
/// record is kept, and that one with a longer retention lengthens it; conflicts and repeated writes are answered as
/// ever. All ids begin with `prefix`, which must be valid in an id and new to this store.
///
/// # Panics
/// If the store behaves differently, a call fails, or `prefix` is not valid in an id.
pub async fn never_brings_the_end_nearer<T: TimedStore>(timed: &T, prefix: &str) {
    let processed = |at| ProcessState::Processed { at };
    let first = ended(timed, LONG, prefix, "nearer", processed).await;
    let short = timed.keeping(SHORT);
    let second = put(&short, &first, next(&first, first.state.clone())).await;
    let again = commit(&short, &first, &second, second.version.0 + 100).await;
    assert_eq!(again, Written::Written, "it knows its own write");
    let stale = commit(&short, &first, &second, 7).await;
    assert_eq!(stale, Written::Conflict, "the version fences it");
    assert_eq!(load(&short, &first.id).await, Some(second.clone()));
    timed.pass(Millis(SHORT.0 + MARGIN.0)).await;
    assert!(is_there(timed, &second).await, "as long as was promised");
    let third = put(&short, &second, next(&second, second.state.clone())).await;
    timed.pass(Millis(LONG.0 - SHORT.0 - 2 * MARGIN.0)).await;
    assert!(is_there(timed, &third).await, "through every write");
    timed.pass(Millis(2 * MARGIN.0)).await;
    assert!(!is_there(timed, &third).await, "and no longer");

    let first = ended(timed, SHORT, prefix, "further", processed).await;
    let long = timed.keeping(LONG);
    let second = put(&long, &first, next(&first, first.state.clone())).await;
    timed.pass(Millis(SHORT.0 + MARGIN.0)).await;
    assert!(is_there(timed, &second).await, "a longer time counts");
}

/// Checks that the record of an order that needs an operator does not expire, and that it is kept for the retention
/// from its closing on. All ids begin with `prefix`, which must be valid in an id and new to this store.
///
/// # Panics
/// If the store behaves differently, a call fails, or `prefix` is not valid in an id.
pub async fn keeps_what_needs_an_operator_until_it_is_closed<T: TimedStore>(
    timed: &T,
    prefix: &str,
) {
    let error = |at| ProcessState::Error { at, cause: cause() };
    let failed = |at| ProcessState::CompensationFailed {
        at,
        cause: cause(),
        compensated_for: None,
    };
    let stopped = [
        ended(timed, SHORT, prefix, "error", error).await,
        ended(timed, SHORT, prefix, "failed", failed).await,
    ];
    timed.pass(LONG).await;
    let store = timed.keeping(SHORT);
    let mut closed = Vec::new();
    for order in stopped {
        assert!(is_there(timed, &order).await, "it needs an operator");
        let state = order.state.clone();
        let after = Order {
            closed: Some(Hold {
                at: timed.now(),
                act: OperatorAct::new("ann", "by hand"),
            }),
            ..next(&order, state)
        };
        closed.push(put(&store, &order, after).await);
    }
    timed.pass(Millis(SHORT.0 - MARGIN.0)).await;
    for order in &closed {
        assert!(is_there(timed, order).await, "counted from its closing");
    }
    timed.pass(Millis(2 * MARGIN.0)).await;
    for order in &closed {
        assert!(!is_there(timed, order).await, "nobody needs it any more");
    }
}

/// Checks that the record of a finished order that an operator has set going again does not expire. All ids begin
/// with `prefix`, which must be valid in an id and new to this store.
///
/// # Panics
/// If the store behaves differently, a call fails, or `prefix` is not valid in an id.
pub async fn keeps_what_is_set_going_again<T: TimedStore>(timed: &T, prefix: &str) {
    let compensated = |at| ProcessState::Compensated { at, cause: cause() };
    let order = ended(timed, SHORT, prefix, "again", compensated).await;
    let alive = Order {
        due: Some(timed.now()),
        ..next(&order, ProcessState::Pending { complete_by: None })
    };
    let alive = put(&timed.keeping(SHORT), &order, alive).await;
    timed.pass(LONG).await;
    assert!(is_there(timed, &alive).await);
}

/// Checks that an order is created with record and details or not at all: where the details are kept and the record
/// has expired, the same id is known, and no record is written. All ids begin with `prefix`, which must be valid in
/// an id and new to this store.
///
/// # Panics
/// If the store behaves differently, a call fails, or `prefix` is not valid in an id.
pub async fn creates_both_or_neither<T: TimedStore>(timed: &T, prefix: &str) {
    let processed = |at| ProcessState::Processed { at };
    let order = ended(timed, SHORT, prefix, "neither", processed).await;
    timed.pass(Millis(SHORT.0 + MARGIN.0)).await;
    let store = timed.keeping(SHORT);
    assert_eq!(load(&store, &order.id).await, None, "the record has gone");
    let other = new_order(&order.id, timed.now().0, json!({"n": 2}), "other");
    let exists = Created::Exists { digest: "d".into() };
    assert_eq!(store.create(vec![other]).await, [Ok(exists)]);
    assert_eq!(
        load(&store, &order.id).await,
        None,
        "not one without the other"
    );
    let details = store.details(vec![order.id]).await;
    assert_eq!(details, [Ok(Some(Arc::new(json!({"n": 1}))))]);
}

/// Checks that an expired record is found by no kind of read, whether or not the store has deleted it: alone and
/// among others, consistently and eventually, and in a list. All ids begin with `prefix`, which must be valid in an
/// id and new to this store.
///
/// # Panics
/// If the store behaves differently, a call fails, or `prefix` is not valid in an id.
pub async fn an_expired_record_is_read_on_no_way<T: TimedStore>(timed: &T, prefix: &str) {
    let processed = |at| ProcessState::Processed { at };
    let expired = ended(timed, SHORT, prefix, "expired", processed).await.id;
    let kept = ended(timed, LONG, prefix, "not-yet", processed).await.id;
    timed.pass(Millis(SHORT.0 + MARGIN.0)).await;
    let store = timed.keeping(LONG);
    let found = |read: Vec<Result<Option<Order>, StoreError>>| -> Vec<OrderId> {
        let read = read.into_iter().map(|r| r.expect("the store works"));
        read.flatten().map(|order| order.id).collect()
    };
    let only = std::slice::from_ref(&kept);
    let one = vec![expired.clone()];
    let both = vec![expired.clone(), kept.clone()];
    assert_eq!(found(store.load(one.clone()).await), []);
    assert_eq!(found(store.load(both.clone()).await), only);
    assert_eq!(found(store.load_eventually(one).await), []);
    assert_eq!(found(store.load_eventually(both.clone()).await), only);
    let (mut listed, mut page) = (Vec::new(), None);
    loop {
        let found = store.list(None, page).await.expect("the store works");
        listed.extend(found.orders.into_iter().map(|order| order.id));
        page = found.next;
        if page.is_none() {
            break;
        }
    }
    listed.retain(|id| both.contains(id));
    assert_eq!(listed, only);
}

/// Runs every function of this contract. All ids begin with `prefix`, which must be valid in an id and new to this
/// store.
///
/// # Panics
/// If one of these functions panics: a behaviour is missing, a call fails, or `prefix` is not valid in an id.
pub async fn all<T: TimedStore>(timed: &T, prefix: &str) {
    keeps_a_finished_record_for_the_retention(timed, prefix).await;
    never_brings_the_end_nearer(timed, prefix).await;
    keeps_what_needs_an_operator_until_it_is_closed(timed, prefix).await;
    keeps_what_is_set_going_again(timed, prefix).await;
    creates_both_or_neither(timed, prefix).await;
    an_expired_record_is_read_on_no_way(timed, prefix).await;
}
