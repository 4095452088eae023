//! The simulated state store: conditional writes, tokens, a late and patchy due index, pages,
//! records that expire and go later.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::Value;
use triad_core::due::shard_of;
use triad_core::{Attention, Order, OrderId, Timestamp, WorkflowRef};
use triad_runtime::ports::OrderPage;
use triad_runtime::{Created, DuePage, DueRow, NewOrder, Write, Written};

use crate::world::{InstanceId, OUTSIDE, State};

/// Records of one page of a listing.
const LIST_PAGE: usize = 3;
/// Longest time from the expiry of a record to its deletion.
const DELETION_MS: u64 = 60_000;

/// Longest time that an eventually consistent read lags behind.
const EVENTUAL_LAG_MS: u64 = 1_000;

/// One order: its record, its details, and where it stands in the due index.
#[derive(Debug)]
struct Entry {
    order: Arc<Order>,
    /// The version before the present one, `None` before the first, and until when an eventually
    /// consistent read may still find it.
    before: Option<Arc<Order>>,
    seen_until: u64,
    token: u64,
    details: Arc<Value>,
    digest: String,
    /// When the record expires; a write never moves it nearer.
    expires: Option<u64>,
    /// The record has expired and gone; the checker knows its last version.
    gone: bool,
    placed: Option<u64>,
    last_coming: u64,
}

/// Place of an order in the order of creation.
type At = usize;

/// What the store holds.
#[derive(Debug, Default)]
pub(crate) struct StoreState {
    entries: Vec<Entry>,
    /// For look-up alone: nothing depends on its order.
    by_id: HashMap<OrderId, At>,
    /// When expired records go.
    going: BTreeSet<(u64, At)>,
    /// The due index as queries see it.
    index: BTreeMap<u32, BTreeSet<(u64, At)>>,
    /// Changes of the index that are not visible yet, by moment and sequence.
    coming: BTreeMap<(u64, u64), (At, Option<u64>)>,
    coming_seq: u64,
    pub(crate) definitions: BTreeMap<(String, String), String>,
    /// When each definition was published last.
    pub(crate) published: BTreeMap<(String, String), u64>,
    current: BTreeMap<String, String>,
}

impl StoreState {
    /// The last version of every record, of those too that have gone.
    pub(crate) fn orders(&self) -> impl Iterator<Item = &Arc<Order>> {
        self.entries.iter().map(|e| &e.order)
    }

    /// The last version of a record, if it has gone too.
    pub(crate) fn order(&self, id: &OrderId) -> Option<&Arc<Order>> {
        Some(&self.entries[*self.by_id.get(id)?].order)
    }

    /// Whether a record has expired and gone.
    pub(crate) fn is_gone(&self, id: &OrderId) -> bool {
        self.by_id.get(id).is_some_and(|at| self.entries[*at].gone)
    }

    pub(crate) fn details(&self, id: &OrderId) -> Option<Arc<Value>> {
        Some(self.entries[*self.by_id.get(id)?].details.clone())
    }

    pub(crate) fn publish(&mut self, definition: &WorkflowRef, json: String, now: u64) {
        let name = definition.name.to_string();
        let hash = definition.hash.to_string();
        self.published.insert((name.clone(), hash.clone()), now);
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
        let from = page.and_then(|p| p.parse::<At>().ok()).unwrap_or(0);
        let scanned = self.entries.iter().skip(from).take(LIST_PAGE);
        // As a scan with a filter: a page may be empty and not the last.
        let orders = scanned
            .filter(|e| !e.gone)
            .map(|e| (*e.order).clone())
            .filter(|o| state.is_none_or(|s| o.state.name() == s))
            .collect();
        let next = from + LIST_PAGE;
        OrderPage {
            orders,
            unreadable: Vec::new(),
            next: (next < self.entries.len()).then(|| next.to_string()),
        }
    }
}

impl State {
    /// The transaction that stores a new order.
    pub(crate) fn store_create(&mut self, who: InstanceId, new: &NewOrder) -> Created {
        let id = &new.order.id;
        if let Some(at) = self.store.by_id.get(id) {
            let digest = self.store.entries[*at].digest.clone();
            return Created::Exists { digest };
        }
        self.note(who, || format!("store: creates {id}"));
        self.check_admission(id);
        self.check_record(&new.order);
        let at = self.store.entries.len();
        self.store.by_id.insert(id.clone(), at);
        self.store.entries.push(Entry {
            order: Arc::new(new.order.clone()),
            before: None,
            seen_until: self.now + EVENTUAL_LAG_MS,
            token: 0,
            details: new.details.clone(),
            digest: new.digest.clone(),
            expires: None,
            gone: false,
            placed: None,
            last_coming: 0,
        });
        self.coverage.reach_states(&new.order);
        self.place(at, new.order.due.map(|d| d.0));
        Created::Created
    }

    /// One conditional write, of a writer that keeps finished records for a span.
    pub(crate) fn store_write(
        &mut self,
        who: InstanceId,
        (write, kept): &(Write, Option<u64>),
    ) -> Written {
        self.delete_expired();
        let id = &write.next.id;
        let found = self.store.by_id.get(id).copied();
        let Some(at) = found.filter(|at| !self.store.entries[*at].gone) else {
            self.note(who, || format!("store: {id} is gone"));
            self.coverage.reach("saw: write to a record that has gone");
            return Written::Conflict;
        };
        if self.store.entries[at].token == write.token {
            return Written::Written;
        }
        let before = self.store.entries[at].order.clone();
        let after = &write.next;
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
        self.check_write(&before, after);
        self.coverage.reach_states(after);
        if before.due != after.due {
            self.place(at, after.due.map(|d| d.0));
        }
        let standing = self.store.entries[at].expires;
        let wanted = after.kept_from().zip(*kept).map(|(at, kept)| at.0 + kept);
        let expires = wanted.map(|moment| standing.map_or(moment, |s| s.max(moment)));
        if let Some(moment) = expires {
            let goes = moment + self.rng.below(DELETION_MS);
            self.store.going.insert((goes, at));
        }
        let seen_until = self.now + EVENTUAL_LAG_MS;
        let entry = &mut self.store.entries[at];
        entry.before = Some(std::mem::replace(&mut entry.order, after.clone()));
        entry.seen_until = seen_until;
        entry.expires = expires;
        entry.token = write.token;
        Written::Written
    }

    /// What a reader finds: nothing, where the record has expired.
    pub(crate) fn store_load(&mut self, id: &OrderId) -> Option<Order> {
        self.delete_expired();
        let at = *self.store.by_id.get(id)?;
        let entry = &self.store.entries[at];
        if entry.gone {
            return None;
        }
        if self.is_expired(entry) {
            self.coverage.reach("saw: expired record ignored");
            return None;
        }
        Some((*entry.order).clone())
    }

    /// What an eventually consistent read finds: perhaps what was there a moment ago.
    pub(crate) fn store_load_eventually(&mut self, id: &OrderId) -> Option<Order> {
        let young = (self.store.by_id.get(id))
            .map(|at| &self.store.entries[*at])
            .filter(|entry| entry.seen_until > self.now && !entry.gone)
            .map(|entry| entry.before.clone());
        if let Some(before) = young
            && self.fault("fault: read a moment old", self.faults.stale_read)
        {
            return before.map(|order| (*order).clone());
        }
        self.store_load(id)
    }

    fn is_expired(&self, entry: &Entry) -> bool {
        entry.expires.is_some_and(|at| at <= self.now)
    }

    /// Expired records go, some time after they have expired.
    fn delete_expired(&mut self) {
        while let Some((moment, at)) = self.store.going.first().copied() {
            if moment > self.now {
                return;
            }
            self.store.going.pop_first();
            let entry = &self.store.entries[at];
            if entry.gone || !self.is_expired(entry) {
                continue;
            }
            let id = entry.order.id.clone();
            if Attention::of(&entry.order).is_some() {
                self.breach("an-order-that-needs-an-operator-is-kept", id.to_string());
            }
            self.note(OUTSIDE, || format!("store: {id} has expired and goes"));
            self.coverage.reach("fault: expired record deleted");
            self.store.entries[at].gone = true;
            self.place(at, None);
        }
    }

    /// Changes the due index, some time later.
    fn place(&mut self, at: At, due: Option<u64>) {
        let lag = self.rng.below(self.faults.index_lag_ms + 1);
        if lag > 0 {
            self.coverage.reach("fault: index late");
        }
        // Changes of one row become visible in their order.
        let entry = &mut self.store.entries[at];
        entry.last_coming = entry.last_coming.max(self.now + lag);
        self.store.coming_seq += 1;
        let key = (entry.last_coming, self.store.coming_seq);
        self.store.coming.insert(key, (at, due));
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
            let (moment, at) = p.split_once('/')?;
            Some((moment.parse::<u64>().ok()?, at.parse::<At>().ok()?))
        });
        if self.faults.empty_page > 0
            && self.fault("fault: index page empty", self.faults.empty_page)
        {
            // Before the first row: nothing has been read yet.
            let next = page.map_or_else(|| "0/0".to_owned(), str::to_owned);
            return DuePage {
                rows: Vec::new(),
                next: Some(next),
            };
        }
        let limit = usize::try_from(limit.max(1)).unwrap_or(1);
        let mut taken: Vec<(u64, At)> = self
            .store
            .index
            .get(&shard)
            .into_iter()
            .flat_map(|rows| rows.range(after.unwrap_or((0, 0))..=(until.0, At::MAX)))
            .filter(|row| Some(**row) != after)
            .take(limit + 1)
            .copied()
            .collect();
        let more = taken.len() > limit;
        taken.truncate(limit);
        let next = taken.last().map(|(moment, at)| format!("{moment}/{at}"));
        let mut rows = Vec::new();
        for (_, at) in taken {
            if !self.fault("fault: index row missing", self.faults.index_miss) {
                let order = &self.store.entries[at].order;
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

    fn settle_index(&mut self) {
        while let Some(entry) = self.store.coming.first_entry() {
            if entry.key().0 > self.now {
                return;
            }
            let (at, due) = entry.remove();
            let row = &mut self.store.entries[at];
            let rows = self.store.index.entry(shard_of(&row.order.id)).or_default();
            if let Some(moment) = row.placed.take() {
                rows.remove(&(moment, at));
            }
            if let Some(moment) = due {
                rows.insert((moment, at));
                row.placed = Some(moment);
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
