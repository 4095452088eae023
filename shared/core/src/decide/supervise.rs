//! What the Supervisor does about an overdue order: count, release for another attempt, or end
//! its patience. It starts no step itself; it asks the Scheduler to take the order up again.

use triad_workflow::{Millis, StepIndex};

use super::operate::PAUSE_REVIEW;
use super::{
    Decision, Reason, ask, forward as run, give_up, next_version, tell, transition, true_due,
    undo as undoing,
};
use crate::budget;
use crate::context::{Context, NeedsDetails};
use crate::doubt::{self, NextAttempt, next_attempt};
use crate::event::Untaken;
use crate::failure::{Failure, FailureKind};
use crate::ids::{Attempt, Direction, Timestamp};
use crate::order::{Incident, IncidentKind, Order, ProcessState, StepRecord, StepState};
use crate::outbox::Writer;
use crate::planted::{Bug, planted};
use crate::status::Status;

/// An order that is running or waits to run.
pub(super) fn forward(
    ctx: &Context<'_>,
    order: &Order,
    untaken: &Untaken,
    now: Timestamp,
) -> Result<Decision, NeedsDetails> {
    let expired: Vec<StepIndex> = expired(ctx, order, now)
        .filter(|&i| order.steps[i].state.to_undo().is_none())
        .collect();
    if expired.is_empty() {
        return Ok(match order.state {
            ProcessState::Pending { .. }
                if is_due(ctx, order, now) && !listens(ctx, order, now) =>
            {
                announce_again(ctx, order, now)
            }
            _ => postpone(ctx, order, now),
        });
    }
    let mut next = next_version(order, Writer::Supervisor);
    let mut wait = Millis(0);
    let mut released = false;
    let mut counted = None;
    for index in expired {
        let policy = &ctx.workflow.steps[index].policy;
        match finding(ctx, &next, index, policy.park, untaken, now) {
            Finding::Listen => {
                next.steps[index].unheard_since = Some(now);
                continue;
            }
            Finding::Deferred(attempt) => {
                next.steps[index].state = StepState::RetryDue { attempt };
            }
            Finding::Untaken(attempt) => {
                wait = wait.max(not_taken(ctx, &mut next, index, untaken, now));
                next.steps[index].state = StepState::RetryDue { attempt };
            }
            Finding::Failed => {
                let (failure, attempt) = count(ctx, &mut next, index, untaken, now);
                let record = &next.steps[index];
                let left =
                    budget::allowance(&ctx.workflow.steps[index], record, Direction::Forward);
                let failures = record.failures - u32::from(planted(Bug::ThresholdPassed));
                let delay = policy.retry_after(failures).filter(|_| left > 0);
                let another = next_attempt(record, &ctx.workflow.steps[index]);
                let Some(delay) = delay.filter(|_| another != NextAttempt::Operator) else {
                    give_up(ctx, &mut next, index, failure, now)?;
                    return Ok(transition(ctx, next, now));
                };
                next.steps[index].state = StepState::RetryDue { attempt };
                wait = wait.max(delay);
                counted = Some(failure);
            }
        }
        released = true;
    }
    if !released {
        return Ok(transition(ctx, next, now));
    }
    if counted.is_some() {
        tell(&mut next, Status::Retrying, counted.as_ref(), now);
    }
    next.state = ProcessState::Pending {
        complete_by: Some(release(ctx, &mut next, wait, now)),
    };
    run::set_complete_by(&mut next, now);
    Ok(transition(ctx, next, now))
}

/// An order that is being undone.
pub(super) fn undo(
    ctx: &Context<'_>,
    order: &Order,
    untaken: &Untaken,
    now: Timestamp,
) -> Result<Decision, NeedsDetails> {
    let expired: Vec<StepIndex> = expired(ctx, order, now).collect();
    if expired.is_empty() {
        let waits = order.state.locked_by().is_none();
        return Ok(
            if waits && is_due(ctx, order, now) && !listens(ctx, order, now) {
                announce_again(ctx, order, now)
            } else {
                postpone(ctx, order, now)
            },
        );
    }
    let mut next = next_version(order, Writer::Supervisor);
    let mut wait = Millis(0);
    let mut released = false;
    for index in expired {
        let Some(compensation) = &ctx.workflow.steps[index].compensation else {
            continue;
        };
        let Some(applied) = next.steps[index].state.to_undo().cloned() else {
            continue;
        };
        let state = match finding(ctx, &next, index, compensation.park, untaken, now) {
            Finding::Listen => {
                next.steps[index].unheard_since = Some(now);
                continue;
            }
            Finding::Deferred(attempt) => StepState::UndoDue { attempt, applied },
            Finding::Untaken(attempt) => {
                wait = wait.max(not_taken(ctx, &mut next, index, untaken, now));
                StepState::UndoDue { attempt, applied }
            }
            Finding::Failed => {
                let (_, attempt) = count(ctx, &mut next, index, untaken, now);
                let record = &next.steps[index];
                let left = budget::allowance(&ctx.workflow.steps[index], record, Direction::Undo);
                let delay = compensation.retry_after(record.undo_failures);
                match delay.filter(|_| left > 0) {
                    Some(delay) => {
                        wait = wait.max(delay);
                        StepState::UndoDue { attempt, applied }
                    }
                    None => StepState::NotUndone { attempt, applied },
                }
            }
        };
        next.steps[index].state = state;
        released = true;
    }
    if !released {
        return Ok(transition(ctx, next, now));
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
    Ok(transition(ctx, next, now))
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

/// Steps that somebody must do something about: unheard of beyond their complete-by, failed and
/// not counted yet, or deferred for long enough.
fn expired<'a>(
    ctx: &'a Context<'_>,
    order: &'a Order,
    now: Timestamp,
) -> impl Iterator<Item = StepIndex> + 'a {
    (0..order.steps.len()).filter(move |&i| {
        let record = &order.steps[i];
        match &record.state {
            StepState::Failed { .. } | StepState::UndoFailed { .. } => true,
            state if state.complete_by().is_some() => {
                is_over(ctx, record, now)
                    && (record.unheard_since.is_none() || is_unheard(ctx, record, now))
            }
            state => state
                .parked_until()
                .is_some_and(|at| has_passed(ctx, at, now) || planted(Bug::IndexTrusted)),
        }
    })
}

/// Whether the attempt that is out has passed its complete-by on every clock.
fn is_over(ctx: &Context<'_>, record: &StepRecord, now: Timestamp) -> bool {
    let complete_by = record.state.complete_by();
    complete_by.is_some_and(|at| has_passed(ctx, at, now) || planted(Bug::IndexTrusted))
}

/// Whether an attempt is over, and no reply of it was on its way either: it was met so before,
/// long enough ago for a Scheduler to have read what was sent in time.
pub(crate) fn is_unheard(ctx: &Context<'_>, record: &StepRecord, now: Timestamp) -> bool {
    is_over(ctx, record, now)
        && record.unheard_since.is_some_and(|since| {
            now >= since.plus(ctx.timing.hear_within) || planted(Bug::RepliesNotAwaited)
        })
}

/// Whether a reply may be waiting to be read: the order looks due all that time, and nothing is to
/// be done about it.
fn listens(ctx: &Context<'_>, order: &Order, now: Timestamp) -> bool {
    let met = |r: &&StepRecord| r.unheard_since.is_some() && is_over(ctx, r, now);
    let mut steps = order.steps.iter().filter(met);
    steps.any(|r| !is_unheard(ctx, r, now))
}

/// What the Supervisor makes of an expired step.
enum Finding {
    /// Met beyond its complete-by for the first time: a reply may be waiting to be read.
    Listen,
    /// The attempt was deferred and may go on waiting.
    Deferred(Attempt),
    /// No agent is known to have taken the attempt: it waited in our own queues. No failure.
    Untaken(Attempt),
    /// The attempt counts as failed, or the patience with one that does not has ended.
    Failed,
}

/// What the Supervisor makes of an expired step, with which it is patient for `park`.
///
/// An agent answers every request that it has taken, before its complete-by: done, failed, timed
/// out, or deferred. So an attempt that nobody was heard of was taken by none, or by one that
/// died; neither is the service's failure. It counts only where the call ledger knows that an
/// agent has taken it, and so may have made calls that may not be made again.
fn finding(
    ctx: &Context<'_>,
    order: &Order,
    index: StepIndex,
    park: Millis,
    untaken: &Untaken,
    now: Timestamp,
) -> Finding {
    let record = &order.steps[index];
    let patient = record
        .parked_since
        .is_none_or(|since| now.since(since) <= park);
    let (attempt, direction) = match record.state {
        StepState::Parked { attempt, .. } | StepState::UndoParked { attempt, .. } => {
            let patient = patient && !planted(Bug::ParkedCounted);
            return match patient {
                true => Finding::Deferred(attempt),
                false => Finding::Failed,
            };
        }
        StepState::Running { attempt, .. } => (attempt, Direction::Forward),
        StepState::Probing { attempt, .. } => (attempt, Direction::Probe),
        StepState::Undoing { attempt, .. } => (attempt, Direction::Undo),
        _ => return Finding::Failed,
    };
    if record.unheard_since.is_none() {
        return Finding::Listen;
    }
    let counted = budget::is_counted(&ctx.workflow.steps[index], direction);
    let taken = counted && !untaken.contains(&record.step);
    if taken || !patient || planted(Bug::SilenceCounted) {
        Finding::Failed
    } else {
        Finding::Untaken(attempt)
    }
}

/// Notes that no agent is known to have taken an attempt, once for a whole wait; returns how long to
/// wait before another: nothing at first, then half as long as it has waited already, so that a
/// topic that nobody reads is not filled.
///
/// Where calls are not counted, an agent may have died over it and the effect be in place: it is in
/// doubt until it is answered, which is harmless to a service that knows its key again.
fn not_taken(
    ctx: &Context<'_>,
    order: &mut Order,
    index: StepIndex,
    untaken: &Untaken,
    now: Timestamp,
) -> Millis {
    let record = &mut order.steps[index];
    let is_known = untaken.contains(&record.step);
    if !is_known {
        doubt::abandon(record);
    }
    let unheard = record.unheard_since.unwrap_or(now);
    let since = *record.parked_since.get_or_insert(unheard);
    let failure = Failure::new(
        FailureKind::TimedOut,
        "not-taken",
        "no agent has taken it before its complete-by; not counted",
    )
    .in_step(&record.step);
    let noted = record
        .error
        .as_ref()
        .is_some_and(|e| e.code == failure.code)
        && since != unheard;
    record.error = Some(failure.clone());
    if !noted {
        let attempt = record.state.attempt_out();
        order.note(Incident {
            attempt,
            ..Incident::new(IncidentKind::Parked, now).of(&failure)
        });
    }
    Millis(unheard.since(since).0 / 2).min(ctx.timing.announce_within)
}

/// Counts a failed or silent attempt, or the end of the patience with a parked one.
fn count(
    ctx: &Context<'_>,
    order: &mut Order,
    index: StepIndex,
    untaken: &Untaken,
    now: Timestamp,
) -> (Failure, Attempt) {
    let step = &ctx.workflow.steps[index];
    let record = &mut order.steps[index];
    let known = record.error.clone().unwrap_or_else(timed_out);
    let taken = !untaken.contains(&record.step);
    let spent = |direction| match taken {
        true => budget::allowance(step, record, direction),
        false => 0,
    };
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
        // Unheard of: if it was taken, it may have used all that it was allowed, and had its effect.
        StepState::Running {
            attempt, started, ..
        } => {
            if !planted(Bug::SilentCallsNotCounted) {
                record.calls = record.calls.saturating_add(spent(Direction::Forward));
            }
            record.in_doubt |= taken;
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
    record.unheard_since = None;
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
    Decision::silent(next)
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
