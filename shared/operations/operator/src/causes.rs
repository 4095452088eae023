//! The orders that need an operator, counted by cause.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use triad_core::{Attention, Failure, OrderId, Timestamp};
use triad_runtime::StoreError;
use triad_runtime::ports::OperatorStore;

use crate::attention::shards;
use crate::find::Filter;
use crate::merge::Rows;
use crate::skipped::Skipped;

/// Most groups (state and cause) that are counted apart, inclusive. Orders of any further group are counted
/// together, in [`Causes::others`].
pub const MAX_CAUSES: usize = 10_000;

/// The orders that are in one state with one cause, counted, with one example.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CauseGroup {
    /// The state of the orders. As JSON the state's name, such as `Error`.
    #[serde(serialize_with = "name", deserialize_with = "named")]
    #[schemars(with = "String")]
    pub state: Attention,
    /// The fingerprint of the cause ([`Failure::fingerprint`]); empty for orders without a cause,
    /// such as paused ones.
    pub cause: String,
    /// How many orders of this state and cause were counted.
    pub orders: u64,
    /// Since when the order that has waited longest needs an operator.
    #[schemars(with = "crate::schema::Moment")]
    pub oldest: Timestamp,
    /// Since when the order that has waited for the shortest time needs an operator.
    #[schemars(with = "crate::schema::Moment")]
    pub newest: Timestamp,
    /// One of the orders: the one that has waited longest.
    #[schemars(with = "String")]
    pub example: OrderId,
}

fn named<'de, D: Deserializer<'de>>(from: D) -> Result<Attention, D::Error> {
    let name = String::deserialize(from)?;
    let known = Attention::ALL.into_iter().find(|one| one.name() == name);
    known.ok_or_else(|| D::Error::custom(format!("{name:?} is no such state")))
}

fn name<S: Serializer>(state: &Attention, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(state.name())
}

/// The orders that need an operator, counted by state and cause.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Causes {
    /// At most [`MAX_CAUSES`] groups, the one with the most orders first.
    pub groups: Vec<CauseGroup>,
    /// How many orders belong to no group in `groups`, because [`MAX_CAUSES`] were full.
    pub others: u64,
    /// Whether rows of the index were not looked at, because the bound of [`among`] was reached. False for
    /// [`causes`].
    #[serde(skip)]
    pub more: bool,
    /// Rows that could not be read. They are counted in no group.
    #[serde(skip)]
    pub skipped: Skipped,
}

/// Counts the orders that need an operator and fit the filter, by state and cause. With no state, orders in
/// Error and CompensationFailed are counted. With Error, CompensationFailed or Paused, orders in that state
/// are; with any other state none is, because its orders need no operator. The filter's search key is not
/// looked at. `now` is the moment up to which ages are counted.
///
/// Only the attention index is read, and no record, so an order that has just changed may still be
/// counted where it was. In memory are at most [`MAX_CAUSES`] groups and one page of each shard.
///
/// # Errors
/// [`StoreError`] if a page of the index cannot be read.
pub async fn causes<S: OperatorStore>(
    store: &S,
    filter: &Filter,
    now: Timestamp,
) -> Result<Causes, StoreError> {
    among(store, filter, now, usize::MAX).await
}

/// Most rows of the attention index that the console and its API pass to [`among`] as `most` when they count
/// causes: the rows of the orders that have waited longest.
pub const MAX_ROWS: usize = 20_000;

/// Counts orders by state and cause, as [`causes`] does, but looks at no more than `most` rows of the index,
/// whether they fit or not: those of the orders that have waited longest. [`Causes::more`] says whether there
/// were more rows.
///
/// # Errors
/// [`StoreError`] if a page of the index cannot be read.
pub async fn among<S: OperatorStore>(
    store: &S,
    filter: &Filter,
    now: Timestamp,
    most: usize,
) -> Result<Causes, StoreError> {
    let kinds = match filter.state {
        None => vec![Attention::Error, Attention::CompensationFailed],
        Some(_) => filter.attention().unwrap_or_default(),
    };
    let mut rows = Rows::of(store, shards(&kinds));
    let mut groups: BTreeMap<(&str, String), CauseGroup> = BTreeMap::new();
    let (mut others, mut looked_at, mut more) = (0, 0, false);
    while let Some((shard, row)) = rows.next().await? {
        let state = shard.kind;
        if looked_at == most {
            more = true;
            break;
        }
        looked_at += 1;
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
        more,
        skipped: rows.skipped(),
    })
}
