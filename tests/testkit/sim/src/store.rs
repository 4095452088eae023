//! The simulated state store: conditional writes, write tokens, a late and incomplete due index, pages, and records
//! that expire and are deleted later.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use foldhash::fast::FixedState;
use serde_json::Value;
use triad_core::{Attention, Order, OrderId, OutputDigest, Timestamp, Version, WorkflowRef};
use triad_runtime::ports::OrderPage;
use triad_runtime::{DuePage, DueRow, NewOrder, OutputsOf, Write};

use crate::kernel::{InstanceId, Kernel, OUTSIDE};
use crate::lone::Older;

/// Number of records in a page of a listing.
const LIST_PAGE: usize = 3;
/// Longest time from the expiry of a record to its deletion, in milliseconds.
const DELETION_MS: u64 = 60_000;

/// Longest lag of an eventually consistent read, in milliseconds.
const EVENTUAL_LAG_MS: u64 = 1_000;

/// One order: its record, its details, and its row in the due index.
#[derive(Debug)]
struct SimulatedOrder {
    order: Arc<Order>,
    /// The previous version (`None` before the first), and the time until which an eventually consistent read may
    /// return it.
    before: Option<Arc<Order>>,
    seen_until: u64,
    token: u64,
    details: Arc<Value>,
    digest: String,
    /// When the record expires; a write never makes this earlier.
    expires: Option<u64>,
    /// Whether the expired record is deleted; the checker keeps its last version.
    gone: bool,
    /// Its row in the due index.
    placed: Option<Row>,
    last_coming: u64,
}

impl SimulatedOrder {
    fn is_expired(&self, now: u64) -> bool {
        self.expires.is_some_and(|at| at <= now)
    }
}

/// Number of an order in the order of creation.
type CreationIndex = usize;

/// A row of the due index: shard and due time.
type Row = (u32, u64);

/// Content of the store.
#[derive(Debug, Default)]
pub(crate) struct StoreState {
    entries: Vec<SimulatedOrder>,
    /// Index by id, used only for lookups, so that nothing depends on its iteration order.
    by_id: HashMap<OrderId, CreationIndex, FixedState>,
    /// When each expired record is deleted.
    going: BTreeSet<(u64, CreationIndex)>,
    /// Outputs that lie beside their records.
    outputs: BTreeMap<(CreationIndex, OutputDigest), Arc<Value>>,
    /// The due index as queries see it.
    index: BTreeMap<u32, BTreeSet<(u64, CreationIndex)>>,
    /// Changes of the index that queries do not see yet, by time and sequence.
    coming: BTreeMap<(u64, u64), (CreationIndex, Option<Row>)>,
    coming_seq: u64,
    pub(crate) definitions: BTreeMap<(String, String), String>,
    /// The time at which each definition was last published.
    pub(crate) published: BTreeMap<(String, String), u64>,
    current: BTreeMap<String, String>,
    /// The order whose writes fail at present.
    pub refused: Option<OrderId>,
    /// The workflow whose definitions processes of an older version cannot read, and which processes those are.
    pub unreadable: Option<(&'static str, Older)>,
}

impl StoreState {
    /// The last version of every record, also of deleted ones.
    pub(crate) fn orders(&self) -> impl Iterator<Item = &Arc<Order>> {
        self.entries.iter().map(|e| &e.order)
    }

    /// The records that are not deleted.
    pub(crate) fn orders_there(&self) -> impl Iterator<Item = &Arc<Order>> {
        self.entries.iter().filter(|e| !e.gone).map(|e| &e.order)
    }

    /// The last version of a record, also of a deleted one.
    pub(crate) fn order(&self, id: &OrderId) -> Option<&Arc<Order>> {
        Some(&self.entries[*self.by_id.get(id)?].order)
    }

    /// Whether a record has expired and is deleted.
    pub(crate) fn is_gone(&self, id: &OrderId) -> bool {
        self.by_id.get(id).is_some_and(|at| self.entries[*at].gone)
    }

    pub(crate) fn details(&self, id: &OrderId) -> Option<Arc<Value>> {
        Some(self.entries[*self.by_id.get(id)?].details.clone())
    }

    /// Outputs of an order; `None` if one of them is not stored.
    pub(crate) fn outputs(&self, k: &mut Kernel, wanted: &OutputsOf) -> Option<Vec<Arc<Value>>> {
        let at = *self.by_id.get(&wanted.order)?;
        k.coverage.reach("saw: output read from beside a record");
        let digests = wanted.digests.iter().cloned();
        digests
            .map(|digest| self.outputs.get(&(at, digest)).cloned())
            .collect()
    }

    /// Stores the new outputs of a write, which is done before the write and whether or not it takes effect.
    pub(crate) fn store_outputs(&mut self, k: &mut Kernel, next: &Order) {
        let Some(at) = self.by_id.get(&next.id).copied() else {
            return;
        };
        for (digest, output) in next.new_outputs() {
            k.coverage.reach("saw: output beside its record");
            self.outputs.insert((at, digest.clone()), output.clone());
        }
    }

    /// The outputs that a record names and that are not stored.
    pub(crate) fn missing_outputs(&self, order: &Order) -> Vec<OutputDigest> {
        let at = self.by_id.get(&order.id).copied().unwrap_or(usize::MAX);
        let named = order.outputs_beside().cloned();
        named
            .filter(|digest| !self.outputs.contains_key(&(at, digest.clone())))
            .collect()
    }

    pub(crate) fn publish(&mut self, definition: &WorkflowRef, json: String, now: u64) {
        let name = definition.name.to_string();
        let hash = definition.hash.to_string();
        if self.current.get(&name) == Some(&hash) {
            return;
        }
        self.published.insert((name.clone(), hash.clone()), now);
        self.definitions.insert((name.clone(), hash.clone()), json);
        self.current.insert(name, hash);
    }

    pub(crate) fn definition(&self, wanted: &WorkflowRef) -> Option<String> {
        let key = (wanted.name.to_string(), wanted.hash.to_string());
        self.definitions.get(&key).cloned()
    }

    /// The orders that the due index shows as set aside, with their versions.
    pub(crate) fn set_aside(&self, now: u64) -> BTreeMap<OrderId, Version> {
        let known = self.entries.iter();
        let known =
            known.filter(|e| e.order.set_aside.is_some() && e.last_coming <= now && !e.gone);
        known
            .map(|e| (e.order.id.clone(), e.order.version))
            .collect()
    }

    /// A definition as this instance reads it.
    pub(crate) fn definition_for(&self, wanted: &WorkflowRef, who: InstanceId) -> Option<String> {
        let is_unknown = self
            .unreadable
            .is_some_and(|(name, older)| wanted.name.as_str() == name && older.is(who));
        let json = self.definition(wanted)?;
        Some(match is_unknown {
            true => json.replacen('{', "{\"of-a-newer-version\":true,", 1),
            false => json,
        })
    }

    pub(crate) fn current(&self, name: &str) -> Option<&str> {
        self.current.get(name).map(String::as_str)
    }

    pub(crate) fn list(&self, state: Option<&str>, page: Option<&str>, now: u64) -> OrderPage {
        let from = page
            .and_then(|p| p.parse::<CreationIndex>().ok())
            .unwrap_or(0);
        let scanned = self.entries.iter().skip(from).take(LIST_PAGE);
        // As in a scan with a filter, a page may be empty although another follows.
        let orders = scanned
            .filter(|e| !e.gone && !e.is_expired(now))
            .map(|e| (*e.order).clone().without_contents())
            .filter(|o| state.is_none_or(|s| o.state.name() == s))
            .collect();
        let next = from + LIST_PAGE;
        OrderPage {
            this: None,
            orders,
            unreadable: Vec::new(),
            next: (next < self.entries.len()).then(|| next.to_string()),
        }
    }
}

/// Why a write is not carried out.
pub(crate) enum NotCarriedOut {
    /// The record is deleted, or another version is stored.
    Conflict,
    /// The same write has already taken effect.
    Itself,
}

impl StoreState {
    /// The digest of the stored order with an id.
    pub(crate) fn digest(&self, id: &OrderId) -> Option<String> {
        let at = self.by_id.get(id)?;
        Some(self.entries[*at].digest.clone())
    }

    /// Stores a new order; there must be no order with its id.
    pub(crate) fn insert(&mut self, k: &mut Kernel, new: &NewOrder) {
        let at = self.entries.len();
        self.by_id.insert(new.order.id.clone(), at);
        self.entries.push(SimulatedOrder {
            order: Arc::new(new.order.clone()),
            before: None,
            seen_until: k.now + EVENTUAL_LAG_MS,
            token: 0,
            details: new.details.clone(),
            digest: new.digest.clone(),
            expires: None,
            gone: false,
            placed: None,
            last_coming: 0,
        });
        k.coverage.reach_states(&new.order);
        if new.order.set_aside.is_some() {
            k.coverage.reach("saw: order set aside");
        }
        self.place(k, at, row(&new.order));
    }

    /// The version that a conditional write replaces, or the reason why it is not carried out.
    pub(crate) fn replaced_by(
        &mut self,
        k: &mut Kernel,
        who: InstanceId,
        write: &Write,
    ) -> Result<Arc<Order>, NotCarriedOut> {
        self.delete_expired(k);
        let id = &write.next.id;
        let found = self.by_id.get(id).copied();
        let Some(at) = found.filter(|at| !self.entries[*at].gone) else {
            k.note(who, || format!("store: {id} is gone"));
            k.coverage.reach("saw: write to a record that has gone");
            return Err(NotCarriedOut::Conflict);
        };
        if self.entries[at].token == write.token {
            return Err(NotCarriedOut::Itself);
        }
        let before = self.entries[at].order.clone();
        let after = &write.next;
        if before.version != write.expected {
            k.note(who, || {
                format!("store: {id} conflict, {} stands", before.version)
            });
            return Err(NotCarriedOut::Conflict);
        }
        k.note(who, || {
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
        Ok(before)
    }

    /// Replaces the version `before`, for a writer with this retention.
    pub(crate) fn replace(
        &mut self,
        k: &mut Kernel,
        before: &Order,
        write: &Write,
        kept: Option<u64>,
    ) {
        let after = &write.next;
        let Some(at) = self.by_id.get(&after.id).copied() else {
            return;
        };
        k.coverage.reach_states(after);
        if row(before) != row(after) {
            self.place(k, at, row(after));
        }
        if before.set_aside.is_some() && after.set_aside.is_none() {
            k.coverage.reach("saw: order let in that was set aside");
        }
        let standing = self.entries[at].expires;
        let wanted = after.kept_from().zip(kept).map(|(at, kept)| at.0 + kept);
        let expires = wanted.map(|moment| standing.map_or(moment, |s| s.max(moment)));
        if let Some(moment) = expires {
            let goes = moment + k.rng.below(DELETION_MS);
            self.going.insert((goes, at));
        }
        let seen_until = k.now + EVENTUAL_LAG_MS;
        let entry = &mut self.entries[at];
        entry.before = Some(std::mem::replace(&mut entry.order, after.clone()));
        entry.seen_until = seen_until;
        entry.expires = expires;
        entry.token = write.token;
    }

    /// The result of a consistent read; `None` if the record has expired.
    pub(crate) fn load(&mut self, k: &mut Kernel, id: &OrderId) -> Option<Order> {
        self.delete_expired(k);
        let at = *self.by_id.get(id)?;
        let entry = &self.entries[at];
        if entry.gone {
            return None;
        }
        if entry.is_expired(k.now) {
            k.coverage.reach("saw: expired record ignored");
            return None;
        }
        Some((*entry.order).clone().without_contents())
    }

    /// The result of an eventually consistent read, which may be the previous version.
    pub(crate) fn load_eventually(&mut self, k: &mut Kernel, id: &OrderId) -> Option<Order> {
        let young = (self.by_id.get(id))
            .map(|at| &self.entries[*at])
            .filter(|entry| entry.seen_until > k.now && !entry.gone)
            .map(|entry| entry.before.clone());
        if let Some(before) = young
            && k.fault("fault: read a moment old", k.faults.stale_read)
        {
            return before.map(|order| (*order).clone().without_contents());
        }
        self.load(k, id)
    }

    /// Deletes records some time after they have expired.
    fn delete_expired(&mut self, k: &mut Kernel) {
        while let Some((moment, at)) = self.going.first().copied() {
            if moment > k.now {
                return;
            }
            self.going.pop_first();
            let entry = &self.entries[at];
            if entry.gone || !entry.is_expired(k.now) {
                continue;
            }
            let id = entry.order.id.clone();
            let is_needed = Attention::of(&entry.order).is_some();
            k.check(
                "an-order-that-needs-an-operator-is-kept",
                !is_needed,
                || id.to_string(),
            );
            k.note(OUTSIDE, || format!("store: {id} has expired and goes"));
            k.coverage.reach("fault: expired record deleted");
            self.entries[at].gone = true;
            self.place(k, at, None);
        }
    }

    /// Changes the due index; queries see the change some time later.
    fn place(&mut self, k: &mut Kernel, at: CreationIndex, row: Option<Row>) {
        let lag = k.rng.below(k.faults.index_lag_ms + 1);
        if lag > 0 {
            k.coverage.reach("fault: index late");
        }
        // The changes of a row become visible in the order in which they were made.
        let entry = &mut self.entries[at];
        entry.last_coming = entry.last_coming.max(k.now + lag);
        self.coming_seq += 1;
        let key = (entry.last_coming, self.coming_seq);
        self.coming.insert(key, (at, row));
    }

    /// One page of the due index, with the lag and the gaps that the faults cause.
    pub(crate) fn due(
        &mut self,
        k: &mut Kernel,
        shard: u32,
        until: Timestamp,
        limit: u32,
        page: Option<&str>,
    ) -> DuePage {
        self.delete_expired(k);
        self.resolve_index(k);
        let after = page.and_then(|p| {
            let (moment, at) = p.split_once('/')?;
            Some((
                moment.parse::<u64>().ok()?,
                at.parse::<CreationIndex>().ok()?,
            ))
        });
        if k.faults.empty_page > 0 && k.fault("fault: index page empty", k.faults.empty_page) {
            // The position before the first row, because nothing has been read yet.
            let next = page.map_or_else(|| "0/0".to_owned(), str::to_owned);
            return DuePage {
                rows: Vec::new(),
                next: Some(next),
            };
        }
        let limit = usize::try_from(limit.max(1)).unwrap_or(1);
        let mut taken: Vec<(u64, CreationIndex)> = self
            .index
            .get(&shard)
            .into_iter()
            .flat_map(|rows| rows.range(after.unwrap_or((0, 0))..=(until.0, CreationIndex::MAX)))
            .filter(|row| Some(**row) != after)
            .take(limit + 1)
            .copied()
            .collect();
        let more = taken.len() > limit;
        taken.truncate(limit);
        let next = taken.last().map(|(moment, at)| format!("{moment}/{at}"));
        let mut rows = Vec::new();
        for (_, at) in taken {
            if !k.fault("fault: index row missing", k.faults.index_miss) {
                let order = &self.entries[at].order;
                rows.push(DueRow {
                    order: order.id.clone(),
                    workflow: Some(order.workflow.name.clone()),
                });
            }
        }
        DuePage {
            rows,
            next: next.filter(|_| more),
        }
    }

    fn resolve_index(&mut self, k: &Kernel) {
        while let Some(entry) = self.coming.first_entry() {
            if entry.key().0 > k.now {
                return;
            }
            let (at, row) = entry.remove();
            let standing = std::mem::replace(&mut self.entries[at].placed, row);
            if let Some((shard, moment)) = standing {
                let rows = self.index.entry(shard).or_default();
                rows.remove(&(moment, at));
            }
            if let Some((shard, moment)) = row {
                let rows = self.index.entry(shard).or_default();
                rows.insert((moment, at));
            }
        }
    }
}

/// The row of an order in the due index.
fn row(order: &Order) -> Option<Row> {
    order.due.map(|due| (order.due_shard(), due.0))
}

fn steps(order: &Order) -> String {
    let named = order
        .steps
        .iter()
        .map(|s| format!("{}:{}", s.step, s.state.name()));
    format!("[{}]", named.collect::<Vec<_>>().join(" "))
}
