//! What the Supervisor does about an overdue order: count, release for another attempt, or end
//! its patience. It starts no step itself; it asks the Scheduler to take the order up again.

use triad_workflow::{Millis, StepIndex};

use super::{Decision, Reason, give_up, next_version, tell, transition, true_due};
use crate::context::Context;
use crate::failure::{Failure, FailureKind};
use crate::ids::{Attempt, Timestamp};
use crate::order::{Incident, IncidentKind, Order, ProcessState, StepState};
use crate::outbox::{Emission, Writer};
use crate::status::Status;

/// An order that is running or waits to run.
pub(super) fn forward(ctx: &Context<'_>, order: &Order, now: Timestamp) -> Decision {
    let expired: Vec<StepIndex> = (0..order.steps.len())
        .filter(|&i| match order.steps[i].state {
            StepState::Running { complete_by, .. } => has_passed(ctx, complete_by, now),
            StepState::Failed { .. } => true,
            _ => false,
        })
        .collect();
    if expired.is_empty() {
        return match order.state {
            ProcessState::Pending { .. } if is_due(ctx, order, now) => {
                announce_again(ctx, order, now)
            }
            _ => postpone(ctx, order, now),
        };
    }
    let mut next = next_version(order, Writer::Supervisor);
    let mut wait = Millis(0);
    let mut last = None;
    for index in expired {
        let (failure, attempt) = count_forward(ctx, &mut next, index, now);
        let policy = &ctx.workflow.steps[index].policy;
        let Some(delay) = policy.retry_after(next.steps[index].failures) else {
            give_up(ctx, &mut next, index, failure, now);
            return transition(ctx, next, now);
        };
        next.steps[index].state = StepState::RetryDue { attempt };
        wait = wait.max(delay);
        last = Some(failure);
    }
    tell(&mut next, Status::Retrying, last.as_ref(), now);
    next.state = ProcessState::Pending {
        complete_by: Some(release(ctx, &mut next, wait, now)),
    };
    transition(ctx, next, now)
}

/// An order that is being undone.
pub(super) fn undo(ctx: &Context<'_>, order: &Order, now: Timestamp) -> Decision {
    let expired = (0..order.steps.len()).find(|&i| match order.steps[i].state {
        StepState::Undoing { complete_by, .. } => has_passed(ctx, complete_by, now),
        StepState::UndoFailed { .. } => true,
        _ => false,
    });
    let Some(index) = expired else {
        let waits = order.state.locked_by().is_none();
        return if waits && is_due(ctx, order, now) {
            announce_again(ctx, order, now)
        } else {
            postpone(ctx, order, now)
        };
    };
    let mut next = next_version(order, Writer::Supervisor);
    let (failure, attempt, applied) = match next.steps[index].state.clone() {
        StepState::Undoing {
            attempt, applied, ..
        } => {
            let spent = ctx.workflow.steps[index]
                .compensation
                .as_ref()
                .map_or(0, |c| c.retry.calls);
            let record = &mut next.steps[index];
            record.calls = record.calls.saturating_add(spent);
            let failure = timed_out().in_step(&record.step);
            (failure, attempt, applied)
        }
        StepState::UndoFailed { attempt, applied } => {
            let record = &next.steps[index];
            (
                record.error.clone().unwrap_or_else(timed_out),
                attempt,
                applied,
            )
        }
        _ => return postpone(ctx, order, now),
    };
    let record = &mut next.steps[index];
    record.undo_failures += 1;
    record.error = Some(failure.clone());
    let failures = record.undo_failures;
    record.state = StepState::UndoDue { attempt, applied };
    next.note(Incident {
        at: now,
        what: IncidentKind::UndoFailed,
        attempt: Some(attempt),
        failure: Some(failure.clone()),
    });
    let delay = ctx.workflow.steps[index]
        .compensation
        .as_ref()
        .and_then(|c| c.retry_after(failures));
    match delay {
        None => super::undo::fail(&mut next, failure, now),
        Some(delay) => {
            let until = release(ctx, &mut next, delay, now);
            if let ProcessState::Compensating {
                locked_by,
                complete_by,
                ..
            } = &mut next.state
            {
                *locked_by = None;
                *complete_by = until;
            }
        }
    }
    transition(ctx, next, now)
}

/// Counts a failed or silent attempt.
fn count_forward(
    ctx: &Context<'_>,
    order: &mut Order,
    index: StepIndex,
    now: Timestamp,
) -> (Failure, Attempt) {
    let record = &mut order.steps[index];
    let (failure, attempt) = match record.state {
        StepState::Failed { attempt } => (record.error.clone().unwrap_or_else(timed_out), attempt),
        StepState::Running { attempt, .. } => {
            // Silent: it may have used all that it was allowed.
            let spent = ctx.workflow.steps[index].retry.calls;
            record.calls = record.calls.saturating_add(spent);
            (timed_out(), attempt)
        }
        _ => (timed_out(), Attempt(0)),
    };
    let failure = failure.in_step(&record.step);
    record.failures += 1;
    record.error = Some(failure.clone());
    // For `give_up`: an attempt was made, so it is ambiguous unless refused.
    record.state = StepState::Failed { attempt };
    order.note(Incident {
        at: now,
        what: IncidentKind::AttemptFailed,
        attempt: Some(attempt),
        failure: Some(failure.clone()),
    });
    (failure, attempt)
}

/// Releases the order for another attempt, now or after a wait; returns when to look again.
fn release(ctx: &Context<'_>, order: &mut Order, wait: Millis, now: Timestamp) -> Timestamp {
    if wait == Millis(0) {
        order.outbox.entries.push(Emission::Retry);
        now.plus(ctx.timing.announce_within)
    } else {
        // Sent when the wait is over, by the sweep that finds the order due.
        now.plus(wait)
    }
}

/// Nobody took the order up in time, or its wait is over: asks the Scheduler (again).
fn announce_again(ctx: &Context<'_>, order: &Order, now: Timestamp) -> Decision {
    let mut next = next_version(order, Writer::Supervisor);
    let until = now.plus(ctx.timing.announce_within);
    next.outbox.entries.push(Emission::Retry);
    match &mut next.state {
        ProcessState::Pending { complete_by } => *complete_by = Some(until),
        ProcessState::Compensating { complete_by, .. } => *complete_by = until,
        ProcessState::Processing(_)
        | ProcessState::Processed { .. }
        | ProcessState::Error { .. }
        | ProcessState::Compensated { .. }
        | ProcessState::CompensationFailed { .. } => {}
    }
    transition(ctx, next, now)
}

/// The hint was early: moves it to the true time, and touches nothing else.
fn postpone(ctx: &Context<'_>, order: &Order, now: Timestamp) -> Decision {
    let due = true_due(ctx, order);
    if due == order.due || due.is_none_or(|at| at <= now) {
        return Decision::Ignore(Reason::NotDue);
    }
    let mut next = order.clone();
    next.version = order.version.next();
    next.due = due;
    Decision::Transition(Box::new(next))
}

fn is_due(ctx: &Context<'_>, order: &Order, now: Timestamp) -> bool {
    true_due(ctx, order).is_some_and(|at| has_passed(ctx, at, now))
}

/// The Supervisor acts only when a moment has passed on every clock.
fn has_passed(ctx: &Context<'_>, at: Timestamp, now: Timestamp) -> bool {
    now >= at.plus(ctx.timing.skew)
}

fn timed_out() -> Failure {
    Failure::new(
        FailureKind::TimedOut,
        "no-reply",
        "no reply before complete-by",
    )
}
