//! Orders counted by state, at a bounded cost, for a page that is read again and again.

use std::collections::BTreeMap;

use serde::Serialize;
use triad_core::Attention;
use triad_core::due::SHARDS;
use triad_core::{Order, ProcessState, Timestamp};
use triad_runtime::ports::OperatorStore;
use triad_runtime::{StateStore, StoreError};
use triad_workflow::Millis;

use crate::status::{UnderWay, under_way};

/// Orders counted by state, from the indexes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Orders that need an operator, by state: Error, CompensationFailed and Paused.
    pub needing: Vec<Needing>,
    /// Orders that are not finished, or whose end is not confirmed yet.
    pub under_way: UnderWay,
}

/// Orders in one state that need an operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Needing {
    /// The state's name: `Error`, `CompensationFailed` or `Paused`.
    pub state: &'static str,
    /// How many orders were counted.
    pub orders: u64,
    /// Whether there may be more orders than were counted, because only the first page of each shard of
    /// the attention index is read.
    pub more: bool,
    /// Since when the order that has waited longest needs an operator; `None` if no order was counted.
    pub oldest: Option<Timestamp>,
}

/// Counts orders by state at `now`. For each of the three states of the attention index the first page of
/// each shard is read (500 rows in DynamoDB and SQLite), and what [`under_way`] reads of the due index: 96 reads
/// in all.
///
/// # Errors
/// [`StoreError`] if a page of an index cannot be read.
pub async fn counts<S>(store: &S, now: Timestamp) -> Result<Counts, StoreError>
where
    S: StateStore + OperatorStore,
{
    let mut needing = Vec::new();
    for kind in Attention::ALL {
        needing.push(needing_of(store, kind).await?);
    }
    Ok(Counts {
        needing,
        under_way: under_way(store, now).await?,
    })
}

async fn needing_of<S: OperatorStore>(store: &S, kind: Attention) -> Result<Needing, StoreError> {
    let mut all = Needing {
        state: kind.name(),
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

/// Records that a [`sample`] for a page looks at.
pub const SAMPLE: u64 = 1_000;
/// For how long a sample is shown by what looks again and again.
pub const SAMPLE_FOR: Millis = Millis(15_000);

/// Figures of a part of the orders: the first ones in the store's own order. Exact figures of finished
/// orders would need a reading of the whole table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Sample {
    /// How many records were looked at.
    pub looked_at: u64,
    /// Whether there may be more records than were looked at.
    pub sampled: bool,
    /// How many of them are in each state, by its name.
    pub states: BTreeMap<&'static str, u64>,
    /// How many of them were submitted and finished of late: in the last minute, hour and day before the
    /// figures were made.
    pub rates: [Rate; LATELY.len()],
    /// The median time from submission to end, in milliseconds, of the orders among them that are Processed;
    /// `None` if there is no such order.
    pub p50_ms: Option<u64>,
    /// The time, in milliseconds, that 99 in 100 of these orders took at most; `None` if there is no such
    /// order.
    pub p99_ms: Option<u64>,
}

/// Orders that were submitted and that finished within a time before now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rate {
    /// The time, in milliseconds.
    pub within_ms: u64,
    /// How many orders were submitted.
    pub submitted: u64,
    /// How many orders finished, by the name of the state in which they are. States in which none is are
    /// left out.
    pub finished: BTreeMap<&'static str, u64>,
}

impl Rate {
    fn of(within_ms: u64) -> Self {
        Self {
            within_ms,
            submitted: 0,
            finished: BTreeMap::new(),
        }
    }

    fn count(&mut self, order: &Order, now: Timestamp) {
        let is_within = |at: Timestamp| now.since(at).0 < self.within_ms;
        self.submitted += u64::from(is_within(order.submitted_at));
        if order.state.finished_at().is_some_and(is_within) {
            *self.finished.entry(order.state.name()).or_default() += 1;
        }
    }

    /// How many orders finished, in whatever state.
    #[must_use]
    pub fn all_finished(&self) -> u64 {
        self.finished.values().sum()
    }
}

/// The times of [`Sample::rates`], in milliseconds: a minute, an hour and a day.
const LATELY: [u64; 3] = [60_000, 3_600_000, 86_400_000];

/// Reads the first pages of the table of orders, until at least `most` records were looked at or the table
/// ends, and makes figures of them at `now`. Records that cannot be read are left out.
///
/// # Errors
/// [`StoreError`] if a page of the table cannot be read.
pub async fn sample<S: StateStore>(
    store: &S,
    most: u64,
    now: Timestamp,
) -> Result<Sample, StoreError> {
    let mut sample = Sample {
        looked_at: 0,
        sampled: false,
        states: ProcessState::NAMES
            .into_iter()
            .map(|name| (name, 0))
            .collect(),
        rates: LATELY.map(Rate::of),
        p50_ms: None,
        p99_ms: None,
    };
    let (mut took, mut page) = (Vec::new(), None);
    loop {
        let got = store.list(None, page).await?;
        for order in &got.orders {
            sample.looked_at += 1;
            *sample.states.entry(order.state.name()).or_default() += 1;
            for rate in &mut sample.rates {
                rate.count(order, now);
            }
            if let ProcessState::Processed { at } = order.state {
                took.push(at.since(order.submitted_at).0);
            }
        }
        match got.next {
            Some(next) if sample.looked_at < most => page = Some(next),
            next => {
                sample.sampled = next.is_some();
                break;
            }
        }
    }
    took.sort_unstable();
    sample.p50_ms = share(&took, 50);
    sample.p99_ms = share(&took, 99);
    Ok(sample)
}

/// The value that so many in a hundred of sorted ones do not exceed.
fn share(sorted: &[u64], percent: usize) -> Option<u64> {
    let at = (sorted.len() * percent).div_ceil(100).max(1) - 1;
    sorted.get(at).copied()
}
