//! Finding orders: by id, by state, by cause, by workflow and by age.
//!
//! Orders that need an operator are found through the attention index and orders under way
//! through the due index, so that the cost grows with what is found. Only orders that ended
//! well are found by reading the whole table.

use anyhow::Result;
use clap::Args;
use triad_core::Attention;
use triad_core::due::SHARDS;
use triad_core::{Order, OrderId, ProcessState, Timestamp};
use triad_runtime::ports::{AttentionRow, OperatorStore};
use triad_runtime::system::SystemClock;
use triad_runtime::{Clock, StateStore};
use triad_workflow::Millis;

use super::Store;
use crate::output::Usage;

/// Records read at once.
const PAGE: usize = 100;
/// Rows of the due index read at once.
const DUE_PAGE: u32 = 1_000;

/// Which orders.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Which orders")]
pub struct Filter {
    /// Orders in this process state, or Paused ones
    #[arg(long, value_name = "STATE", value_parser = state)]
    pub state: Option<String>,
    /// Orders whose cause has this fingerprint, as `triad list --by-cause` prints it; a * at
    /// its end stands for anything
    #[arg(long, value_name = "FINGERPRINT")]
    pub cause: Option<String>,
    /// Orders of this workflow
    #[arg(long, value_name = "NAME")]
    pub workflow: Option<String>,
    /// Orders that have been as they are for at least this long; of orders under way: that
    /// were submitted that long ago
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub older_than: Option<Millis>,
}

fn span(text: &str) -> Result<Millis, String> {
    Millis::try_from(text.to_owned())
}

fn state(text: &str) -> Result<String, String> {
    let names = || {
        ProcessState::NAMES
            .into_iter()
            .chain([Attention::Paused.name()])
    };
    names()
        .find(|n| n.eq_ignore_ascii_case(text))
        .map(str::to_owned)
        .ok_or_else(|| {
            let names: Vec<_> = names().collect();
            format!("is none of {}", names.join(", "))
        })
}

impl Filter {
    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        self.state.is_none()
            && self.cause.is_none()
            && self.workflow.is_none()
            && self.older_than.is_none()
    }

    /// Which part of the attention index holds every order that fits; none where it does not.
    fn attention(&self) -> Option<Vec<Attention>> {
        match self.state.as_deref() {
            None if self.cause.is_some() => {
                Some(vec![Attention::Error, Attention::CompensationFailed])
            }
            Some(name) => Attention::ALL
                .into_iter()
                .find(|a| a.name() == name)
                .map(|a| vec![a]),
            None => None,
        }
    }

    fn is_of_orders_under_way(&self) -> bool {
        matches!(
            self.state.as_deref(),
            Some("Pending" | "Processing" | "Compensating")
        )
    }

    fn fits_row(&self, row: &AttentionRow, now: Timestamp) -> bool {
        let cause = row.cause.as_ref().map(triad_core::Failure::fingerprint);
        self.fits_cause(cause.as_deref())
            && self.older_than.is_none_or(|t| now.since(row.at) >= t)
            && row
                .workflow
                .as_ref()
                .is_none_or(|w| self.fits_workflow(w.name.as_str()))
    }

    fn fits(&self, order: &Order, now: Timestamp) -> bool {
        let state = match self.state.as_deref() {
            None => true,
            Some("Paused") => order.paused.is_some() && !order.state.is_finished(),
            Some(name) => order.state.name() == name && order.closed.is_none(),
        };
        let since = match &order.paused {
            Some(hold) if self.state.as_deref() == Some("Paused") => hold.at,
            _ => order.state.finished_at().unwrap_or(order.submitted_at),
        };
        let cause = order.state.cause().map(triad_core::Failure::fingerprint);
        state
            && self.fits_cause(cause.as_deref())
            && self.fits_workflow(order.workflow.name.as_str())
            && self.older_than.is_none_or(|t| now.since(since) >= t)
    }

    fn fits_cause(&self, cause: Option<&str>) -> bool {
        match (&self.cause, cause) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(wanted), Some(cause)) => match wanted.strip_suffix('*') {
                Some(beginning) => cause.starts_with(beginning),
                None => cause == wanted,
            },
        }
    }

    fn fits_workflow(&self, name: &str) -> bool {
        self.workflow.as_deref().is_none_or(|w| w == name)
    }
}

/// Checks ids given by hand.
///
/// # Errors
/// [`Usage`] naming the first that is none.
pub fn ids(texts: &[String]) -> Result<Vec<OrderId>, Usage> {
    texts
        .iter()
        .map(|t| {
            OrderId::new(t.clone()).map_err(|e| Usage(format!("{t:?} is not an order id: {e}")))
        })
        .collect()
}

/// Rows of the attention index that fit, oldest first in each shard.
///
/// # Errors
/// The store's.
pub async fn rows(store: &Store, filter: &Filter) -> Result<Vec<(Attention, AttentionRow)>> {
    let kinds = filter
        .attention()
        .unwrap_or_else(|| vec![Attention::Error, Attention::CompensationFailed]);
    let now = SystemClock.now();
    let mut found = Vec::new();
    for kind in kinds {
        for shard in 0..SHARDS {
            let mut page = None;
            loop {
                let got = store.attention(kind, shard, page).await?;
                let fitting = got.rows.into_iter().filter(|r| filter.fits_row(r, now));
                found.extend(fitting.map(|r| (kind, r)));
                match got.next {
                    Some(next) => page = Some(next),
                    None => break,
                }
            }
        }
    }
    found.sort_by_key(|(_, r)| r.at);
    Ok(found)
}

/// Orders that fit, at most `limit`; true if there may be more.
///
/// # Errors
/// The store's.
pub async fn orders(store: &Store, filter: &Filter, limit: usize) -> Result<(Vec<Order>, bool)> {
    if filter.attention().is_some() {
        let rows = rows(store, filter).await?;
        let ids: Vec<OrderId> = rows.into_iter().map(|(_, r)| r.order).collect();
        return load(store, ids, filter, limit).await;
    }
    if filter.is_of_orders_under_way() {
        let mut ids = Vec::new();
        for shard in 0..SHARDS {
            let mut page = None;
            loop {
                let got = store
                    .due(shard, Timestamp(u64::MAX), DUE_PAGE, page)
                    .await?;
                ids.extend(got.rows.into_iter().map(|r| r.order));
                match got.next {
                    Some(next) => page = Some(next),
                    None => break,
                }
            }
        }
        return load(store, ids, filter, limit).await;
    }
    let now = SystemClock.now();
    let mut found = Vec::new();
    let mut page = None;
    loop {
        // Paused is not a state of its own in the table.
        let got = store.list(filter.state.clone(), page).await?;
        for order in got.orders.into_iter().filter(|o| filter.fits(o, now)) {
            if found.len() == limit {
                return Ok((found, true));
            }
            found.push(order);
        }
        match got.next {
            Some(next) => page = Some(next),
            None => return Ok((found, false)),
        }
    }
}

/// Reads the records themselves: an index is only a hint.
async fn load(
    store: &Store,
    ids: Vec<OrderId>,
    filter: &Filter,
    limit: usize,
) -> Result<(Vec<Order>, bool)> {
    let now = SystemClock.now();
    let mut found = Vec::new();
    for page in ids.chunks(PAGE) {
        for order in store.load(page.to_vec()).await {
            let Some(order) = order?.filter(|o| filter.fits(o, now)) else {
                continue;
            };
            if found.len() == limit {
                return Ok((found, true));
            }
            found.push(order);
        }
    }
    Ok((found, false))
}
