//! The pace at which a sweep wakes orders whose wait is over.
//!
//! The waits of a million orders may be over in the same moment. If a sweep woke them all at once, every other order
//! would stand behind them: for the processor, in the Scheduler's topic, and before the services. So they are woken in
//! small groups at a fixed rate, and no further group is woken while many have not been claimed by a Scheduler. That
//! they are claimed is read from the record of the last order of a group. If none is claimed for a second, these
//! orders lack room, and nothing is won by waiting for them: the sweep then goes by the rate alone, so that it comes to
//! the other orders.

use std::collections::VecDeque;

use triad_core::outbox::Emission;
use triad_core::pass::{PassEnd, Snapshot, Task};
use triad_core::{OrderId, StepState, Timestamp, Version, Work};
use triad_workflow::Millis;

use crate::passes::Carried;
use crate::ports::{Clock, StateStore};

/// Most orders that are woken at once.
pub(super) const AT_ONCE: usize = 18;
/// Time for as many orders, on average: 1,800 a second.
const EVERY: Millis = Millis(10);
/// Most orders that are woken and not known to be claimed when a further group is woken.
const UNCLAIMED: usize = 64;
/// Time between the first two looks whether orders are claimed, doubled after each look.
const FIRST_LOOK: Millis = Millis(8);
/// Looks in vain after which a sweep looks no more. They take a second together.
const LOOKS: u32 = 7;

/// The pace of one sweep.
#[derive(Debug, Default)]
pub(super) struct Pace {
    began: Option<Timestamp>,
    /// How many orders were woken.
    woken: u64,
    /// The groups that are not known to be claimed, oldest first: their last order with the version that was written,
    /// and their number of orders.
    unclaimed: VecDeque<(OrderId, Version, usize)>,
    /// Whether the sweep has looked in vain.
    is_in_vain: bool,
}

impl Pace {
    /// Waits until a further group may be woken: at most a second beyond the rate, once a sweep.
    pub(super) async fn turn(&mut self, store: &impl StateStore, clock: &impl Clock) {
        let now = clock.now();
        let began = *self.began.get_or_insert(now);
        let rest = began
            .plus(Millis(self.woken * EVERY.0 / AT_ONCE as u64))
            .since(now);
        if rest > Millis(0) {
            clock.sleep(rest).await;
        }
        let (mut looks, mut rest) = (0, FIRST_LOOK);
        while !self.is_in_vain && self.unclaimed.iter().map(|(.., n)| n).sum::<usize>() > UNCLAIMED
        {
            let Some((id, written, _)) = self.unclaimed.front() else {
                return;
            };
            let found = store.load_eventually(vec![id.clone()]).await.pop();
            if !matches!(found, Some(Ok(Some(order))) if order.version <= *written) {
                // Claimed, or gone, or the store fails, as the next write will tell.
                self.unclaimed.pop_front();
                continue;
            }
            looks += 1;
            self.is_in_vain = looks > LOOKS;
            if !self.is_in_vain {
                clock.sleep(rest).await;
                rest = Millis(rest.0 * 2);
            }
        }
    }

    /// Notes a group whose passes have been carried out.
    pub(super) fn woke<'a>(&mut self, group: impl Iterator<Item = &'a Carried>) {
        let written = group.filter_map(|carried| match carried.pass.task() {
            Task::Ended(PassEnd::Done(done)) if done.was_written => Some(&done.order),
            _ => None,
        });
        let orders: Vec<_> = written.collect();
        self.woken += orders.len() as u64;
        if let Some(last) = orders.last() {
            let group = (last.id.clone(), last.version, orders.len());
            self.unclaimed.push_back(group);
        }
    }
}

/// Whether a pass wakes an order because a wait of it is over, or because it is to start now.
pub(super) fn ends_wait(read: &Snapshot, carried: &Carried) -> bool {
    let Task::Write { next, .. } = carried.pass.task() else {
        return false;
    };
    let order = &read.order;
    // Once it has been announced, its complete-by is later.
    let starts = order.start_at.is_some() && order.complete_by() == order.start_at;
    let is_parked = |state: &StepState| matches!(state.work(), Some(Work::Parked { .. }));
    let mut steps = order.steps.iter().zip(&next.steps);
    next.outbox.entries.contains(&Emission::Wake)
        && (starts || steps.any(|(was, is)| is_parked(&was.state) && !is_parked(&is.state)))
}
