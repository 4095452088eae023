//! The contract of the search indexes, a part of the contract of an operators' store. Every implementation is tested
//! with it.
//!
//! Each function checks one behaviour and panics if the store does not have it. `prefix` separates the ids and keys
//! of one run from those of another: it must be new and valid in an id. [`all`] runs all functions.

use std::collections::BTreeMap;

use serde_json::json;
use triad_core::stored::SEARCH;
use triad_core::{Order, OrderId, ProcessState, Timestamp};
use triad_runtime::ports::{AttentionPage, OperatorStore, SearchRow};
use triad_runtime::{Created, StateStore, StoreError, Written};
use triad_workflow::SearchKey;

use super::orders::{commit, id, new_order};

/// Number of queries after which an index, which may lag, must have the expected rows.
const PATIENCE: usize = 1_000;
/// Limit on the pages of one read, including empty pages.
const MAX_PAGES: usize = 10_000;

fn key(text: &str) -> SearchKey {
    text.parse().expect("a search key")
}

/// Stores an order with these keys, submitted at this time, and returns it.
async fn store_with<S: StateStore>(store: &S, id: &OrderId, keys: &[SearchKey], at: u64) -> Order {
    let mut new = new_order(id, 5_000, json!({"n": 1}), "d");
    new.order.search = keys.to_vec();
    new.order.submitted_at = Timestamp(at);
    let order = new.order.clone();
    assert_eq!(store.create(vec![new]).await, [Ok(Created::Created)]);
    order
}

/// Reads all rows of a key in one index, page by page.
async fn rows_of<S: OperatorStore>(store: &S, key: &SearchKey, index: usize) -> Vec<SearchRow> {
    let mut all = Vec::new();
    let mut page = None;
    for _ in 0..MAX_PAGES {
        let found = store.search(key.clone(), index, page).await;
        let found = found.expect("the store works");
        assert_eq!(found.unreadable, [], "every row can be read");
        all.extend(found.rows);
        match found.next {
            Some(next) => page = Some(next),
            None => return all,
        }
    }
    panic!("the pages do not end");
}

/// Reads all rows of a key in all indexes.
async fn rows<S: OperatorStore>(store: &S, key: &SearchKey) -> Vec<SearchRow> {
    let mut all = Vec::new();
    for index in 0..SEARCH.len() {
        all.extend(rows_of(store, key, index).await);
    }
    all
}

/// Queries the indexes, which may lag, until they have rows of exactly these orders for a key.
async fn eventually<S: OperatorStore>(store: &S, key: &SearchKey, wanted: &[&OrderId]) {
    let mut found = Vec::new();
    for _ in 0..PATIENCE {
        found = rows(store, key).await;
        let mut ids: Vec<&OrderId> = found.iter().map(|row| &row.order).collect();
        ids.sort();
        if ids == wanted {
            return;
        }
    }
    panic!("{key} finds {found:?} and not {wanted:?}");
}

/// Checks that an order is found by each of its keys as a whole, byte by byte, under its own name, and in no other
/// way; and that its row has the time of its submission and its workflow. All ids begin with `prefix`, which must be
/// valid in an id and new to this store.
///
/// # Panics
/// If the store behaves differently, a call fails, or `prefix` is not valid in an id.
pub async fn finds_an_order_by_exactly_its_keys<S>(store: &S, prefix: &str)
where
    S: StateStore + OperatorStore,
{
    let (one, other) = (id(prefix, "found"), id(prefix, "other"));
    let keys = [
        key(&format!("customer={prefix}/ALFKI=")),
        key(&format!("invoice={prefix}-10248")),
    ];
    let order = store_with(store, &one, &keys, 7_000).await;
    // This order has the same names and values of keys, but exchanged.
    let crossed = [
        key(&format!("customer={}", keys[1].value())),
        key(&format!("invoice={}", keys[0].value())),
    ];
    store_with(store, &other, &crossed, 7_000).await;
    for (own, crossed) in keys.iter().zip(&crossed) {
        eventually(store, own, &[&one]).await;
        eventually(store, crossed, &[&other]).await;
    }
    let row = rows(store, &keys[0]).await.remove(0);
    let wanted = SearchRow {
        order: one,
        at: Timestamp(7_000),
        workflow: Some(order.workflow),
    };
    assert_eq!(row, wanted);
    let whole = keys[0].to_string();
    let unlike = [
        whole.trim_end_matches('=').to_owned(),
        format!("{whole} "),
        format!("{whole}="),
        whole.to_lowercase(),
        whole.replace("customer=", "custome="),
        whole.replace("customer=", "customers="),
        whole.replace("ALFKI", "%"),
    ];
    for unlike in unlike {
        assert_eq!(rows(store, &key(&unlike)).await, [], "{unlike}");
    }
}

/// Checks that an order without keys is in no search index, and that one is found by the second of its keys where the
/// first is the same as that of another order. All ids begin with `prefix`, which must be valid in an id and new to
/// this store.
///
/// # Panics
/// If the store behaves differently, a call fails, or `prefix` is not valid in an id.
pub async fn finds_only_orders_with_the_key<S>(store: &S, prefix: &str)
where
    S: StateStore + OperatorStore,
{
    let shared = key(&format!("customer={prefix}-shared"));
    let own = key(&format!("invoice={prefix}-own"));
    let (none, first, second) = (id(prefix, "none"), id(prefix, "s1"), id(prefix, "s2"));
    store_with(store, &none, &[], 7_000).await;
    store_with(store, &first, std::slice::from_ref(&shared), 7_000).await;
    // In one order the key is the first, in the other the second.
    store_with(store, &second, &[own.clone(), shared.clone()], 7_000).await;
    eventually(store, &shared, &[&first, &second]).await;
    eventually(store, &own, &[&second]).await;
}

/// Checks that the keys of an order are read back as they were stored, and that it is found by them in every state.
/// All ids begin with `prefix`, which must be valid in an id and new to this store.
///
/// # Panics
/// If the store behaves differently, a call fails, or `prefix` is not valid in an id.
pub async fn finds_an_order_in_every_state<S>(store: &S, prefix: &str)
where
    S: StateStore + OperatorStore,
{
    let keys = [
        key(&format!("customer={prefix}-life")),
        key(&format!("invoice={prefix} – 東京 \u{1}")),
    ];
    let id = id(prefix, "life");
    let order = store_with(store, &id, &keys, 7_000).await;
    let mut read = store.load(vec![id.clone()]).await;
    let read = read.remove(0).expect("the store works");
    assert_eq!(read.map(|order| order.search), Some(keys.to_vec()));
    let mut next = order.clone();
    next.version = order.version.next();
    next.due = None;
    // Ended in the far future, so that the order does not expire.
    next.state = ProcessState::Processed {
        at: Timestamp(4_102_444_800_000),
    };
    let done = commit(store, &order, &next, 77).await;
    assert_eq!(done, Written::Written);
    for key in &keys {
        eventually(store, key, &[&id]).await;
    }
}

/// Checks that the pages of one key in one index have every row once, the order that was submitted last first, and
/// that a page may begin behind any place. All ids begin with `prefix`, which must be valid in an id and new to this
/// store.
///
/// # Panics
/// If the store behaves differently, a call fails, or `prefix` is not valid in an id.
pub async fn pages_of_a_key_are_complete_and_newest_first<S>(store: &S, prefix: &str)
where
    S: StateStore + OperatorStore,
{
    let key = key(&format!("customer={prefix}-pages"));
    let mut submitted = BTreeMap::new();
    for n in 0..12_u64 {
        let id = id(prefix, &format!("found{n}"));
        // Several orders have the same time.
        let at = 6_000 + n / 3;
        store_with(store, &id, std::slice::from_ref(&key), at).await;
        submitted.insert(id, Timestamp(at));
    }
    let all: Vec<&OrderId> = submitted.keys().collect();
    eventually(store, &key, &all).await;
    let read = rows_of(store, &key, 0).await;
    assert!(
        read.windows(2).all(|pair| pair[0].at >= pair[1].at),
        "newest first"
    );
    for at in [0, read.len() / 2] {
        let behind = AttentionPage::behind(read[at].at, read[at].order.as_str());
        let page = store.search(key.clone(), 0, Some(behind)).await;
        let first = page.expect("the store works").rows.first().cloned();
        assert_eq!(first.as_ref(), read.get(at + 1), "behind a row");
    }
    // Rows with the same time may come in any order.
    let nowhere = AttentionPage::behind(Timestamp(6_500), "\u{10FFFF}");
    let page = store.search(key.clone(), 0, Some(nowhere)).await;
    let first = page.expect("the store works").rows.first().cloned();
    assert_eq!(
        first.as_ref(),
        read.first(),
        "behind a place where no row is"
    );
    assert_eq!(read.len(), submitted.len(), "each once");
    let found: BTreeMap<_, _> = read.into_iter().map(|r| (r.order, r.at)).collect();
    assert_eq!(found, submitted);
}

/// Checks that there are as many indexes as an order may have keys, and no more. All ids begin with `prefix`, which
/// must be valid in an id and new to this store.
///
/// # Panics
/// If the store behaves differently, a call fails, or `prefix` is not valid in an id.
pub async fn has_an_index_for_each_key<S: OperatorStore>(store: &S, prefix: &str) {
    let key = key(&format!("customer={prefix}-none"));
    let beyond = store.search(key, SEARCH.len(), None).await;
    assert!(matches!(beyond, Err(StoreError::Item(_))), "{beyond:?}");
}

/// Runs every function of this contract. All ids begin with `prefix`, which must be valid in an id and new to this
/// store.
///
/// # Panics
/// If one of these functions panics: a behaviour is missing, a call fails, or `prefix` is not valid in an id.
pub async fn all<S: StateStore + OperatorStore>(store: &S, prefix: &str) {
    finds_an_order_by_exactly_its_keys(store, prefix).await;
    finds_only_orders_with_the_key(store, prefix).await;
    finds_an_order_in_every_state(store, prefix).await;
    pages_of_a_key_are_complete_and_newest_first(store, prefix).await;
    has_an_index_for_each_key(store, prefix).await;
}
