//! When an order must have got on: its own complete-by, and when somebody must look at it.

use super::deadline;
use crate::context::Context;
use crate::ids::Timestamp;
use crate::order::{Order, ProcessState};

/// Sets the order's complete-by: the earliest of what is out, deferred or delayed; now, if a failure waits to
/// be counted. Without any of these, and at an end, it is left as it is.
///
/// Of an order that nobody holds it is only ever moved earlier: it also says by when somebody must
/// have taken the order up.
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

/// The earliest moment that a step waits for; now, if a failure waits to be counted. `None` if there is neither.
pub(super) fn earliest(order: &Order, now: Timestamp) -> Option<Timestamp> {
    let moments = order
        .steps
        .iter()
        .filter_map(|record| match record.state.is_failed() {
            true => Some(now),
            false => record.state.awaited_until(),
        });
    moments.min()
}

/// When the Supervisor must look at an order if nothing happens to it before; `None` if it need not. For an
/// order that is set aside it is the moment since when the order waits, so that the oldest comes first.
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
        // The Scheduler's last word on a good order needs no confirmation: the reply that ended it is
        // acknowledged only when the message is out, and redelivered otherwise. (One that its claim
        // has ended is an exception, which the claim makes.)
        ProcessState::Processed { .. } => return None,
        ProcessState::Error { at, .. }
        | ProcessState::Compensated { at, .. }
        | ProcessState::CompensationFailed { at, .. } => {
            return Some(at.plus(ctx.timing.confirm_within));
        }
    };
    let awaited = order.steps.iter().filter_map(|s| s.state.awaited_until());
    let awaited = awaited.chain(deadline::due(ctx, order));
    Some(awaited.fold(own, Timestamp::min))
}
