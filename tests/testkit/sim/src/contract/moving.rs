//! The contract of export and import. Every implementation is tested with it.
//!
//! Each function checks one behaviour and panics if the stores do not have it. Both stores must be empty and used by
//! one function only.

use std::collections::BTreeMap;

use serde_json::json;
use triad_core::{Order, OrderId, Timestamp, WorkflowRef};
use triad_runtime::moving::{
    Keeping, KeptControl, KeptDetails, KeptOrder, MovingStore, StorePart, StoredItem,
};
use triad_runtime::{
    ControlStore, ControlWrite, DefinitionStore, OutputsOf, StateStore, StoreError, Written,
};
use triad_workflow::hash;

use super::orders::{commit, create, every_state, id, life, load, with_output, workflow};

/// Limit on the pages of one part, including empty pages.
const MAX_PAGES: usize = 10_000;
/// Number of orders, so many that every store has several pages.
const MANY: usize = 450;

/// The ports that a store must implement to be tested with this contract.
pub trait Whole: StateStore + DefinitionStore + ControlStore + MovingStore {}
impl<T: StateStore + DefinitionStore + ControlStore + MovingStore> Whole for T {}

/// Reads everything that a store keeps. The key of each item is its [`StoredItem::name`].
///
/// # Panics
/// If something cannot be read, an item comes twice, or the pages do not end.
pub async fn everything<S: MovingStore>(store: &S) -> BTreeMap<String, StoredItem> {
    let mut all = BTreeMap::new();
    for part in StorePart::ALL {
        let mut page = None;
        for _ in 0..MAX_PAGES {
            let found = store.kept(part, page).await.expect("the store works");
            assert!(found.unreadable.is_empty(), "{:?}", found.unreadable);
            for kept in found.items {
                let name = kept.name();
                assert_eq!(all.insert(name.clone(), kept), None, "{name} twice");
            }
            page = found.next;
            if page.is_none() {
                break;
            }
        }
        assert_eq!(page, None, "the pages do not end");
    }
    all
}

async fn put<S: MovingStore>(store: &S, all: &[StoredItem], dry_run: bool) -> Vec<Keeping> {
    let mut results = Vec::new();
    // In an order in which each item comes after the items that it needs.
    for part in [is_workflow, is_control, is_order] {
        let of_part: Vec<StoredItem> = all.iter().filter(|kept| part(kept)).cloned().collect();
        for batch in of_part.chunks(100) {
            let done = store.keep(batch.to_vec(), dry_run).await;
            assert_eq!(done.len(), batch.len(), "one result for each");
            results.extend(done.into_iter().map(|done| done.expect("the store works")));
        }
    }
    results
}

fn is_workflow(kept: &StoredItem) -> bool {
    matches!(kept, StoredItem::Workflow(_) | StoredItem::Present(_))
}

fn is_control(kept: &StoredItem) -> bool {
    matches!(kept, StoredItem::Control(_))
}

fn is_order(kept: &StoredItem) -> bool {
    matches!(kept, StoredItem::Order(_))
}

/// Fills a store with orders in every state, a definition and control records.
async fn fill<S: Whole>(store: &S) -> Vec<OrderId> {
    let definition = WorkflowRef {
        name: workflow().name.clone(),
        hash: workflow().hash.clone(),
    };
    let json = hash::canonical_json(&workflow().definition);
    store.publish(definition, json).await.expect("it is stored");
    for n in 0..3_u64 {
        let write = ControlWrite {
            key: format!("call/{n}"),
            value: json!({"allowance": n}),
            expected: None,
            // A time far in the future, so that the record does not expire.
            expires: (n > 0).then_some(Timestamp(9_000_000_000_000 + n)),
            token: n + 1,
        };
        assert_eq!(store.write(write).await, Ok(Written::Written));
    }
    let states = every_state();
    let mut ids = Vec::new();
    for n in 0..MANY {
        let id = id("moved", &n.to_string());
        let order = create(store, &id, 5_000 + n as u64).await;
        let next = match n % 3 {
            0 => None,
            1 => Some(Order {
                state: states[n % states.len()].clone(),
                ..with_output(&order, 30 * n)
            }),
            _ => {
                let life = life(&order);
                Some(life[n % life.len()].clone())
            }
        };
        if let Some(mut next) = next.filter(|next| next != &order) {
            next.version = order.version.next();
            let token = 1_000 + n as u64;
            assert_eq!(commit(store, &order, &next, token).await, Written::Written);
        }
        ids.push(id);
    }
    ids
}

/// Fills the store `from`, puts everything that it keeps into the empty store `to`, and checks that the same is then
/// read from either, by this port and by the others. Also checks that a dry run writes nothing, and that putting
/// everything a second time finds each item to be there already.
///
/// # Panics
/// If a store behaves differently, or a call fails.
pub async fn moves_everything_and_knows_it_again<S: Whole, T: Whole>(from: &S, to: &T) {
    let ids = fill(from).await;
    let all: Vec<StoredItem> = everything(from).await.into_values().collect();
    assert_eq!(all.iter().filter(|kept| is_order(kept)).count(), MANY);
    let dry = put(to, &all, true).await;
    assert!(dry.iter().all(|done| *done == Keeping::New), "a dry run");
    assert_eq!(everything(to).await.len(), 0, "it writes nothing");
    let done = put(to, &all, false).await;
    assert!(done.iter().all(|done| *done == Keeping::New), "it is empty");
    let moved: Vec<StoredItem> = everything(to).await.into_values().collect();
    for (was, is) in all.iter().zip(&moved) {
        match (was, is) {
            (StoredItem::Control(was), StoredItem::Control(is)) => {
                assert!(was.is_same(is), "{was:?} {is:?}")
            }
            (was, is) => assert_eq!(was, is),
        }
    }
    assert_eq!(moved.len(), all.len());
    let (mine, others) = (from.load(ids.clone()).await, to.load(ids.clone()).await);
    assert_eq!(mine, others);
    let outputs = |found: &[Result<Option<Order>, StoreError>]| -> Vec<OutputsOf> {
        let orders = found.iter().flatten().flatten();
        let of_order = |order: &Order| OutputsOf {
            order: order.id.clone(),
            digests: order.outputs_beside().cloned().collect(),
        };
        orders.map(of_order).collect()
    };
    let wanted = outputs(&mine);
    assert!(wanted.iter().any(|of| !of.digests.is_empty()));
    assert_eq!(from.outputs(wanted.clone()).await, to.outputs(wanted).await);
    assert_eq!(
        from.details(ids.clone()).await,
        to.details(ids.clone()).await
    );
    let name = workflow().name.clone();
    let hash = Ok(Some(workflow().hash.clone()));
    assert_eq!(to.current(name).await, hash);
    for dry_run in [false, true] {
        let again = put(to, &all, dry_run).await;
        assert!(again.iter().all(|done| *done == Keeping::Same), "{again:?}");
    }
}

/// Checks that an order that is stored is not replaced by an earlier version of its record, by details with another
/// digest, or by its record or its details alone; in a dry run and without one the answer is that the store has
/// something different.
///
/// # Panics
/// If a store behaves differently, or a call fails.
pub async fn leaves_what_stands<S: Whole>(store: &S) {
    let id = id("stands", "1");
    let order = create(store, &id, 5_000).await;
    let Some(StoredItem::Order(own)) = everything(store).await.remove(&format!("order {id}"))
    else {
        panic!("the order is there");
    };
    let mut next = order.clone();
    next.version = order.version.next();
    assert_eq!(commit(store, &order, &next, 7).await, Written::Written);
    let other_details = KeptOrder {
        details: own.details.clone().map(|details| KeptDetails {
            digest: "other".to_owned(),
            ..details
        }),
        ..(*own).clone()
    };
    let half = |record, details| KeptOrder {
        record,
        details,
        ..(*own).clone()
    };
    let alone = half(None, own.details.clone());
    let bare = half(own.record.clone(), None);
    for (what, other) in [
        ("an earlier version", (*own).clone()),
        ("other details", other_details),
        ("the details alone", alone),
        ("the record alone", bare),
    ] {
        for dry_run in [true, false] {
            let kept = StoredItem::Order(Box::new(other.clone()));
            let done = store.keep(vec![kept], dry_run).await;
            assert_eq!(done, [Ok(Keeping::Different)], "{what}");
        }
    }
    assert_eq!(load(store, &id).await, Some(next));
}

/// Checks that the details of an order are stored although it has no record; that a control record is stored
/// unchanged, and another version of it is refused; and that an invalid page token is refused.
///
/// # Panics
/// If a store behaves differently, or a call fails.
pub async fn keeps_halves_and_control_records<S: Whole>(store: &S) {
    let details = KeptDetails {
        json: r#"{"n":1.10,"s":"\u00e9"}"#.to_owned(),
        digest: "d".to_owned(),
        expires_s: Some(9_000_000_000),
    };
    let alone = StoredItem::Order(Box::new(KeptOrder {
        id: id("half", "1"),
        record: None,
        details: Some(details),
    }));
    let control = |version| {
        StoredItem::Control(KeptControl {
            key: "call/x".to_owned(),
            version,
            json: r#"{"allowance":1}"#.to_owned(),
            token: 5,
            expires: None,
        })
    };
    let both = vec![alone.clone(), control(3)];
    let done = store.keep(both, false).await;
    assert_eq!(done, [Ok(Keeping::New), Ok(Keeping::New)]);
    let all = everything(store).await;
    assert_eq!(all.values().collect::<Vec<_>>(), [&control(3), &alone]);
    assert_eq!(
        store.keep(vec![control(4)], false).await,
        [Ok(Keeping::Different)]
    );
    let read = ControlStore::read(store, "call/x".to_owned(), true).await;
    let read = read.expect("the store works").expect("it is there");
    assert_eq!((read.version, read.value), (3, json!({"allowance": 1})));
    let page = Some("?".to_owned());
    let refused = store.kept(StorePart::Orders, page).await;
    assert!(matches!(refused, Err(StoreError::Item(_))), "{refused:?}");
}
