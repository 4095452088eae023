//! The orders that need an operator, counted by cause.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use triad_core::{Attention, Failure, OrderId, Timestamp};
use triad_runtime::StoreError;
use triad_runtime::ports::OperatorStore;

use crate::attention::Rows;
use crate::find::Filter;
use crate::skipped::Skipped;

/// Most causes that are told apart.
pub const MAX_CAUSES: usize = 10_000;

/// Orders in one state with one cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CauseGroup {
    /// What they need an operator for.
    #[serde(serialize_with = "name")]
    pub state: Attention,
    /// The fingerprint of the cause; empty for orders without one, such as held ones.
    pub cause: String,
    /// How many.
    pub orders: u64,
    /// Since when the oldest needs an operator.
    pub oldest: Timestamp,
    /// Since when the newest does.
    pub newest: Timestamp,
    /// The oldest.
    pub example: OrderId,
}

fn name<S: Serializer>(state: &Attention, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(state.name())
}

/// Orders by cause.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Causes {
    /// Those with the most orders first.
    pub groups: Vec<CauseGroup>,
    /// Orders of further causes, beyond [`MAX_CAUSES`].
    pub others: u64,
    /// Rows that could not be read, and are counted nowhere.
    #[serde(skip)]
    pub skipped: Skipped,
}

/// Counts the orders in Error and CompensationFailed that fit, or those of the part of the
/// attention index that the filter names, by state and cause. It reads the index and no record: an
/// order that has just changed may be counted where it was.
///
/// In memory are at most [`MAX_CAUSES`] groups and one page of each shard.
///
/// # Errors
/// The store's.
pub async fn causes<S: OperatorStore>(
    store: &S,
    filter: &Filter,
    now: Timestamp,
) -> Result<Causes, StoreError> {
    let usual = || vec![Attention::Error, Attention::CompensationFailed];
    let kinds = filter.attention().unwrap_or_else(usual);
    let mut rows = Rows::of(store, &kinds);
    let mut groups: BTreeMap<(&str, String), CauseGroup> = BTreeMap::new();
    let mut others = 0;
    while let Some((state, row)) = rows.next().await? {
        if !filter.fits_row(&row, now) {
            continue;
        }
        let cause = row.cause.as_ref().map(Failure::fingerprint);
        let key = (state.name(), cause.unwrap_or_default());
        if groups.len() >= MAX_CAUSES && !groups.contains_key(&key) {
            others += 1;
            continue;
        }
        let cause = key.1.clone();
        let group = groups.entry(key).or_insert_with(|| CauseGroup {
            state,
            cause,
            orders: 0,
            oldest: row.at,
            newest: row.at,
            example: row.order,
        });
        group.orders += 1;
        group.oldest = group.oldest.min(row.at);
        group.newest = group.newest.max(row.at);
    }
    let mut groups: Vec<CauseGroup> = groups.into_values().collect();
    groups.sort_by_key(|group| Reverse(group.orders));
    Ok(Causes {
        groups,
        others,
        skipped: rows.skipped(),
    })
}
