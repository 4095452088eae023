//! Resolution of an effect in doubt by an operator.

use serde_json::Value;
use triad_workflow::{StepId, bounds};

use super::new_run::{
    check_unsent_statuses, compensate_again, first_in_doubt, set_going, try_again,
};
use super::{line, refused};
use crate::context::Context;
use crate::decide::{Draft, Halt, next_position, next_version, push_step_completed};
use crate::doubt::{self, can_be_resolved};
use crate::history;
use crate::ids::{Attempt, Direction, Timestamp};
use crate::message::MAX_OUTPUT_BYTES;
use crate::operate::OperationRefusal;
use crate::order::{Incident, IncidentKind, OperatorAct, Order, ProcessState};
use crate::outbox::Writer;
use crate::output::Output;
use crate::step::{StepRecord, StepState, Work};

/// Records whether an effect in doubt happened, for a step as it was at an attempt. The order continues when no other
/// step in doubt forbids repetition; until then it waits for the next resolution.
pub(super) fn resolve(
    ctx: &Context<'_>,
    order: &Order,
    (step, attempt): (&StepId, Option<Attempt>),
    output: Option<&Value>,
    act: &OperatorAct,
    now: Timestamp,
) -> Result<Draft, Halt> {
    let index = resolved_step(ctx, order, step, output)?;
    is_of_the_latest(&order.steps[index], attempt)?;
    if output.is_none() {
        cannot_happen_later(&order.steps[index], now)?;
    }
    let was_ambiguous = matches!(order.steps[index].state, StepState::Ambiguous { .. });
    let mut next = next_version(order, Writer::Operator);
    next.note(Incident {
        step: Some(step.clone()),
        note: Some(match output {
            Some(output) => format!("applied: {output}"),
            None => "not applied".to_owned(),
        }),
        ..line(IncidentKind::Resolved, act, now)
    });
    let position = next_position(&next);
    history::change(&mut next, index, now, |record| {
        doubt::lift(record);
        match output {
            Some(output) => happened(record, output, position, now),
            None => did_not_happen(record),
        }
    });
    if matches!(next.steps[index].state, StepState::Completed { .. }) {
        push_step_completed(ctx, &mut next, index, now);
    }
    match &order.state {
        ProcessState::Error { at, .. } => {
            let mut again = next.clone();
            history::change_each(&mut again, now, try_again);
            if let Some(other) = first_in_doubt(ctx, &again) {
                let cause = doubt::failure(other);
                next.state = ProcessState::Error { at: *at, cause };
                return Ok(next);
            }
            check_unsent_statuses(order)?;
            set_going(ctx, &mut again, now);
            Ok(again)
        }
        ProcessState::CompensationFailed {
            at,
            compensated_for,
            ..
        } if !was_ambiguous => {
            if let Some(other) = first_in_doubt(ctx, &next) {
                let cause = doubt::failure(other);
                next.state = ProcessState::CompensationFailed {
                    at: *at,
                    cause,
                    compensated_for: compensated_for.clone(),
                };
                return Ok(next);
            }
            check_unsent_statuses(order)?;
            compensate_again(ctx, &mut next, now);
            Ok(next)
        }
        // Only a later run depends on the output.
        _ => Ok(next),
    }
}

/// The step, if it can be resolved.
fn resolved_step(
    ctx: &Context<'_>,
    order: &Order,
    step: &StepId,
    output: Option<&Value>,
) -> Result<usize, Halt> {
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
    let record = &order.steps[index];
    let waits = match &order.state {
        ProcessState::Error { .. } => can_be_resolved(record),
        ProcessState::CompensationFailed { .. } | ProcessState::Compensated { .. } => {
            let open = matches!(
                record.state,
                StepState::NotCompensated { .. } | StepState::Ambiguous { .. }
            );
            can_be_resolved(record) && open
        }
        _ => {
            let wanted = "Error, CompensationFailed or Compensated";
            return Err(refused(order, "resolve", wanted));
        }
    };
    if !waits {
        return Err(refuse("it is not in doubt".into()));
    }
    if let Some(output) = output {
        bounds::check(output, MAX_OUTPUT_BYTES).map_err(|e| refuse(format!("the output {e}")))?;
    }
    Ok(index)
}

/// Refuses a resolution of an earlier attempt: the operator has not checked with the service since.
fn is_of_the_latest(record: &StepRecord, attempt: Option<Attempt>) -> Result<(), Halt> {
    match attempt.map(|attempt| attempt.0) {
        Some(said) if said != record.actions() => Err(Halt::Refused(OperationRefusal::Step {
            step: record.step.clone(),
            why: format!(
                "attempt {} at it is in doubt, and this is said of attempt {said}: ask its service again",
                record.actions()
            ),
        })),
        _ => Ok(()),
    }
}

/// Refuses the resolution "not happened" while a request may still be carried out: the service's answer may change.
fn cannot_happen_later(record: &StepRecord, now: Timestamp) -> Result<(), Halt> {
    match doubt::open_until(record) {
        Some(until) if until > now => Err(Halt::Refused(OperationRefusal::Step {
            step: record.step.clone(),
            why: format!(
                "its request may still be carried out for another {}: ask its service after that",
                until.since(now)
            ),
        })),
        _ => Ok(()),
    }
}

fn happened(record: &mut StepRecord, output: &Value, position: u32, now: Timestamp) {
    if let StepState::NotCompensated { applied, .. } = &mut record.state {
        applied.output = Output::inline(output.clone());
        return;
    }
    record.state = StepState::Completed {
        attempt: Attempt(record.actions()),
        started: None,
        finished: now,
        position,
        output: Output::inline(output.clone()),
    };
}

fn did_not_happen(record: &mut StepRecord) {
    match &mut record.state {
        StepState::NotCompensated { attempt, .. } => {
            record.compensation.earlier = attempt.0;
            let attempt = Attempt(record.action.earlier);
            record.state = StepState::Refused { attempt };
        }
        StepState::Ambiguous { attempt } => {
            record.state = StepState::Refused { attempt: *attempt };
        }
        StepState::Acting(Work::Parked { attempt, .. }) => {
            record.state = StepState::due(*attempt);
        }
        // Otherwise the request that is out would put the effect in doubt again.
        StepState::Acting(Work::Out(out)) if out.direction == Direction::Forward => {
            record.state = StepState::due(out.attempt);
        }
        _ => {}
    }
}
