//! The simulated state store: conditional writes, tokens, a late and patchy due index, pages,
//! records that expire and go later.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use triad_core::due::shard_of;
use triad_core::{Order, OrderId, Timestamp, WorkflowRef};
use triad_runtime::ports::OrderPage;
use triad_runtime::{Created, DuePage, DueRow, NewOrder, Write, Written};

use crate::world::{InstanceId, State};

/// Records of one page of a listing.
const LIST_PAGE: usize = 3;
/// Longest time from the expiry of a record to its deletion.
const DELETION_MS: u64 = 60_000;

#[derive(Debug, Clone)]
struct Stored {
    order: Arc<Order>,
    token: u64,
}

/// What the store holds.
#[derive(Debug, Default)]
pub(crate) struct StoreState {
    records: BTreeMap<OrderId, Stored>,
    /// The last version of records that have expired and gone, for the checker.
    gone: BTreeMap<OrderId, Arc<Order>>,
    /// When expired records go.
    going: BTreeSet<(u64, OrderId)>,
    details: BTreeMap<OrderId, (Arc<Value>, String)>,
    /// The due index as queries see it.
    index: BTreeMap<u32, BTreeSet<(u64, OrderId)>>,
    /// Where an order stands in the visible index.
    placed: BTreeMap<OrderId, u64>,
    /// Changes of the index that are not visible yet, by moment and sequence.
    coming: BTreeMap<(u64, u64), (OrderId, Option<u64>)>,
    coming_seq: u64,
    last_coming: BTreeMap<OrderId, u64>,
    definitions: BTreeMap<(String, String), String>,
    current: BTreeMap<String, String>,
}

impl StoreState {
    /// The last version of every record, of those too that have gone.
    pub(crate) fn orders(&self) -> impl Iterator<Item = &Arc<Order>> {
        self.records
            .values()
            .map(|s| &s.order)
            .chain(self.gone.values())
    }

    /// The last version of a record, if it has gone too.
    pub(crate) fn order(&self, id: &OrderId) -> Option<&Arc<Order>> {
        self.records
            .get(id)
            .map(|s| &s.order)
            .or_else(|| self.gone.get(id))
    }

    pub(crate) fn details(&self, id: &OrderId) -> Option<Arc<Value>> {
        self.details.get(id).map(|(d, _)| d.clone())
    }

    pub(crate) fn publish(&mut self, definition: &WorkflowRef, json: String) {
        let name = definition.name.to_string();
        let hash = definition.hash.to_string();
        self.definitions.insert((name.clone(), hash.clone()), json);
        self.current.insert(name, hash);
    }

    pub(crate) fn definition(&self, wanted: &WorkflowRef) -> Option<String> {
        let key = (wanted.name.to_string(), wanted.hash.to_string());
        self.definitions.get(&key).cloned()
    }

    pub(crate) fn current(&self, name: &str) -> Option<&str> {
        self.current.get(name).map(String::as_str)
    }

    pub(crate) fn list(&self, state: Option<&str>, page: Option<&str>) -> OrderPage {
        let mut rest = self
            .records
            .iter()
            .filter(|(id, _)| page.is_none_or(|p| id.as_str() > p));
        let scanned: Vec<_> = rest.by_ref().take(LIST_PAGE).collect();
        let next = scanned.last().map(|(id, _)| id.to_string());
        let more = rest.next().is_some();
        // As a scan with a filter: a page may be empty and not the last.
        let orders = scanned
            .into_iter()
            .map(|(_, s)| (*s.order).clone())
            .filter(|o| state.is_none_or(|s| o.state.name() == s))
            .collect();
        OrderPage {
            orders,
            next: next.filter(|_| more),
        }
    }
}

impl State {
    /// The transaction that stores a new order.
    pub(crate) fn store_create(&mut self, who: InstanceId, new: &NewOrder) -> Created {
        let id = &new.order.id;
        if let Some((_, digest)) = self.store.details.get(id) {
            return Created::Exists {
                digest: digest.clone(),
            };
        }
        self.note(who, || format!("store: creates {id}"));
        self.check_admission(id);
        let details = (new.details.clone(), new.digest.clone());
        self.store.details.insert(id.clone(), details);
        self.check_record(&new.order);
        self.put(Arc::new(new.order.clone()), 0);
        Created::Created
    }

    /// One conditional write.
    pub(crate) fn store_write(&mut self, who: InstanceId, write: &Write) -> Written {
        self.delete_expired();
        let id = &write.next.id;
        let Some(stored) = self.store.records.get(id).cloned() else {
            self.note(who, || format!("store: {id} is gone"));
            self.coverage.reach("saw: write to a record that has gone");
            return Written::Conflict;
        };
        if stored.token == write.token {
            return Written::Written;
        }
        let (before, after) = (&stored.order, &write.next);
        if before.version != write.expected {
            self.note(who, || {
                format!("store: {id} conflict, {} stands", before.version)
            });
            return Written::Conflict;
        }
        self.note(who, || {
            format!(
                "store: {id} v{} {} -> {} {} by {:?}, due {:?}",
                after.version,
                before.state.name(),
                after.state.name(),
                steps(after),
                after.outbox.writer,
                after.due.map(|d| d.0),
            )
        });
        self.check_write(before, after);
        self.put(after.clone(), write.token);
        Written::Written
    }

    fn put(&mut self, order: Arc<Order>, token: u64) {
        self.coverage.reach_states(&order);
        let id = order.id.clone();
        let stood = self.store.records.get(&id).map(|s| s.order.due);
        if stood != Some(order.due) {
            self.place(&id, order.due.map(|d| d.0));
        }
        if let Some((at, kept)) = order.state.finished_at().zip(self.setup.retention_ms) {
            let goes = at.0 + kept + self.rng.below(DELETION_MS);
            self.store.going.insert((goes, id.clone()));
        }
        self.store.records.insert(id, Stored { order, token });
    }

    /// What a reader finds: nothing, where the record has expired.
    pub(crate) fn store_load(&mut self, id: &OrderId) -> Option<Order> {
        self.delete_expired();
        let order = self.store.records.get(id)?.order.clone();
        if self.is_expired(&order) {
            self.coverage.reach("saw: expired record ignored");
            return None;
        }
        Some((*order).clone())
    }

    fn is_expired(&self, order: &Order) -> bool {
        let retention = self.setup.retention_ms;
        let finished = order.state.finished_at();
        finished
            .zip(retention)
            .is_some_and(|(at, kept)| at.0 + kept <= self.now)
    }

    /// Expired records go, some time after they have expired.
    fn delete_expired(&mut self) {
        while let Some((at, id)) = self.store.going.first().cloned() {
            if at > self.now {
                return;
            }
            self.store.going.pop_first();
            let stored = self.store.records.get(&id).map(|s| s.order.clone());
            let Some(order) = stored.filter(|o| self.is_expired(o)) else {
                continue;
            };
            self.note(crate::world::OUTSIDE, || {
                format!("store: {id} has expired and goes")
            });
            self.coverage.reach("fault: expired record deleted");
            self.store.records.remove(&id);
            self.place(&id, None);
            self.store.gone.insert(id, order);
        }
    }

    /// Changes the due index, some time later.
    fn place(&mut self, id: &OrderId, due: Option<u64>) {
        let lag = self.rng.below(self.faults.index_lag_ms + 1);
        if lag > 0 {
            self.coverage.reach("fault: index late");
        }
        // Changes of one row become visible in their order.
        let last = self.store.last_coming.get(id).copied().unwrap_or(0);
        let at = last.max(self.now + lag);
        self.store.last_coming.insert(id.clone(), at);
        self.store.coming_seq += 1;
        let key = (at, self.store.coming_seq);
        self.store.coming.insert(key, (id.clone(), due));
    }

    /// One page of the due index, as late and as patchy as the faults have it.
    pub(crate) fn store_due(
        &mut self,
        shard: u32,
        until: Timestamp,
        limit: u32,
        page: Option<&str>,
    ) -> DuePage {
        self.delete_expired();
        self.settle_index();
        let after = page.and_then(|p| {
            let (at, id) = p.split_once('/')?;
            Some((at.parse::<u64>().ok()?, id.to_owned()))
        });
        if self.faults.empty_page > 0
            && self.fault("fault: index page empty", self.faults.empty_page)
        {
            let next = page.map_or_else(|| "0/".to_owned(), str::to_owned);
            return DuePage {
                rows: Vec::new(),
                next: Some(next),
            };
        }
        let rows: Vec<(u64, OrderId)> = self
            .store
            .index
            .get(&shard)
            .into_iter()
            .flatten()
            .take_while(|(at, _)| *at <= until.0)
            .filter(|(at, id)| {
                after
                    .as_ref()
                    .is_none_or(|(a, i)| (*at, id.as_str()) > (*a, i.as_str()))
            })
            .cloned()
            .collect();
        let limit = usize::try_from(limit.max(1)).unwrap_or(1);
        let more = rows.len() > limit;
        let taken: Vec<_> = rows.into_iter().take(limit).collect();
        let next = taken.last().map(|(at, id)| format!("{at}/{id}"));
        let mut rows = Vec::new();
        for (_, id) in taken {
            if !self.fault("fault: index row missing", self.faults.index_miss) {
                let workflow = self.store.order(&id).map(|o| o.workflow.name.clone());
                rows.push(DueRow {
                    order: id,
                    workflow,
                });
            }
        }
        DuePage {
            rows,
            next: next.filter(|_| more),
        }
    }

    fn settle_index(&mut self) {
        while let Some(entry) = self.store.coming.first_entry() {
            if entry.key().0 > self.now {
                return;
            }
            let (id, due) = entry.remove();
            let shard = shard_of(&id);
            if let Some(at) = self.store.placed.remove(&id) {
                let rows = self.store.index.entry(shard).or_default();
                rows.remove(&(at, id.clone()));
            }
            if let Some(at) = due {
                let rows = self.store.index.entry(shard).or_default();
                rows.insert((at, id.clone()));
                self.store.placed.insert(id, at);
            }
        }
    }
}

fn steps(order: &Order) -> String {
    let named = order
        .steps
        .iter()
        .map(|s| format!("{}:{}", s.step, s.state.name()));
    format!("[{}]", named.collect::<Vec<_>>().join(" "))
}
