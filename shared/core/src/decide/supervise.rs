//! What the Supervisor does about an overdue order: count, release for another attempt, or end
//! its patience. It starts no step itself; it asks the Scheduler to take the order up again.

use triad_workflow::{Millis, StepIndex};

use super::complete_by::{earliest, set_complete_by, true_due};
use super::operate::PAUSE_REVIEW;
use super::{
    Decision, Draft, Reason, ask, compensate, deadline, forward, give_up, late, next_version,
    push_status, transition,
};
use crate::budget;
use crate::context::{Context, NeedsDetails};
use crate::declared::{Declared, declared};
use crate::doubt::{self, NextAttempt, next_attempt};
use crate::event::{Overdue, Untaken};
use crate::failure::{Failure, FailureKind};
use crate::history::{self, Deferral};
use crate::ids::{Attempt, Direction, Timestamp};
use crate::order::{Incident, IncidentKind, Order, ProcessState};
use crate::outbox::Writer;
use crate::status::Status;
use crate::step::{StepRecord, StepState, Work};

/// The Supervisor has met an order whose time may have come.
pub(super) fn overdue(
    ctx: &Context<'_>,
    order: &Order,
    overdue: &Overdue,
    now: Timestamp,
) -> Result<Decision, NeedsDetails> {
    let Overdue { untaken, rest } = overdue;
    let expired: Vec<StepIndex> = expired(ctx, order, now).collect();
    let is_missed =
        |order: &Order| deadline::due(ctx, order).is_some_and(|at| has_passed(ctx, at, now));
    let mut next = next_version(order, Writer::Supervisor);
    if expired.is_empty() {
        let is_late = is_missed(order);
        if is_late && late::miss(ctx, &mut next, now)? {
            return Ok(transition(ctx, next, now));
        }
        let waits = next.state.locked_by().is_none();
        return Ok(
            if waits && is_due(ctx, &next, now) && !listens(ctx, &next, now) {
                announce_again(ctx, next, *rest, now)
            } else if is_late {
                transition(ctx, next, now)
            } else {
                postpone(ctx, order, now)
            },
        );
    }
    let mut met = ExpiredSteps::default();
    for index in expired {
        let wait = match finding(ctx, &next, index, untaken, now) {
            Finding::Listen => {
                if let Some(out) = next.steps[index].state.out_mut() {
                    out.unheard_since = Some(now);
                }
                continue;
            }
            Finding::WaitIsOver => Millis(0),
            Finding::Untaken => not_taken(ctx, &mut next, index, untaken, now),
            Finding::Failed => {
                let failure = count(ctx, &mut next, index, untaken, now);
                let Some(delay) = another_after(ctx, &next.steps[index], index) else {
                    if no_longer(&mut next.steps[index]) {
                        met.released = true;
                        continue;
                    }
                    give_up(ctx, &mut next, index, failure, now)?;
                    return Ok(transition(ctx, next, now));
                };
                met.counted = Some(failure);
                delay
            }
        };
        if let Some(work) = next.steps[index].state.work_mut() {
            let (last, deferred_since) = (work.attempt(), work.deferred_since());
            *work = match wait {
                Millis(0) => Work::Due {
                    last,
                    deferred_since,
                },
                wait => Work::Delayed {
                    last,
                    until: now.plus(wait),
                    deferred_since,
                },
            };
        }
        met.released = true;
    }
    // Now that it is known what can be: an effect may have been in doubt before.
    if is_missed(&next) && late::miss(ctx, &mut next, now)? {
        return Ok(transition(ctx, next, now));
    }
    if met.released {
        match next.state {
            ProcessState::Compensating { .. } => go_on_compensating(ctx, &mut next, now),
            _ => go_on(ctx, &mut next, met.counted.as_ref(), now),
        }
    }
    Ok(transition(ctx, next, now))
}

/// What was met among an order's expired steps.
#[derive(Default)]
struct ExpiredSteps {
    /// A step is to have another attempt, at once or after a wait, or the patience with it has ended.
    released: bool,
    /// The last failure that was counted and is met with another attempt.
    counted: Option<Failure>,
}

/// Releases an order that runs, if a claim has something to start; otherwise it waits. Whoever holds it goes
/// on by itself when a request that is out is answered, whatever other steps wait for.
fn go_on(ctx: &Context<'_>, order: &mut Order, counted: Option<&Failure>, now: Timestamp) {
    if counted.is_some() {
        push_status(order, Status::Retrying, counted, now);
    }
    if forward::has_startable(ctx, order) {
        order.state = ProcessState::Pending {
            complete_by: Some(release(ctx, order, now)),
        };
    } else if !order.steps.iter().any(|s| s.state.out().is_some()) {
        order.state = ProcessState::Pending {
            complete_by: earliest(order, now),
        };
    }
    set_complete_by(order, now);
}

/// Releases an order that is being compensated, or finishes it. Whoever holds it goes on by itself
/// when a compensation that is out is answered.
fn go_on_compensating(ctx: &Context<'_>, order: &mut Order, now: Timestamp) {
    let until = if compensate::has_startable(ctx, order) {
        release(ctx, order, now)
    } else {
        compensate::wait_or_finish(order, now);
        if order.state.is_finished() || order.state.locked_by().is_some() {
            return;
        }
        earliest(order, now).unwrap_or(now)
    };
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

/// Leaves a step's compensation to an operator; false if it is not being compensated.
fn no_longer(record: &mut StepRecord) -> bool {
    let StepState::Compensating { work, applied } = &record.state else {
        return false;
    };
    record.state = StepState::NotCompensated {
        attempt: work.attempt(),
        applied: applied.clone(),
    };
    true
}

/// Whether the Scheduler counts this failure of a step itself and goes on: the step asks for it, the
/// failure may pass by itself, the order is held, and there is another attempt with no wait before it.
pub(super) fn is_retried_at_once(
    ctx: &Context<'_>,
    order: &Order,
    index: StepIndex,
    failure: &Failure,
) -> bool {
    let (record, step) = (&order.steps[index], &ctx.workflow.steps[index]);
    let direction = record.direction();
    let Some(Declared { policy, .. }) = declared(step, direction) else {
        return false;
    };
    let counted = record.leg(direction).failures + 1;
    policy.retry_at_once
        && failure.kind == FailureKind::Transient
        && order.state.locked_by().is_some()
        && budget::allowance(step, record, direction) > 0
        && policy.retry_after(counted) == Some(Millis(0))
}

/// The wait before another attempt at a step that has failed; `None` if there is to be none.
fn another_after(ctx: &Context<'_>, record: &StepRecord, index: StepIndex) -> Option<Millis> {
    let step = &ctx.workflow.steps[index];
    let direction = record.direction();
    let forward = direction == Direction::Forward;
    if budget::allowance(step, record, direction) == 0
        || forward && next_attempt(record, step) == NextAttempt::Operator
    {
        return None;
    }
    let failures = record.leg(direction).failures;
    declared(step, direction)?.policy.retry_after(failures)
}

/// Steps that somebody must do something about: unheard of beyond their complete-by, failed and
/// not counted yet, or deferred or delayed for long enough.
fn expired<'a>(
    ctx: &'a Context<'_>,
    order: &'a Order,
    now: Timestamp,
) -> impl Iterator<Item = StepIndex> + 'a {
    (0..order.steps.len()).filter(move |&i| {
        let record = &order.steps[i];
        match record.state.work() {
            Some(Work::Failed { .. }) => true,
            Some(Work::Out(out)) => {
                is_over(ctx, record, now)
                    && (out.unheard_since.is_none() || is_unheard(ctx, record, now))
            }
            Some(Work::Deferred { until, .. } | Work::Delayed { until, .. }) => {
                has_passed(ctx, *until, now)
            }
            Some(Work::Due { .. }) | None => false,
        }
    })
}

/// Whether the attempt that is out has passed its complete-by on every clock.
fn is_over(ctx: &Context<'_>, record: &StepRecord, now: Timestamp) -> bool {
    let complete_by = record.state.complete_by();
    complete_by.is_some_and(|at| has_passed(ctx, at, now))
}

/// Whether an attempt is over, and no reply of it was on its way either: it was met so before,
/// long enough ago for a Scheduler to have read what was sent in time.
pub(crate) fn is_unheard(ctx: &Context<'_>, record: &StepRecord, now: Timestamp) -> bool {
    is_over(ctx, record, now)
        && record
            .state
            .unheard_since()
            .is_some_and(|since| !since.is_near(now, ctx.timing.hear_within))
}

/// Whether a reply may be waiting to be read: the order looks due all that time, and nothing is to
/// be done about it.
fn listens(ctx: &Context<'_>, order: &Order, now: Timestamp) -> bool {
    let met = |r: &&StepRecord| r.state.unheard_since().is_some() && is_over(ctx, r, now);
    let mut steps = order.steps.iter().filter(met);
    steps.any(|r| !is_unheard(ctx, r, now))
}

/// What the Supervisor makes of an expired step.
enum Finding {
    /// Met beyond its complete-by for the first time: a reply may be waiting to be read.
    Listen,
    /// The wait before another attempt is over.
    WaitIsOver,
    /// No agent is known to have taken the attempt: it waited in our own queues. No failure.
    Untaken,
    /// The attempt counts as failed, or the patience with one that does not has ended.
    Failed,
}

/// What the Supervisor makes of an expired step.
///
/// An agent answers every request that it has taken, before its complete-by: done, failed, timed
/// out, or deferred. So an attempt that nobody was heard of was taken by none, or by one that
/// died; neither is the service's failure. It counts only where the call ledger knows that an
/// agent has taken it, and so may have made calls that may not be made again.
fn finding(
    ctx: &Context<'_>,
    order: &Order,
    index: StepIndex,
    untaken: &Untaken,
    now: Timestamp,
) -> Finding {
    let (record, step) = (&order.steps[index], &ctx.workflow.steps[index]);
    let declared = declared(step, record.direction());
    let patient = record.state.deferred_since().is_none_or(|since| {
        declared.is_some_and(|declared| now.since(since) <= declared.policy.defer_for)
    });
    match record.state.work() {
        Some(Work::Deferred { .. }) => match patient {
            true => Finding::WaitIsOver,
            false => Finding::Failed,
        },
        Some(Work::Delayed { .. }) => Finding::WaitIsOver,
        Some(Work::Out(out)) if out.unheard_since.is_none() => Finding::Listen,
        Some(Work::Out(out)) => {
            let counted = budget::is_counted(step, out.direction);
            let taken = counted && !untaken.contains(&record.step);
            if taken || !patient {
                Finding::Failed
            } else {
                Finding::Untaken
            }
        }
        Some(Work::Failed { .. } | Work::Due { .. }) | None => Finding::Failed,
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
    let Some(out) = record.state.out_mut() else {
        return Millis(0);
    };
    let unheard = out.unheard_since.unwrap_or(now);
    let since = *out.deferred_since.get_or_insert(unheard);
    let out = *out;
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
    let deferral = Deferral {
        attempt: out.attempt,
        started: out.started,
        direction: out.direction,
        why: failure,
        is_new: !noted,
    };
    history::tell_deferral(order, index, deferral, now);
    Millis(unheard.since(since).0 / 2).min(ctx.timing.announce_within)
}

/// Counts a failed or silent attempt, or the end of the patience with a deferred one. What is left
/// of the step's state is that another attempt would be due.
pub(super) fn count(
    ctx: &Context<'_>,
    order: &mut Draft,
    index: StepIndex,
    untaken: &Untaken,
    now: Timestamp,
) -> Failure {
    let step = &ctx.workflow.steps[index];
    let deferred = history::direction_of_deferral(order, index);
    let record = &mut order.steps[index];
    let direction = record.direction();
    let known = record.error.clone().unwrap_or_else(timed_out);
    let (failure, asked, attempt, started, calls) = match record.state.work() {
        Some(Work::Failed {
            direction,
            attempt,
            started,
            calls,
        }) => (known, *direction, *attempt, Some(*started), Some(*calls)),
        // Unheard of: if it was taken, it may have used all that it was allowed, and had its effect.
        Some(Work::Out(out)) => {
            let out = *out;
            let taken = !untaken.contains(&record.step);
            let acting = out.direction == Direction::Forward;
            if taken {
                let spent = budget::allowance(step, record, out.direction);
                let leg = record.leg_mut(out.direction);
                leg.calls = leg.calls.saturating_add(spent);
                leg.unreported = leg.unreported.saturating_add(spent);
            }
            if taken && acting {
                doubt::unheard(record);
            }
            (
                timed_out(),
                out.direction,
                out.attempt,
                Some(out.started),
                None,
            )
        }
        Some(Work::Deferred {
            attempt,
            deferred_since,
            ..
        }) => {
            let asked = deferred.unwrap_or(direction);
            (known, asked, *attempt, Some(*deferred_since), None)
        }
        Some(Work::Due { .. } | Work::Delayed { .. }) | None => {
            (known, direction, Attempt(0), None, None)
        }
    };
    let failure = failure.in_step(&record.step);
    record.leg_mut(direction).failures += 1;
    // An attempt was made, so what it did is ambiguous unless nothing was applied.
    if let Some(work) = record.state.work_mut() {
        *work = Work::due(attempt);
    }
    record.error = Some(failure.clone());
    let what = match direction {
        Direction::Compensate => IncidentKind::CompensationFailed,
        Direction::Forward | Direction::Probe => IncidentKind::AttemptFailed,
    };
    let line = Incident {
        attempt: Some(attempt),
        started,
        calls,
        ..Incident::new(what, now).of(&failure)
    };
    order.note(line.in_direction(asked));
    failure
}

/// Has a Scheduler take the order up; returns when to look again. A paused order is left alone until its next
/// review.
fn release(ctx: &Context<'_>, order: &mut Order, now: Timestamp) -> Timestamp {
    if order.paused.is_some() {
        return now.plus(PAUSE_REVIEW);
    }
    ask(order);
    now.plus(ctx.timing.announce_within)
}

/// Nobody took the order up in time: asks the Scheduler again, and then not for a rest.
fn announce_again(ctx: &Context<'_>, mut next: Draft, rest: Millis, now: Timestamp) -> Decision {
    let until = release(ctx, &mut next, now).max(now.plus(rest));
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
}

fn timed_out() -> Failure {
    Failure::new(
        FailureKind::TimedOut,
        "no-reply",
        "no reply before complete-by",
    )
}
