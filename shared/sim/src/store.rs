//! The simulated state store: conditional writes, tokens, a late and patchy due index, pages.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use triad_core::due::shard_of;
use triad_core::{Order, OrderId, StepState, Timestamp, WorkflowRef, invariants};
use triad_runtime::ports::OrderPage;
use triad_runtime::{Created, DuePage, DueRow, NewOrder, Write, Written};
use triad_workflow::StepId;

use crate::scenario;
use crate::world::{InstanceId, State};

/// Records of one page of a listing.
const LIST_PAGE: usize = 3;

#[derive(Debug, Clone)]
struct Stored {
    order: Arc<Order>,
    token: u64,
}

/// What the store holds, and what the checker remembers of its history.
#[derive(Debug, Default)]
pub(crate) struct StoreState {
    records: BTreeMap<OrderId, Stored>,
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
    /// Steps in the order in which their completion was written, by order.
    pub completed: BTreeMap<OrderId, Vec<StepId>>,
    /// The order of undo that the guarantees demand, fixed when an order turns round.
    pub undo_plan: BTreeMap<OrderId, Vec<StepId>>,
    claims: BTreeMap<String, OrderId>,
}

impl StoreState {
    pub(crate) fn orders(&self) -> impl Iterator<Item = &Arc<Order>> {
        self.records.values().map(|s| &s.order)
    }

    pub(crate) fn order(&self, id: &OrderId) -> Option<&Arc<Order>> {
        self.records.get(id).map(|s| &s.order)
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
        let details = (new.details.clone(), new.digest.clone());
        self.store.details.insert(id.clone(), details);
        self.check_record(&new.order);
        self.put(Arc::new(new.order.clone()), 0);
        Created::Created
    }

    /// One conditional write.
    pub(crate) fn store_write(&mut self, who: InstanceId, write: &Write) -> Written {
        let id = &write.next.id;
        let Some(stored) = self.store.records.get(id).cloned() else {
            self.note(who, || format!("store: {id} is gone"));
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
        let due = order.due.map(|d| d.0);
        let stood = self.store.records.get(&id).and_then(|s| s.order.due);
        if stood != order.due || !self.store.records.contains_key(&id) {
            let lag = self.rng.below(self.faults.index_lag_ms + 1);
            if lag > 0 {
                self.coverage.reach("fault: index late");
            }
            // Changes of one row become visible in their order.
            let last = self.store.last_coming.get(&id).copied().unwrap_or(0);
            let at = last.max(self.now + lag);
            self.store.last_coming.insert(id.clone(), at);
            self.store.coming_seq += 1;
            let key = (at, self.store.coming_seq);
            self.store.coming.insert(key, (id.clone(), due));
        }
        self.store.records.insert(id, Stored { order, token });
    }

    fn check_record(&mut self, order: &Order) {
        let Some(workflow) = scenario::compiled(&order.workflow) else {
            return;
        };
        let found = invariants::of_record(order, &workflow);
        if !found.is_empty() {
            self.breaches.extend(found);
            self.end();
        }
    }

    fn check_write(&mut self, before: &Order, after: &Order) {
        let Some(workflow) = scenario::compiled(&after.workflow) else {
            return;
        };
        let found = invariants::of_write(before, after, &workflow);
        if !found.is_empty() {
            self.breaches.extend(found);
            self.end();
        }
        self.check_claim(before, after);
        self.remember_completions(before, after);
        let turned = |o: &Order| {
            matches!(
                o.state.name(),
                "Compensating" | "Compensated" | "CompensationFailed"
            )
        };
        if turned(after) && !turned(before) {
            let plan = self.planned_undo(after, &workflow);
            self.store.undo_plan.insert(after.id.clone(), plan);
        }
        if let Some(true_due) = triad_core::decide::true_due(&scenario::context(&workflow), after)
            && !after.state.is_finished()
        {
            // Clocks differ by the skew; beyond that the hint must not be later than the truth.
            let hint = after.due.unwrap_or(Timestamp(u64::MAX));
            let passed = true_due.0 <= self.now + scenario::TIMING.skew.0;
            if hint > true_due && !passed {
                let seen = format!("{}: hint {hint:?}, due {true_due:?}", after.id);
                self.breach("g1-hint-not-later-than-the-truth", seen);
            }
        }
    }

    /// A claim id is used once, by one order.
    fn check_claim(&mut self, before: &Order, after: &Order) {
        let (Some(new), old) = (after.state.locked_by(), before.state.locked_by()) else {
            return;
        };
        if old == Some(new) {
            return;
        }
        if old.is_some() || self.store.claims.contains_key(&new.0) {
            let seen = format!("{}: {new} after {old:?}", after.id);
            self.breach("g4-one-live-claim", seen);
        }
        self.store.claims.insert(new.0.clone(), after.id.clone());
    }

    fn remember_completions(&mut self, before: &Order, after: &Order) {
        for (was, is) in before.steps.iter().zip(&after.steps) {
            let completed = |s: &StepState| matches!(s, StepState::Completed { .. });
            if completed(&is.state) && !completed(&was.state) {
                let done = self.store.completed.entry(after.id.clone()).or_default();
                done.push(is.step.clone());
            }
        }
    }

    /// Ambiguous steps, the last of the workflow foremost, then completed ones, the last first.
    fn planned_undo(&self, order: &Order, workflow: &triad_workflow::Workflow) -> Vec<StepId> {
        let done = self
            .store
            .completed
            .get(&order.id)
            .cloned()
            .unwrap_or_default();
        let undoable = |id: &StepId| {
            workflow
                .step_index(id.as_str())
                .is_some_and(|i| workflow.steps[i].compensation.is_some())
        };
        let doubtful = order.steps.iter().rev().filter(|s| {
            let touched = !matches!(
                s.state,
                StepState::Waiting | StepState::Skipped | StepState::Refused { .. }
            );
            touched && !done.contains(&s.step)
        });
        let mut plan: Vec<StepId> = doubtful.map(|s| s.step.clone()).collect();
        plan.extend(done.iter().rev().cloned());
        plan.retain(undoable);
        plan
    }

    /// One page of the due index, as late and as patchy as the faults have it.
    pub(crate) fn store_due(
        &mut self,
        shard: u32,
        until: Timestamp,
        limit: u32,
        page: Option<&str>,
    ) -> DuePage {
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
