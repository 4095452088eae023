//! The contract of an operators' store. Every implementation is tested with it.
//!
//! Each function checks one behaviour and panics if the store does not have it. `prefix` separates the ids of one run
//! from those of another: it must be new and valid in an id. [`all`] runs all functions, and those of
//! [`search`](super::search).

use std::collections::BTreeMap;

use triad_core::due::{SHARDS, shard_of};
use triad_core::order::{Hold, OperatorAct};
use triad_core::{
    Attention, Failure, FailureKind, Order, OrderId, ProcessState, Timestamp, WorkflowRef,
};
use triad_runtime::ports::{AttentionPage, AttentionRow, Lately, OperatorStore, OrderCount};
use triad_runtime::{DefinitionStore, StateStore, StoreError, Written};
use triad_workflow::{DefinitionHash, WorkflowName, hash};

use super::orders::{commit, create, id, workflow};

/// Number of queries after which the attention index, which may lag, must show a change.
const PATIENCE: usize = 1_000;
/// Limit on the pages of one read, including empty pages.
const MAX_PAGES: usize = 10_000;

fn cause(code: &str) -> Failure {
    Failure::new(FailureKind::Permanent, code, "")
}

/// Writes the next version of an order and returns it.
async fn put<S: StateStore>(store: &S, before: &Order, change: impl FnOnce(&mut Order)) -> Order {
    let mut next = before.clone();
    next.version = before.version.next();
    change(&mut next);
    let done = commit(store, before, &next, next.version.0).await;
    assert_eq!(done, Written::Written);
    next
}

/// Reads all rows of one shard, page by page.
async fn rows<S: OperatorStore>(store: &S, kind: Attention, shard: u32) -> Vec<AttentionRow> {
    let mut all = Vec::new();
    let mut page = None;
    for _ in 0..MAX_PAGES {
        let found = store.attention(kind, shard, page).await;
        let found = found.expect("the store works");
        all.extend(found.rows);
        match found.next {
            Some(next) => page = Some(next),
            None => return all,
        }
    }
    panic!("the pages do not end");
}

/// Queries the index, which may lag, until it has a row of the order, or until it has none.
async fn eventually<S: OperatorStore>(
    store: &S,
    kind: Attention,
    order: &OrderId,
    wanted: bool,
) -> Option<AttentionRow> {
    for _ in 0..PATIENCE {
        let rows = rows(store, kind, shard_of(order)).await;
        let found = rows.into_iter().find(|row| row.order == *order);
        if found.is_some() == wanted {
            return found;
        }
    }
    panic!("{order} is in the attention index of {kind:?}: must be {wanted}");
}

/// Checks that an order in Error or CompensationFailed is in the attention index, with its cause and its workflow,
/// until it is closed, and in no other part of the index. All ids begin with `prefix`, which must be valid in an id
/// and new to this store.
///
/// # Panics
/// If the store behaves differently, a call fails, or `prefix` is not valid in an id.
pub async fn has_what_stopped_until_it_is_closed<S>(store: &S, prefix: &str)
where
    S: StateStore + OperatorStore,
{
    let error = |at, cause| ProcessState::Error { at, cause };
    let failed = |at, cause| ProcessState::CompensationFailed {
        at,
        cause,
        compensated_for: None,
    };
    type Ends = fn(Timestamp, Failure) -> ProcessState;
    let ends: [(Attention, Ends); 2] = [
        (Attention::Error, error),
        (Attention::CompensationFailed, failed),
    ];
    for (kind, ends) in ends {
        let id = id(prefix, &format!("stopped-{}", kind.name()));
        let order = create(store, &id, 5_000).await;
        eventually(store, kind, &id, false).await;
        let at = Timestamp(6_000);
        let stopped = put(store, &order, |o| o.state = ends(at, cause("no"))).await;
        let row = eventually(store, kind, &id, true).await;
        let wanted = AttentionRow {
            order: id.clone(),
            at,
            cause: Some(cause("no")),
            workflow: Some(order.workflow.clone()),
        };
        assert_eq!(row, Some(wanted));
        for other in Attention::ALL.into_iter().filter(|other| *other != kind) {
            eventually(store, other, &id, false).await;
        }
        let close = |o: &mut Order| {
            o.closed = Some(Hold {
                at,
                act: OperatorAct::new("ann", "by hand"),
            });
        };
        put(store, &stopped, close).await;
        eventually(store, kind, &id, false).await;
    }
}

/// Checks that a paused order is in the attention index, with the time of its pausing, and leaves it when it is
/// resumed. All ids begin with `prefix`, which must be valid in an id and new to this store.
///
/// # Panics
/// If the store behaves differently, a call fails, or `prefix` is not valid in an id.
pub async fn has_what_is_paused_until_it_goes_on<S>(store: &S, prefix: &str)
where
    S: StateStore + OperatorStore,
{
    let id = id(prefix, "paused");
    let order = create(store, &id, 5_000).await;
    let hold = Hold {
        at: Timestamp(7_000),
        act: OperatorAct::new("ann", "wait"),
    };
    let held = put(store, &order, |o| o.paused = Some(hold)).await;
    let row = eventually(store, Attention::Paused, &id, true).await;
    let row = row.expect("it was waited for");
    assert_eq!((row.at, row.cause), (Timestamp(7_000), None));
    put(store, &held, |o| o.paused = None).await;
    eventually(store, Attention::Paused, &id, false).await;
}

/// Checks that the pages of one shard of the attention index have every row once, the oldest first. All ids begin
/// with `prefix`, which must be valid in an id and new to this store.
///
/// # Panics
/// If the store behaves differently, a call fails, or `prefix` is not valid in an id.
pub async fn pages_of_the_attention_index_are_complete_and_ordered<S>(store: &S, prefix: &str)
where
    S: StateStore + OperatorStore,
{
    let shard = shard_of(&id(prefix, "page0"));
    let mut since = BTreeMap::new();
    for n in 0..200_u64 {
        let id = id(prefix, &format!("page{n}"));
        if shard_of(&id) == shard {
            let order = create(store, &id, 5_000).await;
            // Several orders have the same time.
            let at = Timestamp(6_000 + (200 - n) / 60);
            let cause = cause("page");
            put(store, &order, |o| {
                o.state = ProcessState::Error { at, cause };
            })
            .await;
            since.insert(id, at);
        }
    }
    assert!(since.len() > 4, "the shard has rows enough");
    for id in since.keys() {
        eventually(store, Attention::Error, id, true).await;
    }
    let mut read = rows(store, Attention::Error, shard).await;
    assert!(
        read.windows(2).all(|pair| pair[0].at <= pair[1].at),
        "oldest first"
    );
    // A page may begin after any row.
    for at in [0, read.len() / 2] {
        let behind = AttentionPage::behind(read[at].at, read[at].order.as_str());
        let page = store.attention(Attention::Error, shard, Some(behind)).await;
        let first = page.expect("the store works").rows.first().cloned();
        assert_eq!(first.as_ref(), read.get(at + 1), "behind a row");
    }
    let before = AttentionPage::behind(Timestamp(5_999), "\u{10FFFF}");
    let page = store.attention(Attention::Error, shard, Some(before)).await;
    let first = page.expect("the store works").rows.first().cloned();
    let wanted = read.iter().find(|row| row.at >= Timestamp(6_000));
    assert_eq!(first.as_ref(), wanted, "behind a place where no row is");
    read.retain(|row| since.contains_key(&row.order));
    assert_eq!(read.len(), since.len(), "each once");
    let found: BTreeMap<_, _> = read.into_iter().map(|r| (r.order, r.at)).collect();
    assert_eq!(found, since);
}

/// Checks that every published version is listed, and which one is the present version; that the present version is
/// not removed and others are; and that to remove a version that is not stored is no error. All ids begin with
/// `prefix`, which must be valid in an id and new to this store.
///
/// # Panics
/// If the store behaves differently, a call fails, or `prefix` is not valid in an id.
pub async fn lists_versions_and_removes_old_ones<S>(store: &S, prefix: &str)
where
    S: DefinitionStore + OperatorStore,
{
    let name = WorkflowName::new(format!("v-{}", prefix.to_lowercase())).expect("a fit prefix");
    let mut published: Vec<WorkflowRef> = Vec::new();
    for threshold in 1..4 {
        let mut definition = workflow().definition.clone();
        definition.workflow = name.to_string();
        definition.steps[0].action = Some(format!("go-{threshold}"));
        let version = WorkflowRef {
            name: name.clone(),
            hash: DefinitionHash::of(&definition),
        };
        let json = hash::canonical_json(&definition);
        let done = store.publish(version.clone(), json).await;
        assert_eq!(done, Ok(()));
        published.push(version);
    }
    let versions = async || {
        let all = store.versions().await.expect("the store works");
        let mine = all.into_iter().filter(|v| v.definition.name == name);
        mine.map(|v| (v.definition.hash.to_string(), v.is_current))
            .collect::<BTreeMap<_, _>>()
    };
    let wanted = |of: &[WorkflowRef]| {
        let present = &published[2];
        of.iter()
            .map(|v| (v.hash.to_string(), v == present))
            .collect::<BTreeMap<_, _>>()
    };
    assert_eq!(versions().await, wanted(&published));
    let refused = store.remove(published[2].clone()).await;
    assert!(matches!(refused, Err(StoreError::Item(_))), "{refused:?}");
    for _ in 0..2 {
        assert_eq!(store.remove(published[0].clone()).await, Ok(()));
    }
    assert_eq!(versions().await, wanted(&published[1..]));
    assert_eq!(store.definition(published[0].clone()).await, Ok(None));
    let kept = store.definition(published[1].clone()).await;
    assert!(matches!(kept, Ok(Some(_))), "the other ones stay");
    let present = store.current(name.clone()).await;
    assert_eq!(present, Ok(Some(published[2].hash.clone())));
}

/// Checks that a store that counts its orders counts each listed order once, by version, state and reason for
/// attention, and each submitted and each finished order. A store that does not count returns `None`.
///
/// # Panics
/// If the store behaves differently, or a call fails.
pub async fn counts_what_it_lists<S: StateStore + OperatorStore>(store: &S) {
    let late = Timestamp(5_500);
    let Some(tally) = store.tally(late).await.expect("the store works") else {
        assert_eq!(store.lately(Timestamp(0)).await, Ok(None));
        return;
    };
    let orders = super::store::listed(store, None).await;
    let mut groups: Vec<OrderCount> = Vec::new();
    let mut oldest = [None; Attention::ALL.len()];
    for order in &orders {
        let attention = Attention::of(order);
        let mut group = OrderCount {
            workflow: order.workflow.to_string(),
            state: order.state.name().to_owned(),
            attention: attention.map(|(kind, _)| kind),
            orders: 1,
        };
        let same = |a: &OrderCount| {
            (&a.workflow, &a.state, a.attention) == (&group.workflow, &group.state, group.attention)
        };
        if let Some(at) = groups.iter().position(same) {
            group.orders += groups.remove(at).orders;
        }
        groups.push(group);
        for (kind, slot) in Attention::ALL.into_iter().zip(&mut oldest) {
            let at = attention.filter(|(of, _)| *of == kind).map(|(_, at)| at);
            *slot = slot.iter().copied().chain(at).min();
        }
    }
    let key = |g: &OrderCount| {
        (
            g.workflow.clone(),
            g.state.clone(),
            g.attention.map(Attention::name),
        )
    };
    let mut counted = tally.groups;
    counted.sort_by_key(key);
    groups.sort_by_key(key);
    assert_eq!(counted, groups);
    assert_eq!(tally.oldest, oldest);
    let due = |aside: bool| {
        let due = orders
            .iter()
            .filter(move |o| (o.due_shard() >= SHARDS) == aside);
        due.filter_map(|order| order.due)
    };
    assert_eq!(tally.set_aside, due(true).count() as u64);
    let overdue: Vec<Timestamp> = due(false).filter(|at| *at <= late).collect();
    assert_eq!(tally.overdue, overdue.len() as u64);
    assert_eq!(tally.oldest_due, overdue.into_iter().min());

    for since in [0, 5_999, 6_000].map(Timestamp) {
        let lately = store.lately(since).await.expect("the store works");
        let lately = lately.expect("a store that counts");
        let mut wanted = Lately::default();
        for order in &orders {
            wanted.submitted += u64::from(order.submitted_at > since);
            let Some(at) = order.state.finished_at().filter(|at| *at > since) else {
                continue;
            };
            let state = order.state.name().to_owned();
            *wanted.finished.entry(state).or_default() += 1;
            if matches!(order.state, ProcessState::Processed { .. }) {
                wanted.took_ms.push(at.since(order.submitted_at).0);
            }
        }
        wanted.took_ms.sort_unstable();
        assert_eq!(lately, wanted, "since {since:?}");
    }
}

/// Runs every function of this contract. All ids begin with `prefix`, which must be valid in an id and new to this
/// store.
///
/// # Panics
/// If one of these functions panics: a behaviour is missing, a call fails, or `prefix` is not valid in an id.
pub async fn all<S: StateStore + DefinitionStore + OperatorStore>(store: &S, prefix: &str) {
    has_what_stopped_until_it_is_closed(store, prefix).await;
    has_what_is_paused_until_it_goes_on(store, prefix).await;
    pages_of_the_attention_index_are_complete_and_ordered(store, prefix).await;
    lists_versions_and_removes_old_ones(store, prefix).await;
    super::search::all(store, prefix).await;
    counts_what_it_lists(store).await;
}
