//! The deadline of a whole order: the pattern's "time by which the order must be processed".
//!
//! Beyond it an order is compensated. Where its point of no return may have happened it cannot be: it
//! goes on as before, late, and operators are alerted, once.
//!
//! The deadline is that of the first round: an operator who sets a finished order going again has
//! decided that it is done late.

use super::{Draft, compensate, operate};
use crate::context::{Context, NeedsDetails};
use crate::doubt::stops_compensation;
use crate::failure::{Failure, FailureKind};
use crate::ids::Timestamp;
use crate::message::AlertKind;
use crate::order::{Incident, IncidentKind, Order, ProcessState};
use crate::outbox::Emission;

/// When the Supervisor must look at an order because of its deadline; `None` if it need not, whatever
/// the time.
///
/// It need not while an operator holds the order, nor while an effect is in doubt that may not be
/// repeated: its attempt ends at its own complete-by, and whether the order can be compensated is
/// known only then.
pub(super) fn due(ctx: &Context<'_>, order: &Order) -> Option<Timestamp> {
    let is_running = matches!(
        order.state,
        ProcessState::Pending { .. } | ProcessState::Processing(_)
    );
    let is_known = order.round > 0 || order.late_since.is_some();
    if !is_running || is_known || order.paused.is_some() {
        return None;
    }
    let mut steps = order.steps.iter().zip(&ctx.workflow.steps);
    let waits = steps.any(|(record, step)| stops_compensation(record, step));
    order
        .deadline
        .filter(|_| is_past_return(ctx, order) || !waits)
}

/// What becomes of an order that has missed its deadline: it is being compensated, or late. Whether
/// the decision ends with that: a late order goes on.
pub(super) fn miss(
    ctx: &Context<'_>,
    order: &mut Draft,
    now: Timestamp,
) -> Result<bool, NeedsDetails> {
    let cause = Failure::new(
        FailureKind::TimedOut,
        "order-deadline",
        "the order has not finished by its deadline",
    );
    if !is_past_return(ctx, order) {
        compensate::begin(ctx, order, cause, now)?;
        return Ok(true);
    }
    order.late_since = Some(now);
    order.note(Incident::new(IncidentKind::Late, now).of(&cause));
    order.outbox.entries.push(Emission::Alert {
        kind: AlertKind::OrderLate,
        at: now,
        cause,
    });
    Ok(false)
}

/// Whether the point of no return may have happened.
fn is_past_return(ctx: &Context<'_>, order: &Order) -> bool {
    let pivot = ctx.workflow.pivot();
    pivot.is_some_and(|pivot| operate::has_passed(&order.steps[pivot], &ctx.workflow.steps[pivot]))
}
