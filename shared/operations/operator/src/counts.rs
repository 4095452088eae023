//! Orders counted by state, at a bounded cost, for a page that is refreshed.
//!
//! Every figure about an installation's orders is computed here. If the store counts its orders, all figures come
//! from that one count. If not (DynamoDB), the orders that need an operator and those under way are counted from the
//! indexes, and the other figures are missing.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use triad_core::due::{ALL_SHARDS, SHARDS};
use triad_core::{Attention, ProcessState, Timestamp};
use triad_runtime::ports::{Lately, OperatorStore, Tally};
use triad_runtime::{StateStore, StoreError};
use triad_workflow::Millis;

use crate::find::is_under_way;

/// Delay after which a due order is overdue: two sweeps of the deployed Supervisor.
pub(crate) const LATE: Millis = Millis(120_000);
/// Most counted rows of each shard of the due index.
const ROWS: u32 = 1_000;
/// Key in [`OrderCounts::orders`] for orders in Error and CompensationFailed that an operator has closed.
pub const CLOSED: &str = "closed";

/// Orders counted by state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OrderCounts {
    /// Orders that need an operator, by state: Error, CompensationFailed and Paused.
    pub needing: Vec<Needing>,
    /// Orders that are not finished.
    pub under_way: UnderWay,
    /// All stored orders, by the names of their states; those that an operator has closed are apart, as
    /// [`CLOSED`]. `None`: the store does not count them.
    pub orders: Option<BTreeMap<String, u64>>,
}

/// Orders in one state that need an operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Needing {
    /// The state's name: `Error`, `CompensationFailed` or `Paused`.
    pub state: String,
    /// How many orders were counted.
    pub orders: u64,
    /// Whether there may be more orders than were counted, because only the first page of each shard of
    /// the attention index is read where the store does not count.
    pub more: bool,
    /// Since when the order that has waited longest needs an operator; `None` if no order was counted.
    #[schemars(with = "Option<crate::schema::Moment>")]
    pub oldest: Option<Timestamp>,
}

/// How many orders are under way, as far as they were counted: all of them where the store counts its orders.
/// Otherwise the due index is counted, in which orders are until their bad end is confirmed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnderWay {
    /// How many orders were counted, those that are set aside included.
    pub orders: u64,
    /// How many of them are set aside: they wait for room under their workflow's cap, or for a definition that
    /// could not be read.
    pub set_aside: u64,
    /// Whether there may be more orders than were counted: of the due index at most 1,000 of each shard are.
    pub more: bool,
    /// How many orders have been due for two minutes or longer. If there are any, the Supervisor may not be running,
    /// or it cannot keep up.
    pub overdue: u64,
    /// Whether there may be more of these than were counted: of the due index at most 1,000 of each shard are.
    pub more_overdue: bool,
    /// Since when the one of these that is due longest has been due; `None` if there are none.
    #[schemars(with = "Option<crate::schema::Moment>")]
    pub oldest_due: Option<Timestamp>,
}

/// Counts orders by state at `now`. Where the store does not count them, the first page of each shard of the
/// attention index is read for each of its three states (500 rows in DynamoDB), and at most two pages of each shard of
/// the due index: 96 reads in all.
///
/// # Errors
/// [`StoreError`] if the store cannot be read.
pub async fn counts<S>(store: &S, now: Timestamp) -> Result<OrderCounts, StoreError>
where
    S: StateStore + OperatorStore,
{
    if let Some(tally) = store.tally(now.minus(LATE)).await? {
        return Ok(OrderCounts::exact(&tally));
    }
    let mut needing = Vec::new();
    for kind in Attention::ALL {
        needing.push(needing_of(store, kind).await?);
    }
    Ok(OrderCounts {
        needing,
        under_way: under_way(store, now).await?,
        orders: None,
    })
}

impl OrderCounts {
    fn exact(tally: &Tally) -> Self {
        let needing = |(kind, oldest): (Attention, Option<Timestamp>)| {
            let of = tally.groups.iter().filter(|g| g.attention == Some(kind));
            Needing {
                state: kind.name().to_owned(),
                orders: of.map(|group| group.orders).sum(),
                more: false,
                oldest,
            }
        };
        let mut orders: BTreeMap<String, u64> = ProcessState::NAMES
            .into_iter()
            .chain([CLOSED])
            .map(|name| (name.to_owned(), 0))
            .collect();
        let mut under_way = UnderWay {
            set_aside: tally.set_aside,
            overdue: tally.overdue,
            oldest_due: tally.oldest_due,
            ..UnderWay::default()
        };
        for group in &tally.groups {
            let name = match group.state.as_str() {
                "Error" | "CompensationFailed" if group.attention.is_none() => CLOSED,
                name => name,
            };
            *orders.entry(name.to_owned()).or_default() += group.orders;
            if is_under_way(name) {
                under_way.orders += group.orders;
            }
        }
        Self {
            needing: Attention::ALL
                .into_iter()
                .zip(tally.oldest)
                .map(needing)
                .collect(),
            under_way,
            orders: Some(orders),
        }
    }
}

async fn needing_of<S: OperatorStore>(store: &S, kind: Attention) -> Result<Needing, StoreError> {
    let mut all = Needing {
        state: kind.name().to_owned(),
        orders: 0,
        more: false,
        oldest: None,
    };
    for shard in 0..SHARDS {
        let page = store.attention(kind, shard, None).await?;
        all.orders += page.rows.len() as u64;
        all.more |= page.next.is_some();
        let first = page.rows.first().map(|row| row.at);
        all.oldest = all.oldest.into_iter().chain(first).min();
    }
    Ok(all)
}

/// Counts the orders under way, by the rows of the due index. Of each shard a page of at most 1,000 rows is read
/// of all orders, and one of those that are overdue at `now` where orders are not set aside.
async fn under_way<S: StateStore>(store: &S, now: Timestamp) -> Result<UnderWay, StoreError> {
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
        all.more_overdue |= overdue.next.is_some();
        // The earliest row of the shard; a row does not say since when it is due.
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

/// Orders that were submitted and that finished within a time before now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rate {
    /// The time, in milliseconds.
    pub within_ms: u64,
    /// How many orders were submitted.
    pub submitted: u64,
    /// How many orders finished, by the name of the state in which they are. States in which none is are
    /// left out.
    pub finished: BTreeMap<String, u64>,
    /// Whether more orders were submitted or finished than were counted: the newest
    /// [`MOST_LATELY`](triad_runtime::ports::MOST_LATELY).
    pub more: bool,
    /// The median time from submission to end, in milliseconds, of the orders among them that are Processed;
    /// `None` if there is no such order.
    pub p50_ms: Option<u64>,
    /// The time, in milliseconds, that 99 in 100 of these orders took at most; `None` if there is no such
    /// order.
    pub p99_ms: Option<u64>,
}

impl Rate {
    /// How many orders finished, in whatever state.
    #[must_use]
    pub fn all_finished(&self) -> u64 {
        self.finished.values().sum()
    }
}

/// The times of [`rates`], in milliseconds: a minute, an hour and a day.
const LATELY: [u64; 3] = [60_000, 3_600_000, 86_400_000];

/// Orders submitted and finished in the last minute, hour and day before `now`, of those that are still stored.
/// `None`: the store does not count them.
///
/// # Errors
/// [`StoreError`] if the store cannot be read.
pub async fn rates<S: OperatorStore>(
    store: &S,
    now: Timestamp,
) -> Result<Option<Vec<Rate>>, StoreError> {
    let mut rates = Vec::new();
    for within_ms in LATELY {
        match rate(store, Millis(within_ms), now).await? {
            Some(rate) => rates.push(rate),
            None => return Ok(None),
        }
    }
    Ok(Some(rates))
}

/// Orders submitted and finished within a time before `now`; `None`: the store does not count them.
pub(crate) async fn rate<S: OperatorStore>(
    store: &S,
    within: Millis,
    now: Timestamp,
) -> Result<Option<Rate>, StoreError> {
    let lately = store.lately(now.minus(within)).await?;
    Ok(lately.map(|lately| {
        let Lately {
            submitted,
            finished,
            more,
            took_ms,
        } = lately;
        Rate {
            within_ms: within.0,
            submitted,
            finished,
            more,
            p50_ms: share(&took_ms, 50),
            p99_ms: share(&took_ms, 99),
        }
    }))
}

/// A percentile of sorted values.
fn share(sorted: &[u64], percent: usize) -> Option<u64> {
    let at = (sorted.len() * percent).div_ceil(100).max(1) - 1;
    sorted.get(at).copied()
}
