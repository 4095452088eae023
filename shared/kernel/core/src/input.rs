//! Inputs of requests, computed from the record, the details and the definition.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use triad_workflow::{EvalError, Expression, ForEach, Run, Scope, StepIndex, Template, Workflow};

use crate::amend;
use crate::children::Children;
use crate::context::{Context, NeedsDetails};
use crate::declared;
use crate::ids::Priority;
use crate::order::{Order, ProcessState};
use crate::output::{Output, OutputDigest};
use crate::step::StepState;

/// The variables that these expressions see for this order now: of the outputs, those of the steps that they name.
pub(crate) fn scope<'a>(
    ctx: &Context<'_>,
    order: &Order,
    expressions: impl IntoIterator<Item = &'a Expression>,
    output: Option<&Value>,
) -> Result<Scope, NeedsDetails> {
    let details = amend::details(order, ctx.details.ok_or(NeedsDetails)?);
    let expressions = expressions.into_iter();
    let named: BTreeSet<&str> = expressions
        .flat_map(|e| e.steps().iter().map(String::as_str))
        .collect();
    let is_high = order.priority == Priority::High;
    let (id, workflow) = (order.id.as_str(), order.workflow.name.as_str());
    let facts = Scope::order(id, workflow, is_high, order.submitted_at.0);
    let mut outputs = Vec::with_capacity(named.len());
    for record in order
        .steps
        .iter()
        .filter(|s| named.contains(s.step.as_str()))
    {
        let output = match (&record.state, record.state.output()) {
            (StepState::Skipped, _) => &Value::Null,
            (_, Some(output)) => output.value().ok_or(NeedsDetails)?,
            (_, None) => continue,
        };
        outputs.push((record.step.as_str(), output));
    }
    Ok(ctx.workflow.scope(&facts, &details, outputs, output))
}

/// An input, or why its expressions have no value for this order.
pub(crate) type Input = Result<Value, EvalError>;

/// Input of a step's action: the operator's, where one has corrected it. An empty object for a step that waits.
pub(crate) fn forward(
    ctx: &Context<'_>,
    order: &Order,
    index: StepIndex,
) -> Result<Input, NeedsDetails> {
    if let Some(corrected) = &order.steps[index].input {
        return Ok(Ok(corrected.clone()));
    }
    let Some(call) = ctx.workflow.steps[index].call() else {
        return Ok(Ok(json!({})));
    };
    let template = &call.input;
    render(template, || scope(ctx, order, template.expressions(), None))
}

/// Input of the action by which a service is asked about work that it has taken; where a location is asked, the input of
/// the step's action.
pub(crate) fn poll(
    ctx: &Context<'_>,
    order: &Order,
    index: StepIndex,
) -> Result<Input, NeedsDetails> {
    let poll = ctx.workflow.steps[index].call().and_then(declared::poll);
    match poll.filter(|poll| poll.action.is_some()) {
        None => forward(ctx, order, index),
        Some(poll) => {
            let work = order.steps[index].in_progress.as_ref();
            let output = work.map(|work| &work.output);
            let expressions = poll.input.expressions();
            render(&poll.input, || scope(ctx, order, expressions, output))
        }
    }
}

/// The list of which a step runs an order for each element.
pub(crate) fn list(
    ctx: &Context<'_>,
    order: &Order,
    each: &ForEach,
) -> Result<Input, NeedsDetails> {
    let template = &each.list;
    render(template, || scope(ctx, order, template.expressions(), None))
}

/// What an order brings to its parent.
pub(crate) fn brings(
    ctx: &Context<'_>,
    order: &Order,
    template: &Template,
) -> Result<Input, NeedsDetails> {
    render(template, || scope(ctx, order, template.expressions(), None))
}

/// The details of the child orders with these numbers.
pub(crate) fn details_of_children(
    ctx: &Context<'_>,
    order: &Order,
    (run, children): (&Run, &Children),
    numbers: &[u32],
) -> Result<Result<Vec<Map<String, Value>>, EvalError>, NeedsDetails> {
    let items = match &run.each {
        Some(each) if !numbers.is_empty() => match list(ctx, order, each)? {
            Ok(Value::Array(items)) => items,
            Ok(_) => Vec::new(),
            Err(e) => return Ok(Err(e)),
        },
        _ => Vec::new(),
    };
    let mut all = Vec::with_capacity(numbers.len());
    for &number in numbers {
        let template = &children.started(run, number).details;
        let mut scope = scope(ctx, order, template.expressions(), None)?;
        if let Some(each) = &run.each {
            let item = items.get(number as usize).unwrap_or(&Value::Null);
            scope = scope.with(&each.item, item).with("index", &number.into());
        }
        all.push(match template.render(&scope) {
            Ok(Value::Object(details)) => details,
            Ok(_) => Map::new(),
            Err(e) => return Ok(Err(e)),
        });
    }
    Ok(Ok(all))
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
    let template = &compensation.input;
    let expressions = template.expressions();
    let reads_output = || expressions.iter().any(|e| e.reads_output());
    let output = match order.steps[index].state.output() {
        Some(output) if reads_output() => Some(output.value().ok_or(NeedsDetails)?),
        _ => None,
    };
    render(template, || scope(ctx, order, expressions, output))
}

/// The outputs beside the record that are to be read for a decision that ended with [`NeedsDetails`]: those that the
/// inputs and conditions of the order's next steps read, or those that its compensations read. All of them, if these
/// have been read. Empty if there is none, or if all have been read.
#[must_use]
pub fn outputs_to_read(workflow: &Workflow, order: &Order) -> Vec<OutputDigest> {
    let is_compensating = matches!(order.state, ProcessState::Compensating { .. });
    let mut named: BTreeSet<&str> = BTreeSet::new();
    for (record, step) in order.steps.iter().zip(&workflow.steps) {
        let expressions: Vec<&Expression> = match (is_compensating, &step.compensation) {
            (false, _) if record.state.is_done() => continue,
            (false, _) => step.expressions().collect(),
            (true, Some(compensation)) if record.state.to_compensate().is_some() => {
                compensation.input.expressions()
            }
            (true, _) => continue,
        };
        if expressions.iter().any(|e| e.reads_output()) {
            named.insert(record.step.as_str());
        }
        named.extend(
            expressions
                .iter()
                .flat_map(|e| e.steps())
                .map(String::as_str),
        );
    }
    let unread = |is_wanted: &dyn Fn(&str) -> bool| -> Vec<OutputDigest> {
        let wanted = order.steps.iter().filter(|s| is_wanted(s.step.as_str()));
        let outputs = wanted.flat_map(|s| s.outputs());
        let unread = outputs.filter(|output| output.value().is_none());
        unread.filter_map(Output::digest).cloned().collect()
    };
    let next = unread(&|step| named.contains(step));
    match next.is_empty() {
        true => unread(&|_| true),
        false => next,
    }
}
