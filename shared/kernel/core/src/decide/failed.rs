//! Steps that are given up, because they failed for good or have no input.

use triad_workflow::{Above, EvalError, StepIndex, Template};

use super::{Draft, compensate, stop, stop_in_doubt};
use crate::context::{Context, NeedsDetails};
use crate::doubt::stops_compensation;
use crate::failure::{Failure, FailureKind};
use crate::ids::Timestamp;
use crate::order::{Incident, IncidentKind};

/// Gives a step up, as its policy says. A step whose effect may have happened and may not be repeated is not
/// compensated either: its service does not promise to recognise a key again.
pub(super) fn give_up(
    ctx: &Context<'_>,
    order: &mut Draft,
    index: StepIndex,
    cause: Failure,
    now: Timestamp,
) -> Result<(), NeedsDetails> {
    let step = &ctx.workflow.steps[index];
    if stops_compensation(&order.steps[index], step) {
        stop_in_doubt(order, index, now);
        return Ok(());
    }
    match step.then_after(&cause.code) {
        Above::Compensate => compensate::begin(ctx, order, cause, now)?,
        Above::Error => stop(order, cause, now),
    }
    Ok(())
}

/// Ends an order one of whose expressions has no value: no attempt can change that.
///
/// If the expression reads what an earlier step's service answered, the order stops in Error, whatever the policy: the
/// work of that step is done, and is not compensated for the shape of its answer. An operator can give the input.
pub(super) fn undefined(
    ctx: &Context<'_>,
    order: &mut Draft,
    index: StepIndex,
    error: &EvalError,
    now: Timestamp,
) -> Result<(), NeedsDetails> {
    let failure = Failure::new(FailureKind::Definition, "expression", &error.to_string())
        .in_step(&order.steps[index].step);
    order.steps[index].error = Some(failure.clone());
    order.note(Incident::new(IncidentKind::AttemptFailed, now).of(&failure));
    let step = &ctx.workflow.steps[index];
    // The whole input is too large or nested too deep, or one expression has no value.
    let is_whole = error.source_text == Template::WHOLE;
    let mut failed = step
        .expressions()
        .filter(|e| is_whole || e.source() == error.source_text);
    let answered = |id: &String| {
        let earlier = order.steps.iter().find(|s| s.step.as_str() == id);
        earlier.is_some_and(|s| s.state.output().is_some())
    };
    // `output` is what the service answered when it took the step's own work.
    let reads_an_answer = failed.any(|e| e.reads_output() || e.steps().iter().any(answered));
    if reads_an_answer && !stops_compensation(&order.steps[index], step) {
        stop(order, failure, now);
        return Ok(());
    }
    give_up(ctx, order, index, failure, now)
}
