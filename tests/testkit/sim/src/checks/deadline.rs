//! Checks of orders that have missed their deadline.

use triad_core::message::AlertKind;
use triad_core::order::Incident;
use triad_core::outbox::{Emission, Writer};
use triad_core::{Order, ProcessState, StepState, Timestamp};
use triad_workflow::{Millis, Workflow};

use crate::definitions::TIMING;
use crate::world::State;

impl State {
    /// The Supervisor must compensate an order after its deadline, or mark it as late. While an effect that may not
    /// be repeated is in doubt, it waits.
    pub(super) fn check_order_deadline(
        &mut self,
        before: &Order,
        after: &Order,
        workflow: &Workflow,
    ) {
        if before.late_since.is_none()
            && let (Some(since), Some(_)) = (after.late_since, after.deadline)
        {
            let id = format!("{}/Late/{}", after.id, since.0);
            let cause = "the order has not finished by its deadline";
            let cause = format!("timed-out/order-deadline: {cause}");
            self.history
                .alerts
                .insert(id, (AlertKind::OrderLate, cause));
        }
        let is_running = |o: &Order| {
            matches!(
                o.state,
                ProcessState::Pending { .. } | ProcessState::Processing(_)
            )
        };
        let is_done = before.steps.iter().all(|step| step.state.is_done());
        let is_for_it = |o: &Order| o.state.cause().is_some_and(|c| c.code == "order-deadline");
        if is_for_it(after) && !is_for_it(before) {
            self.kernel.coverage.reach("deadline: missed, compensated");
            let name = "work-that-is-done-misses-no-deadline";
            self.kernel.check(name, !is_done, || after.id.to_string());
        }
        if self.setup.wild_clocks
            || is_done
            || after.outbox.writer != Writer::Supervisor
            || !is_running(before)
            || before.run > 0
            || before.paused.is_some()
            || before.set_aside.is_some()
        {
            return;
        }
        let decided = decided_at(before, after, rest_at_most(self));
        let is_missed = before
            .deadline
            .is_some_and(|at| decided.is_some_and(|now| now >= at.plus(TIMING.skew)));
        if !is_missed {
            return;
        }
        let waits =
            before.steps.iter().zip(&workflow.steps).any(|(s, step)| {
                matches!(s.state, StepState::Acting(_)) && !step.is_safe_to_repeat()
            });
        let is_acted_on = !is_running(after) || after.late_since.is_some() || waits;
        let now = self.kernel.now;
        self.kernel
            .check("g9-a-missed-deadline-is-acted-on", is_acted_on, || {
                format!("{} at {now}: {:?}", after.id, after.deadline)
            });
    }
}

/// Longest time until an order's next wake: it may come after the wakes of all other orders, which may be repeated.
fn rest_at_most(state: &State) -> Millis {
    let orders = state.sent.orders.len() as u64;
    Millis(TIMING.announce_within.0 + 8 * orders * state.setup.announce_apart().0)
}

/// The time at which a write was decided, by the Supervisor's clock, if the write shows it; the result is never too
/// late. The write itself may have come long after.
fn decided_at(before: &Order, after: &Order, rest: Millis) -> Option<Timestamp> {
    let new = |i: &&Incident| !before.incidents.contains(i);
    let noted = after.incidents.iter().filter(new).map(|i| i.at).max();
    let asked = match &after.state {
        ProcessState::Pending {
            complete_by: Some(at),
        } if after.outbox.entries.contains(&Emission::Wake) => Some(at.minus(rest)),
        _ => None,
    };
    noted.or(asked)
}
