//! The order's complete-by, and the moment at which the Supervisor must check the order.

use super::deadline;
use crate::context::Context;
use crate::ids::Timestamp;
use crate::order::{Order, ProcessState};
use crate::step::StepRecord;

/// Sets the order's complete-by to the earliest moment that a step waits for (request out, deferred or delayed), or
/// to now if a failure is not counted yet. Unchanged if there is none of these, and for a finished order.
///
/// While the order is unclaimed its complete-by is only ever moved earlier, because it also bounds the wait for a
/// claim.
pub(super) fn set_complete_by(order: &mut Order, now: Timestamp) {
    let Some(earliest) = earliest(order, now) else {
        return;
    };
    match &mut order.state {
        ProcessState::Processing(claim) => claim.complete_by = earliest,
        ProcessState::Pending { complete_by } => {
            *complete_by = Some(complete_by.map_or(earliest, |at| at.min(earliest)));
        }
        ProcessState::Compensating {
            locked_by,
            complete_by,
            ..
        } => {
            *complete_by = match locked_by {
                Some(_) => earliest,
                None => earliest.min(*complete_by),
            };
        }
        ProcessState::Processed { .. }
        | ProcessState::Error { .. }
        | ProcessState::Compensated { .. }
        | ProcessState::CompensationFailed { .. } => {}
    }
}

/// The earliest moment that a step waits for; now, if a failure is not counted yet. `None` if there is neither.
pub(super) fn earliest(order: &Order, now: Timestamp) -> Option<Timestamp> {
    let moments = order
        .steps
        .iter()
        .filter_map(|record| match record.state.is_failed() {
            true => Some(now),
            false => record.awaited_until(),
        });
    moments.min()
}

/// When an order may start, if that lies ahead on every clock: until then no step starts.
pub(super) fn starts_later(ctx: &Context<'_>, order: &Order, now: Timestamp) -> Option<Timestamp> {
    order.start_at.filter(|at| *at > now.plus(ctx.timing.skew))
}

/// When the Supervisor must check an order if no event comes before; `None` if it need not. For an order that is set
/// aside, the moment since when it waits, so that the oldest comes first.
#[must_use]
pub fn true_due(ctx: &Context<'_>, order: &Order) -> Option<Timestamp> {
    if order.set_aside.is_some() {
        return order.set_aside;
    }
    let own = match &order.state {
        ProcessState::Pending { complete_by: None } => {
            order.submitted_at.plus(ctx.timing.announce_within)
        }
        ProcessState::Pending {
            complete_by: Some(at),
        } => *at,
        ProcessState::Processing(claim) => claim.complete_by,
        ProcessState::Compensating { complete_by, .. } => *complete_by,
        // A processed order needs no confirmation: the reply that ended it is acknowledged only when the last status
        // is sent, and redelivered otherwise. (The exception is an order that its claim ended; the claim handles it.)
        ProcessState::Processed { .. } => return None,
        ProcessState::Error { at, .. }
        | ProcessState::Compensated { at, .. }
        | ProcessState::CompensationFailed { at, .. } => {
            return Some(at.plus(ctx.timing.confirm_within));
        }
    };
    let awaited = order.steps.iter().filter_map(StepRecord::awaited_until);
    let awaited = awaited.chain(deadline::due(ctx, order));
    Some(awaited.fold(own, Timestamp::min))
}
