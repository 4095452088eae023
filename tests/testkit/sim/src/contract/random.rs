//! Random calls of a store. Two implementations must give equal results.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;
use triad_core::{Order, OrderId};
use triad_runtime::{ControlStore, ControlWrite, Created, NewOrder, StateStore, Write, Written};

use super::orders::{id, life, new_order};
use crate::kernel::Rng;

/// Number of order ids: small, so that calls concern the same orders.
const IDS: u64 = 8;
/// Most orders in one call.
const BATCH: u64 = 5;

/// The versions of an order that its writer has created.
struct OrderHistory {
    life: Vec<Order>,
    at: usize,
    /// Token of the last write that took effect.
    token: u64,
}

/// Makes `calls` random calls of the store, one after the other, and returns their results as text. `prefix` begins
/// all ids; it must be fresh and fit for an id. With the same `prefix`, `seed` and `calls`, two stores get the same
/// calls as long as they answer the same; so the two results must be equal.
pub async fn observed<S>(store: &S, prefix: &str, seed: u64, calls: usize) -> Vec<String>
where
    S: StateStore + ControlStore,
{
    let mut rng = Rng::new(seed);
    let mut known = BTreeMap::new();
    let mut seen = Vec::with_capacity(calls);
    for call in 0..calls {
        let token = call as u64 + 1;
        seen.push(match rng.below(6) {
            0 => create(store, prefix, &mut rng, &mut known).await,
            1 | 2 => commit(store, prefix, &mut rng, &mut known, token).await,
            3 => format!("load {:?}", store.load(some_ids(prefix, &mut rng)).await),
            4 => format!(
                "details {:?}",
                store.details(some_ids(prefix, &mut rng)).await
            ),
            _ => control(store, prefix, &mut rng, token).await,
        });
    }
    seen
}

fn some_id(prefix: &str, rng: &mut Rng) -> OrderId {
    id(prefix, &format!("o{}", rng.below(IDS)))
}

/// Random ids for one call; they may be missing from the store, and may repeat.
fn some_ids(prefix: &str, rng: &mut Rng) -> Vec<OrderId> {
    let count = 1 + rng.below(BATCH);
    (0..count).map(|_| some_id(prefix, rng)).collect()
}

async fn create<S: StateStore>(
    store: &S,
    prefix: &str,
    rng: &mut Rng,
    known: &mut BTreeMap<OrderId, OrderHistory>,
) -> String {
    let mut ids = some_ids(prefix, rng);
    ids.sort();
    ids.dedup();
    let new: Vec<NewOrder> = ids
        .iter()
        .map(|id| {
            let digest = format!("d{}", rng.below(2));
            new_order(
                id,
                5_000 + rng.below(5_000),
                json!({"digest": digest}),
                &digest,
            )
        })
        .collect();
    let orders: Vec<Order> = new.iter().map(|new| new.order.clone()).collect();
    let created = store.create(new).await;
    for ((id, order), result) in ids.iter().zip(orders).zip(&created) {
        if matches!(result, Ok(Created::Created)) {
            let first = OrderHistory {
                life: life(&order),
                at: 0,
                token: 0,
            };
            known.insert(id.clone(), first);
        }
    }
    format!("create {ids:?}: {created:?}")
}

/// Writes to several orders at once: the next version, an outdated version, or the last write again.
async fn commit<S: StateStore>(
    store: &S,
    prefix: &str,
    rng: &mut Rng,
    known: &mut BTreeMap<OrderId, OrderHistory>,
    token: u64,
) -> String {
    let mut ids = some_ids(prefix, rng);
    ids.sort();
    ids.dedup();
    let mut writes = Vec::new();
    let mut what = Vec::new();
    for id in ids {
        let Some(order) = known.get(&id) else {
            continue;
        };
        let (from, token) = match rng.below(4) {
            0 if order.at > 0 => (order.at - 1, order.token),
            1 if order.at > 0 => (order.at - 1, token),
            _ => (order.at, token),
        };
        let Some(next) = order.life.get(from + 1) else {
            continue;
        };
        writes.push(Write::silent(
            order.life[from].version,
            Arc::new(next.clone()),
            token,
        ));
        what.push((id, from, token));
    }
    let written = store.commit(writes).await;
    for ((id, from, token), result) in what.iter().zip(&written) {
        if let (Some(order), Ok(Written::Written)) = (known.get_mut(id), result) {
            (order.at, order.token) = (from + 1, *token);
        }
    }
    format!("commit {what:?}: {written:?}")
}

async fn control<S: ControlStore>(store: &S, prefix: &str, rng: &mut Rng, token: u64) -> String {
    let key = format!("{prefix}/c{}", rng.below(3));
    let stands = store.read(key.clone(), true).await;
    let version = stands
        .as_ref()
        .ok()
        .and_then(|r| r.as_ref().map(|r| r.version));
    let expected = match rng.below(3) {
        0 => None,
        1 => version,
        _ => version.map(|v| v + 1),
    };
    let write = ControlWrite {
        key: key.clone(),
        value: json!({"token": token}),
        expected,
        expires: None,
        token,
    };
    let written = store.write(write).await;
    format!("control {key} from {stands:?}: {expected:?} {written:?}")
}
