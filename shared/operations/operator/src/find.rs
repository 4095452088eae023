//! Finding orders: by search key, by state, by cause, by workflow and by age.
//!
//! Orders with a search key are found through the search indexes, orders that need an operator through
//! the attention index and orders under way through the due index, so that the cost grows with what
//! is found. Only orders that ended well, and orders of any state, are found by reading the whole table.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};
use triad_core::due::ALL_SHARDS;
use triad_core::{Attention, Failure, Order, OrderId, ProcessState, Timestamp, Work};
use triad_runtime::ports::{AttentionRow, OperatorStore, SearchRow};
use triad_runtime::{StateStore, StoreError};
use triad_workflow::{Millis, SearchKey};

use crate::attention::shards;
use crate::merge::Rows;
use crate::search::indexes;
pub use crate::skipped::{MAX_UNREADABLE, Skipped};

/// Records in one read.
const PAGE: usize = 100;
/// Rows of the due index in one read.
const DUE_PAGE: u32 = 1_000;

/// A filter for orders. An order fits if it fits every field that is set. The default has no field set:
/// every order fits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Filter {
    /// Only orders in this state that no operator has closed; for `Paused`: only orders that an
    /// operator has paused and that are not finished; for `UnderWay`: all that are not finished. `None`: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub state: Option<StateFilter>,
    /// Only orders with a cause whose fingerprint fits the pattern. `None`: any, with or without a
    /// cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub cause: Option<CausePattern>,
    /// Only orders of the workflow with exactly this name. `None`: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    /// Only orders whose age, in milliseconds, is at least this: since they finished; for `Paused`
    /// since they were paused; for all others since they were submitted. `None`: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub older_than: Option<Millis>,
    /// Only orders whose age, as that of `older_than`, is less than this. `None`: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub newer_than: Option<Millis>,
    /// Only orders whose failure has this text in its message, in upper or lower case. `None`: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Only orders with exactly this search key. `None`: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub search: Option<SearchKey>,
    /// Only child orders of the order with this id. `None`: any. No index helps to find them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Only orders that wait for an event with exactly this name. `None`: any. No index helps to find them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// Only orders whose id has this text in it, at any place. `None`: any. No index helps to find them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// A state of orders: the name of a process state, such as `Error`; `Paused` for orders that an operator has
/// paused; or `UnderWay` for all that are not finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct StateFilter(&'static str);

/// The error for a text that is not the name of a [`StateFilter`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("is none of {}", names().collect::<Vec<_>>().join(", "))]
pub struct UnknownState(
    /// The text that was given.
    pub String,
);

fn names() -> impl Iterator<Item = &'static str> {
    ProcessState::NAMES
        .into_iter()
        .chain([Attention::Paused.name(), UNDER_WAY])
}

/// The name of all states of orders that are not finished.
const UNDER_WAY: &str = "UnderWay";

impl StateFilter {
    /// The name as it is written in records, such as `CompensationFailed`, or `Paused`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0
    }

    fn attention(self) -> Option<Attention> {
        Attention::ALL.into_iter().find(|a| a.name() == self.0)
    }

    pub(crate) fn is_of_orders_under_way(self) -> bool {
        self.0 == UNDER_WAY || is_under_way(self.0)
    }
}

/// Whether orders in the state of this name are under way.
pub(crate) fn is_under_way(state: &str) -> bool {
    matches!(state, "Pending" | "Processing" | "Compensating")
}

impl FromStr for StateFilter {
    type Err = UnknownState;

    /// Reads a name; upper and lower case count as the same.
    ///
    /// # Errors
    /// [`UnknownState`] if the text is neither the name of a process state nor `Paused` nor `UnderWay`.
    fn from_str(text: &str) -> Result<Self, UnknownState> {
        let named = names().find(|name| name.eq_ignore_ascii_case(text));
        named.map(Self).ok_or_else(|| UnknownState(text.to_owned()))
    }
}

impl<'de> Deserialize<'de> for StateFilter {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        name.parse().map_err(de::Error::custom)
    }
}

impl fmt::Display for StateFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// A pattern for the fingerprints of causes ([`Failure::fingerprint`]). A pattern with `*` at its end fits
/// every fingerprint that begins with the text before it; another pattern fits only the fingerprint that is
/// equal to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CausePattern(pub String);

impl CausePattern {
    fn fits(&self, fingerprint: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(beginning) => fingerprint.starts_with(beginning),
            None => fingerprint == self.0,
        }
    }
}

/// The orders that a search found, and what it could not read.
#[derive(Debug, Clone, Default)]
pub struct FoundOrders {
    /// The orders that fit, at most as many as were asked for.
    pub orders: Vec<Order>,
    /// Whether at least one more order fits than was asked for.
    pub more: bool,
    /// Records and rows that were left out because they cannot be read. Each may belong to an order that fits.
    pub skipped: Skipped,
}

impl Filter {
    /// Whether no field is set, so that every order fits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether all orders that fit can be found through the due index or the attention index, so that the
    /// cost grows with the number of orders in these states, and not with the number of all orders. The
    /// search indexes do not count here.
    #[must_use]
    pub fn is_indexed(&self) -> bool {
        let is_under_way = self.state.is_some_and(StateFilter::is_of_orders_under_way);
        is_under_way || self.attention().is_some()
    }

    /// The parts of the attention index that hold every order that fits; `None` if the index does not hold them all.
    pub(crate) fn attention(&self) -> Option<Vec<Attention>> {
        match self.state {
            None if self.cause.is_some() => {
                Some(vec![Attention::Error, Attention::CompensationFailed])
            }
            None => None,
            Some(state) => state.attention().map(|kind| vec![kind]),
        }
    }

    pub(crate) fn fits_row(&self, row: &AttentionRow, now: Timestamp) -> bool {
        self.fits_id(&row.order)
            && self.fits_cause(row.cause.as_ref())
            && self.fits_age(row.at, now)
            && row
                .workflow
                .as_ref()
                .is_none_or(|w| self.fits_workflow(w.name.as_str()))
    }

    pub(crate) fn fits_search_row(&self, row: &SearchRow) -> bool {
        self.fits_id(&row.order)
            && row
                .workflow
                .as_ref()
                .is_none_or(|w| self.fits_workflow(w.name.as_str()))
    }

    pub(crate) fn fits(&self, order: &Order, now: Timestamp) -> bool {
        let wants_paused = self.state.and_then(StateFilter::attention) == Some(Attention::Paused);
        let state = match self.state {
            None => true,
            Some(_) if wants_paused => order.paused.is_some() && !order.state.is_finished(),
            Some(StateFilter(UNDER_WAY)) => !order.state.is_finished(),
            Some(state) => order.state.name() == state.name() && order.closed.is_none(),
        };
        let since = match &order.paused {
            Some(hold) if wants_paused => hold.at,
            _ => order.state.finished_at().unwrap_or(order.submitted_at),
        };
        let searched = self.search.as_ref();
        state
            && searched.is_none_or(|key| order.search.contains(key))
            && self.fits_id(&order.id)
            && self.fits_parent(order)
            && self.fits_event(order)
            && self.fits_cause(order.state.cause())
            && self.fits_workflow(order.workflow.name.as_str())
            && self.fits_age(since, now)
    }

    fn fits_age(&self, since: Timestamp, now: Timestamp) -> bool {
        let age = now.since(since);
        self.older_than.is_none_or(|span| age >= span)
            && self.newer_than.is_none_or(|span| age < span)
    }

    pub(crate) fn fits_id(&self, id: &OrderId) -> bool {
        self.id
            .as_deref()
            .is_none_or(|text| id.as_str().contains(text))
    }

    fn fits_parent(&self, order: &Order) -> bool {
        let of = order.parent.as_ref().map(|parent| parent.order_id.as_str());
        self.parent.is_none() || self.parent.as_deref() == of
    }

    fn fits_event(&self, order: &Order) -> bool {
        let awaits = |event: &String| {
            let mut works = order.steps.iter().filter_map(|step| step.state.work());
            works.any(|work| matches!(work, Work::Parked { events, .. } if events.contains(event)))
        };
        self.event.as_ref().is_none_or(awaits)
    }

    fn fits_cause(&self, cause: Option<&Failure>) -> bool {
        let fingerprint = self.cause.as_ref();
        fingerprint.is_none_or(|of| cause.is_some_and(|cause| of.fits(&cause.fingerprint())))
            && self.error.as_ref().is_none_or(|text| {
                let text = text.to_lowercase();
                cause.is_some_and(|cause| cause.message.to_lowercase().contains(&text))
            })
    }

    pub(crate) fn fits_workflow(&self, name: &str) -> bool {
        self.workflow.as_deref().is_none_or(|wanted| wanted == name)
    }
}

/// Finds orders that fit the filter at `now`, at most `limit`. With a search key the order that was submitted last
/// comes first. Without one, orders that need an operator come with the longest waiting first, orders under way with the
/// one that is due next first, shard by shard, and all others in the store's order: on one machine the newest first.
///
/// Orders with a search key, orders that need an operator and orders under way are found through an index; each
/// record is then read and compared with the filter. With neither a search key, a state nor a cause, and for orders
/// that ended well, the whole table is read, at most until one more order than `limit` fits. In memory are at most
/// `limit` orders and a few pages. A record that cannot be read is counted in [`FoundOrders::skipped`] and ends
/// nothing.
///
/// # Errors
/// [`StoreError`] if an index or the store cannot be read. A single record that cannot be read is no error.
pub async fn orders<S>(
    store: &S,
    filter: &Filter,
    limit: usize,
    now: Timestamp,
) -> Result<FoundOrders, StoreError>
where
    S: StateStore + OperatorStore,
{
    let mut taker = Taker {
        store,
        filter,
        limit,
        now,
        ids: Vec::new(),
        found: FoundOrders::default(),
    };
    if let Some(key) = &filter.search {
        let mut rows = Rows::of(store, indexes(key));
        while !taker.found.more
            && let Some((_, row)) = rows.next().await?
        {
            if filter.fits_search_row(&row) {
                taker.load_soon(row.order).await?;
            }
        }
        taker.found.skipped.add_all(rows.skipped());
    } else if let Some(kinds) = filter.attention() {
        let mut rows = Rows::of(store, shards(&kinds));
        while !taker.found.more
            && let Some((_, row)) = rows.next().await?
        {
            if filter.fits_row(&row, now) {
                taker.load_soon(row.order).await?;
            }
        }
        taker.found.skipped.add_all(rows.skipped());
    } else if filter
        .state
        .is_some_and(StateFilter::is_of_orders_under_way)
    {
        under_way(&mut taker).await?;
    } else {
        whole_table(&mut taker).await?;
    }
    taker.load().await?;
    Ok(taker.found)
}

/// Reads one order, consistently; `None` if there is no such order, or it has expired.
///
/// # Errors
/// [`StoreError`] if the store fails; it is [`StoreError::Item`] if the record cannot be read, and its text
/// then names the order.
pub async fn by_id<S: StateStore>(store: &S, id: OrderId) -> Result<Option<Order>, StoreError> {
    let mut found = store.load(vec![id.clone()]).await;
    let found = found.pop().transpose().map_err(|e| named(&id, e))?;
    Ok(found.flatten())
}

/// Adds the order's id to the text of an error of reading this order, if it is [`StoreError::Item`]. Other
/// errors are not about the order, and stay as they are.
#[must_use]
pub fn named(id: &OrderId, error: StoreError) -> StoreError {
    match error {
        StoreError::Item(why) => StoreError::Item(format!(
            "the record of order {id} cannot be read: {why}; was it changed by hand, or written by a newer Triad than this one?"
        )),
        other => other,
    }
}

/// Walks the due index: every order under way is in it, set-aside orders in the shards after the others.
async fn under_way<S: StateStore>(taker: &mut Taker<'_, S>) -> Result<(), StoreError> {
    let store = taker.store;
    for shard in 0..ALL_SHARDS {
        let mut page = None;
        loop {
            let until = Timestamp(u64::MAX);
            let got = store.due(shard, until, DUE_PAGE, page).await?;
            for row in got.rows {
                taker.load_soon(row.order).await?;
            }
            if taker.found.more {
                return Ok(());
            }
            match got.next {
                Some(next) => page = Some(next),
                None => break,
            }
        }
    }
    Ok(())
}

async fn whole_table<S: StateStore>(taker: &mut Taker<'_, S>) -> Result<(), StoreError> {
    let store = taker.store;
    let mut page = None;
    loop {
        let state = taker.filter.state.map(|state| state.name().to_owned());
        let got = store.list(state, page).await?;
        taker.found.skipped.add(got.unreadable);
        for order in got.orders {
            taker.take(order);
        }
        match got.next {
            Some(next) if !taker.found.more => page = Some(next),
            _ => return Ok(()),
        }
    }
}

/// Reads records page by page, and takes those that fit.
struct Taker<'a, S> {
    store: &'a S,
    filter: &'a Filter,
    limit: usize,
    now: Timestamp,
    /// Ids of orders to read, fewer than a page.
    ids: Vec<OrderId>,
    found: FoundOrders,
}

impl<S: StateStore> Taker<'_, S> {
    async fn load_soon(&mut self, id: OrderId) -> Result<(), StoreError> {
        self.ids.push(id);
        if self.ids.len() < PAGE {
            return Ok(());
        }
        self.load().await
    }

    async fn load(&mut self) -> Result<(), StoreError> {
        let ids = std::mem::take(&mut self.ids);
        if self.found.more {
            return Ok(());
        }
        for order in self.found.skipped.readable(self.store, ids).await? {
            self.take(order);
        }
        Ok(())
    }

    fn take(&mut self, order: Order) {
        if self.found.more || !self.filter.fits(&order, self.now) {
            return;
        }
        if self.found.orders.len() == self.limit {
            self.found.more = true;
        } else {
            self.found.orders.push(order);
        }
    }
}

#[cfg(test)]
mod tests {
    use triad_core::FailureKind;

    use super::*;

    #[test]
    fn an_order_is_found_by_a_text_of_its_error() {
        let failure = Failure::new(FailureKind::Permanent, "declined", "the Bank says no");
        let with = |error: &str| Filter {
            error: Some(error.to_owned()),
            ..Filter::default()
        };
        assert!(with("bank says").fits_cause(Some(&failure)));
        assert!(!with("shop").fits_cause(Some(&failure)));
        assert!(!with("bank").fits_cause(None), "it has not failed");
        let none = Filter::default();
        assert!(none.fits_cause(None) && none.fits_cause(Some(&failure)));
    }
}
