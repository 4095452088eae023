//! Inputs of requests, computed from the record, the details and the definition.

use serde_json::{Value, json};
use triad_workflow::{EvalError, Scope, StepIndex};

use crate::context::Context;
use crate::order::{Order, Priority, StepState};

/// The variables that expressions see for this order now.
pub(crate) fn scope(ctx: &Context<'_>, order: &Order, output: Option<&Value>) -> Scope {
    let facts = json!({
        "id": order.id.as_str(),
        "workflow": order.workflow.name.as_str(),
        "priority": match order.priority { Priority::Normal => "normal", Priority::High => "high" },
    });
    let outputs = order.steps.iter().filter_map(|s| match &s.state {
        StepState::Completed { output, .. } => Some((s.step.as_str(), output)),
        StepState::UndoDue { applied, .. }
        | StepState::Undoing { applied, .. }
        | StepState::UndoFailed { applied, .. } => Some((s.step.as_str(), &applied.output)),
        StepState::Skipped => Some((s.step.as_str(), &Value::Null)),
        _ => None,
    });
    Scope::new(&facts, ctx.details, outputs, output)
}

/// Input of a step's action.
pub(crate) fn forward(
    ctx: &Context<'_>,
    order: &Order,
    index: StepIndex,
) -> Result<Value, EvalError> {
    ctx.workflow.steps[index]
        .input
        .render(&scope(ctx, order, None))
}

/// Input of a step's compensation; an empty object for a step without one.
pub(crate) fn undo(ctx: &Context<'_>, order: &Order, index: StepIndex) -> Result<Value, EvalError> {
    let Some(compensation) = &ctx.workflow.steps[index].compensation else {
        return Ok(json!({}));
    };
    let output = match &order.steps[index].state {
        StepState::UndoDue { applied, .. }
        | StepState::Undoing { applied, .. }
        | StepState::UndoFailed { applied, .. } => Some(&applied.output),
        _ => None,
    };
    compensation.input.render(&scope(ctx, order, output))
}
