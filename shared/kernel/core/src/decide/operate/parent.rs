//! Compensation of a child order because its parent is compensated.

use super::compensate_order;
use crate::children::{ChildEnd, Parent};
use crate::context::Context;
use crate::decide::{Decision, Halt, Reason, children, next_version, transition};
use crate::failure::{Failure, FailureKind};
use crate::ids::Timestamp;
use crate::order::{OperatorAct, Order, ProcessState};
use crate::outbox::Writer;

/// Decides that a child order is compensated, because its parent is. It tells its parent what has become of it.
pub(in super::super) fn parent_compensated(
    ctx: &Context<'_>,
    order: &Order,
    parent: &Parent,
    now: Timestamp,
) -> Result<Decision, Halt> {
    if order.parent.as_deref() != Some(parent) {
        return Ok(Decision::Ignore(Reason::NotAwaited));
    }
    let act = OperatorAct::new(
        "triad",
        &format!("its parent order {} has it compensated", parent.order_id),
    );
    match &order.state {
        ProcessState::Compensating { .. } => return Ok(Decision::Ignore(Reason::Repeated)),
        ProcessState::Compensated { .. } => return Ok(children::tell(ctx, order, now)?),
        ProcessState::CompensationFailed { .. } if order.closed.is_some() => {
            return Ok(children::tell(ctx, order, now)?);
        }
        ProcessState::CompensationFailed { .. } => return Ok(Decision::Ignore(Reason::Finished)),
        _ => {}
    }
    match compensate_order(ctx, order, &act, now) {
        Ok(next) => Ok(transition(ctx, next, now)),
        Err(Halt::Refused(why)) => {
            let mut next = next_version(order, Writer::Scheduler);
            let cause = Failure::new(
                FailureKind::Permanent,
                "past-point-of-no-return",
                &why.to_string(),
            );
            children::put(&mut next, ChildEnd::Kept { cause });
            Ok(transition(ctx, next, now))
        }
        Err(halt) => Err(halt),
    }
}
