//! Operators' acts on an order. Each act is one conditional write and one line of the timeline.

mod amend;
mod new_run;
mod parent;
mod resolve;

use triad_workflow::Millis;

pub(super) use parent::parent_compensated;

use super::complete_by::set_complete_by;
use super::{Decision, Draft, Halt, children, compensate, next_version, release, transition};
use crate::context::Context;
use crate::doubt::has_passed;
use crate::failure::{Failure, FailureKind};
use crate::ids::Timestamp;
use crate::operate::{Action, Operation, OperationRefusal, note_campaign, once_a_campaign};
use crate::order::{Hold, Incident, IncidentKind, OperatorAct, Order, ProcessState};
use crate::outbox::Writer;

/// How long after the pause the Supervisor checks a paused order again: 24 hours.
pub const PAUSE_REVIEW: Millis = Millis(24 * 3_600_000);

/// Decides on an operator's act on an order.
pub(super) fn decide(
    ctx: &Context<'_>,
    order: &Order,
    operation: &Operation,
    now: Timestamp,
) -> Result<Decision, Halt> {
    let act = &operation.act;
    if let Err(refusal) = once_a_campaign(order, act) {
        return Ok(Decision::Refuse(refusal));
    }
    let mut done = match &operation.action {
        Action::Resubmit { input } => new_run::resubmit(ctx, order, input.as_ref(), act, now),
        Action::Cancel => cancel(ctx, order, act, now),
        Action::RetryCompensation => new_run::retry_compensation(ctx, order, act, now),
        Action::Close => close(ctx, order, act, now),
        Action::Amend { patch } => amend::amend(ctx, order, patch, act, now),
        Action::Pause => pause(order, act, now),
        Action::Resume => resume(ctx, order, act, now),
        Action::Resolve {
            step,
            applied,
            attempt,
        } => resolve::resolve(ctx, order, (step, *attempt), applied.as_ref(), act, now),
    };
    if let Ok(next) = &mut done {
        note_campaign(next, act);
    }
    match done {
        // Unsent messages stay, and so does the hint by which the Supervisor finds them.
        Ok(next) if next.state.is_finished() => Ok(next.decided()),
        Ok(next) => Ok(transition(ctx, next, now)),
        Err(Halt::Refused(refusal)) => Ok(Decision::Refuse(refusal)),
        Err(halt) => Err(halt),
    }
}

fn line(what: IncidentKind, act: &OperatorAct, now: Timestamp) -> Incident {
    Incident {
        act: Some(act.clone()),
        ..Incident::new(what, now)
    }
}

fn refused(order: &Order, action: &'static str, wanted: &'static str) -> Halt {
    Halt::Refused(OperationRefusal::State {
        action,
        wanted,
        state: order.state.name(),
    })
}

/// Cancels an order: see [`compensate_order`].
fn cancel(
    ctx: &Context<'_>,
    order: &Order,
    act: &OperatorAct,
    now: Timestamp,
) -> Result<Draft, Halt> {
    match &order.state {
        ProcessState::Pending { .. } | ProcessState::Processing(_) | ProcessState::Error { .. } => {
            compensate_order(ctx, order, act, now)
        }
        _ => Err(refused(order, "cancel", "Pending, Processing or Error")),
    }
}

/// Compensates an order that has not reached its point of no return: one that runs or is in Error and, for its parent,
/// one that is Processed.
fn compensate_order(
    ctx: &Context<'_>,
    order: &Order,
    act: &OperatorAct,
    now: Timestamp,
) -> Result<Draft, Halt> {
    if let Some(pivot) = ctx.workflow.pivot()
        && has_passed(&order.steps[pivot], &ctx.workflow.steps[pivot])
    {
        return Err(OperationRefusal::PastPivot(order.steps[pivot].step.clone()).into());
    }
    let mut next = next_version(order, Writer::Operator);
    next.paused = None;
    next.set_aside = None;
    next.closed = None;
    next.due = None;
    next.note(line(IncidentKind::Cancelled, act, now));
    let cause = Failure::new(FailureKind::Operator, "cancelled", &act.why);
    compensate::begin(ctx, &mut next, cause, now)?;
    Ok(next)
}

/// Closes an order as resolved by hand. Its state does not change.
fn close(
    ctx: &Context<'_>,
    order: &Order,
    act: &OperatorAct,
    now: Timestamp,
) -> Result<Draft, Halt> {
    match &order.state {
        ProcessState::Error { .. } | ProcessState::CompensationFailed { .. } => {}
        _ => return Err(refused(order, "close", "Error or CompensationFailed")),
    }
    if order.closed.is_some() {
        return Err(OperationRefusal::Already("closed").into());
    }
    let mut next = next_version(order, Writer::Operator);
    next.closed = Some(hold(act, now));
    next.note(line(IncidentKind::Closed, act, now));
    children::end(ctx, &mut next)?;
    Ok(next)
}

fn hold(act: &OperatorAct, now: Timestamp) -> Hold {
    Hold {
        at: now,
        act: act.clone(),
    }
}

/// Pauses an order: replies to requests that are out are taken, and no step starts.
fn pause(order: &Order, act: &OperatorAct, now: Timestamp) -> Result<Draft, Halt> {
    if order.state.is_finished() {
        let wanted = "Pending, Processing or Compensating";
        return Err(refused(order, "pause", wanted));
    }
    if order.paused.is_some() {
        return Err(OperationRefusal::Already("paused").into());
    }
    let mut next = next_version(order, Writer::Operator);
    next.paused = Some(hold(act, now));
    next.note(line(IncidentKind::Paused, act, now));
    let review = now.plus(PAUSE_REVIEW);
    match &mut next.state {
        ProcessState::Compensating {
            locked_by,
            complete_by,
            ..
        } => {
            *locked_by = None;
            *complete_by = review;
        }
        state => {
            *state = ProcessState::Pending {
                complete_by: Some(review),
            };
        }
    }
    // Requests that are out, deferrals and failures are supervised while an order is paused, too.
    set_complete_by(&mut next, now);
    Ok(next)
}

/// Resumes a paused order.
fn resume(
    ctx: &Context<'_>,
    order: &Order,
    act: &OperatorAct,
    now: Timestamp,
) -> Result<Draft, Halt> {
    if order.paused.is_none() {
        return Err(OperationRefusal::Already("not paused").into());
    }
    let mut next = next_version(order, Writer::Operator);
    next.paused = None;
    next.note(line(IncidentKind::Resumed, act, now));
    let until = release(ctx, &mut next, now);
    match &mut next.state {
        ProcessState::Pending { complete_by } => *complete_by = Some(until),
        ProcessState::Compensating { complete_by, .. } => *complete_by = until,
        _ => {}
    }
    set_complete_by(&mut next, now);
    Ok(next)
}
