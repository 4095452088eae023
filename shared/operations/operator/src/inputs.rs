//! An order's details, the calls of its steps, and their outputs.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use triad_core::amend;
use triad_core::inspect::{ServiceCall, calls};
use triad_core::pass::Snapshot;
use triad_core::{Order, StepState, Timing};
use triad_runtime::beside::read_all;
use triad_runtime::{DefinitionStore, StateStore, StoreError};
use triad_workflow::service::{Body, CallDefinition, CallForm};
use triad_workflow::{StepId, Workflow};

/// The details of an order and the calls of its steps.
#[derive(Debug, Clone, PartialEq)]
pub struct Inputs {
    /// The details as they are now, with their amendment.
    pub details: Value,
    /// The steps, in the workflow's order.
    pub steps: Vec<StepInputs>,
}

impl Inputs {
    /// The form for programs: an object with `details`, `outputs` (an object with the output of each step
    /// that has one, by the step's id) and `calls` (a list of all calls, each as a [`CallView`]).
    #[must_use]
    pub fn json(&self) -> Value {
        let outputs: serde_json::Map<_, _> = self
            .steps
            .iter()
            .filter_map(|step| Some((step.step.to_string(), step.output.clone()?)))
            .collect();
        let calls: Vec<CallView<'_>> = self
            .steps
            .iter()
            .flat_map(|step| step.calls.iter().map(|call| CallView::of(&step.step, call)))
            .collect();
        serde_json::json!({"details": self.details, "outputs": outputs, "calls": calls})
    }
}

/// The calls of one step, and its output.
#[derive(Debug, Clone, PartialEq)]
pub struct StepInputs {
    /// The step that the inputs belong to.
    pub step: StepId,
    /// The calls of the step's action, probe and compensation, for those that the step has.
    pub calls: Vec<ServiceCall>,
    /// The output of the action, which stays after a compensation; `None` if the step has no output yet, or if
    /// its effect was in doubt when its compensation began.
    pub output: Option<Value>,
}

/// Why the inputs of an order cannot be shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InputsError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The order's details are no longer kept.
    #[error("its details are no longer kept")]
    NoDetails,
    /// The definition that the order runs on is not stored any more, cannot be read, or has another number
    /// of steps than the order. The text is the definition's name and hash.
    #[error("the definition {0} that it runs on cannot be read")]
    NoDefinition(String),
}

/// A call of a step to its service, in the form in which people and programs see it.
#[derive(Debug, Clone, Serialize)]
pub struct CallView<'a> {
    /// The step's id.
    pub step: &'a StepId,
    /// What is called: `forward` (the action), `probe` or `compensate` (the compensation). The call's header
    /// `Triad-Direction` has the same word.
    pub direction: String,
    /// The name of the agent that makes the call.
    pub agent: &'a str,
    /// The name of the action that the agent is asked for.
    pub action: &'a str,
    /// The idempotency key that the service gets with the call.
    pub idempotency_key: &'a str,
    /// The input; `None` if its expressions have no value now.
    pub input: Option<&'a Value>,
    /// For a compensation: the key of the effect that it compensates.
    pub compensates: Option<&'a str>,
    /// How the action is called, from the description of its service; `None` if it has none.
    pub form: Option<&'a CallDefinition>,
    /// Why the input has no value, for people; `None` if it has one.
    pub why: Option<String>,
    /// The request as the description of the service makes it, in lines for people: method and path, headers, an empty
    /// line, body. It is below the agent's address, and without its secrets. `None` if there is no description, or no
    /// input.
    pub request: Option<String>,
}

impl<'a> CallView<'a> {
    /// The view of one call of a step.
    #[must_use]
    pub fn of(step: &'a StepId, call: &'a ServiceCall) -> Self {
        Self {
            step,
            direction: call.direction.to_string(),
            agent: call.agent.as_str(),
            action: &call.action,
            idempotency_key: &call.idempotency_key.0,
            input: call.input.as_ref().ok(),
            compensates: call.compensates.as_ref().map(|key| key.0.as_str()),
            form: call.form.as_deref(),
            why: call.input.as_ref().err().map(ToString::to_string),
            request: request(call),
        }
    }
}

fn request(call: &ServiceCall) -> Option<String> {
    let (form, input) = (call.form.as_deref()?, call.input.as_ref().ok()?);
    let form = CallForm::compile(form).map_err(|why| why.to_string());
    let made = form.and_then(|form| {
        let made = form.request(input, &call.idempotency_key.0, &Value::Null);
        made.map_err(|why| why.to_string())
    });
    let made = match made {
        Ok(made) => made,
        Err(why) => return Some(format!("there is no request: {why}")),
    };
    let path = made.path.unwrap_or_else(|| format!("/{}", call.action));
    let pairs = |pairs: &[(String, String)]| {
        let pairs = pairs.iter().map(|(name, value)| format!("{name}={value}"));
        pairs.collect::<Vec<_>>().join("&")
    };
    let query = match made.query.is_empty() {
        true => String::new(),
        false => format!("?{}", pairs(&made.query)),
    };
    let mut text = format!("{} {path}{query}", made.method.as_str());
    for (name, value) in &made.headers {
        text.push_str(&format!("\n{name}: {value}"));
    }
    let body = match made.body {
        Body::None => return Some(text),
        Body::Json(value) => format!("{value:#}"),
        Body::Form(fields) => pairs(&fields),
        Body::Text(body) => body,
    };
    Some(format!("{text}\n\n{body}"))
}

/// Reads the details of an order and its definition, and computes the inputs of its steps as they are now.
/// It costs two reads, and one more if it has outputs above 1 KiB. `timing` is the installation's.
///
/// # Errors
/// [`InputsError::Store`] if the store failed, [`InputsError::NoDetails`] if the details are no longer kept,
/// [`InputsError::NoDefinition`] if the definition cannot be used.
pub async fn of<S>(store: &S, order: &Order, timing: Timing) -> Result<Inputs, InputsError>
where
    S: StateStore + DefinitionStore,
{
    let mut found = store.details(vec![order.id.clone()]).await;
    let details = found.pop().transpose()?.flatten();
    let details = details.ok_or(InputsError::NoDetails)?;
    let unread = || InputsError::NoDefinition(order.workflow.to_string());
    let json = store.definition(order.workflow.clone()).await?;
    let workflow = Workflow::from_published(&json.ok_or_else(unread)?).map_err(|_| unread())?;
    if workflow.steps.len() != order.steps.len() {
        return Err(unread());
    }
    let read = Snapshot {
        order: Arc::new(order.clone()),
        workflow: Arc::new(workflow),
        details: Some(Arc::clone(&details)),
    };
    let read = read_all(store, read).await?;
    let ctx = read.context(timing);
    let mut steps = Vec::new();
    for (index, record) in read.order.steps.iter().enumerate() {
        steps.push(StepInputs {
            step: record.step.clone(),
            calls: calls(&ctx, &read.order, index).map_err(|_| InputsError::NoDetails)?,
            output: output(&record.state).cloned(),
        });
    }
    Ok(Inputs {
        details: amend::details(order, &details).into_owned(),
        steps,
    })
}

fn output(state: &StepState) -> Option<&Value> {
    let is_completed = matches!(state, StepState::Completed { .. });
    let output = state.output()?.value();
    output.filter(|output| is_completed || !output.is_null())
}
