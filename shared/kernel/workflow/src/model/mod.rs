//! The authored form of a workflow: exactly what the YAML file says, nothing derived.
//!
//! Unknown fields are refused, so a misspelt field is an error and never a silent default.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::duration::Millis;

mod service;

pub use service::{
    ActionDefinition, AnswerDefinition, AnswerMeaning, BodyForm, CallDirection, KeyDefinition,
    KeyForm, Method, ServiceDefinition, TypesDefinition,
};

/// A workflow definition as written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "load", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// Name, shared by all versions of this workflow.
    pub workflow: String,
    /// What the workflow is for, in a sentence. Absent: not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Longest time of an order, from its submission to its end, at most 366 days. An order that takes
    /// longer is compensated; once its point of no return may have happened it goes on, and operators are
    /// alerted. An order may ask for less. At least what its steps take in one attempt each. Absent: there
    /// is no longest time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order_timeout: Option<Millis>,
    /// Whether the submitting application gets the status `step-completed` for each completed step.
    /// Absent: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub progress: bool,
    /// The form of an order's details: a JSON Schema, draft 2020-12, at most 32 KiB, with references to
    /// its own parts alone. An order that does not fit is refused: its record becomes a dead letter with
    /// the cause `details-do-not-fit`, and its application gets the status `rejected`. Absent: any details.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details_schema: Option<Map<String, Value>>,
    /// Keys by which operators find orders, exactly: at most two names, each with one expression over
    /// `details`, such as `customer: "${details.customerID}"`. Each costs an order one write unit more. An
    /// order for which the value is missing, null, empty, longer than 256 bytes, a list or an object has no
    /// such key. Absent: none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub search: BTreeMap<String, String>,
    /// How services are called and what their answers mean, by the name of the agent. A file `agents/NAME.yaml`
    /// beside the workflow file says the same for an agent that is not here. Absent: an action is `POST /<action>`
    /// with JSON.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub agents: BTreeMap<String, ServiceDefinition>,
    /// Settings for all steps of this workflow that do not have their own. Absent: none.
    #[serde(default, skip_serializing_if = "Defaults::is_empty")]
    pub defaults: Defaults,
    /// The steps. A step without `after` comes after the one written before it.
    pub steps: Vec<StepDefinition>,
}

impl Definition {
    /// Names of the agents that the steps and their compensations name, as often as they do.
    pub fn agents_in_use(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().flat_map(|step| {
            let compensation = match &step.compensation {
                Some(CompensationDefinition::Action(action)) => action.agent.as_deref(),
                _ => None,
            };
            step.agent.as_deref().into_iter().chain(compensation)
        })
    }
}

/// Settings for the steps of one workflow that do not have their own.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "load", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Defaults {
    /// Longest time of one attempt of a step without `attempt_timeout`. Absent: 30s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt_timeout: Option<Millis>,
    /// The agent's retry allowance for each attempt of a step without `retry`. Absent: 3 calls, with waits
    /// of at most 100ms before the second and 200ms before the third.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryDefinition>,
    /// What the Supervisor does when attempts at a step without `supervisor` fail. Absent: the first three
    /// failures of a step are each met with another attempt, without a delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supervisor: Option<PolicyDefinition>,
}

impl Defaults {
    fn is_empty(&self) -> bool {
        self == &Self::default()
    }
}

/// One step as written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "load", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StepDefinition {
    /// Name of the step, unique in the workflow.
    pub id: String,
    /// Name of the agent that carries the step out. Needed, with `action`, unless the step has `wait` or `await`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Name of the action that the agent is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// The step calls nothing and waits for a moment. Absent: it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<TimerDefinition>,
    /// The step calls nothing and waits for events from outside. Absent: it does not.
    #[serde(default, rename = "await", skip_serializing_if = "Option::is_none")]
    pub awaits: Option<AwaitDefinition>,
    /// Input of the action: any value; `${ … }` inside strings is an expression. Absent: `{}`.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub input: Value,
    /// Ids of the steps that must be completed or skipped before this one begins. Absent: the step that is
    /// written before this one. An empty list: none, so that the step begins with the order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Vec<String>>,
    /// A condition: one expression, without `${ … }`. If it is false when the step would begin, the step is
    /// skipped. Absent: the step is never skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// Longest time of one attempt, from when its agent takes the request to the answer. At least twice the
    /// installation's clock skew and 10 ms more. Absent: that of `defaults`, or else 30s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt_timeout: Option<Millis>,
    /// The agent's retry allowance within one attempt. Absent: that of `defaults`, or else 3 calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryDefinition>,
    /// What the Supervisor does when attempts fail. Absent: that of `defaults`, or else the first three
    /// failures are each met with another attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supervisor: Option<PolicyDefinition>,
    /// Whether the effect may not be repeated: while it is unknown whether it happened, the service is not
    /// called again, and the order stops for an operator. Absent: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_most_once: bool,
    /// For an effect that may not be repeated: how the service is asked whether it happened. Absent: the
    /// service cannot be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<ProbeDefinition>,
    /// The service may take the work now and finish it later. Absent: its answer is the end of the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finishes_later: Option<FinishesLaterDefinition>,
    /// How the step's effect is compensated: an action of an agent, or `none` if there is nothing to
    /// compensate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compensation: Option<CompensationDefinition>,
    /// Whether the order can no longer be compensated once this step may have happened: from then on it is
    /// only retried. Absent: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub point_of_no_return: bool,
}

/// A wait for a moment: `for` a time, or `until` a moment.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "load", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TimerDefinition {
    /// How long the step waits from when it begins, such as `3d`; at most 366 days.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub span: Option<Millis>,
    /// Until when it waits: a text such as `2026-12-24T08:00:00Z`, `2026-12-24T08:00` or `2026-12-24`, in which
    /// `${ … }` is an expression. A moment that has passed ends the wait at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// The time zone of an `until` that names none, such as `Europe/Paris`. Absent: UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

/// A wait for one event, for the first of several, or for all of several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "load", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AwaitDefinition {
    /// The name of the event. The step's output is what it brings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// With `event`: a condition that it must fulfil, one expression over `event`, what it brings, and the step's
    /// variables, such as `event.amount == details.amount`. Absent: any such event does.
    #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
    pub matches: Option<String>,
    /// Events of which the first one ends the wait. The output is `{event: its name, data: what it brings}`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub first_of: Vec<EventDefinition>,
    /// Events that are all waited for. The output has what each brings, by its name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub all_of: Vec<EventDefinition>,
    /// A condition under which what came is a failure of the step, such as `event.decision == "no"`: one expression over
    /// `event`, which is the output that the step would have, and the step's variables. What follows is what follows
    /// when the time is over, but for `continue`: then it is the default. Absent: nothing that comes is a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fails_when: Option<String>,
    /// How long the step waits at most, from when it begins; at most 366 days.
    pub within: Millis,
    /// What is done if the time is over. Absent: `compensate` before the point of no return, `error` from there on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub otherwise: Option<OtherwiseDefinition>,
}

impl AwaitDefinition {
    /// The events that the step waits for, in one form.
    #[must_use]
    pub fn events(&self) -> Vec<EventDefinition> {
        let single = self.event.as_ref().map(|event| EventDefinition {
            event: event.clone(),
            matches: self.matches.clone(),
        });
        let several = self.first_of.iter().chain(&self.all_of).cloned();
        single.into_iter().chain(several).collect()
    }
}

/// One of several events that a step waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "load", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EventDefinition {
    /// The name of the event.
    pub event: String,
    /// As in `await`.
    #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
    pub matches: Option<String>,
}

/// What is done when an event has not come in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "load", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum OtherwiseDefinition {
    /// The completed steps are compensated, and the order ends.
    Compensate,
    /// The order stops in the state Error, with an alert, for an operator.
    Error,
    /// The order goes on; the step's output is null.
    Continue,
}

/// Work that a service takes now and finishes later: it answers 202, or what its description calls `in-progress`. Then
/// it calls back, or it is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "load", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FinishesLaterDefinition {
    /// How long the work may take, from when the service has taken it; at most 366 days.
    pub within: Millis,
    /// How the service is asked whether the work is done. Absent: it is not asked, and has to call back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll: Option<PollDefinition>,
    /// Longest time without a sign of life: an answer to a question, or a heartbeat. A longer one is a failed attempt.
    /// Absent: only `within` counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat: Option<Millis>,
    /// A condition under which what the service calls back with is a failure of the step, such as
    /// `event.state == "failed"`: one expression over `event`, what it brings, and the step's variables. Absent: every
    /// callback says that the work is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fails_when: Option<String>,
}

/// How a service is asked whether the work that it has taken is done.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "load", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PollDefinition {
    /// What the agent is asked to do. Absent: the `Location` of the service's answer is asked, with `GET`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Input of the action: any value; `${ … }` inside strings is an expression. Beside the step's variables there is
    /// `output`, what the service answered when it took the work. Absent: `{}`.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub input: Value,
    /// How long after the answer the service is asked for the first time; doubled for each further time. A longer
    /// `Retry-After` counts instead. Absent: 1s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Millis>,
    /// Upper bound of that time. Absent: 1m, or `every` if that is longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<Millis>,
}

/// A question to the service: did the effect under this key happen?
///
/// The service answers `{"applied": true, "output": …}` or `{"applied": false}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "load", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ProbeDefinition {
    /// What the agent is asked to do. It gets the step's input and the idempotency key of the effect.
    pub action: String,
    /// Longest time of one attempt, from when its agent takes the request to the answer. Absent: the
    /// step's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt_timeout: Option<Millis>,
}

/// The agent's retry allowance within one attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "load", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RetryDefinition {
    /// Most calls to the remote service in one attempt, the first one included.
    pub calls_per_attempt: u32,
    /// Most calls in all, over attempts, redeliveries and crashes. Kept exactly, in the call
    /// ledger, at one write unit for each attempt. Absent: `calls_per_attempt` for each attempt, and a
    /// request that is delivered again after a crash has its calls again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls_per_run: Option<u32>,
    /// Upper bound of the wait before the second call; doubled for each further call. The wait is drawn at
    /// random between zero and the bound (full jitter). Absent: 100ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial: Option<Millis>,
    /// Upper bound of every wait between two calls. Absent: 5s, or `initial` if that is longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<Millis>,
}

/// What the Supervisor does when attempts fail.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "load", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PolicyDefinition {
    /// How many failures of the step are each met with another attempt. The next failure is above the
    /// threshold.
    pub failure_threshold: u32,
    /// How long the Supervisor waits before the second attempt; doubled for each further one. Absent: the
    /// attempt is made by the Supervisor's next sweep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Millis>,
    /// Whether the next attempt does not even wait for that sweep: a transient failure that an agent reports
    /// is counted by the Scheduler that reads it, which makes the next attempt in the same write. Not
    /// together with `delay`. Absent: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retry_at_once: bool,
    /// Upper bound of the growing delay. Absent: 64 times `delay`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_delay: Option<Millis>,
    /// Extra attempts, far apart, between the threshold and `then`. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<WaitDefinition>,
    /// How long work may wait for a service that is paused or whose circuit breaker is open
    /// before that counts as a failure. Absent: 24 hours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defer_for: Option<Millis>,
    /// What is done above the threshold. Absent: `compensate` before the point of no return,
    /// `error` from there on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<ThenDefinition>,
}

/// Extra attempts above the threshold, before `then`: a long wait and one attempt, several times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "load", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WaitDefinition {
    /// How long the Supervisor waits before each extra attempt.
    pub delay: Millis,
    /// How many extra attempts are made at most.
    pub attempts: u32,
}

/// What the Supervisor does when a step has failed too often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "load", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ThenDefinition {
    /// The completed steps are compensated, and the order ends.
    Compensate,
    /// The order stops in the state Error, with an alert, for an operator.
    Error,
}

/// How a step's effect is compensated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "load", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum CompensationDefinition {
    /// `none`: the step has no effect that would have to be compensated.
    None(NoCompensation),
    /// The action of an agent that compensates the step's effect.
    Action(Box<CompensationAction>),
}

/// The word `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "load", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum NoCompensation {
    /// Nothing to compensate.
    None,
}

/// The action of an agent that compensates a step's effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "load", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CompensationAction {
    /// The agent that carries it out. Absent: the step's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// What the agent is asked to do.
    pub action: String,
    /// Input of the action: any value; `${ … }` inside strings is an expression. Beside the step's variables
    /// there is `output`, the step's output; null if it is in doubt whether the step happened. Absent: `{}`.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub input: Value,
    /// Longest time of one attempt, from when its agent takes the request to the answer. Absent: the
    /// step's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt_timeout: Option<Millis>,
    /// The agent's retry allowance within one attempt. Absent: the step's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryDefinition>,
    /// How many failures of the compensation are each met with another attempt, before the order ends in
    /// CompensationFailed. Absent: the step's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_threshold: Option<u32>,
}
