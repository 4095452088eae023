//! What is counted from the logs: a JSON line with one of these in its field `metric` is one
//! count. Alarms are made on these names; nothing else in a log line is a contract.

use triad_core::{Order, ProcessState};

/// Value of the log field `metric`: an order has stopped in state Error. One line each time that an
/// order does.
pub const ORDER_ERROR: &str = "OrderError";
/// Value of the log field `metric`: an order has stopped in state CompensationFailed, half
/// compensated. One line each time that an order does.
pub const COMPENSATION_FAILED: &str = "CompensationFailed";
/// Value of the log field `metric`: a record is being sent to the topic `dead-letter`. One line for
/// each try, so a record that is delivered again counts again.
pub const DEAD_LETTER: &str = "DeadLetter";
/// Value of the log field `metric`: a submission was rejected, because it had waited too long while
/// too many orders were in flight. One line for each rejection.
pub const ORDER_REJECTED: &str = "OrderRejected";
/// Value of the log field `metric`: a downstream's circuit breaker has opened. One line by the
/// process that tells of it; a crash in between may make it two.
pub const BREAKER_OPEN: &str = "BreakerOpen";
/// Value of the log field `metric`: a sweep of the Supervisor has ended, and every shard was read to
/// its end. One line for each such sweep; a worker writes it at level `debug` if
/// nothing was due and nothing failed. That no such line comes is the alarm.
pub const SWEEP_DONE: &str = "SweepDone";
/// Value of the log field `metric`: a handler cannot go on until somebody mends the installation. One
/// line in ten minutes for each handler of each process, while it lasts.
pub const MISCONFIGURED: &str = "Misconfigured";
/// Value of the log field `metric`: an invariant does not hold, which is a fault of the software.
/// One line for each breach.
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
