//! How far Submission may run ahead of the Schedulers: orders that this process has let in and that
//! none has taken up yet.
//!
//! An order waits for nothing in its topic, and costs a record, an announcement and memory once it
//! is let in. So no more are let in than the Schedulers start: when a bounded number of them is
//! not known to be taken up, Submission looks at the records of a few of them, others each time. A
//! record that has gone on says that the Schedulers have come so far; those let
//! in before it no longer count. If newer orders go on while older ones wait, that is no reason to
//! stop: then only something that the older ones need has no room. If none goes on for long, that may be
//! so of all of them, and others behind them be held up for nothing: the bound grows, up to [`GROWTH`] times.
//!
//! Nothing is counted up and down between processes, so nothing leaks: a process that starts anew
//! lets in at most as many again. The price is one eventually consistent read of [`PROBES`] records
//! for each bound's worth of orders, and while nothing moves one in [`LOOK_EVERY`], the first ones earlier: where
//! Submission is far quicker than the Schedulers, a look comes so soon that it finds nothing, and they must not have
//! come to the end of what was let in before the next one.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use triad_core::{Order, OrderId, Priority, Timestamp};
use triad_workflow::Millis;

use crate::ports::{StateStore, StoreError};

/// Most records that one look at the store reads, to see how far the Schedulers have come. The
/// record of the newest order is read beside them.
pub const PROBES: usize = 32;
/// Shortest time, in milliseconds, until the next look once a look has found that no further order was taken up.
const LOOK_AFTER: Millis = Millis(250);
/// The same once several looks have found nothing: [`LOOK_AFTER`], doubled by each of them up to this.
pub const LOOK_EVERY: Millis = Millis(2_000);
/// An eventually consistent read sees a record after this, or there is none any more.
const SEEN_AFTER: Millis = Millis(10_000);
/// How far the places of two looks lie apart: odd, and no divisor of a likely bound.
const STRIDE: usize = 389;
/// The bound grows to so many times what it is set to, where the Schedulers are found idle or nothing goes on: to
/// no more than a Scheduler remembers of orders that need the same.
const GROWTH: usize = 4;

/// One Submission process's view of both lanes.
#[derive(Debug)]
pub(crate) struct Backlog {
    least: usize,
    normal: Mutex<Lane>,
    high: Mutex<Lane>,
}

/// No look is made for so long.
#[derive(Debug, Clone, Copy)]
struct Rest {
    since: Timestamp,
    length: Millis,
}

impl Rest {
    /// After a look that was begun now and has found nothing. One that was begun in the rest after another, as callers
    /// do who ask at once, says no more than that one: only a look after the rest makes the next one longer.
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

    /// Not before it began: the clock was set back, and nobody knows how far.
    fn holds(self, now: Timestamp) -> bool {
        now >= self.since && now.since(self.since) < self.length
    }
}

#[derive(Debug)]
struct Lane {
    /// Let in and not known to be taken up, oldest first.
    orders: VecDeque<(OrderId, Timestamp)>,
    bound: usize,
    /// Since the last look, which found nothing.
    in_vain: Option<Rest>,
    /// Looks so far: each begins at another place.
    looks: usize,
}

impl Lane {
    /// Orders to look at, newest first: the newest, and others evenly spread, from another place
    /// on each time, for what waits may lie at regular distances.
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

/// Whether a Scheduler has claimed an order before. That its record was written again does not say
/// so: the Supervisor announces one again that nobody has taken up.
fn is_taken_up_by_scheduler(order: &Order) -> bool {
    order.sequence > 1 || order.state.locked_by().is_some() || order.state.is_finished()
}

impl Backlog {
    /// At most `least` orders at first.
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

    /// An order has been stored for the first time.
    pub(crate) fn let_in(&self, lane: Priority, order: OrderId, now: Timestamp) {
        self.lane(lane).orders.push_back((order, now));
    }

    /// Looks how far the Schedulers have come, unless a look has just been in vain.
    ///
    /// A store that cannot be read leaves things as they are; the answer is why it cannot.
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
            // Too young to be seen by such a read, or it has finished, expired and is gone.
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
            // In the longest rest nothing was taken up: what these wait for has no room, and what is behind
            // them may not need it.
            let longest = lane.in_vain.filter(|rest| rest.length == LOOK_EVERY);
            if unread.is_none() && longest.is_some_and(|rest| rest.is_over(now)) {
                lane.bound = (lane.bound + self.least).min(self.least * GROWTH);
            }
            lane.in_vain = Some(Rest::after(lane.in_vain, now));
            return unread;
        };
        // Where it is not there, another look of the same moment has come at least as far: neither was in
        // vain, and the next one must not have to wait.
        let at = lane.orders.iter().position(|o| *o == newest_taken);
        let Some(at) = at else { return unread };
        let was_in_vain = lane.in_vain.take().is_some();
        let left = lane.orders.len() - (at + 1);
        // Nearly everything was taken up while this process waited: the Schedulers could have had
        // more. Where most was not, they have more than they need until the next look.
        if was_in_vain && left <= lane.orders.len() / 8 {
            lane.bound = (lane.bound * 2).min(self.least * GROWTH);
        } else if left > lane.orders.len() / 2 {
            lane.bound = (lane.bound * 7 / 8).max(self.least);
        }
        lane.orders.drain(..=at);
        unread
    }
}
