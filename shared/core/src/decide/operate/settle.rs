//! An operator's word on an effect in doubt.

use serde_json::Value;
use triad_workflow::StepId;

use super::again::{in_doubt, set_going, try_again, undo_again};
use super::{line, refused};
use crate::context::Context;
use crate::decide::{forward, next_version};
use crate::ids::{Attempt, Timestamp};
use crate::operate::Refusal;
use crate::order::{Act, Incident, IncidentKind, Order, ProcessState, StepState};
use crate::outbox::Writer;

/// Says whether an effect in doubt happened, and goes on.
pub(super) fn settle(
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
            next.steps.iter_mut().for_each(try_again);
            in_doubt(ctx, &next)?;
            set_going(ctx, &mut next, now);
        }
        ProcessState::CompensationFailed { cause, .. } => {
            let record = &mut next.steps[index];
            let StepState::NotUndone { applied, attempt } = &mut record.state else {
                return Err(refuse("it is not in doubt"));
            };
            match output {
                Some(output) => applied.output = output.clone(),
                None => {
                    record.earlier_undos = attempt.0;
                    record.state = StepState::Refused {
                        attempt: Attempt(record.earlier),
                    };
                }
            }
            in_doubt(ctx, &next)?;
            undo_again(ctx, &mut next, cause, now);
        }
        _ => return Err(refused(order, "settle", "Error or CompensationFailed")),
    }
    Ok(next)
}
