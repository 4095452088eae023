//! What is counted from the logs: a JSON line with one of these in its field `metric` is one
//! count. Alarms are made on these names; nothing else in a log line is a contract.

use triad_core::{Order, ProcessState};

/// An order stopped in Error.
pub const ORDER_ERROR: &str = "OrderError";
/// An order is half compensated.
pub const COMPENSATION_FAILED: &str = "CompensationFailed";
/// A record was dead-lettered.
pub const DEAD_LETTER: &str = "DeadLetter";
/// An order was not accepted, because too many are in flight.
pub const ORDER_REJECTED: &str = "OrderRejected";
/// A circuit breaker has opened.
pub const BREAKER_OPEN: &str = "BreakerOpen";
/// A sweep of the Supervisor has ended.
pub const SWEEP_DONE: &str = "SweepDone";
/// An invariant does not hold: a fault of the software.
pub const INVARIANT_BREACH: &str = "InvariantBreach";

/// Says that a write has ended an order badly.
pub(crate) fn ended(before: &Order, after: &Order) {
    if before.state.is_finished() {
        return;
    }
    let metric = match &after.state {
        ProcessState::Error { .. } => ORDER_ERROR,
        ProcessState::CompensationFailed { .. } => COMPENSATION_FAILED,
        _ => return,
    };
    let cause = after.state.cause().map(ToString::to_string);
    tracing::info!(metric, order = %after.id, workflow = %after.workflow, cause, "order needs an operator");
}
