//! The deadline of a whole order: the pattern's "time by which the order must be processed".
//!
//! Beyond it an order is compensated. Where its point of no return may have happened it cannot be: it
//! goes on as before, late, and operators are alerted, once.
//!
//! The deadline is that of the first run: an operator who sets a finished order going again has
//! decided that it is done late.

use crate::context::Context;
use crate::doubt::{has_passed, stops_compensation};
use crate::ids::Timestamp;
use crate::order::{Order, ProcessState};

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
    let is_known = order.run > 0 || order.late_since.is_some();
    if !is_running || is_known || order.paused.is_some() {
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
