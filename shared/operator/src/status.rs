//! One look at an installation: what is under way, what waits, and what needs an operator.

use serde::Serialize;
use triad_core::due::{ALL_SHARDS, SHARDS};
use triad_core::{Attention, Timestamp};
use triad_runtime::ports::OperatorStore;
use triad_runtime::{ControlStore, DefinitionStore, StateStore, StoreError};
use triad_workflow::Millis;

use crate::causes::{CauseGroup, causes};
use crate::downstreams::{DownstreamError, DownstreamView, Published, Waiting, view, waiting};
use crate::find::Filter;

/// Most groups in [`Status::causes`], inclusive. The orders of the other groups are counted in
/// [`Status::needing`] too.
pub const CAUSES: usize = 10;
/// An order that is due is overdue after this: two sweeps of the function.
const LATE: Millis = Millis(120_000);
/// Rows of each shard of the due index that are counted at most.
const ROWS: u32 = 1_000;

/// The state of an installation at one moment, in short.
#[derive(Debug, Clone, Serialize)]
pub struct Status {
    /// Orders that are not finished, or whose end is not confirmed yet.
    pub under_way: UnderWay,
    /// Orders that need an operator, grouped by state and cause: the largest groups, at most [`CAUSES`], the
    /// one with the most orders first.
    pub causes: Vec<CauseGroup>,
    /// How many orders need an operator in all, as far as their rows of the attention index can be read.
    pub needing: u64,
    /// Downstreams that are not called freely: their breaker is open, half-open or forced by an operator, or
    /// steps of theirs are paused.
    pub held: Vec<DownstreamView>,
    /// What orders wait for before a Scheduler starts them, by downstream and lane; empty if none waits.
    pub waiting: Vec<Waiting>,
}

/// How many orders are under way, as far as they were counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct UnderWay {
    /// How many orders were counted, those that are set aside included.
    pub orders: u64,
    /// How many of them are set aside: they wait for room under their workflow's cap, or for a definition that
    /// could not be read.
    pub set_aside: u64,
    /// Whether there may be more orders than were counted: at most 1,000 of each shard are.
    pub more: bool,
    /// How many orders have been due for two minutes or longer, at most 1,000 of each shard. If there are
    /// any, no Supervisor may be running, or it cannot keep up.
    pub overdue: u64,
    /// Since when the one of these that is due longest has been due; `None` if there are none.
    pub oldest_due: Option<Timestamp>,
}

impl Status {
    /// Whether nothing needs an operator: no order does, and every downstream is called freely.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.needing == 0 && self.held.is_empty()
    }
}

/// Why [`of`] cannot tell the status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StatusError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The stored workflows, which name the downstreams, cannot be read.
    #[error(transparent)]
    Downstream(#[from] DownstreamError),
}

/// Finds out the state of an installation at `now`. It reads the attention index, at most two pages of each
/// shard of the due index, the definitions, one control record for each downstream, and the reports of what
/// orders wait for: nothing that grows with the number of orders that ended well.
///
/// # Errors
/// [`StatusError::Store`] if the store failed or a downstream's record cannot be read,
/// [`StatusError::Downstream`] if the stored workflows cannot be read.
pub async fn of<S>(store: &S, now: Timestamp) -> Result<Status, StatusError>
where
    S: StateStore + OperatorStore + ControlStore + DefinitionStore,
{
    let mut groups = Vec::new();
    let mut needing = 0;
    for kind in Attention::ALL {
        let filter = Filter {
            state: kind.name().parse().ok(),
            ..Filter::default()
        };
        let found = causes(store, &filter, now).await?;
        needing += found.others;
        groups.extend(found.groups);
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.orders));
    needing += groups.iter().map(|group| group.orders).sum::<u64>();
    groups.truncate(CAUSES);
    let mut held = Vec::new();
    for agent in Published::read(store).await?.agents() {
        let found = view(store, &agent).await?;
        let record = &found.record;
        let is_free = record.breaker.name() == "closed"
            && record.forced.is_none()
            && record.paused.is_empty();
        if !is_free {
            held.push(found);
        }
    }
    Ok(Status {
        under_way: under_way(store, now).await?,
        causes: groups,
        needing,
        held,
        waiting: waiting(store, now).await?,
    })
}

/// Counts the orders under way, by the rows of the due index. Of each shard a page of at most 1,000 rows is read
/// of all orders, and one of those that are overdue at `now` where orders are not set aside.
///
/// # Errors
/// [`StoreError`] if a page of the index cannot be read.
pub async fn under_way<S: StateStore>(store: &S, now: Timestamp) -> Result<UnderWay, StoreError> {
    let mut all = UnderWay::default();
    let mut firsts = Vec::new();
    for shard in 0..ALL_SHARDS {
        let page = store.due(shard, Timestamp(u64::MAX), ROWS, None).await?;
        all.orders += page.rows.len() as u64;
        all.more |= page.next.is_some();
        if shard >= SHARDS {
            all.set_aside += page.rows.len() as u64;
            continue;
        }
        let overdue = store.due(shard, now.minus(LATE), ROWS, None).await?;
        all.overdue += overdue.rows.len() as u64;
        // The earliest of the shard; a row does not say since when.
        firsts.extend(overdue.rows.into_iter().next().map(|row| row.order));
    }
    if !firsts.is_empty() {
        for order in store.load_eventually(firsts).await {
            let due = order?.and_then(|order| order.due);
            all.oldest_due = all.oldest_due.into_iter().chain(due).min();
        }
    }
    Ok(all)
}
