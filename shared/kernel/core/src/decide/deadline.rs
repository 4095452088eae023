//! The deadline of a whole order: the pattern's "time by which the order must be processed".
//!
//! After the deadline the order is compensated. If its point of no return may have happened, it cannot be
//! compensated: it continues, late, and operators get one alert.
//!
//! Only the first run has a deadline: an operator who starts a new run of a finished order accepts that it finishes
//! late.

use crate::context::Context;
use crate::doubt::{has_passed, stops_compensation};
use crate::ids::Timestamp;
use crate::order::{Order, ProcessState};

/// When the Supervisor must check an order because of its deadline; `None` if it need not at any time.
///
/// It need not once every step is done: what is left then is to compensate ways that were let go, and work that is done is
/// not compensated for that. Nor while an operator has paused the order, nor while an effect is in doubt that may not be repeated: its
/// attempt ends at its own complete-by, and only then is it known whether the order can be compensated.
pub(super) fn due(ctx: &Context<'_>, order: &Order) -> Option<Timestamp> {
    let is_running = matches!(
        order.state,
        ProcessState::Pending { .. } | ProcessState::Processing(_)
    );
    let is_known = order.run > 0 || order.late_since.is_some();
    let is_done = order.steps.iter().all(|record| record.state.is_done());
    if !is_running || is_known || is_done || order.paused.is_some() {
        return None;
    }
    let mut steps = order.steps.iter().zip(&ctx.workflow.steps);
    let waits = steps.any(|(record, step)| stops_compensation(record, step));
    order
        .deadline
        .filter(|_| is_past_return(ctx, order) || !waits)
}

/// Whether the point of no return may have happened.
pub(super) fn is_past_return(ctx: &Context<'_>, order: &Order) -> bool {
    let pivot = ctx.workflow.pivot();
    pivot.is_some_and(|pivot| has_passed(&order.steps[pivot], &ctx.workflow.steps[pivot]))
}
