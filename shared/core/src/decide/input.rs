//! Inputs of requests, computed from the record, the details and the definition.

use serde_json::{Value, json};
use triad_workflow::{EvalError, Scope, StepIndex, Template};

use crate::context::Context;
use crate::order::{Order, Priority, StepState};

/// The variables that expressions see for this order now.
pub(crate) fn scope(ctx: &Context<'_>, order: &Order, output: Option<&Value>) -> Scope {
    let facts = json!({
        "id": order.id.as_str(),
        "workflow": order.workflow.name.as_str(),
        "priority": match order.priority { Priority::Normal => "normal", Priority::High => "high" },
    });
    let outputs = order.steps.iter().filter_map(|s| {
        let output = match &s.state {
            StepState::Completed { output, .. } => output,
            StepState::Skipped => &Value::Null,
            state => &state.to_undo()?.output,
        };
        Some((s.step.as_str(), output))
    });
    Scope::new(&facts, ctx.details, outputs, output)
}

/// Input of a step's action: the operator's, where one has corrected it.
pub(crate) fn forward(
    ctx: &Context<'_>,
    order: &Order,
    index: StepIndex,
) -> Result<Value, EvalError> {
    if let Some(corrected) = &order.steps[index].input {
        return Ok(corrected.clone());
    }
    render(&ctx.workflow.steps[index].input, || scope(ctx, order, None))
}

/// Computes a template; for one without expressions no variables are made.
fn render(template: &Template, scope: impl FnOnce() -> Scope) -> Result<Value, EvalError> {
    match template {
        Template::Constant(value) => Ok(value.clone()),
        _ => template.render(&scope()),
    }
}

/// Input of a step's compensation; an empty object for a step without one.
pub(crate) fn undo(ctx: &Context<'_>, order: &Order, index: StepIndex) -> Result<Value, EvalError> {
    let Some(compensation) = &ctx.workflow.steps[index].compensation else {
        return Ok(json!({}));
    };
    let output = order.steps[index].state.to_undo().map(|a| &a.output);
    render(&compensation.input, || scope(ctx, order, output))
}
