//! Orders that fit a filter, page by page: each page has its own bound, and a cursor to the next one.
//!
//! The cost of a page is proportional to its length, and bounded however many orders are stored. If no index answers
//! the question, a page may hold fewer orders than were asked for, or none: [`Page::sampled`] says so, and the next
//! page continues the search.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use triad_core::due::ALL_SHARDS;
use triad_core::{Attention, Order, OrderId, Timestamp};
use triad_runtime::ports::OperatorStore;
use triad_runtime::{DuePage, StateStore, StoreError};
use triad_workflow::SearchKey;

use crate::attention::shards;
use crate::find::{Filter, StateFilter};
use crate::merge::{IndexPart, MergePosition, Rows};
use crate::search::indexes;
use crate::skipped::Skipped;

/// Most orders of one page, inclusive.
pub const MAX_PAGE: usize = 500;
/// The number of records and index rows after which the search for one page ends. The last page that is read
/// from the store may add some more (up to 500 of the table, in DynamoDB and SQLite).
pub const MAX_LOOKED_AT: usize = 2_000;
/// Most reads for one page of orders: of pages of the due index or of the table; for the attention index and
/// the search indexes, of batches of records.
pub const MAX_READS: usize = 64;
/// Records in one read.
const BATCH: usize = 100;

/// The place where a page begins. It is only valid with the filter of the page that it came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor(ListPosition);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum ListPosition {
    /// The next page begins after this row of the search indexes.
    #[serde(rename = "s")]
    Searched(MergePosition),
    /// Behind this row of the attention index.
    #[serde(rename = "n")]
    Needing(MergePosition),
    /// At this page of this shard of the due index.
    #[serde(rename = "u")]
    UnderWay(u32, Option<String>),
    /// The next page begins at this page of the table, after this many of its records.
    #[serde(rename = "t")]
    Table(Option<String>, usize),
}

/// Why a page of orders cannot be given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The cursor came from a page of a filter that is answered by another index.
    #[error("the cursor belongs to another filter")]
    Cursor,
}

/// One page of the orders that fit a filter.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// The orders, each once, at most as many as were asked for and at most [`MAX_PAGE`]. With a search key the order
    /// that was submitted last comes first. Without one, orders that need an operator come with the longest
    /// waiting first, and all others come in the store's order.
    pub orders: Vec<Order>,
    /// Where the next page begins; `None` after the last one.
    pub next: Option<Cursor>,
    /// Whether a bound ([`MAX_LOOKED_AT`] or [`MAX_READS`]) ended the search before the page was full, so
    /// that more orders may fit.
    pub sampled: bool,
    /// How many records and index rows were looked at for this page.
    pub looked_at: usize,
    /// Records and rows that were left out because they cannot be read. Each may belong to an order that fits.
    pub skipped: Skipped,
}

/// Finds one page of the orders that fit the filter at `now`. The page has at most `limit` orders; a limit of
/// 0 counts as 1, and one above [`MAX_PAGE`] as that. It begins at `from`, which is [`Page::next`] of the
/// page before it; `None`: at the beginning.
///
/// # Errors
/// [`PageError::Store`] if the store cannot be read (a single record that cannot be read is no error);
/// [`PageError::Cursor`] if `from` came from a filter that is answered by another index.
pub async fn page<S>(
    store: &S,
    filter: &Filter,
    limit: usize,
    from: Option<&Cursor>,
    now: Timestamp,
) -> Result<Page, PageError>
where
    S: StateStore + OperatorStore,
{
    let mut making = Making {
        store,
        filter,
        limit: limit.clamp(1, MAX_PAGE),
        now,
        reads: 0,
        page: Page::default(),
        taken: BTreeSet::new(),
    };
    if let Some(key) = &filter.search {
        making.searched(key, from).await?;
    } else if let Some(kinds) = filter.attention() {
        making.needing(&kinds, from).await?;
    } else if filter
        .state
        .is_some_and(StateFilter::is_of_orders_under_way)
    {
        making.under_way(from).await?;
    } else {
        making.table(from).await?;
    }
    let Making { page, limit, .. } = making;
    Ok(Page {
        sampled: page.next.is_some() && page.orders.len() < limit,
        ..page
    })
}

/// A page under construction.
struct Making<'a, S> {
    store: &'a S,
    filter: &'a Filter,
    limit: usize,
    now: Timestamp,
    reads: usize,
    page: Page,
    /// Ids of the orders on the page.
    taken: BTreeSet<OrderId>,
}

impl<S: StateStore + OperatorStore> Making<'_, S> {
    fn room(&self) -> usize {
        self.limit - self.page.orders.len()
    }

    /// Whether the search continues.
    fn goes_on(&self) -> bool {
        self.room() > 0 && self.page.looked_at < MAX_LOOKED_AT && self.reads < MAX_READS
    }

    async fn searched(&mut self, key: &SearchKey, from: Option<&Cursor>) -> Result<(), PageError> {
        let rows = Rows::of(self.store, indexes(key));
        let rows = match from {
            None => rows,
            Some(Cursor(ListPosition::Searched(place))) => rows.behind(place),
            Some(_) => return Err(PageError::Cursor),
        };
        let filter = self.filter;
        let begun = self.rows(rows, |row| {
            filter.fits_search_row(&row).then_some(row.order)
        });
        let (place, is_more) = begun.await?;
        let begun = place.map(|place| Cursor(ListPosition::Searched(place)));
        self.page.next = begun.or_else(|| from.cloned()).filter(|_| is_more);
        Ok(())
    }

    async fn needing(
        &mut self,
        kinds: &[Attention],
        from: Option<&Cursor>,
    ) -> Result<(), PageError> {
        let rows = Rows::of(self.store, shards(kinds));
        let rows = match from {
            None => rows,
            Some(Cursor(ListPosition::Needing(place))) => rows.behind(place),
            Some(_) => return Err(PageError::Cursor),
        };
        let (filter, now) = (self.filter, self.now);
        let begun = self.rows(rows, |row| filter.fits_row(&row, now).then_some(row.order));
        let (place, is_more) = begun.await?;
        let begun = place.map(|place| Cursor(ListPosition::Needing(place)));
        self.page.next = begun.or_else(|| from.cloned()).filter(|_| is_more);
        Ok(())
    }

    /// Reads the orders of wanted rows. Returns the position of the last row looked at, and whether there are more.
    async fn rows<P: IndexPart>(
        &mut self,
        mut rows: Rows<'_, S, P>,
        wanted: impl Fn(P::Row) -> Option<OrderId>,
    ) -> Result<(Option<MergePosition>, bool), PageError> {
        let mut is_more = true;
        while is_more && self.goes_on() {
            let mut ids = Vec::new();
            let most = self.room().min(BATCH);
            while ids.len() < most && self.page.looked_at < MAX_LOOKED_AT {
                let Some((_, row)) = rows.next().await? else {
                    is_more = false;
                    break;
                };
                self.page.looked_at += 1;
                ids.extend(wanted(row));
            }
            self.reads += 1;
            self.load(ids).await?;
        }
        let place = rows.place().cloned();
        self.page.skipped.add_all(rows.skipped());
        Ok((place, is_more))
    }

    async fn under_way(&mut self, from: Option<&Cursor>) -> Result<(), PageError> {
        let (mut shard, mut at) = match from {
            None => (0, None),
            Some(Cursor(ListPosition::UnderWay(shard, page))) => (*shard, page.clone()),
            Some(_) => return Err(PageError::Cursor),
        };
        while shard < ALL_SHARDS && self.goes_on() {
            let most = u32::try_from(self.room().min(BATCH)).unwrap_or(1);
            let until = Timestamp(u64::MAX);
            let DuePage { rows, next } = self.store.due(shard, until, most, at).await?;
            self.reads += 1;
            self.page.looked_at += rows.len();
            let fits = |workflow: Option<&_>| {
                let name: Option<&triad_workflow::WorkflowName> = workflow;
                name.is_none_or(|name| self.filter.fits_workflow(name.as_str()))
            };
            let rows = rows.into_iter();
            let rows =
                rows.filter(|row| fits(row.workflow.as_ref()) && self.filter.fits_id(&row.order));
            let ids = rows.map(|row| row.order).collect();
            self.load(ids).await?;
            shard += u32::from(next.is_none());
            at = next;
        }
        self.page.next = (shard < ALL_SHARDS).then_some(Cursor(ListPosition::UnderWay(shard, at)));
        Ok(())
    }

    async fn table(&mut self, from: Option<&Cursor>) -> Result<(), PageError> {
        let (mut at, mut behind) = match from {
            None => (None, 0),
            Some(Cursor(ListPosition::Table(page, behind))) => (page.clone(), *behind),
            Some(_) => return Err(PageError::Cursor),
        };
        let mut is_more = true;
        while is_more && self.goes_on() {
            let state = self.filter.state.map(|state| state.name().to_owned());
            let got = self.store.list(state, at.clone()).await?;
            self.reads += 1;
            self.page.skipped.add(got.unreadable);
            at = got.this.or(at);
            let found = got.orders.len();
            let mut left = got.orders.into_iter().skip(behind);
            while self.room() > 0
                && let Some(order) = left.next()
            {
                behind += 1;
                self.page.looked_at += 1;
                self.take(order);
            }
            if behind >= found {
                is_more = got.next.is_some();
                (at, behind) = (got.next, 0);
            }
        }
        self.page.next = is_more.then_some(Cursor(ListPosition::Table(at, behind)));
        Ok(())
    }

    /// Reads records, and takes those that fit.
    async fn load(&mut self, ids: Vec<OrderId>) -> Result<(), StoreError> {
        for order in self.page.skipped.readable(self.store, ids).await? {
            self.take(order);
        }
        Ok(())
    }

    /// Takes an order that fits. An order whose row moved meanwhile may be found twice and is taken once.
    fn take(&mut self, order: Order) {
        if self.filter.fits(&order, self.now) && self.taken.insert(order.id.clone()) {
            self.page.orders.push(order);
        }
    }
}
