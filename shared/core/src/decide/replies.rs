//! What agents answer while an order is being run: done, failed, put off, or what a probe found.

use serde_json::Value;
use triad_workflow::{Millis, StepIndex};

use super::{
    Decision, Draft, Halt, Illegal, Reason, forward, give_up, next_version, stop_in_doubt,
    transition,
};
use crate::budget;
use crate::context::{Context, NeedsDetails};
use crate::doubt::{NextAttempt, next_attempt};
use crate::failure::{Failure, FailureKind};
use crate::ids::{Attempt, Direction, Timestamp};
use crate::message::{Outcome, Reply};
use crate::order::{Incident, IncidentKind, Order, StepState};
use crate::outbox::Writer;
use crate::planted::{Bug, planted};

/// Longest that parked work is left alone before it is tried again.
pub const PARK_AT_MOST: Millis = Millis(15 * 60_000);

/// The request that a reply answers.
#[derive(Clone, Copy)]
struct Asked {
    index: StepIndex,
    attempt: Attempt,
    started: Timestamp,
    calls: u32,
    /// When the agent had its answer.
    finished: Timestamp,
}

/// An agent answers a request of an order that is not being undone.
pub(super) fn take(
    ctx: &Context<'_>,
    order: &Order,
    reply: &Reply,
    now: Timestamp,
) -> Result<Decision, Halt> {
    let index = step_of(ctx, reply)?;
    let (attempt, started, complete_by) = match (&order.steps[index].state, reply.direction) {
        (
            StepState::Running {
                attempt,
                started,
                complete_by,
            },
            Direction::Forward,
        )
        | (
            StepState::Probing {
                attempt,
                started,
                complete_by,
            },
            Direction::Probe,
        ) => (*attempt, *started, *complete_by),
        _ => return Ok(Decision::Ignore(Reason::NotAwaited)),
    };
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
    if spends_calls(ctx, reply, index) && !planted(Bug::CallsNotCounted) {
        next.steps[index].calls = next.steps[index].calls.saturating_add(reply.calls);
    }
    let asked = Asked {
        index,
        attempt,
        started,
        calls: reply.calls,
        finished: finished(reply, now).max(started),
    };
    match &reply.outcome {
        Outcome::Succeeded { output } if reply.direction == Direction::Probe => {
            probed(ctx, &mut next, asked, output, now)?;
        }
        Outcome::Succeeded { output } => completed(ctx, &mut next, asked, output.clone(), now)?,
        Outcome::Failed {
            failure,
            maybe_applied,
        } => {
            // A question has no effect, so it leaves the doubt as it is.
            next.steps[index].in_doubt |= *maybe_applied && reply.direction == Direction::Forward;
            failed(ctx, &mut next, asked, failure, reply.direction, now)?;
        }
        Outcome::Deferred {
            until,
            failure,
            maybe_applied,
        } => {
            next.steps[index].in_doubt |= *maybe_applied && reply.direction == Direction::Forward;
            deferred(ctx, &mut next, asked, *until, failure, now)?;
        }
    }
    Ok(transition(ctx, next, now))
}

/// Whether the calls of an attempt are subtracted from the step's total.
///
/// Where no total is declared it is only what all attempts may make that can fail. An attempt that
/// was deferred has not failed: the first call after an outage may be made for it again and again,
/// on behalf of all that wait.
pub(super) fn spends_calls(ctx: &Context<'_>, reply: &Reply, index: StepIndex) -> bool {
    let deferred = matches!(reply.outcome, Outcome::Deferred { .. });
    !deferred || budget::is_counted(&ctx.workflow.steps[index], reply.direction)
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
    let older = reply.attempt < attempt || reply.complete_by != complete_by;
    // An agent is silent after complete-by, so a reply that it sent in time is good, however long
    // it waited for a Scheduler to read it.
    let sent = finished(reply, now);
    Ok(if older && !planted(Bug::OldReplyTaken) {
        Some(Reason::OlderAttempt)
    } else if sent > complete_by && !planted(Bug::LateReplyTaken) {
        Some(Reason::Late)
    } else {
        None
    })
}

/// When the work that a reply tells of was done, as far as the reply says.
pub(super) fn finished(reply: &Reply, now: Timestamp) -> Timestamp {
    reply.sent_at.map_or(now, |at| at.min(now))
}

fn completed(
    ctx: &Context<'_>,
    order: &mut Draft,
    asked: Asked,
    output: Value,
    now: Timestamp,
) -> Result<(), NeedsDetails> {
    let position = forward::next_position(order);
    let record = &mut order.steps[asked.index];
    record.in_doubt = false;
    record.parked_since = None;
    record.unheard_since = None;
    record.state = StepState::Completed {
        attempt: asked.attempt,
        started: asked.started,
        finished: asked.finished,
        position,
        output,
    };
    forward::advance(ctx, order, now)
}

/// The service has said whether the effect in doubt happened: if it did, the step is done; if
/// not, it may be tried again at once.
fn probed(
    ctx: &Context<'_>,
    order: &mut Draft,
    asked: Asked,
    answer: &Value,
    now: Timestamp,
) -> Result<(), NeedsDetails> {
    let record = &mut order.steps[asked.index];
    let step = record.step.clone();
    let Some(applied) = answer.get("applied").and_then(Value::as_bool) else {
        let text = "the answer to the probe has no \"applied\": true or false";
        let failure = Failure::new(FailureKind::Transient, "probe-answer", text);
        return failed(ctx, order, asked, &failure, Direction::Probe, now);
    };
    let applied = applied != planted(Bug::ProbeInverted);
    record.in_doubt = false;
    // The service is there: a wait that follows is another one.
    record.parked_since = None;
    order.note(Incident {
        step: Some(step),
        attempt: Some(asked.attempt),
        started: Some(asked.started),
        calls: Some(asked.calls),
        note: Some(if applied { "applied" } else { "not applied" }.to_owned()),
        ..Incident::new(IncidentKind::Probed, now)
    });
    if applied {
        let output = answer.get("output").cloned().unwrap_or(Value::Null);
        return completed(ctx, order, asked, output, now);
    }
    order.steps[asked.index].state = StepState::RetryDue {
        attempt: asked.attempt,
    };
    let held = !matches!(order.state, crate::order::ProcessState::Processing(_));
    if held || forward::start(ctx, order, asked.index, asked.attempt, now)? {
        forward::set_complete_by(order, now);
    }
    Ok(())
}

/// A failure that the agent reported.
///
/// A permanent one ends the matter at once. Others wait for the Supervisor to count them: it
/// alone decides about further attempts.
fn failed(
    ctx: &Context<'_>,
    order: &mut Draft,
    asked: Asked,
    failure: &Failure,
    direction: Direction,
    now: Timestamp,
) -> Result<(), NeedsDetails> {
    let index = asked.index;
    let attempt = asked.attempt;
    let failure = failure.clone().in_step(&order.steps[index].step);
    let record = &mut order.steps[index];
    record.error = Some(failure.clone());
    record.parked_since = None;
    record.unheard_since = None;
    record.state = StepState::Failed {
        attempt,
        started: asked.started,
        calls: asked.calls,
    };
    let permanent = failure.kind == FailureKind::Permanent && direction == Direction::Forward;
    // Its failure ends the matter: there can be no other attempt.
    let last = next_attempt(record, &ctx.workflow.steps[index]) == NextAttempt::Operator;
    if permanent || last {
        record.failures += 1;
        // The service's word is final, unless an earlier attempt is in doubt.
        if !record.in_doubt {
            record.state = StepState::Refused { attempt };
        }
        order.note(Incident {
            attempt: Some(attempt),
            started: Some(asked.started),
            calls: Some(asked.calls),
            ..Incident::new(IncidentKind::AttemptFailed, now).of(&failure)
        });
        if permanent && !last {
            give_up(ctx, order, index, failure, now)?;
        } else {
            stop_in_doubt(order, index, now);
        }
    } else {
        forward::set_complete_by(order, now);
    }
    Ok(())
}

/// The agent has put the work off: it is tried again later, without counting as a failure.
fn deferred(
    ctx: &Context<'_>,
    order: &mut Draft,
    asked: Asked,
    until: Timestamp,
    failure: &Failure,
    now: Timestamp,
) -> Result<(), NeedsDetails> {
    let record = &mut order.steps[asked.index];
    record.state = StepState::Parked {
        attempt: asked.attempt,
        until: park_until(until, now),
    };
    if next_attempt(record, &ctx.workflow.steps[asked.index]) == NextAttempt::Operator {
        // It may not be tried again, so for the order this is the end of the attempt.
        return failed(ctx, order, asked, failure, Direction::Forward, now);
    }
    let failure = failure.clone().in_step(&record.step);
    record.error = Some(failure.clone());
    record.unheard_since = None;
    if record.parked_since.is_none() {
        record.parked_since = Some(now);
        order.note(parked(asked.attempt, asked.started, &failure, now));
    }
    forward::set_complete_by(order, now);
    Ok(())
}

/// The timeline's line about work that is put off: one for a whole wait, however often the
/// service is found unavailable.
pub(super) fn parked(
    attempt: Attempt,
    started: Timestamp,
    failure: &Failure,
    now: Timestamp,
) -> Incident {
    Incident {
        attempt: Some(attempt),
        started: Some(started),
        ..Incident::new(IncidentKind::Parked, now).of(failure)
    }
}

/// When parked work is tried again, within bounds.
pub(super) fn park_until(wanted: Timestamp, now: Timestamp) -> Timestamp {
    wanted.clamp(now, now.plus(PARK_AT_MOST))
}
