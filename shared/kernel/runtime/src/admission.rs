//! Admission: whether one more order may be in flight.
//!
//! There is no shared counter, so none can become hot or drift. Every order in flight has a row in the due index. An
//! instance of Submission counts those rows when its last count is too old, or when it has used a quarter of the room
//! left at that count; but never twice within [`COUNT_APART`], because a count reads the whole index. Between two
//! counts it adds the orders that it has admitted itself; after a count it adds those of its orders that the count
//! may have missed, because they were not stored yet: it takes orders of several partitions at the same time. So a
//! single instance keeps to the cap. Several may exceed it by what the others admit between counts: each a quarter of
//! the room at its last count within [`COUNT_EVERY`], or what it admits within [`COUNT_APART`], which is never more
//! than that room.
//!
//! An order for which only its workflow's cap has no room is [set aside](triad_core::due::aside_shard): stored, and
//! not in flight, so that it does not block the orders behind it in its topic. At most about [`MAX_SET_ASIDE`] orders
//! of a workflow are set aside; further ones wait in the topic and block those behind them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::join_all;
use triad_core::Timestamp;
use triad_core::due::{SHARDS, aside_shard};
use triad_workflow::{Millis, WorkflowName};

use crate::metric;
use crate::ports::{StateStore, StoreError};
use crate::settings::AdmissionSettings;

/// Longest time, in milliseconds, for which a count of the orders in flight is used.
pub const COUNT_EVERY: Millis = Millis(2_000);
/// Shortest time, in milliseconds, between two counts of one process, however near the cap is.
pub const COUNT_APART: Millis = Millis(250);
/// Most orders of one workflow that are set aside; further ones wait in the topic. Several processes may exceed it by
/// what each sets aside between two of its counts.
pub const MAX_SET_ASIDE: u32 = 10_000;
/// Longest time for which a count of the orders set aside is used.
const ASIDE_COUNT_EVERY: Millis = Millis(30_000);
/// Rows of one read.
const PAGE: u32 = 1_000;

/// One instance's view of the orders in flight.
#[derive(Debug, Default)]
struct InFlight {
    counted_at: Option<Timestamp>,
    /// Room under the smallest cap at the last count.
    room: u32,
    total: u32,
    per_workflow: BTreeMap<WorkflowName, u32>,
    admitted: u32,
    /// All orders that the instance has ever admitted.
    ever: Tally,
    /// Those of them that the store has answered for.
    resolved: Tally,
}

/// A number of orders, in all and by workflow.
#[derive(Debug, Default, Clone)]
struct Tally {
    all: u64,
    per_workflow: BTreeMap<WorkflowName, u64>,
}

impl Tally {
    fn add(&mut self, workflow: &WorkflowName) {
        self.all += 1;
        *self.per_workflow.entry(workflow.clone()).or_default() += 1;
    }
}

/// One order's place among those in flight, counted besides the store's rows. Keep it until the store has answered
/// for the order.
#[derive(Debug)]
pub(crate) struct InFlightGuard {
    known: Arc<Mutex<InFlight>>,
    workflow: WorkflowName,
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.resolved.add(&self.workflow);
    }
}

/// One instance's view of a workflow's orders that are set aside.
#[derive(Debug, Clone, Copy)]
struct Aside {
    counted_at: Timestamp,
    counted: u32,
    /// How many orders this instance has set aside since the last count of the store.
    added: u32,
}

impl Aside {
    fn is_old(self, now: Timestamp) -> bool {
        let room = MAX_SET_ASIDE.saturating_sub(self.counted);
        let age = now.since(self.counted_at);
        now < self.counted_at
            || age >= ASIDE_COUNT_EVERY
            || (age >= COUNT_APART && self.added > room / 4)
    }
}

/// Whether one more order may be in flight.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// The order may be in flight, and counts from now on; `None` if there is no cap.
    Free(Option<InFlightGuard>),
    /// No order may, of any workflow: the text names the cap that is reached.
    Full(String),
    /// The cap of the order's workflow is reached: the text says so.
    FullForWorkflow(String),
}

/// One instance's admission control.
#[derive(Debug)]
pub(crate) struct AdmissionGate {
    settings: AdmissionSettings,
    known: Arc<Mutex<InFlight>>,
    aside: Mutex<BTreeMap<WorkflowName, Aside>>,
}

impl AdmissionGate {
    pub(crate) fn new(settings: AdmissionSettings) -> Self {
        Self {
            settings,
            known: Arc::default(),
            aside: Mutex::default(),
        }
    }

    /// Whether any cap is set.
    pub(crate) fn is_set(&self) -> bool {
        self.settings.in_flight.is_some() || !self.settings.per_workflow.is_empty()
    }

    /// Whether an order has waited for as long as it may since it was produced.
    pub(crate) fn rejects(&self, produced: Timestamp, now: Timestamp) -> bool {
        (self.settings.reject_after).is_some_and(|after| now.since(produced) >= after)
    }

    /// Admits one more order, or returns why not.
    ///
    /// # Errors
    /// Errors of the store.
    pub(crate) async fn admit<S: StateStore>(
        &self,
        store: &S,
        workflow: &WorkflowName,
        now: Timestamp,
    ) -> Result<Verdict, StoreError> {
        if !self.is_set() {
            return Ok(Verdict::Free(None));
        }
        if self.is_old(now) {
            // The orders in this list are in the store by now, or never will be.
            let resolved = self.lock().resolved.clone();
            // Above the total cap no order is admitted, whatever its workflow.
            let enough = self.settings.in_flight.unwrap_or(u32::MAX);
            let (total, per_workflow) = count(store, enough).await?;
            metric::in_flight(total, enough);
            self.learn((total, per_workflow), &resolved, now);
        }
        let mut known = self.lock();
        let own = known.per_workflow.get(workflow).copied().unwrap_or(0);
        if let Some(cap) = self.settings.in_flight
            && known.total >= cap
        {
            return Ok(Verdict::Full(format!("{cap} orders are in flight")));
        }
        if let Some(cap) = self.settings.per_workflow.get(workflow)
            && own >= *cap
        {
            let why = format!("{cap} orders of {workflow} are in flight");
            return Ok(Verdict::FullForWorkflow(why));
        }
        known.total += 1;
        known.admitted += 1;
        *known.per_workflow.entry(workflow.clone()).or_default() += 1;
        known.ever.add(workflow);
        Ok(Verdict::Free(Some(InFlightGuard {
            known: Arc::clone(&self.known),
            workflow: workflow.clone(),
        })))
    }

    /// Whether one more order of a workflow may be set aside; it counts from then on.
    ///
    /// # Errors
    /// Errors of the store.
    pub(crate) async fn sets_aside<S: StateStore>(
        &self,
        store: &S,
        workflow: &WorkflowName,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let known = self.aside().get(workflow).copied();
        let mut aside = match known {
            Some(aside) if !aside.is_old(now) => aside,
            _ => Aside {
                counted_at: now,
                counted: count_aside(store, workflow).await?,
                added: 0,
            },
        };
        let has_room = aside.counted.saturating_add(aside.added) < MAX_SET_ASIDE;
        aside.added += u32::from(has_room);
        self.aside().insert(workflow.clone(), aside);
        Ok(has_room)
    }

    fn aside(&self) -> MutexGuard<'_, BTreeMap<WorkflowName, Aside>> {
        self.aside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, InFlight> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_old(&self, now: Timestamp) -> bool {
        let known = self.lock();
        let Some(at) = known.counted_at else {
            return true;
        };
        let age = now.since(at);
        now < at || age >= COUNT_EVERY || (age >= COUNT_APART && known.admitted > known.room / 4)
    }

    /// Takes over a count, and adds the orders of this instance that it may have missed: all but those that were
    /// `resolved` before it began. An order that the count included counts twice until the next count.
    fn learn(
        &self,
        (total, per_workflow): (u32, BTreeMap<WorkflowName, u32>),
        resolved: &Tally,
        now: Timestamp,
    ) {
        let mut known = self.lock();
        let missed = |ever: u64, resolved: u64| u32::try_from(ever - resolved).unwrap_or(u32::MAX);
        known.total = total.saturating_add(missed(known.ever.all, resolved.all));
        let mut by_name = per_workflow;
        for (name, ever) in &known.ever.per_workflow {
            let resolved = resolved.per_workflow.get(name).copied().unwrap_or(0);
            let own = by_name.entry(name.clone()).or_default();
            *own = own.saturating_add(missed(*ever, resolved));
        }
        known.per_workflow = by_name;
        let left = (self.settings.in_flight).map(|cap| cap.saturating_sub(known.total));
        let own = self.settings.per_workflow.iter().map(|(name, cap)| {
            cap.saturating_sub(known.per_workflow.get(name).copied().unwrap_or(0))
        });
        known.room = left.into_iter().chain(own).min().unwrap_or(0);
        known.counted_at = Some(now);
        known.admitted = 0;
    }
}

/// Counts the orders in flight, in total and by workflow; stops reading a shard at `enough` rows.
///
/// # Errors
/// Errors of the store.
pub(crate) async fn count<S: StateStore>(
    store: &S,
    enough: u32,
) -> Result<(u32, BTreeMap<WorkflowName, u32>), StoreError> {
    let shards = join_all((0..SHARDS).map(|shard| count_shard(store, shard, enough))).await;
    let mut total = 0_u32;
    let mut per_workflow: BTreeMap<WorkflowName, u32> = BTreeMap::new();
    for shard in shards {
        let (count, by_name) = shard?;
        total = total.saturating_add(count);
        for (name, n) in by_name {
            *per_workflow.entry(name).or_default() += n;
        }
    }
    Ok((total, per_workflow))
}

/// How many orders of a workflow are set aside, up to the bound.
async fn count_aside<S: StateStore>(store: &S, workflow: &WorkflowName) -> Result<u32, StoreError> {
    let (_, by_name) = count_shard(store, aside_shard(workflow), MAX_SET_ASIDE).await?;
    Ok(by_name.get(workflow).copied().unwrap_or(0))
}

/// Rows of one shard, at most about `enough`.
async fn count_shard<S: StateStore>(
    store: &S,
    shard: u32,
    enough: u32,
) -> Result<(u32, BTreeMap<WorkflowName, u32>), StoreError> {
    let mut count = 0_u32;
    let mut by_name: BTreeMap<WorkflowName, u32> = BTreeMap::new();
    let mut page = None;
    loop {
        let found = store.due(shard, Timestamp(u64::MAX), PAGE, page).await?;
        count = count.saturating_add(u32::try_from(found.rows.len()).unwrap_or(u32::MAX));
        for name in found.rows.into_iter().filter_map(|r| r.workflow) {
            *by_name.entry(name).or_default() += 1;
        }
        match found.next {
            Some(next) if count < enough => page = Some(next),
            _ => return Ok((count, by_name)),
        }
    }
}
