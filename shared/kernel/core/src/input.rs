//! Inputs of requests, computed from the record, the details and the definition.

use serde_json::{Value, json};
use triad_workflow::{EvalError, Scope, StepIndex, Template};

use crate::context::{Context, NeedsDetails};
use crate::ids::Priority;
use crate::order::Order;
use crate::step::StepState;

/// The variables that expressions see for this order now.
pub(crate) fn scope(
    ctx: &Context<'_>,
    order: &Order,
    output: Option<&Value>,
) -> Result<Scope, NeedsDetails> {
    let details = ctx.details.ok_or(NeedsDetails)?;
    let is_high = order.priority == Priority::High;
    let (id, workflow) = (order.id.as_str(), order.workflow.name.as_str());
    let facts = Scope::order(id, workflow, is_high, order.submitted_at.0);
    let outputs = order.steps.iter().filter_map(|s| {
        let output = match &s.state {
            StepState::Skipped => &Value::Null,
            state => state.output()?,
        };
        Some((s.step.as_str(), output))
    });
    Ok(Scope::new(&facts, details, outputs, output))
}

/// An input, or why its expressions have no value for this order.
pub(crate) type Input = Result<Value, EvalError>;

/// Input of a step's action: the operator's, where one has corrected it.
pub(crate) fn forward(
    ctx: &Context<'_>,
    order: &Order,
    index: StepIndex,
) -> Result<Input, NeedsDetails> {
    if let Some(corrected) = &order.steps[index].input {
        return Ok(Ok(corrected.clone()));
    }
    render(&ctx.workflow.steps[index].input, || scope(ctx, order, None))
}

/// Computes a template; for one without expressions no variables are made.
fn render(
    template: &Template,
    scope: impl FnOnce() -> Result<Scope, NeedsDetails>,
) -> Result<Input, NeedsDetails> {
    match template {
        Template::Constant(value) => Ok(Ok(value.clone())),
        _ => Ok(template.render(&scope()?)),
    }
}

/// Input of a step's compensation; an empty object for a step without one.
pub(crate) fn compensation(
    ctx: &Context<'_>,
    order: &Order,
    index: StepIndex,
) -> Result<Input, NeedsDetails> {
    let Some(compensation) = &ctx.workflow.steps[index].compensation else {
        return Ok(Ok(json!({})));
    };
    let output = order.steps[index].state.output();
    render(&compensation.input, || scope(ctx, order, output))
}
