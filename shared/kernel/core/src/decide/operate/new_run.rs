//! A new, recorded run of a finished order: resubmission, or another try at its compensation.

use serde_json::Value;
use triad_workflow::{StepId, StepIndex, bounds};

use super::{line, refused};
use crate::context::Context;
use crate::decide::{Draft, Halt, ask, children, next_version, push_status};
use crate::doubt::{self, Happened, happened, stops_compensation, waits_for_operator};
use crate::history;
use crate::ids::Timestamp;
use crate::input;
use crate::operate::{MAX_INPUT_BYTES, OperationRefusal};
use crate::order::{IncidentKind, OperatorAct, Order, ProcessState};
use crate::outbox::Writer;
use crate::status::Status;
use crate::step::{StepRecord, StepState, Work};

/// Starts a new, recorded run of a finished order.
pub(super) fn resubmit(
    ctx: &Context<'_>,
    order: &Order,
    correction: Option<&(StepId, Value)>,
    act: &OperatorAct,
    now: Timestamp,
) -> Result<Draft, Halt> {
    check_unsent_statuses(order)?;
    let mut next = next_version(order, Writer::Operator);
    let is_told = matches!(order.state, ProcessState::Compensated { .. }) || order.closed.is_some();
    match &order.state {
        _ if order.parent.is_some() && is_told => {
            return Err(OperationRefusal::Already(
                "told to its parent order as without an effect (resubmit the parent)",
            )
            .into());
        }
        ProcessState::Error { .. } => history::change_each(&mut next, now, try_again),
        ProcessState::Compensated { .. } => {
            left_in_doubt(ctx, order)?;
            history::change_each(&mut next, now, restart_with_new_key);
        }
        _ => return Err(refused(order, "resubmit", "Error or Compensated")),
    }
    let mut note = line(IncidentKind::Resubmitted, act, now);
    if let Some((step, input)) = correction {
        let index = correct(ctx, order, &mut next, step, input)?;
        note.step = Some(next.steps[index].step.clone());
        note.note = Some(format!("input: {input}"));
    }
    in_doubt(ctx, &next)?;
    next.note(note);
    set_going(ctx, &mut next, now);
    Ok(next)
}

/// Another attempt at a step of an order in Error, with failures and calls counted from zero.
pub(super) fn try_again(record: &mut StepRecord) {
    let Some(attempt) = record.state.attempt() else {
        return;
    };
    // What a step waits for may still come, and its time has not begun anew. Child orders are asked for again.
    if record.state.parked_until().is_some() || record.lets_go() {
        if record.children.is_some() {
            children::release(record);
        }
        return;
    }
    // The step's request may have been under way when the order stopped, and no reply has been taken since.
    doubt::abandon(record);
    match record.state {
        StepState::Ambiguous { .. } => doubt::unheard(record),
        // The service may have stored its refusal under the key; there was no effect to repeat.
        StepState::Refused { .. } => record.raise_key(),
        StepState::Completed { .. } => return,
        _ => {}
    }
    record.begin_action_anew();
    record.state = StepState::due(attempt);
}

/// Restarts a step of a compensated order with a new key.
fn restart_with_new_key(record: &mut StepRecord) {
    if let Some(attempt) = record.state.attempt() {
        record.action.earlier = attempt.0;
    }
    if let StepState::Compensated { attempt, .. } = record.state {
        record.compensation.earlier = attempt.0;
    }
    record.raise_key();
    record.begin_action_anew();
    record.compensation.begin_run();
    doubt::lift(record);
    if let Some(children) = &mut record.children {
        children.begin_anew();
    }
    record.state = StepState::Waiting;
}

/// Replaces the input of a step that runs again and has had no effect. The new input must have the fields of the one
/// it replaces, each of the same type.
fn correct(
    ctx: &Context<'_>,
    before: &Order,
    order: &mut Order,
    step: &StepId,
    corrected: &Value,
) -> Result<StepIndex, Halt> {
    let refuse = |why: String| {
        Halt::Refused(OperationRefusal::Step {
            step: step.clone(),
            why,
        })
    };
    let index = ctx
        .workflow
        .step_index(step.as_str())
        .ok_or_else(|| refuse("the workflow has no such step".into()))?;
    if ctx.workflow.steps[index].call().is_none() {
        return Err(refuse("it calls no service, and has no input".into()));
    }
    let record = &order.steps[index];
    let goes_on = record.state.is_retry_due();
    if !goes_on && record.state != StepState::Waiting {
        let state = record.state.name();
        return Err(refuse(format!("it is {state} and will not be done again")));
    }
    // Judged before the new run: a refusal means that the effect has not happened.
    let was = happened(&before.steps[index], &ctx.workflow.steps[index]);
    if goes_on && was == Happened::Maybe {
        return Err(refuse(
            "it may have had its effect with the input that it had: resubmit it unchanged, or cancel the order".into(),
        ));
    }
    // A stored null cannot be told from no input.
    if corrected.is_null() {
        return Err(refuse(
            "the input is null: write {} for an empty one".into(),
        ));
    }
    bounds::check(corrected, MAX_INPUT_BYTES).map_err(|e| refuse(format!("the input {e}")))?;
    // If the present input has no value, which may be why the step failed, there is no shape to compare with.
    if let Ok(present) = input::forward(ctx, order, index)? {
        same_shape("input", &present, corrected).map_err(refuse)?;
    }
    let record = &mut order.steps[index];
    if goes_on {
        record.raise_key();
    }
    record.input = Some(corrected.clone());
    Ok(index)
}

/// Checks that a value has the fields of another, each of the same type. List elements are not compared; null fits
/// every type.
fn same_shape(path: &str, present: &Value, corrected: &Value) -> Result<(), String> {
    match (present, corrected) {
        (Value::Object(was), Value::Object(is)) => {
            if let Some(missing) = was.keys().find(|k| !is.contains_key(*k)) {
                return Err(format!("{path}.{missing} is missing"));
            }
            if let Some(extra) = is.keys().find(|k| !was.contains_key(*k)) {
                return Err(format!(
                    "{path}.{extra} is not a field of this step's input"
                ));
            }
            was.iter()
                .try_for_each(|(k, v)| same_shape(&format!("{path}.{k}"), v, &is[k]))
        }
        (Value::Null, _) | (_, Value::Null) => Ok(()),
        _ if kind(present) == kind(corrected) => Ok(()),
        _ => Err(format!(
            "{path} is {} and must be {}",
            kind(corrected),
            kind(present)
        )),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Refuses a new run if the effect of a step may have happened, may not be repeated and cannot be probed.
fn in_doubt(ctx: &Context<'_>, order: &Order) -> Result<(), OperationRefusal> {
    first_in_doubt(ctx, order).map_or(Ok(()), |r| Err(OperationRefusal::InDoubt(r.step.clone())))
}

/// The first such step.
pub(super) fn first_in_doubt<'a>(ctx: &Context<'_>, order: &'a Order) -> Option<&'a StepRecord> {
    let mut steps = order.steps.iter().zip(&ctx.workflow.steps);
    let stuck = steps.find(|(r, s)| waits_for_operator(r, s));
    stuck.map(|(record, _)| record)
}

/// Refuses a new run of a compensated order while a step without a compensation is in doubt and may not be repeated.
fn left_in_doubt(ctx: &Context<'_>, order: &Order) -> Result<(), OperationRefusal> {
    let mut steps = order.steps.iter().zip(&ctx.workflow.steps);
    let left = steps
        .find(|(r, s)| matches!(r.state, StepState::Ambiguous { .. }) && stops_compensation(r, s));
    left.map_or(Ok(()), |(r, _)| {
        Err(OperationRefusal::InDoubt(r.step.clone()))
    })
}

/// Refuses a new run while too many statuses of earlier runs are unsent: each run adds more.
pub(super) fn check_unsent_statuses(order: &Order) -> Result<(), OperationRefusal> {
    match order.outbox.is_full() {
        true => Err(OperationRefusal::Already(
            "at its limit of unsent messages (repair their topic first)",
        )),
        false => Ok(()),
    }
}

pub(super) fn set_going(ctx: &Context<'_>, order: &mut Order, now: Timestamp) {
    order.run += 1;
    order.closed = None;
    order.paused = None;
    order.due = None;
    push_status(order, Status::Resubmitted, None, now);
    order.state = ProcessState::Pending {
        complete_by: Some(now.plus(ctx.timing.announce_within)),
    };
    ask(order);
}

/// Retries failed compensations, with failures and calls counted from zero.
pub(super) fn retry_compensation(
    ctx: &Context<'_>,
    order: &Order,
    act: &OperatorAct,
    now: Timestamp,
) -> Result<Draft, Halt> {
    if !matches!(order.state, ProcessState::CompensationFailed { .. }) {
        return Err(refused(order, "retry-compensation", "CompensationFailed"));
    }
    in_doubt(ctx, order)?;
    check_unsent_statuses(order)?;
    let mut next = next_version(order, Writer::Operator);
    next.note(line(IncidentKind::CompensationRetried, act, now));
    compensate_again(ctx, &mut next, now);
    Ok(next)
}

/// Continues a compensation that had failed.
pub(super) fn compensate_again(ctx: &Context<'_>, order: &mut Order, now: Timestamp) {
    let ProcessState::CompensationFailed {
        cause,
        compensated_for,
        ..
    } = order.state.clone()
    else {
        return;
    };
    for record in &mut order.steps {
        if let StepState::NotCompensated { attempt, applied } = record.state.clone() {
            record.compensation.begin_run();
            record.state = StepState::Compensating {
                work: Work::due(attempt),
                applied,
            };
        }
    }
    order.run += 1;
    order.closed = None;
    order.due = None;
    push_status(order, Status::Compensating, Some(&cause), now);
    order.state = ProcessState::Compensating {
        locked_by: None,
        complete_by: now.plus(ctx.timing.announce_within),
        // The failed compensation has been the cause since then.
        cause: compensated_for.unwrap_or(cause),
    };
    ask(order);
}
