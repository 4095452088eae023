//! What operators do to an order. Each act is one conditional write, and a line of the timeline.

use serde_json::Value;
use triad_workflow::{Millis, Repeat, StepId, StepIndex};

use super::{Decision, ask, forward, input, next_version, tell, transition, undo};
use crate::context::Context;
use crate::failure::{Failure, FailureKind};
use crate::ids::{Attempt, Timestamp};
use crate::operate::{Action, MAX_INPUT_BYTES, Operation, Refusal};
use crate::order::{Act, Hold, Incident, IncidentKind, Order, ProcessState, StepRecord, StepState};
use crate::outbox::Writer;
use crate::planted::{Bug, planted};
use crate::status::Status;

/// How long a paused order is left alone before the Supervisor looks at it again.
pub const PAUSE_REVIEW: Millis = Millis(24 * 3_600_000);

/// Decides what an operator's act makes of an order.
pub(super) fn decide(
    ctx: &Context<'_>,
    order: &Order,
    operation: &Operation,
    now: Timestamp,
) -> Decision {
    let act = &operation.act;
    let done = match &operation.action {
        Action::Resubmit { input } => resubmit(ctx, order, input.as_ref(), act, now),
        Action::Cancel => cancel(ctx, order, act, now),
        Action::RetryUndo => retry_undo(ctx, order, act, now),
        Action::Close => return close(order, act, now).map_or_else(Decision::Refuse, written),
        Action::Pause => pause(order, act, now),
        Action::Resume => resume(ctx, order, act, now),
        Action::Settle { step, applied } => settle(ctx, order, step, applied.as_ref(), act, now),
    };
    match done {
        Ok(next) => transition(ctx, next, now),
        Err(refusal) => Decision::Refuse(refusal),
    }
}

fn written(next: Order) -> Decision {
    Decision::Transition(Box::new(next))
}

fn line(what: IncidentKind, act: &Act, now: Timestamp) -> Incident {
    Incident {
        act: Some(act.clone()),
        ..Incident::new(what, now)
    }
}

fn refused(order: &Order, action: &'static str, wanted: &'static str) -> Refusal {
    Refusal::State {
        action,
        wanted,
        state: order.state.name(),
    }
}

/// Sets a finished order going again: a new, recorded round.
fn resubmit(
    ctx: &Context<'_>,
    order: &Order,
    correction: Option<&(StepId, Value)>,
    act: &Act,
    now: Timestamp,
) -> Result<Order, Refusal> {
    let mut next = next_version(order, Writer::Operator);
    match &order.state {
        ProcessState::Error { .. } => next.steps.iter_mut().for_each(try_again),
        ProcessState::Compensated { .. } => next.steps.iter_mut().for_each(from_the_beginning),
        _ => return Err(refused(order, "resubmit", "Error or Compensated")),
    }
    let mut note = line(IncidentKind::Resubmitted, act, now);
    if let Some((step, input)) = correction {
        let index = correct(ctx, &mut next, step, input)?;
        note.step = Some(next.steps[index].step.clone());
        note.note = Some(format!("input: {input}"));
    }
    in_doubt(ctx, &next)?;
    next.note(note);
    set_going(ctx, &mut next, now);
    Ok(next)
}

/// A step of an order in Error: another attempt, its failures and calls counted from zero.
fn try_again(record: &mut StepRecord) {
    let Some(attempt) = record.state.attempt() else {
        return;
    };
    match record.state {
        // Its request was out when the order stopped, and nobody has listened since.
        StepState::Running { .. } | StepState::Ambiguous { .. } => record.in_doubt = true,
        // The service may have kept its refusal under the key; there was no effect to repeat.
        StepState::Refused { .. } => record.key += 1,
        StepState::Completed { .. } => return,
        _ => {}
    }
    record.failures = 0;
    record.calls = 0;
    record.parked_since = None;
    record.state = StepState::RetryDue { attempt };
}

/// A step of an undone order: its keys are spent.
fn from_the_beginning(record: &mut StepRecord) {
    if let Some(attempt) = record.state.attempt() {
        record.earlier = attempt.0;
    }
    record.key += u32::from(!planted(Bug::KeyNotRaised));
    record.failures = 0;
    record.undo_failures = 0;
    record.calls = 0;
    record.undo_calls = 0;
    record.in_doubt = false;
    record.parked_since = None;
    record.state = StepState::Waiting;
}

/// Replaces the input of a step that is to be done again and has had no effect. The new input
/// must have the fields of the one it replaces, each of the same type.
fn correct(
    ctx: &Context<'_>,
    order: &mut Order,
    step: &StepId,
    corrected: &Value,
) -> Result<StepIndex, Refusal> {
    let refuse = |why: String| Refusal::Step {
        step: step.clone(),
        why,
    };
    let index = ctx
        .workflow
        .step_index(step.as_str())
        .ok_or_else(|| refuse("the workflow has no such step".into()))?;
    let record = &order.steps[index];
    if !matches!(
        record.state,
        StepState::RetryDue { .. } | StepState::Waiting
    ) {
        let state = record.state.name();
        return Err(refuse(format!("it is {state} and will not be done again")));
    }
    if record.in_doubt && !planted(Bug::CorrectionInDoubt) {
        return Err(refuse(
            "it may have had its effect with the input that it had: resubmit it unchanged, or cancel the order".into(),
        ));
    }
    let bytes = corrected.to_string().len();
    if bytes > MAX_INPUT_BYTES {
        return Err(refuse(format!(
            "the input has {bytes} bytes; {MAX_INPUT_BYTES} are allowed"
        )));
    }
    // Where the present input has no value, which may be why the step failed, there is no shape
    // to hold the new one against.
    if let Ok(present) = input::forward(ctx, order, index) {
        same_shape("input", &present, corrected).map_err(refuse)?;
    }
    let record = &mut order.steps[index];
    if matches!(record.state, StepState::RetryDue { .. }) {
        record.key += 1;
    }
    record.input = Some(corrected.clone());
    Ok(index)
}

/// Whether a value has the fields of another, each of the same type. The elements of lists are
/// not looked at; null fits every type.
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

/// Refuses to go on over a step whose effect may have happened and may not be repeated, where
/// the service cannot be asked.
fn in_doubt(ctx: &Context<'_>, order: &Order) -> Result<(), Refusal> {
    let stuck = order.steps.iter().zip(&ctx.workflow.steps).find(|(r, s)| {
        let waits = matches!(
            r.state,
            StepState::RetryDue { .. } | StepState::NotUndone { .. }
        );
        let asks =
            matches!(r.state, StepState::RetryDue { .. }) && matches!(s.repeat, Repeat::Probe(_));
        waits && r.in_doubt && !s.repeat.is_safe() && !asks
    });
    match stuck {
        None => Ok(()),
        Some((record, _)) => Err(Refusal::InDoubt(record.step.clone())),
    }
}

fn set_going(ctx: &Context<'_>, order: &mut Order, now: Timestamp) {
    order.round += 1;
    order.closed = None;
    order.paused = None;
    order.due = None;
    tell(order, Status::Resubmitted, None, now);
    order.state = ProcessState::Pending {
        complete_by: Some(now.plus(ctx.timing.announce_within)),
    };
    ask(order);
}

/// Undoes an order that has not reached its point of no return.
fn cancel(ctx: &Context<'_>, order: &Order, act: &Act, now: Timestamp) -> Result<Order, Refusal> {
    match &order.state {
        ProcessState::Pending { .. } | ProcessState::Processing(_) | ProcessState::Error { .. } => {
        }
        _ => return Err(refused(order, "cancel", "Pending, Processing or Error")),
    }
    if let Some(pivot) = ctx.workflow.pivot()
        && may_have_happened(&order.steps[pivot])
        && !planted(Bug::PivotIgnored)
    {
        return Err(Refusal::PastPivot(order.steps[pivot].step.clone()));
    }
    let mut next = next_version(order, Writer::Operator);
    next.paused = None;
    next.closed = None;
    next.due = None;
    next.note(line(IncidentKind::Cancelled, act, now));
    let cause = Failure::new(FailureKind::Operator, "cancelled", &act.why);
    undo::begin(ctx, &mut next, cause, now);
    Ok(next)
}

/// Whether a step has been started and not been found without effect.
pub(crate) fn may_have_happened(record: &StepRecord) -> bool {
    match record.state {
        StepState::Waiting | StepState::Refused { .. } => false,
        StepState::Failed { .. } | StepState::RetryDue { .. } | StepState::Parked { .. } => {
            record.in_doubt
        }
        _ => true,
    }
}

/// Tries failed compensations again, their failures and calls counted from zero.
fn retry_undo(
    ctx: &Context<'_>,
    order: &Order,
    act: &Act,
    now: Timestamp,
) -> Result<Order, Refusal> {
    let ProcessState::CompensationFailed { cause, .. } = &order.state else {
        return Err(refused(order, "retry-undo", "CompensationFailed"));
    };
    in_doubt(ctx, order)?;
    let mut next = next_version(order, Writer::Operator);
    next.note(line(IncidentKind::UndoRetried, act, now));
    undo_again(ctx, &mut next, cause, now);
    Ok(next)
}

fn undo_again(ctx: &Context<'_>, order: &mut Order, cause: &Failure, now: Timestamp) {
    for record in &mut order.steps {
        if let StepState::NotUndone { attempt, applied } = record.state.clone() {
            record.undo_failures = 0;
            record.undo_calls = 0;
            record.state = StepState::UndoDue { attempt, applied };
        }
    }
    // Why it was undone is in the timeline; the failed undo has been the cause since.
    let began = order
        .incidents
        .iter()
        .rev()
        .find(|i| i.what == IncidentKind::UndoBegan)
        .and_then(|i| i.failure.clone());
    order.round += 1;
    order.closed = None;
    order.due = None;
    tell(order, Status::Compensating, Some(cause), now);
    order.state = ProcessState::Compensating {
        locked_by: None,
        complete_by: now.plus(ctx.timing.announce_within),
        cause: began.unwrap_or_else(|| cause.clone()),
    };
    ask(order);
}

/// Takes an order as settled by hand. Its state stays what it is.
fn close(order: &Order, act: &Act, now: Timestamp) -> Result<Order, Refusal> {
    match &order.state {
        ProcessState::Error { .. } | ProcessState::CompensationFailed { .. } => {}
        _ => return Err(refused(order, "close", "Error or CompensationFailed")),
    }
    if order.closed.is_some() {
        return Err(Refusal::Already("closed"));
    }
    // What is unsent stays, and so does the hint by which the Supervisor finds it.
    let mut next = next_version(order, Writer::Operator);
    next.closed = Some(hold(act, now));
    next.note(line(IncidentKind::Closed, act, now));
    Ok(next)
}

fn hold(act: &Act, now: Timestamp) -> Hold {
    Hold {
        at: now,
        act: act.clone(),
    }
}

/// Holds an order: what is out may be answered, and nothing is started.
fn pause(order: &Order, act: &Act, now: Timestamp) -> Result<Order, Refusal> {
    if order.state.is_finished() {
        let wanted = "Pending, Processing or Compensating";
        return Err(refused(order, "pause", wanted));
    }
    if order.paused.is_some() {
        return Err(Refusal::Already("paused"));
    }
    let mut next = next_version(order, Writer::Operator);
    next.paused = Some(hold(act, now));
    if !planted(Bug::ActNotWritten) {
        next.note(line(IncidentKind::Paused, act, now));
    }
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
    forward::set_complete_by(&mut next, now);
    Ok(next)
}

/// Lets a paused order go on.
fn resume(ctx: &Context<'_>, order: &Order, act: &Act, now: Timestamp) -> Result<Order, Refusal> {
    if order.paused.is_none() {
        return Err(Refusal::Already("not paused"));
    }
    let mut next = next_version(order, Writer::Operator);
    next.paused = None;
    next.note(line(IncidentKind::Resumed, act, now));
    let until = now.plus(ctx.timing.announce_within);
    match &mut next.state {
        ProcessState::Pending { complete_by } => *complete_by = Some(until),
        ProcessState::Compensating { complete_by, .. } => *complete_by = until,
        _ => {}
    }
    forward::set_complete_by(&mut next, now);
    ask(&mut next);
    Ok(next)
}

/// Says whether an effect in doubt happened, and goes on.
fn settle(
    ctx: &Context<'_>,
    order: &Order,
    step: &StepId,
    output: Option<&Value>,
    act: &Act,
    now: Timestamp,
) -> Result<Order, Refusal> {
    let refuse = |why: &str| Refusal::Step {
        step: step.clone(),
        why: why.to_owned(),
    };
    let index = ctx
        .workflow
        .step_index(step.as_str())
        .ok_or_else(|| refuse("the workflow has no such step"))?;
    if !order.steps[index].in_doubt
        && !matches!(order.steps[index].state, StepState::Running { .. })
    {
        return Err(refuse("it is not in doubt"));
    }
    let mut next = next_version(order, Writer::Operator);
    next.note(Incident {
        step: Some(step.clone()),
        note: Some(match output {
            Some(output) => format!("applied: {output}"),
            None => "not applied".to_owned(),
        }),
        ..line(IncidentKind::Settled, act, now)
    });
    next.steps[index].in_doubt = false;
    match &order.state {
        ProcessState::Error { .. } => {
            if let Some(output) = output {
                let position = forward::next_position(&next);
                let attempt = next.steps[index].state.attempt().unwrap_or(Attempt(1));
                next.steps[index].state = StepState::Completed {
                    attempt,
                    started: now,
                    finished: now,
                    position,
                    output: output.clone(),
                };
            }
            // `Running` would be taken as in doubt again.
            if let StepState::Running { attempt, .. } = next.steps[index].state {
                next.steps[index].state = StepState::RetryDue { attempt };
            }
            let mut going = next.clone();
            going.steps.iter_mut().for_each(try_again);
            // Of several steps in doubt each is settled by an act of its own; the last one sets
            // the order going.
            if in_doubt(ctx, &going).is_ok() {
                set_going(ctx, &mut going, now);
                next = going;
            }
        }
        ProcessState::CompensationFailed { cause, .. } => {
            let record = &mut next.steps[index];
            let StepState::NotUndone { applied, .. } = &mut record.state else {
                return Err(refuse("it is not in doubt"));
            };
            match output {
                Some(output) => applied.output = output.clone(),
                None => {
                    record.state = StepState::Refused {
                        attempt: Attempt(record.earlier),
                    };
                }
            }
            if in_doubt(ctx, &next).is_ok() {
                undo_again(ctx, &mut next, cause, now);
            }
        }
        _ => return Err(refused(order, "settle", "Error or CompensationFailed")),
    }
    Ok(next)
}
