//! The status of an installation: orders under way, waiting orders, and orders and downstreams that need an operator.

use std::collections::BTreeMap;

use serde::Serialize;
use triad_core::{Attention, Timestamp};
use triad_runtime::ports::OperatorStore;
use triad_runtime::{ControlStore, DefinitionStore, StateStore, StoreError};

use crate::causes::{CauseGroup, causes};
use crate::counts::{UnderWay, counts};
use crate::downstreams::{DownstreamError, DownstreamView, Published, Waiting, view, waiting};
use crate::find::Filter;

/// Most groups in [`Status::causes`], inclusive. The orders of the other groups are counted in
/// [`Status::needing`] too.
pub const CAUSES: usize = 10;

/// The state of an installation at one moment, in short.
#[derive(Debug, Clone, Serialize)]
pub struct Status {
    /// Orders that are not finished.
    pub under_way: UnderWay,
    /// All stored orders, by state: [`OrderCounts::orders`](crate::counts::OrderCounts::orders).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub orders: Option<BTreeMap<String, u64>>,
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

impl Status {
    /// Whether nothing needs an operator: no order does, and every downstream is called freely.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.needing == 0 && self.held.is_empty()
    }
}

/// Why [`of`] cannot give the status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StatusError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The stored workflows, which name the downstreams, cannot be read.
    #[error(transparent)]
    Downstream(#[from] DownstreamError),
}

/// Finds out the state of an installation at `now`. It reads the attention index, what [`counts`] reads, the
/// definitions, one control record for each downstream, and the reports of what orders wait for: nothing that grows with the number of orders that ended well.
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
    let counts = counts(store, now).await?;
    Ok(Status {
        under_way: counts.under_way,
        orders: counts.orders,
        causes: groups,
        needing,
        held,
        waiting: waiting(store, now).await?,
    })
}
