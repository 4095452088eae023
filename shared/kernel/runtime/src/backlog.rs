//! Limit on Submission's lead over the Schedulers: orders that this process has let in and that no Scheduler has
//! claimed yet.
//!
//! An order waits in its topic at no cost; once let in it costs a record, an announcement and memory. So Submission
//! lets in no more orders than the Schedulers start. When a bounded number of orders is not known to be claimed, it
//! reads the records of a sample of them. A claimed record shows that the Schedulers have come that far; orders let
//! in before it no longer count. If newer orders are claimed while older ones wait, that is no reason to stop: only
//! the older ones lack room then. If none is claimed for long, that may be so for all sampled orders, and others
//! behind them would wait for nothing: the bound grows, up to [`GROWTH`] times.
//!
//! No process shares a counter, so none leaks: a process that restarts lets in at most as many again. The price is
//! one eventually consistent read of [`PROBES`] records for each bound's worth of orders, and while nothing is
//! claimed one read per [`LOOK_EVERY`], the first ones earlier. If Submission is far faster than the Schedulers, a
//! check may come so soon that it finds nothing, and the Schedulers must not run out of orders before the next check.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use triad_core::{Order, OrderId, Priority, Timestamp};
use triad_workflow::Millis;

use crate::ports::{StateStore, StoreError};

/// Most records that one check reads to see how far the Schedulers have come. The record of the newest order is read
/// in addition.
pub const PROBES: usize = 32;
/// Shortest time, in milliseconds, until the next check after a check that found no newly claimed order.
const LOOK_AFTER: Millis = Millis(250);
/// The same after several such checks: [`LOOK_AFTER`], doubled by each of them up to this.
pub const LOOK_EVERY: Millis = Millis(2_000);
/// An eventually consistent read finds a record at this age, or the record is gone.
const SEEN_AFTER: Millis = Millis(10_000);
/// Distance between the samples of two checks: odd, and no divisor of a likely bound.
const STRIDE: usize = 389;
/// The bound grows to this multiple of its setting if the Schedulers are idle or nothing is claimed: to no more than
/// a Scheduler caches of orders that need the same.
const GROWTH: usize = 4;

/// One Submission process's view of both lanes.
#[derive(Debug)]
pub(crate) struct Backlog {
    least: usize,
    normal: Mutex<Lane>,
    high: Mutex<Lane>,
}

/// Time without checks.
#[derive(Debug, Clone, Copy)]
struct Rest {
    since: Timestamp,
    length: Millis,
}

impl Rest {
    /// The rest after a check that began at `now` and found nothing. Concurrent callers may begin a check in the rest
    /// after another: such a check shows no more than that one, so only a check after the rest makes the next rest
    /// longer.
    fn after(before: Option<Self>, now: Timestamp) -> Self {
        let length = match before {
            None => LOOK_AFTER,
            Some(rest) if rest.is_over(now) => Millis(rest.length.0 * 2).min(LOOK_EVERY),
            Some(rest) => rest.length,
        };
        Self { since: now, length }
    }

    fn is_over(self, now: Timestamp) -> bool {
        now >= self.since && !self.holds(now)
    }

    /// Whether the rest lasts at `now`. False before its beginning: then the clock was set back by an unknown time.
    fn holds(self, now: Timestamp) -> bool {
        now >= self.since && now.since(self.since) < self.length
    }
}

#[derive(Debug)]
struct Lane {
    /// Orders let in and not known to be claimed, oldest first.
    orders: VecDeque<(OrderId, Timestamp)>,
    bound: usize,
    /// The rest since the last check, which found nothing.
    in_vain: Option<Rest>,
    /// Number of checks: each samples other positions.
    looks: usize,
}

impl Lane {
    /// The sample, newest first: the newest order, and others evenly spread. Each check starts at another position,
    /// because orders without room may be at regular distances.
    fn probes(&mut self) -> Vec<(OrderId, Timestamp)> {
        let len = self.orders.len();
        let probes = PROBES.min(len);
        let first = self.looks.wrapping_mul(STRIDE);
        self.looks = self.looks.wrapping_add(1);
        let mut at: Vec<usize> = (0..probes)
            .map(|n| (first + n * len / probes) % len)
            .chain(len.checked_sub(1))
            .collect();
        at.sort_unstable_by(|a, b| b.cmp(a));
        at.dedup();
        at.iter()
            .filter_map(|&at| self.orders.get(at).cloned())
            .collect()
    }
}

/// Whether a Scheduler has ever claimed an order. A later version alone does not show it: the Supervisor writes to
/// announce an unclaimed order again.
fn is_taken_up_by_scheduler(order: &Order) -> bool {
    order.sequence > 1 || order.state.locked_by().is_some() || order.state.is_finished()
}

impl Backlog {
    /// A backlog whose bound is `least` at first.
    pub(crate) fn new(least: usize) -> Self {
        let lane = || {
            Mutex::new(Lane {
                orders: VecDeque::new(),
                bound: least.max(1),
                in_vain: None,
                looks: 0,
            })
        };
        Self {
            least: least.max(1),
            normal: lane(),
            high: lane(),
        }
    }

    fn lane(&self, lane: Priority) -> MutexGuard<'_, Lane> {
        let lane = match lane {
            Priority::Normal => &self.normal,
            Priority::High => &self.high,
        };
        lane.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether one more order may be let in.
    pub(crate) fn has_room(&self, lane: Priority) -> bool {
        let lane = self.lane(lane);
        lane.orders.len() < lane.bound
    }

    /// Notes that an order was stored for the first time.
    pub(crate) fn let_in(&self, lane: Priority, order: OrderId, now: Timestamp) {
        self.lane(lane).orders.push_back((order, now));
    }

    /// Checks how far the Schedulers have come, unless a recent check found nothing.
    ///
    /// If the store cannot be read, nothing changes, and the error is returned.
    pub(crate) async fn measure<S: StateStore>(
        &self,
        store: &S,
        priority: Priority,
        now: Timestamp,
    ) -> Option<StoreError> {
        let probes = {
            let mut lane = self.lane(priority);
            if lane.in_vain.is_some_and(|rest| rest.holds(now)) {
                return None;
            }
            lane.probes()
        };
        if probes.is_empty() {
            return None;
        }
        let ids = probes.iter().map(|(id, _)| id.clone()).collect();
        let found = store.load_eventually(ids).await;
        let unread = found.iter().find_map(|f| f.as_ref().err().cloned());
        let is_taken_up = |since: Timestamp, found: &Result<Option<Order>, StoreError>| match found
        {
            Ok(Some(order)) => is_taken_up_by_scheduler(order),
            // Too young for an eventually consistent read, or finished, expired and deleted.
            Ok(None) => !since.is_near(now, SEEN_AFTER),
            Err(_) => false,
        };
        let newest_taken = probes
            .into_iter()
            .zip(found)
            .find(|((_, since), found)| is_taken_up(*since, found))
            .map(|(probe, _)| probe);
        let mut lane = self.lane(priority);
        let Some(newest_taken) = newest_taken else {
            // No order was claimed during the longest rest: these orders lack room, and orders behind them may not.
            let longest = lane.in_vain.filter(|rest| rest.length == LOOK_EVERY);
            if unread.is_none() && longest.is_some_and(|rest| rest.is_over(now)) {
                lane.bound = (lane.bound + self.least).min(self.least * GROWTH);
            }
            lane.in_vain = Some(Rest::after(lane.in_vain, now));
            return unread;
        };
        // If it is gone, a concurrent check has come at least as far: neither found nothing, and the next one need
        // not wait.
        let at = lane.orders.iter().position(|o| *o == newest_taken);
        let Some(at) = at else { return unread };
        let was_in_vain = lane.in_vain.take().is_some();
        let left = lane.orders.len() - (at + 1);
        // Nearly all orders were claimed while this process waited, so the Schedulers could have had more. If most
        // were not, they have enough until the next check.
        if was_in_vain && left <= lane.orders.len() / 8 {
            lane.bound = (lane.bound * 2).min(self.least * GROWTH);
        } else if left > lane.orders.len() / 2 {
            lane.bound = (lane.bound * 7 / 8).max(self.least);
        }
        lane.orders.drain(..=at);
        unread
    }
}
