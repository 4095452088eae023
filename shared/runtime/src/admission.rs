//! Admission: whether one more order may be in flight.
//!
//! Nothing is counted up and down, so there is no counter to be hot or to drift. Every order in
//! flight has a row in the due index, and an instance of Submission counts those rows when what
//! it knows has grown old, or when it has used up a quarter of what was left of the cap; but never
//! twice within [`COUNT_APART`], for each count reads the whole index. Between two counts it adds
//! what it has admitted itself. So the cap is passed by at most what the other instances admit in
//! between: each a quarter of what was left when it counted, within [`COUNT_EVERY`], or what is
//! more of what it lets in within [`COUNT_APART`], which is never more than what was left.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use futures::future::join_all;
use triad_core::Timestamp;
use triad_core::due::SHARDS;
use triad_workflow::{Millis, WorkflowName};

use crate::ports::{StateStore, StoreError};
use crate::settings::AdmissionSettings;

/// Longest that a count is relied on.
pub const COUNT_EVERY: Millis = Millis(2_000);
/// Shortest time between two counts of one instance, however near the cap is.
pub const COUNT_APART: Millis = Millis(250);
/// Rows that are read at once.
const PAGE: u32 = 1_000;

/// What one instance knows of the orders in flight.
#[derive(Debug, Default)]
struct Known {
    counted_at: Option<Timestamp>,
    /// What was left of the smallest cap at the last count.
    room: u32,
    total: u32,
    per_workflow: BTreeMap<WorkflowName, u32>,
    admitted: u32,
}

/// One instance's gate.
#[derive(Debug)]
pub(crate) struct AdmissionGate {
    settings: AdmissionSettings,
    known: Mutex<Known>,
}

impl AdmissionGate {
    pub(crate) fn new(settings: AdmissionSettings) -> Self {
        Self {
            settings,
            known: Mutex::default(),
        }
    }

    /// Whether there is any cap.
    pub(crate) fn is_set(&self) -> bool {
        self.settings.in_flight.is_some() || !self.settings.per_workflow.is_empty()
    }

    /// Whether an order that was produced at a moment has waited for as long as one may.
    pub(crate) fn rejects(&self, produced: Timestamp, now: Timestamp) -> bool {
        (self.settings.reject_after).is_some_and(|after| now.since(produced) >= after)
    }

    /// Takes one more order in, or says why not. `may_count` is false while orders that were
    /// taken in are not stored yet: a count would miss them.
    ///
    /// # Errors
    /// The store's.
    pub(crate) async fn admit<S: StateStore>(
        &self,
        store: &S,
        workflow: &WorkflowName,
        may_count: bool,
        now: Timestamp,
    ) -> Result<Result<(), String>, StoreError> {
        if !self.is_set() {
            return Ok(Ok(()));
        }
        if may_count && self.is_old(now) {
            let (total, per_workflow) = self.count(store).await?;
            self.learn(total, per_workflow, now);
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let own = known.per_workflow.get(workflow).copied().unwrap_or(0);
        if let Some(cap) = self.settings.in_flight
            && known.total >= cap
        {
            return Ok(Err(format!("{cap} orders are in flight")));
        }
        if let Some(cap) = self.settings.per_workflow.get(workflow)
            && own >= *cap
        {
            return Ok(Err(format!("{cap} orders of {workflow} are in flight")));
        }
        known.total += 1;
        known.admitted += 1;
        *known.per_workflow.entry(workflow.clone()).or_default() += 1;
        Ok(Ok(()))
    }

    fn is_old(&self, now: Timestamp) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(at) = known.counted_at else {
            return true;
        };
        let age = now.since(at);
        now < at || age >= COUNT_EVERY || (age >= COUNT_APART && known.admitted > known.room / 4)
    }

    fn learn(&self, total: u32, per_workflow: BTreeMap<WorkflowName, u32>, now: Timestamp) {
        let left = self.settings.in_flight.map(|c| c.saturating_sub(total));
        let own =
            self.settings.per_workflow.iter().map(|(name, cap)| {
                cap.saturating_sub(per_workflow.get(name).copied().unwrap_or(0))
            });
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        *known = Known {
            counted_at: Some(now),
            room: left.into_iter().chain(own).min().unwrap_or(0),
            total,
            per_workflow,
            admitted: 0,
        };
    }

    /// Counts the orders in flight, up to what any cap needs to know.
    async fn count<S: StateStore>(
        &self,
        store: &S,
    ) -> Result<(u32, BTreeMap<WorkflowName, u32>), StoreError> {
        // Above the cap in all nobody is admitted, whatever the workflow.
        let enough = self.settings.in_flight.unwrap_or(u32::MAX);
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
}

/// Rows of one shard, until there are `enough`.
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
