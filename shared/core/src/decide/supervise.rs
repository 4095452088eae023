//! What the Supervisor does about an overdue order: count, release for another attempt, or end
//! its patience. It starts no step itself; it asks the Scheduler to take the order up again.

use triad_workflow::{Millis, StepIndex};

use super::operate::PAUSE_REVIEW;
use super::{
    Decision, Reason, ask, forward as run, give_up, next_version, tell, transition, true_due,
    undo as undoing,
};
use crate::budget;
use crate::context::Context;
use crate::failure::{Failure, FailureKind};
use crate::ids::{Attempt, Direction, Timestamp};
use crate::order::{Incident, IncidentKind, Order, ProcessState, StepState};
use crate::outbox::Writer;
use crate::planted::{Bug, planted};
use crate::status::Status;

/// An order that is running or waits to run.
pub(super) fn forward(ctx: &Context<'_>, order: &Order, now: Timestamp) -> Decision {
    let expired: Vec<StepIndex> = expired(ctx, order, now)
        .filter(|&i| order.steps[i].state.to_undo().is_none())
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
    let mut counted = None;
    for index in expired {
        let policy = &ctx.workflow.steps[index].policy;
        if let Some(attempt) = waits_on(&next, index, policy.park, now) {
            next.steps[index].state = StepState::RetryDue { attempt };
            continue;
        }
        let (failure, attempt) = count(ctx, &mut next, index, now);
        let record = &next.steps[index];
        let left = budget::allowance(&ctx.workflow.steps[index], record, Direction::Forward);
        let failures = record.failures - u32::from(planted(Bug::ThresholdPassed));
        let delay = policy.retry_after(failures).filter(|_| left > 0);
        let settles = !record.in_doubt
            || planted(Bug::DoubtRepeated)
            || ctx.workflow.steps[index].repeat != triad_workflow::Repeat::Never;
        let Some(delay) = delay.filter(|_| settles) else {
            give_up(ctx, &mut next, index, failure, now);
            return transition(ctx, next, now);
        };
        next.steps[index].state = StepState::RetryDue { attempt };
        wait = wait.max(delay);
        counted = Some(failure);
    }
    if counted.is_some() {
        tell(&mut next, Status::Retrying, counted.as_ref(), now);
    }
    next.state = ProcessState::Pending {
        complete_by: Some(release(ctx, &mut next, wait, now)),
    };
    run::set_complete_by(&mut next, now);
    transition(ctx, next, now)
}

/// An order that is being undone.
pub(super) fn undo(ctx: &Context<'_>, order: &Order, now: Timestamp) -> Decision {
    let expired: Vec<StepIndex> = expired(ctx, order, now).collect();
    if expired.is_empty() {
        let waits = order.state.locked_by().is_none();
        return if waits && is_due(ctx, order, now) {
            announce_again(ctx, order, now)
        } else {
            postpone(ctx, order, now)
        };
    }
    let mut next = next_version(order, Writer::Supervisor);
    let mut wait = Millis(0);
    for index in expired {
        let Some(compensation) = &ctx.workflow.steps[index].compensation else {
            continue;
        };
        let Some(applied) = next.steps[index].state.to_undo().cloned() else {
            continue;
        };
        if let Some(attempt) = waits_on(&next, index, compensation.park, now) {
            next.steps[index].state = StepState::UndoDue { attempt, applied };
            continue;
        }
        let (_, attempt) = count(ctx, &mut next, index, now);
        let record = &mut next.steps[index];
        let left = budget::allowance(&ctx.workflow.steps[index], record, Direction::Undo);
        let delay = compensation.retry_after(record.undo_failures);
        record.state = match delay.filter(|_| left > 0) {
            Some(delay) => {
                wait = wait.max(delay);
                StepState::UndoDue { attempt, applied }
            }
            None => StepState::NotUndone { attempt, applied },
        };
    }
    if undoing::has_startable(ctx, &next) {
        wait_for_claim(ctx, &mut next, wait, now);
    } else {
        // Whoever holds the order goes on when the undo that is out is answered.
        undoing::settle(&mut next, now);
        if next.state.locked_by().is_none() {
            wait_for_claim(ctx, &mut next, wait, now);
        }
    }
    transition(ctx, next, now)
}

/// Releases an order that is being undone; one that has finished is left alone.
fn wait_for_claim(ctx: &Context<'_>, order: &mut Order, wait: Millis, now: Timestamp) {
    if order.state.is_finished() {
        return;
    }
    let until = release(ctx, order, wait, now);
    if let ProcessState::Compensating {
        locked_by,
        complete_by,
        ..
    } = &mut order.state
    {
        *locked_by = None;
        *complete_by = until;
    }
}

/// Steps that somebody must do something about: silent beyond their complete-by, failed and not
/// counted yet, or parked for long enough.
fn expired<'a>(
    ctx: &'a Context<'_>,
    order: &'a Order,
    now: Timestamp,
) -> impl Iterator<Item = StepIndex> + 'a {
    (0..order.steps.len()).filter(move |&i| match &order.steps[i].state {
        StepState::Failed { .. } | StepState::UndoFailed { .. } => true,
        state => state
            .complete_by()
            .or(state.parked_until())
            .is_some_and(|at| has_passed(ctx, at, now) || planted(Bug::IndexTrusted)),
    })
}

/// The attempt of a parked step that may go on waiting.
fn waits_on(order: &Order, index: StepIndex, park: Millis, now: Timestamp) -> Option<Attempt> {
    let record = &order.steps[index];
    let patient = record
        .parked_since
        .is_none_or(|since| now.since(since) <= park && !planted(Bug::ParkedCounted));
    match record.state {
        StepState::Parked { attempt, .. } | StepState::UndoParked { attempt, .. } if patient => {
            Some(attempt)
        }
        _ => None,
    }
}

/// Counts a failed or silent attempt, or the end of the patience with a parked one.
fn count(
    ctx: &Context<'_>,
    order: &mut Order,
    index: StepIndex,
    now: Timestamp,
) -> (Failure, Attempt) {
    let step = &ctx.workflow.steps[index];
    let record = &mut order.steps[index];
    let known = record.error.clone().unwrap_or_else(timed_out);
    let spent = |direction| budget::allowance(step, record, direction);
    let (failure, attempt, started, calls) = match record.state {
        StepState::Failed {
            attempt,
            started,
            calls,
        }
        | StepState::UndoFailed {
            attempt,
            started,
            calls,
            ..
        } => (known, attempt, Some(started), Some(calls)),
        // Silent: it may have used all that it was allowed, and had its effect.
        StepState::Running {
            attempt, started, ..
        } => {
            if !planted(Bug::SilentCallsNotCounted) {
                record.calls = record.calls.saturating_add(spent(Direction::Forward));
            }
            record.in_doubt = true;
            (timed_out(), attempt, Some(started), None)
        }
        StepState::Probing {
            attempt, started, ..
        } => {
            record.calls = record.calls.saturating_add(spent(Direction::Probe));
            (timed_out(), attempt, Some(started), None)
        }
        StepState::Undoing {
            attempt, started, ..
        } => {
            record.undo_calls = record.undo_calls.saturating_add(spent(Direction::Undo));
            (timed_out(), attempt, Some(started), None)
        }
        StepState::Parked { attempt, .. } | StepState::UndoParked { attempt, .. } => {
            (known, attempt, record.parked_since, None)
        }
        _ => (known, Attempt(0), None, None),
    };
    let failure = failure.in_step(&record.step);
    let undo = record.state.to_undo().is_some();
    if undo {
        record.undo_failures += 1;
    } else {
        record.failures += u32::from(!planted(Bug::FailureNotCounted));
        // For `give_up`: an attempt was made, so it is ambiguous unless nothing was applied.
        record.state = StepState::RetryDue { attempt };
    }
    record.error = Some(failure.clone());
    record.parked_since = None;
    let what = if undo {
        IncidentKind::UndoFailed
    } else {
        IncidentKind::AttemptFailed
    };
    order.note(Incident {
        attempt: Some(attempt),
        started,
        calls,
        ..Incident::new(what, now).of(&failure)
    });
    (failure, attempt)
}

/// Releases the order for another attempt, now or after a wait; returns when to look again.
fn release(ctx: &Context<'_>, order: &mut Order, wait: Millis, now: Timestamp) -> Timestamp {
    if order.paused.is_some() {
        now.plus(PAUSE_REVIEW)
    } else if wait == Millis(0) {
        ask(order);
        now.plus(ctx.timing.announce_within)
    } else {
        // Sent when the wait is over, by the sweep that finds the order due.
        now.plus(wait)
    }
}

/// Nobody took the order up in time, or its wait is over: asks the Scheduler (again). A paused
/// order is left alone until its next review.
fn announce_again(ctx: &Context<'_>, order: &Order, now: Timestamp) -> Decision {
    let mut next = next_version(order, Writer::Supervisor);
    let until = release(ctx, &mut next, Millis(0), now);
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
        || (planted(Bug::SkewIgnored) && now >= at.minus(ctx.timing.skew))
}

fn timed_out() -> Failure {
    Failure::new(
        FailureKind::TimedOut,
        "no-reply",
        "no reply before complete-by",
    )
}
