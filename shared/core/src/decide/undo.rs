//! Undoing an order: compensations, in the reverse order of completion.
//!
//! A step is undone when everything that came after it has been undone; steps that the workflow
//! lets run in parallel are undone in parallel. Steps that may have been applied without
//! anybody's having heard of it are undone too: the remote service's contract makes that safe,
//! for a compensation that arrives first leaves a tombstone, and the forward call, should it
//! land later, has no effect.

use triad_workflow::{Step, StepIndex};

use super::{Decision, Draft, Halt, Reason, input, next_version, replies, tell, transition};
use crate::budget;
use crate::context::{Context, NeedsDetails};
use crate::doubt::{self, Happened, happened};
use crate::failure::{Failure, FailureKind};
use crate::ids::{Attempt, ClaimId, Direction, Timestamp};
use crate::message::{AlertKind, Outcome, Reply};
use crate::order::{Applied, Incident, IncidentKind, Order, ProcessState, StepRecord, StepState};
use crate::outbox::{Emission, Writer};
use crate::planted::{Bug, planted};
use crate::status::Status;

/// Turns an order round: what may have been applied is to be undone.
///
/// Written by the Scheduler, the first undo starts in the same write. Written by somebody who
/// starts nothing, the order waits for a claim.
pub(super) fn begin(
    ctx: &Context<'_>,
    order: &mut Draft,
    cause: Failure,
    now: Timestamp,
) -> Result<(), NeedsDetails> {
    let by_scheduler = order.outbox.writer == Writer::Scheduler;
    let locked_by = order.state.locked_by().filter(|_| by_scheduler).cloned();
    order.void_requests();
    for (record, step) in order.steps.iter_mut().zip(&ctx.workflow.steps) {
        turn(record, step);
    }
    tell(order, Status::Compensating, Some(&cause), now);
    order.note(Incident::new(IncidentKind::UndoBegan, now).of(&cause));
    let claimed = locked_by.is_some();
    order.state = ProcessState::Compensating {
        locked_by,
        complete_by: now.plus(ctx.timing.announce_within),
        cause,
    };
    if claimed {
        advance(ctx, order, now)?;
    } else {
        super::ask(order);
    }
    Ok(())
}

/// What becomes of a step when its order turns round.
fn turn(record: &mut StepRecord, step: &Step) {
    let undoable = step.compensation.is_some();
    let last = Attempt(record.earlier_undos);
    record.parked_since = None;
    record.unheard_since = None;
    if let Some(attempt) = record.state.attempt() {
        record.earlier = attempt.0;
    }
    doubt::abandon(record);
    let in_doubt = happened(record, step) == Happened::Maybe && !planted(Bug::DoubtNotUndone);
    let state = std::mem::replace(&mut record.state, StepState::Waiting);
    record.state = match state {
        StepState::Completed {
            position, output, ..
        } if undoable => StepState::UndoDue {
            attempt: last,
            applied: applied(Some(position), output),
        },
        StepState::Running { attempt, .. }
        | StepState::Probing { attempt, .. }
        | StepState::Parked { attempt, .. }
        | StepState::Failed { attempt, .. }
        | StepState::RetryDue { attempt } => {
            match (in_doubt, undoable, step.repeat.is_safe()) {
                (false, _, _) => StepState::Refused { attempt },
                (true, false, _) => StepState::Ambiguous { attempt },
                (true, true, true) => StepState::UndoDue {
                    attempt: last,
                    applied: applied(None, serde_json::Value::Null),
                },
                // Its service has not promised to know a key again: for an operator.
                (true, true, false) => {
                    record.error = Some(doubt::failure(record));
                    StepState::NotUndone {
                        attempt: last,
                        applied: applied(None, serde_json::Value::Null),
                    }
                }
            }
        }
        other => other,
    };
}

fn applied(position: Option<u32>, output: serde_json::Value) -> Applied {
    Applied { position, output }
}

/// A Scheduler takes up an order that waits to be undone.
pub(super) fn claim(
    ctx: &Context<'_>,
    order: &Order,
    id: ClaimId,
    now: Timestamp,
) -> Result<Decision, NeedsDetails> {
    let mut next = next_version(order, Writer::Scheduler);
    if let ProcessState::Compensating { locked_by, .. } = &mut next.state {
        *locked_by = Some(id);
    }
    advance(ctx, &mut next, now)?;
    Ok(transition(ctx, next, now))
}

/// An agent answers an undo request.
pub(super) fn reply(
    ctx: &Context<'_>,
    order: &Order,
    reply: &Reply,
    now: Timestamp,
) -> Result<Decision, Halt> {
    let index = replies::step_of(ctx, reply)?;
    let StepState::Undoing {
        attempt,
        started,
        complete_by,
        ref applied,
    } = order.steps[index].state
    else {
        return Ok(Decision::Ignore(Reason::NotAwaited));
    };
    if reply.direction != Direction::Undo {
        return Ok(Decision::Ignore(Reason::NotAwaited));
    }
    if let Some(reason) = replies::fence(reply, attempt, complete_by, now)? {
        return Ok(Decision::Ignore(reason));
    }
    let mut next = next_version(order, Writer::Scheduler);
    let record = &mut next.steps[index];
    if replies::spends_calls(ctx, reply, index) {
        record.undo_calls = record.undo_calls.saturating_add(reply.calls);
    }
    record.unheard_since = None;
    match &reply.outcome {
        Outcome::Succeeded { .. } => {
            record.state = StepState::Undone {
                attempt,
                finished: replies::finished(reply, now).max(started),
            };
            record.parked_since = None;
            record.in_doubt = false;
            advance(ctx, &mut next, now)?;
        }
        Outcome::Failed { failure, .. } => {
            record.error = Some(failure.clone().in_step(&reply.step));
            record.parked_since = None;
            record.state = StepState::UndoFailed {
                attempt,
                started,
                calls: reply.calls,
                applied: applied.clone(),
            };
            set_complete_by(&mut next, now);
        }
        Outcome::Deferred { until, failure, .. } => {
            let failure = failure.clone().in_step(&reply.step);
            record.error = Some(failure.clone());
            record.state = StepState::UndoParked {
                attempt,
                until: replies::park_until(*until, now),
                applied: applied.clone(),
            };
            if record.parked_since.is_none() {
                record.parked_since = Some(now);
                next.note(replies::parked(attempt, started, &failure, now));
            }
            set_complete_by(&mut next, now);
        }
    }
    Ok(transition(ctx, next, now))
}

/// Starts every undo whose turn has come; finishes the order when none is left. Of an order
/// that nobody holds nothing is started: the next claim goes on from here.
fn advance(ctx: &Context<'_>, order: &mut Draft, now: Timestamp) -> Result<(), NeedsDetails> {
    if order.state.locked_by().is_none() {
        set_complete_by(order, now);
        return Ok(());
    }
    // Bounded: each turn takes one step out of those that are due.
    loop {
        let due = startable(ctx, order).next();
        let Some(index) = due else { break };
        start(ctx, order, index, now)?;
    }
    settle(order, now);
    Ok(())
}

/// Whether an undo could be started.
pub(super) fn has_startable(ctx: &Context<'_>, order: &Order) -> bool {
    startable(ctx, order).next().is_some()
}

/// Undos that are due, with everything that came after them undone.
fn startable<'a>(ctx: &'a Context<'_>, order: &'a Order) -> impl Iterator<Item = StepIndex> + 'a {
    let open =
        |i: StepIndex| order.steps[i].state.to_undo().is_some() && !planted(Bug::UndoOrderIgnored);
    (0..order.steps.len()).rev().filter(move |&i| {
        matches!(order.steps[i].state, StepState::UndoDue { .. })
            && !(i + 1..order.steps.len()).any(|j| open(j) && ctx.workflow.is_after(j, i))
    })
}

/// Starts an undo, or gives it up where its input has no value or its calls are used up.
fn start(
    ctx: &Context<'_>,
    order: &mut Draft,
    index: StepIndex,
    now: Timestamp,
) -> Result<(), NeedsDetails> {
    let input = input::undo(ctx, order, index)?;
    let record = &mut order.steps[index];
    let StepState::UndoDue { attempt, applied } = record.state.clone() else {
        return Ok(());
    };
    let step = &ctx.workflow.steps[index];
    let left = budget::allowance(step, record, Direction::Undo);
    let (Ok(input), Some(compensation), 1..) = (&input, &step.compensation, left) else {
        let failure = match input {
            Err(e) => Failure::new(FailureKind::Definition, "expression", &e.to_string()),
            Ok(_) => {
                let text = "the declared total of calls is used up";
                Failure::new(FailureKind::Transient, "budget", text)
            }
        };
        record.error = Some(failure.in_step(&record.step));
        record.state = StepState::NotUndone { attempt, applied };
        return Ok(());
    };
    let attempt = attempt.next();
    record.unheard_since = None;
    record.state = StepState::Undoing {
        attempt,
        started: now,
        complete_by: ctx.timing.complete_by(compensation.complete_within, now),
        applied,
    };
    order.request(ctx, index, Direction::Undo, input.clone());
    Ok(())
}

/// Places the order's complete-by, or finishes it: undone, or with what could not be undone.
///
/// To be called when no undo can be started.
pub(super) fn settle(order: &mut Order, now: Timestamp) {
    let active = order.steps.iter().any(|s| {
        matches!(
            s.state,
            StepState::Undoing { .. } | StepState::UndoFailed { .. } | StepState::UndoParked { .. }
        )
    });
    if active {
        set_complete_by(order, now);
        return;
    }
    let stuck = order
        .steps
        .iter()
        .find(|s| matches!(s.state, StepState::NotUndone { .. }));
    match stuck {
        None => finish(order, now),
        Some(record) => {
            let known = record.error.clone();
            let cause = known.unwrap_or_else(|| doubt::failure(record));
            fail(order, cause, now);
        }
    }
}

/// The order's complete-by: the earliest of what is out or parked; now, if a failure waits to be
/// counted. Of an order that is not being undone it is left alone.
pub(super) fn set_complete_by(order: &mut Order, now: Timestamp) {
    let earliest = order
        .steps
        .iter()
        .filter_map(|s| match s.state {
            StepState::UndoFailed { .. } => Some(now),
            _ => s.state.complete_by().or(s.state.parked_until()),
        })
        .min();
    let held = order.state.locked_by().is_some();
    if let (Some(at), ProcessState::Compensating { complete_by, .. }) = (earliest, &mut order.state)
    {
        *complete_by = if held { at } else { at.min(*complete_by) };
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
fn fail(order: &mut Order, cause: Failure, now: Timestamp) {
    tell(order, Status::CompensationFailed, Some(&cause), now);
    if !planted(Bug::UndoFailedWithoutAlert) {
        order.outbox.entries.push(Emission::Alert {
            kind: AlertKind::CompensationFailed,
            at: now,
            cause: cause.clone(),
        });
    }
    order.state = ProcessState::CompensationFailed {
        at: now,
        cause,
        compensated_for: order.state.cause().cloned(),
    };
}
