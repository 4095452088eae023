//! Running an order: the claim, starting what is ready, taking replies.

use triad_workflow::StepIndex;

use super::{Decision, Illegal, Reason, give_up, input, next_version, tell, transition};
use crate::context::Context;
use crate::failure::{Failure, FailureKind};
use crate::ids::{Attempt, ClaimId, Direction, Timestamp};
use crate::message::{Outcome, Reply};
use crate::order::{Claim, Incident, IncidentKind, Order, ProcessState, StepState};
use crate::outbox::{Emission, Writer};
use crate::status::Status;

/// A Scheduler takes the order up: due retries first, then whatever is ready.
pub(super) fn claim(ctx: &Context<'_>, order: &Order, id: ClaimId, now: Timestamp) -> Decision {
    let mut next = next_version(order, Writer::Scheduler);
    next.state = ProcessState::Processing(Claim {
        locked_by: id,
        complete_by: now,
    });
    if next.sequence == 1 {
        tell(&mut next, Status::Started, None, now);
    }
    for index in 0..next.steps.len() {
        if let StepState::RetryDue { attempt } = next.steps[index].state
            && !start(ctx, &mut next, index, attempt, now)
        {
            return transition(ctx, next, now);
        }
    }
    advance(ctx, &mut next, now);
    transition(ctx, next, now)
}

/// An agent answers a request of an order that is not being undone.
pub(super) fn reply(
    ctx: &Context<'_>,
    order: &Order,
    reply: &Reply,
    now: Timestamp,
) -> Result<Decision, Illegal> {
    let index = step_of(ctx, reply)?;
    let StepState::Running {
        attempt,
        started,
        complete_by,
    } = order.steps[index].state
    else {
        return Ok(Decision::Ignore(Reason::NotAwaited));
    };
    if reply.direction != Direction::Forward {
        return Ok(Decision::Ignore(Reason::NotAwaited));
    }
    match fence(reply, attempt, complete_by, now)? {
        None => {}
        // It changes nothing but the version. The same reply may have been taken in time by a
        // Scheduler that has died or lost its partition, and whose write is still on its way:
        // landing after this reply was acknowledged it could finish the order with nobody left
        // to say so. Now it conflicts instead.
        Some(Reason::Late) => {
            let next = next_version(order, Writer::Scheduler);
            return Ok(transition(ctx, next, now));
        }
        Some(reason) => return Ok(Decision::Ignore(reason)),
    }
    let mut next = next_version(order, Writer::Scheduler);
    next.steps[index].calls = next.steps[index].calls.saturating_add(reply.calls);
    match &reply.outcome {
        Outcome::Succeeded { output } => {
            next.steps[index].state = StepState::Completed {
                attempt,
                started,
                finished: now,
                position: next_position(&next),
                output: output.clone(),
            };
            advance(ctx, &mut next, now);
        }
        Outcome::Failed {
            failure,
            maybe_applied,
        } => failed(ctx, &mut next, index, failure, *maybe_applied, now),
    }
    Ok(transition(ctx, next, now))
}

/// The step that a reply is about.
pub(super) fn step_of(ctx: &Context<'_>, reply: &Reply) -> Result<StepIndex, Illegal> {
    ctx.workflow
        .step_index(reply.step.as_str())
        .ok_or_else(|| Illegal::UnknownStep(reply.step.to_string()))
}

/// Whether a reply is for the running attempt and in time; otherwise why it changes nothing.
pub(super) fn fence(
    reply: &Reply,
    attempt: Attempt,
    complete_by: Timestamp,
    now: Timestamp,
) -> Result<Option<Reason>, Illegal> {
    if reply.attempt > attempt {
        return Err(Illegal::FutureAttempt {
            step: reply.step.to_string(),
            attempt: reply.attempt.0,
        });
    }
    Ok(
        if reply.attempt < attempt || reply.complete_by != complete_by {
            Some(Reason::OlderAttempt)
        } else if now > complete_by {
            Some(Reason::Late)
        } else {
            None
        },
    )
}

/// A failure that the agent reported.
///
/// A permanent one ends the matter at once. Others wait for the Supervisor to count them: it
/// alone decides about further attempts.
fn failed(
    ctx: &Context<'_>,
    order: &mut Order,
    index: StepIndex,
    failure: &Failure,
    maybe_applied: bool,
    now: Timestamp,
) {
    let failure = failure.clone().in_step(&order.steps[index].step);
    let record = &mut order.steps[index];
    let StepState::Running { attempt, .. } = record.state else {
        return;
    };
    record.error = Some(failure.clone());
    if failure.kind == FailureKind::Permanent {
        // An earlier attempt that was silent may have been applied, whatever this one says.
        let clean = !maybe_applied && record.failures == 0;
        record.failures += 1;
        record.state = if clean {
            StepState::Refused { attempt }
        } else {
            StepState::Failed { attempt }
        };
        order.note(Incident {
            at: now,
            what: IncidentKind::AttemptFailed,
            attempt: Some(attempt),
            failure: Some(failure.clone()),
        });
        give_up(ctx, order, index, failure, now);
    } else {
        record.state = StepState::Failed { attempt };
        set_complete_by(order, now);
    }
}

/// Starts every step whose predecessors are done; finishes the order when there are none left.
fn advance(ctx: &Context<'_>, order: &mut Order, now: Timestamp) {
    if !matches!(order.state, ProcessState::Processing(_)) {
        // Released by the Supervisor while this step ran on: the next claim goes on from here.
        return;
    }
    for index in 0..order.steps.len() {
        let defined = &ctx.workflow.steps[index];
        let ready = order.steps[index].state == StepState::Waiting
            && defined
                .after
                .iter()
                .all(|&a| order.steps[a].state.is_done());
        if !ready {
            continue;
        }
        let wanted = match &defined.when {
            None => Ok(true),
            Some(condition) => condition.holds(&input::scope(ctx, order, None)),
        };
        match wanted {
            // Steps are in an order in which each comes after its predecessors, so what skipping
            // makes ready is met later in this same pass.
            Ok(false) => order.steps[index].state = StepState::Skipped,
            Ok(true) => {
                if !start(ctx, order, index, Attempt(0), now) {
                    return;
                }
            }
            Err(e) => {
                undefined(ctx, order, index, &e.to_string(), now);
                return;
            }
        }
    }
    if order.steps.iter().all(|s| s.state.is_done()) {
        tell(order, Status::Completed, None, now);
        order.state = ProcessState::Processed { at: now };
    } else {
        set_complete_by(order, now);
    }
}

/// Starts the attempt after `last`; false if the order has been given up over it.
fn start(
    ctx: &Context<'_>,
    order: &mut Order,
    index: StepIndex,
    last: Attempt,
    now: Timestamp,
) -> bool {
    if let Err(e) = input::forward(ctx, order, index) {
        undefined(ctx, order, index, &e.to_string(), now);
        return false;
    }
    let attempt = last.next();
    let record = &mut order.steps[index];
    record.state = StepState::Running {
        attempt,
        started: now,
        complete_by: now.plus(ctx.workflow.steps[index].complete_within),
    };
    order.outbox.entries.push(Emission::Request {
        step: record.step.clone(),
        direction: Direction::Forward,
        attempt,
    });
    true
}

/// An expression has no value for this order: no attempt can change that.
fn undefined(
    ctx: &Context<'_>,
    order: &mut Order,
    index: StepIndex,
    message: &str,
    now: Timestamp,
) {
    let failure = Failure::new(FailureKind::Definition, "expression", message)
        .in_step(&order.steps[index].step);
    order.steps[index].error = Some(failure.clone());
    order.note(Incident {
        at: now,
        what: IncidentKind::AttemptFailed,
        attempt: None,
        failure: Some(failure.clone()),
    });
    give_up(ctx, order, index, failure, now);
}

/// The order's complete-by: the earliest of what runs; now, if a failure waits to be counted.
fn set_complete_by(order: &mut Order, now: Timestamp) {
    let earliest = order
        .steps
        .iter()
        .filter_map(|s| match s.state {
            StepState::Running { complete_by, .. } => Some(complete_by),
            StepState::Failed { .. } => Some(now),
            _ => None,
        })
        .min();
    let Some(earliest) = earliest else { return };
    match &mut order.state {
        ProcessState::Processing(claim) => claim.complete_by = earliest,
        ProcessState::Pending { complete_by } => {
            *complete_by = Some(complete_by.map_or(earliest, |c| c.min(earliest)));
        }
        ProcessState::Processed { .. }
        | ProcessState::Error { .. }
        | ProcessState::Compensating { .. }
        | ProcessState::Compensated { .. }
        | ProcessState::CompensationFailed { .. } => {}
    }
}

fn next_position(order: &Order) -> u32 {
    order
        .steps
        .iter()
        .filter_map(|s| match s.state {
            StepState::Completed { position, .. } => Some(position + 1),
            _ => None,
        })
        .max()
        .unwrap_or(0)
}
