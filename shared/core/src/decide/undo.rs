//! Undoing an order: compensations, one after the other, in the reverse order of completion.
//!
//! Ambiguous steps, which may have been applied after all that is known to be, come first. The
//! remote service's contract makes undoing them safe: a compensation that arrives first leaves
//! a tombstone, and the forward call, should it land later, has no effect.

use triad_workflow::StepIndex;

use super::{Decision, Illegal, Reason, forward, input, next_version, tell, transition};
use crate::context::Context;
use crate::failure::{Failure, FailureKind};
use crate::ids::{Attempt, ClaimId, Direction, Timestamp};
use crate::message::{Outcome, Reply};
use crate::order::{Applied, Incident, IncidentKind, Order, ProcessState, StepState};
use crate::outbox::{Emission, Writer};
use crate::status::Status;

/// Turns an order round: what may have been applied is to be undone.
///
/// Written by the Scheduler, the first undo starts in the same write. Written by the
/// Supervisor, which starts nothing, the order waits for a claim.
pub(super) fn begin(ctx: &Context<'_>, order: &mut Order, cause: Failure, now: Timestamp) {
    let by_scheduler = order.outbox.writer == Writer::Scheduler;
    let locked_by = order.state.locked_by().filter(|_| by_scheduler).cloned();
    super::void_requests(order);
    for (index, record) in order.steps.iter_mut().enumerate() {
        let undoable = ctx.workflow.steps[index].compensation.is_some();
        let state = std::mem::replace(&mut record.state, StepState::Waiting);
        record.state = turned(state, undoable);
    }
    tell(order, Status::Compensating, Some(&cause), now);
    order.note(Incident {
        at: now,
        what: IncidentKind::UndoBegan,
        attempt: None,
        failure: Some(cause.clone()),
    });
    let claimed = locked_by.is_some();
    order.state = ProcessState::Compensating {
        locked_by,
        complete_by: now.plus(ctx.timing.announce_within),
        cause,
    };
    if claimed {
        advance(ctx, order, now);
    } else {
        order.outbox.entries.push(Emission::Retry);
    }
}

/// What becomes of a step when its order turns round.
fn turned(state: StepState, undoable: bool) -> StepState {
    match state {
        StepState::Completed {
            position, output, ..
        } if undoable => StepState::UndoDue {
            attempt: Attempt(0),
            applied: Applied {
                position: Some(position),
                output,
            },
        },
        StepState::Running { attempt, .. }
        | StepState::Failed { attempt }
        | StepState::RetryDue { attempt } => {
            if undoable {
                StepState::UndoDue {
                    attempt: Attempt(0),
                    applied: Applied {
                        position: None,
                        output: serde_json::Value::Null,
                    },
                }
            } else {
                StepState::Ambiguous { attempt }
            }
        }
        other => other,
    }
}

/// A Scheduler takes up an order that waits to be undone.
pub(super) fn claim(ctx: &Context<'_>, order: &Order, id: ClaimId, now: Timestamp) -> Decision {
    let mut next = next_version(order, Writer::Scheduler);
    if let ProcessState::Compensating { locked_by, .. } = &mut next.state {
        *locked_by = Some(id);
    }
    advance(ctx, &mut next, now);
    transition(ctx, next, now)
}

/// An agent answers an undo request.
pub(super) fn reply(
    ctx: &Context<'_>,
    order: &Order,
    reply: &Reply,
    now: Timestamp,
) -> Result<Decision, Illegal> {
    let index = forward::step_of(ctx, reply)?;
    let StepState::Undoing {
        attempt,
        complete_by,
        ref applied,
        ..
    } = order.steps[index].state
    else {
        return Ok(Decision::Ignore(Reason::NotAwaited));
    };
    if reply.direction != Direction::Undo {
        return Ok(Decision::Ignore(Reason::NotAwaited));
    }
    if let Some(reason) = forward::fence(reply, attempt, complete_by, now)? {
        return Ok(Decision::Ignore(reason));
    }
    let mut next = next_version(order, Writer::Scheduler);
    next.steps[index].calls = next.steps[index].calls.saturating_add(reply.calls);
    match &reply.outcome {
        Outcome::Succeeded { .. } => {
            next.steps[index].state = StepState::Undone {
                attempt,
                finished: now,
            };
            advance(ctx, &mut next, now);
        }
        Outcome::Failed { failure, .. } => {
            let failure = failure.clone().in_step(&reply.step);
            next.steps[index].error = Some(failure);
            next.steps[index].state = StepState::UndoFailed {
                attempt,
                applied: applied.clone(),
            };
            set_complete_by(&mut next, now);
        }
    }
    Ok(transition(ctx, next, now))
}

/// Starts the next undo if none is out; finishes the order when none is left.
fn advance(ctx: &Context<'_>, order: &mut Order, now: Timestamp) {
    let busy = order.steps.iter().any(|s| {
        matches!(
            s.state,
            StepState::Undoing { .. } | StepState::UndoFailed { .. }
        )
    });
    if busy {
        return;
    }
    match next_to_undo(order) {
        Some(index) => start(ctx, order, index, now),
        None => finish(order, now),
    }
}

/// Ambiguous steps first, the last of the workflow foremost; then the last completed.
fn next_to_undo(order: &Order) -> Option<StepIndex> {
    order
        .steps
        .iter()
        .enumerate()
        .filter_map(|(index, s)| match &s.state {
            StepState::UndoDue { applied, .. } => {
                Some(((applied.position.is_none(), applied.position, index), index))
            }
            _ => None,
        })
        .max_by_key(|(rank, _)| *rank)
        .map(|(_, index)| index)
}

fn start(ctx: &Context<'_>, order: &mut Order, index: StepIndex, now: Timestamp) {
    if let Err(e) = input::undo(ctx, order, index) {
        let failure = Failure::new(FailureKind::Definition, "expression", &e.to_string())
            .in_step(&order.steps[index].step);
        fail(order, failure, now);
        return;
    }
    let Some(compensation) = &ctx.workflow.steps[index].compensation else {
        return;
    };
    let until = now.plus(compensation.complete_within);
    let record = &mut order.steps[index];
    let StepState::UndoDue { attempt, applied } = record.state.clone() else {
        return;
    };
    let attempt = attempt.next();
    record.state = StepState::Undoing {
        attempt,
        started: now,
        complete_by: until,
        applied,
    };
    order.outbox.entries.push(Emission::Request {
        step: record.step.clone(),
        direction: Direction::Undo,
        attempt,
    });
    set_complete_by(order, until);
}

fn set_complete_by(order: &mut Order, at: Timestamp) {
    if let ProcessState::Compensating { complete_by, .. } = &mut order.state {
        *complete_by = at;
    }
}

fn finish(order: &mut Order, now: Timestamp) {
    let Some(cause) = order.state.cause().cloned() else {
        return;
    };
    tell(order, Status::Compensated, Some(&cause), now);
    order.state = ProcessState::Compensated { at: now, cause };
}

/// The undo cannot be finished without an operator.
pub(super) fn fail(order: &mut Order, cause: Failure, now: Timestamp) {
    tell(order, Status::CompensationFailed, Some(&cause), now);
    order.outbox.entries.push(Emission::Alert);
    order.state = ProcessState::CompensationFailed { at: now, cause };
}
