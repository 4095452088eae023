//! The calls that a step may make of its service, for people.

use std::sync::Arc;

use serde_json::Value;
use triad_workflow::service::CallDefinition;
use triad_workflow::{AgentName, EvalError, Step, StepIndex};

use crate::context::{Context, NeedsDetails};
use crate::declared::declared;
use crate::doubt::stops_compensation;
use crate::ids::{Direction, IdempotencyKey};
use crate::input;
use crate::order::Order;
use crate::step::StepRecord;

/// A call that a step may make of its service: its action, probe or compensation, from the present record. It does
/// not show whether the call was made.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceCall {
    /// Whether it is the action, the probe or the compensation.
    pub direction: Direction,
    /// The agent that makes it.
    pub agent: AgentName,
    /// Name of the agent's action, from the definition.
    pub action: String,
    /// How the action is called, from the description of its service; `None` if it has none.
    pub form: Option<Arc<CallDefinition>>,
    /// The key by which the service recognises the effect; that of the action for a probe.
    pub idempotency_key: IdempotencyKey,
    /// For a compensation, the key of the effect to compensate; otherwise `None`.
    pub compensates: Option<IdempotencyKey>,
    /// The input, or why it has no value now, for a person. A compensation that reads its step's `output` shows null
    /// only if it is also sent so. A probe has the input of the action.
    pub input: Result<Value, EvalError>,
}

/// The calls of one step: its action, its probe and its compensation, as far as the definition has
/// them. The keys are those of the present run.
///
/// # Errors
/// [`NeedsDetails`] if an input has expressions that are to be computed, and [`Context::details`] is `None`.
///
/// # Panics
/// If the workflow in `ctx` or the order has no step at this position.
pub fn calls(
    ctx: &Context<'_>,
    order: &Order,
    index: StepIndex,
) -> Result<Vec<ServiceCall>, NeedsDetails> {
    let step = &ctx.workflow.steps[index];
    let record = &order.steps[index];
    let key = |direction| IdempotencyKey::of(&order.id, &record.step, direction, record.key);
    let mut calls = Vec::new();
    for direction in [Direction::Forward, Direction::Probe, Direction::Compensate] {
        let Some(declared) = declared(step, direction) else {
            continue;
        };
        let input = match direction {
            Direction::Forward | Direction::Probe => input::forward(ctx, order, index)?,
            Direction::Compensate => match unknown_output(step, record) {
                Some(why) => Err(why),
                None => input::compensation(ctx, order, index)?,
            },
        };
        calls.push(ServiceCall {
            direction,
            agent: declared.agent.clone(),
            action: declared.action.to_owned(),
            form: ctx.workflow.call(declared.agent, declared.action).cloned(),
            idempotency_key: key(direction),
            compensates: (direction == Direction::Compensate).then(|| key(Direction::Forward)),
            input,
        });
    }
    Ok(calls)
}

/// Why a compensation that reads an unknown output has no input; `None` if the output is known, is not read, or may
/// be null in the request. With null in its place, a call made by hand would compensate nothing and use up its key.
fn unknown_output(step: &Step, record: &StepRecord) -> Option<EvalError> {
    let is_sent = record.state.output().is_some() && !stops_compensation(record, step);
    if is_sent {
        return None;
    }
    let inputs = step.compensation.iter().flat_map(|c| c.input.expressions());
    let mut reading = inputs.filter(|e| e.reads_output());
    reading.next().map(|expression| EvalError {
        source_text: expression.source().to_owned(),
        reason: "the output of the step is not known".into(),
    })
}
