//! Replies of agents: succeeded, failed, deferred, or the result of a probe.

use serde_json::Value;
use triad_workflow::{Millis, StepIndex};

use super::answered::AnsweredRequest;
use super::complete_by::set_complete_by;
use super::{
    Decision, Draft, Halt, Reason, compensate, forward, give_up, later, next_position,
    next_version, push_status, push_step_completed, stop_in_doubt, supervise, transition,
};
use crate::budget;
use crate::context::{Context, NeedsDetails};
use crate::doubt::{self, NextAttempt, next_attempt};
use crate::event::Untaken;
use crate::failure::{Failure, FailureKind};
use crate::history::{self, Deferral};
use crate::ids::{Direction, Timestamp};
use crate::illegal::Illegal;
use crate::message::{Reply, ReplyOutcome};
use crate::order::{Incident, IncidentKind, Order, ProcessState};
use crate::outbox::Writer;
use crate::status::Status;
use crate::step::{Out, StepState, Work};

/// Longest time for which an attempt is deferred before it is made again: 15 minutes.
pub const DEFER_AT_MOST: Millis = Millis(15 * 60_000);

/// When a service is asked again that works on something and does not say when it wants to be asked.
const ASK_AGAIN: Millis = Millis(1_000);

/// Decides on the reply to a request.
pub(super) fn take(
    ctx: &Context<'_>,
    order: &Order,
    reply: &Reply,
    now: Timestamp,
) -> Result<Decision, Halt> {
    let index = step_of(ctx, reply)?;
    let out = order.steps[index].state.out();
    let Some(out) = out.filter(|out| out.direction == reply.direction) else {
        return Ok(Decision::Ignore(Reason::NotAwaited));
    };
    match fence(reply, out, now)? {
        None => {}
        // Another Scheduler, which has died or lost its partition, may have taken the same reply in time, with its
        // write still under way. If that write landed after this reply was acknowledged, it could finish the order
        // with no process left to send its last status. This write makes that one conflict, and every later reader
        // finds the attempt over, whatever its clock shows. The end of a compensation is confirmed and needs no such
        // write.
        Some(Reason::Late) if out.direction != Direction::Compensate => {
            let mut next = next_version(order, Writer::Scheduler);
            // Bounded by complete-by plus the skew: the Supervisor waits for replies from this moment on, and a clock
            // that is hours ahead must not make it wait for hours.
            let found = now.min(out.complete_by.plus(ctx.timing.skew));
            if let Some(out) = next.steps[index].state.out_mut() {
                out.unheard_since.get_or_insert(found);
            }
            return Ok(transition(ctx, next, now));
        }
        Some(reason) => return Ok(Decision::Ignore(reason)),
    }
    let step = &ctx.workflow.steps[index];
    let mut next = next_version(order, Writer::Scheduler);
    let record = &mut next.steps[index];
    let leg = record.leg_mut(out.direction);
    leg.made = leg.made.saturating_add(reply.calls);
    if spends_calls(ctx, order, reply, index) {
        leg.calls = leg.calls.saturating_add(reply.calls);
    }
    let asked = AnsweredRequest {
        index,
        out,
        calls: reply.calls,
        finished: finished(reply, now).max(out.started),
    };
    match &reply.outcome {
        ReplyOutcome::Succeeded { output } => match out.direction {
            Direction::Forward => completed(ctx, &mut next, asked, output.clone(), now)?,
            Direction::Probe => probed(ctx, &mut next, asked, output, now)?,
            Direction::Compensate => compensated(ctx, &mut next, asked, now)?,
        },
        ReplyOutcome::Failed {
            failure,
            maybe_applied,
        } => {
            doubt::answered(record, step, out, *maybe_applied);
            failed(ctx, &mut next, asked, failure, now)?;
        }
        ReplyOutcome::InProgress(taking) => {
            let is_action = out.direction != Direction::Compensate;
            if is_action && later::goes_on(ctx, &mut next, asked, taking, now) {
                set_complete_by(&mut next, now);
            } else {
                // The step says nothing of work that is finished later: the service is asked for it again.
                doubt::answered(&mut next.steps[index], step, out, true);
                let until = now.plus(taking.ask_after.unwrap_or(ASK_AGAIN));
                let text = "the service works on it";
                let failure = Failure::new(FailureKind::Transient, "in-progress", text);
                deferred(ctx, &mut next, asked, until, &failure, now)?;
            }
        }
        ReplyOutcome::Deferred {
            until,
            failure,
            maybe_applied,
            ..
        } => {
            doubt::answered(record, step, out, *maybe_applied);
            deferred(ctx, &mut next, asked, *until, failure, now)?;
        }
    }
    Ok(transition(ctx, next, now))
}

/// Whether the calls of an attempt count against the step's total.
///
/// Without a declared total, only attempts that can fail count. A deferred attempt has not failed: the first call
/// after an outage may be made for one order repeatedly, on behalf of all orders that wait. Questions about work in
/// progress do not count either.
fn spends_calls(ctx: &Context<'_>, order: &Order, reply: &Reply, index: StepIndex) -> bool {
    if order.steps[index].in_progress.is_some() {
        return false;
    }
    let deferred = matches!(reply.outcome, ReplyOutcome::Deferred { .. });
    !deferred || budget::is_counted(&ctx.workflow.steps[index], reply.direction)
}

/// Index of the step that a reply names.
fn step_of(ctx: &Context<'_>, reply: &Reply) -> Result<StepIndex, Illegal> {
    ctx.workflow
        .step_index(reply.step.as_str())
        .ok_or_else(|| Illegal::UnknownStep(reply.step.to_string()))
}

/// `None` if a reply is for the attempt that is out and in time; otherwise the reason why it changes nothing.
fn fence(reply: &Reply, out: Out, now: Timestamp) -> Result<Option<Reason>, Illegal> {
    if reply.attempt > out.attempt {
        return Err(Illegal::FutureAttempt {
            step: reply.step.to_string(),
            attempt: reply.attempt.0,
        });
    }
    let older = reply.attempt < out.attempt || reply.complete_by != out.complete_by;
    // An agent sends nothing after complete-by, so a reply sent in time counts, however long it waited to be read. A
    // reply without a send time is judged by this clock; an attempt that one clock has found over stays over.
    let says_in_time = reply.sent_at.is_some_and(|at| at <= out.complete_by);
    let is_over = out.unheard_since.is_some() || now > out.complete_by;
    Ok(if older {
        Some(Reason::OlderAttempt)
    } else if !says_in_time && is_over {
        Some(Reason::Late)
    } else {
        None
    })
}

/// When the agent finished the work, as far as the reply says.
fn finished(reply: &Reply, now: Timestamp) -> Timestamp {
    reply.sent_at.map_or(now, |at| at.min(now))
}

fn completed(
    ctx: &Context<'_>,
    order: &mut Draft,
    asked: AnsweredRequest,
    output: Value,
    now: Timestamp,
) -> Result<(), NeedsDetails> {
    let position = next_position(order);
    let record = &mut order.steps[asked.index];
    // The timeline has a separate line for a probe, unless it asked about work in progress.
    let has_line = asked.out.direction == Direction::Probe && record.in_progress.is_none();
    doubt::lift(record);
    record.state = StepState::Completed {
        attempt: asked.out.attempt,
        started: (!has_line).then_some(asked.out.started),
        finished: asked.finished,
        position,
        output: output.into(),
    };
    push_step_completed(ctx, order, asked.index, now);
    forward::advance(ctx, order, now)
}

fn compensated(
    ctx: &Context<'_>,
    order: &mut Draft,
    asked: AnsweredRequest,
    now: Timestamp,
) -> Result<(), NeedsDetails> {
    let record = &mut order.steps[asked.index];
    let Some(applied) = record.state.to_compensate().cloned() else {
        return Ok(());
    };
    doubt::lift(record);
    record.state = StepState::Compensated {
        applied,
        attempt: asked.out.attempt,
        started: Some(asked.out.started),
        finished: asked.finished,
    };
    compensate::advance(ctx, order, now)
}

/// Takes the result of a probe: if the effect happened, the step is completed; if not, the action may be attempted
/// again at once.
fn probed(
    ctx: &Context<'_>,
    order: &mut Draft,
    asked: AnsweredRequest,
    answer: &Value,
    now: Timestamp,
) -> Result<(), NeedsDetails> {
    let record = &mut order.steps[asked.index];
    let step = record.step.clone();
    let Some(applied) = answer.get("applied").and_then(Value::as_bool) else {
        let text = "the answer to the probe has no \"applied\": true or false";
        let failure = Failure::new(FailureKind::Transient, "probe-answer", text);
        return failed(ctx, order, asked, &failure, now);
    };
    if record.in_progress.is_some() {
        if applied {
            let output = answer.get("output").cloned().unwrap_or(Value::Null);
            return completed(ctx, order, asked, output, now);
        }
        let text = "the service does not know the work that it had taken";
        let failure = Failure::new(FailureKind::Permanent, "not-known", text);
        return failed(ctx, order, asked, &failure, now);
    }
    doubt::lift(record);
    order.note(Incident {
        step: Some(step),
        attempt: Some(asked.out.attempt),
        started: Some(asked.out.started),
        calls: Some(asked.calls),
        note: Some(if applied { "applied" } else { "not applied" }.to_owned()),
        ..Incident::new(IncidentKind::Probed, now)
    });
    if applied {
        let output = answer.get("output").cloned().unwrap_or(Value::Null);
        return completed(ctx, order, asked, output, now);
    }
    let last = asked.out.attempt;
    order.steps[asked.index].state = StepState::due(last);
    let held = !matches!(order.state, ProcessState::Processing(_));
    if held || forward::start(ctx, order, asked.index, last, now)? {
        set_complete_by(order, now);
    }
    Ok(())
}

/// Takes a failure that the agent reported.
///
/// A permanent failure of the action ends the step. Other failures wait until the Supervisor counts them, except
/// those that the step lets the Scheduler retry at once.
fn failed(
    ctx: &Context<'_>,
    order: &mut Draft,
    asked: AnsweredRequest,
    failure: &Failure,
    now: Timestamp,
) -> Result<(), NeedsDetails> {
    let AnsweredRequest { index, out, .. } = asked;
    let record = &mut order.steps[index];
    let failure = failure.clone().in_step(&record.step);
    record.error = Some(failure.clone());
    let is_refusal = failure.kind == FailureKind::Permanent;
    if !is_refusal && later::asked_in_vain(ctx, order, asked, &failure, now) {
        set_complete_by(order, now);
        return Ok(());
    }
    let record = &mut order.steps[index];
    if let Some(work) = record.state.work_mut() {
        *work = Work::Failed {
            direction: out.direction,
            attempt: out.attempt,
            started: out.started,
            calls: asked.calls,
        };
    }
    // Of work in progress, the service says that it has failed.
    let is_judged = out.direction == Direction::Forward || record.in_progress.is_some();
    let permanent = is_refusal && is_judged;
    // No other attempt can follow, so this failure is final.
    let last = is_last(ctx, order, asked);
    if !permanent && !last {
        if supervise::is_retried_at_once(ctx, order, index, &failure) {
            return retry_in_same_write(ctx, order, asked, now);
        }
        set_complete_by(order, now);
        return Ok(());
    }
    let record = &mut order.steps[index];
    record.action.failures += 1;
    if permanent && record.in_progress.is_some() {
        doubt::lift(record);
    }
    if doubt::refusal_is_final(record) {
        record.state = StepState::Refused {
            attempt: out.attempt,
        };
    }
    let line = Incident {
        attempt: Some(out.attempt),
        started: Some(out.started),
        calls: Some(asked.calls),
        ..Incident::new(IncidentKind::AttemptFailed, now).of(&failure)
    };
    order.note(line.in_direction(out.direction));
    if last {
        stop_in_doubt(order, index, now);
    } else {
        give_up(ctx, order, index, failure, now)?;
    }
    Ok(())
}

/// Counts a failure as the Supervisor would, and makes the next attempt in the same write.
fn retry_in_same_write(
    ctx: &Context<'_>,
    order: &mut Draft,
    asked: AnsweredRequest,
    now: Timestamp,
) -> Result<(), NeedsDetails> {
    let AnsweredRequest { index, out, .. } = asked;
    let failure = supervise::count(ctx, order, index, &Untaken::new(), now);
    if out.direction == Direction::Compensate {
        return compensate::advance(ctx, order, now);
    }
    push_status(order, Status::Retrying, Some(&failure), now);
    if forward::start(ctx, order, index, out.attempt, now)? {
        set_complete_by(order, now);
    }
    Ok(())
}

/// Whether this is the last attempt at an action that has not succeeded, unless an operator starts a new run.
fn is_last(ctx: &Context<'_>, order: &Order, asked: AnsweredRequest) -> bool {
    let (record, step) = (&order.steps[asked.index], &ctx.workflow.steps[asked.index]);
    asked.out.direction != Direction::Compensate
        && next_attempt(record, step) == NextAttempt::Operator
}

/// Takes a deferral: another attempt follows later, and nothing counts as a failure.
fn deferred(
    ctx: &Context<'_>,
    order: &mut Draft,
    asked: AnsweredRequest,
    until: Timestamp,
    failure: &Failure,
    now: Timestamp,
) -> Result<(), NeedsDetails> {
    let out = asked.out;
    if let Some(work) = order.steps[asked.index].state.work_mut() {
        *work = Work::Deferred {
            attempt: out.attempt,
            until: until.clamp(now, now.plus(DEFER_AT_MOST)),
            deferred_since: out.deferred_since.unwrap_or(now),
        };
    }
    if is_last(ctx, order, asked) {
        // No other attempt may follow, so for the order this attempt has failed.
        return failed(ctx, order, asked, failure, now);
    }
    let record = &mut order.steps[asked.index];
    let failure = failure.clone().in_step(&record.step);
    record.error = Some(failure.clone());
    let deferral = Deferral {
        attempt: out.attempt,
        started: out.started,
        direction: out.direction,
        why: Some(failure),
        // One line of the timeline per wait, however often the service is found unavailable.
        is_new: out.deferred_since.is_none(),
    };
    history::record_deferral(order, asked.index, deferral, now);
    set_complete_by(order, now);
    Ok(())
}
