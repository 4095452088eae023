//! The Supervisor's decisions about an overdue order: count a failure, release the step for another attempt, or give
//! it up. The Supervisor starts no step; it wakes the Scheduler.

use triad_workflow::{Millis, Policy, Step, StepIndex};

use super::complete_by::{earliest, set_complete_by, true_due};
use super::{
    Decision, Draft, Reason, children, compensate, deadline, forward, give_up, late, next_version,
    push_status, release, transition, waits,
};
use crate::budget;
use crate::context::{Context, NeedsDetails};
use crate::declared::declared;
use crate::doubt::{self, NextAttempt, next_attempt};
use crate::event::{Overdue, Untaken};
use crate::failure::{Failure, FailureKind};
use crate::history::{self, Deferral};
use crate::ids::{Attempt, Direction, Timestamp};
use crate::order::{Incident, IncidentKind, Order, ProcessState};
use crate::outbox::Writer;
use crate::status::Status;
use crate::step::{StepRecord, StepState, Work};

/// Decides about an order that the Supervisor found in the due index.
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
        if next.steps[index].lets_go() {
            children::release(&mut next.steps[index]);
            met.released = true;
            continue;
        }
        if let Some(&Work::Parked { attempt, .. }) = next.steps[index].state.work() {
            let step = &ctx.workflow.steps[index];
            if step.run().is_some() {
                // The Scheduler asks for the child orders again.
                children::release(&mut next.steps[index]);
            } else if step.call().is_some() {
                // The Scheduler asks the service, or gives the work up.
                next.steps[index].state = StepState::due(attempt);
            } else if waits::asks_again(ctx, &mut next, index, now) {
                set_complete_by(&mut next, now);
                continue;
            } else if !waits::over(ctx, &mut next, index, now)? {
                return Ok(transition(ctx, next, now));
            }
            met.released = true;
            continue;
        }
        let wait = match finding(ctx, &next, index, untaken, now) {
            Finding::Listen => {
                if let Some(out) = next.steps[index].state.out_mut() {
                    out.unheard_since = Some(now);
                }
                continue;
            }
            Finding::WaitIsOver => Millis(0),
            Finding::Untaken => record_untaken(ctx, &mut next, index, untaken, now),
            Finding::Failed => {
                let failure = count(ctx, &mut next, index, untaken, now);
                let Some(delay) = next_attempt_delay(ctx, &next.steps[index], index) else {
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
    // Only now is it known whether the order can be compensated: an effect may have been in doubt before.
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

/// Result of handling an order's expired steps.
#[derive(Default)]
struct ExpiredSteps {
    /// A step may have another attempt, at once or after a wait, or was given up.
    released: bool,
    /// The last counted failure that is followed by another attempt.
    counted: Option<Failure>,
}

/// Releases a running order if a claim has work to start; otherwise the order waits. The holder of the claim
/// continues when a request that is out is answered, whatever other steps wait for.
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

/// Releases an order that is being compensated, or finishes it. The holder of the claim continues when a compensation
/// that is out is answered.
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

/// Gives up a step's compensation, so that an operator must decide; false if the step is not being compensated.
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

/// Whether the Scheduler counts this failure and makes the next attempt in the same write: the step allows it, the
/// failure is transient, the order is claimed, and the next attempt needs no wait.
pub(super) fn is_retried_at_once(
    ctx: &Context<'_>,
    order: &Order,
    index: StepIndex,
    failure: &Failure,
) -> bool {
    let (record, step) = (&order.steps[index], &ctx.workflow.steps[index]);
    let direction = record.direction();
    let Some((policy, failures)) = policy_after(step, record, Some(failure)) else {
        return false;
    };
    policy.retry_at_once
        && failure.kind == FailureKind::Transient
        && order.state.locked_by().is_some()
        && budget::allowance(step, record, direction) > 0
        && policy.retry_after(failures + 1) == Some(Millis(0))
}

/// The wait before another attempt at a failed step; `None` if no attempt follows.
fn next_attempt_delay(ctx: &Context<'_>, record: &StepRecord, index: StepIndex) -> Option<Millis> {
    let step = &ctx.workflow.steps[index];
    let direction = record.direction();
    let forward = direction == Direction::Forward;
    if budget::allowance(step, record, direction) == 0
        || forward && next_attempt(record, step) == NextAttempt::Operator
    {
        return None;
    }
    let (policy, failures) = policy_after(step, record, record.error.as_ref())?;
    policy.retry_after(failures)
}

/// The policy that holds after a failure of a step, and how many such failures have been counted.
fn policy_after<'a>(
    step: &'a Step,
    record: &StepRecord,
    failure: Option<&Failure>,
) -> Option<(&'a Policy, u32)> {
    let direction = record.direction();
    Some(match (direction, failure) {
        (Direction::Forward | Direction::Probe, Some(Failure { code, .. })) => {
            (step.policy_after(code)?, record.failures_like(code))
        }
        (_, _) => {
            let policy = declared(step, direction)?.policy;
            (policy, record.leg(direction).failures)
        }
    })
}

/// Steps that need a decision: no reply beyond complete-by, failed and not counted, or deferred or delayed until now.
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
            Some(
                Work::Deferred { until, .. }
                | Work::Delayed { until, .. }
                | Work::Parked { until, .. },
            ) => has_passed(ctx, *until, now),
            None => record
                .awaited_until()
                .is_some_and(|until| has_passed(ctx, until, now)),
            Some(Work::Due { .. }) => false,
        }
    })
}

/// Whether the attempt that is out has passed its complete-by on every clock.
fn is_over(ctx: &Context<'_>, record: &StepRecord, now: Timestamp) -> bool {
    let complete_by = record.state.complete_by();
    complete_by.is_some_and(|at| has_passed(ctx, at, now))
}

/// Whether an attempt is over and no reply can be unread: the Supervisor found it over at an earlier check, long
/// enough ago for a Scheduler to have read every reply that was sent in time.
pub(crate) fn is_unheard(ctx: &Context<'_>, record: &StepRecord, now: Timestamp) -> bool {
    is_over(ctx, record, now)
        && record
            .state
            .unheard_since()
            .is_some_and(|since| !since.is_near(now, ctx.timing.hear_within))
}

/// Whether a reply may still be unread: until then the order stays due and nothing is done about it.
fn listens(ctx: &Context<'_>, order: &Order, now: Timestamp) -> bool {
    let met = |r: &&StepRecord| r.state.unheard_since().is_some() && is_over(ctx, r, now);
    let mut steps = order.steps.iter().filter(met);
    steps.any(|r| !is_unheard(ctx, r, now))
}

/// The Supervisor's finding about an expired step.
enum Finding {
    /// First found beyond its complete-by: a reply may still be unread.
    Listen,
    /// The wait before another attempt is over.
    WaitIsOver,
    /// No agent is known to have taken the attempt: it waited in Triad's own queues. Not a failure.
    Untaken,
    /// The attempt counts as failed, or deferred and untaken attempts have lasted too long.
    Failed,
}

/// The Supervisor's finding about an expired step.
///
/// An agent replies to every request that it has taken, before its complete-by: succeeded, failed, timed out or
/// deferred. So no agent took an attempt without a reply, or the agent died; neither is a failure of the service. The
/// attempt counts only if the call ledger shows that an agent took it, because calls may have been made that may not
/// be repeated.
fn finding(
    ctx: &Context<'_>,
    order: &Order,
    index: StepIndex,
    untaken: &Untaken,
    now: Timestamp,
) -> Finding {
    let (record, step) = (&order.steps[index], &ctx.workflow.steps[index]);
    let declared = declared(step, record.direction());
    // Work in progress has a time of its own.
    let patient = record.in_progress.is_some()
        || record.state.deferred_since().is_none_or(|since| {
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
        Some(Work::Failed { .. } | Work::Due { .. } | Work::Parked { .. }) | None => {
            Finding::Failed
        }
    }
}

/// Records, once per wait, that no agent is known to have taken an attempt. Returns the wait before another attempt:
/// none at first, then half of the time waited so far, so that a topic without a reader does not fill up.
///
/// Without counted calls an agent may have died after the effect happened: the effect is in doubt until a reply
/// comes, which is harmless if the service recognises its key.
fn record_untaken(
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
        why: Some(failure),
        is_new: !noted,
    };
    history::record_deferral(order, index, deferral, now);
    Millis(unheard.since(since).0 / 2).min(ctx.timing.announce_within)
}

/// Counts a failed or unanswered attempt, or a deferral that lasted too long. Afterwards the step is due for another
/// attempt.
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
        // No reply: if an agent took the attempt, it may have used its whole allowance and had its effect.
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
        Some(Work::Due { .. } | Work::Delayed { .. } | Work::Parked { .. }) | None => {
            (known, direction, Attempt(0), None, None)
        }
    };
    let failure = failure.in_step(&record.step);
    record.leg_mut(direction).failures += 1;
    if direction != Direction::Compensate && step.by_code.contains_key(&failure.code) {
        *record
            .failures_by_code
            .entry(failure.code.clone())
            .or_default() += 1;
    }
    // An attempt was made, so its effect is in doubt unless it is known not to have happened.
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

/// No Scheduler claimed the order in time: announces it again, and sets the next announcement `rest` later.
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

/// The hint was early: moves it to the true time and changes nothing else.
fn postpone(ctx: &Context<'_>, order: &Order, now: Timestamp) -> Decision {
    let due = true_due(ctx, order);
    if due == order.due || due.is_none_or(|at| at <= now) {
        return Decision::Ignore(Reason::NotDue);
    }
    let mut next = order.successor();
    next.due = due;
    Decision::silent(next)
}

fn is_due(ctx: &Context<'_>, order: &Order, now: Timestamp) -> bool {
    true_due(ctx, order).is_some_and(|at| has_passed(ctx, at, now))
}

/// Whether a moment has passed on every clock, which the Supervisor requires before it acts.
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
