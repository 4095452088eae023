//! The authored form of a workflow: exactly what the YAML file says, nothing derived.
//!
//! Unknown fields are refused, so a misspelt field is an error and never a silent default.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::duration::Millis;

/// A workflow definition as written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "load", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// Name, shared by all versions of this workflow.
    pub workflow: String,
    /// What it is for, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Longest time of an order, from its submission to its end, at most 366 days. An order that takes
    /// longer is compensated; once its point of no return may have happened it goes on, and operators are
    /// alerted. An order may ask for less. At least what its steps take in one attempt each. Absent:
    /// as long as it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complete_within: Option<Millis>,
    /// The submitting application is told of each completed step, with the status `step-completed`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub progress: bool,
    /// The form of an order's details: a JSON Schema, draft 2020-12, at most 32 KiB, with references to
    /// its own parts alone. An order that does not fit is not let in: it is a dead letter with the cause
    /// `details-do-not-fit`, and its application is told `rejected`. Absent: any details.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details_schema: Option<Map<String, Value>>,
    /// By what operators find orders, exactly: at most two names, each with one expression over `details`,
    /// such as `customer: "${details.customerID}"`. Each costs an order one write unit more. An order for
    /// which the value is missing, null, empty, longer than 256 bytes, a list or an object has no such
    /// key. Absent: none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub search: BTreeMap<String, String>,
    /// What steps use where they say nothing themselves.
    #[serde(default, skip_serializing_if = "Defaults::is_empty")]
    pub defaults: Defaults,
    /// The steps. A step without `after` comes after the one written before it.
    pub steps: Vec<StepDefinition>,
}

/// Defaults for the steps of one workflow.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "load", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Defaults {
    /// See [`StepDefinition::complete_within`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complete_within: Option<Millis>,
    /// See [`StepDefinition::retry`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryDefinition>,
    /// See [`StepDefinition::supervisor`].
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
    /// The agent that carries it out.
    pub agent: String,
    /// What the agent is asked to do.
    pub action: String,
    /// Input of the action: any value; `${ … }` inside strings is an expression.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub input: Value,
    /// Steps that must have completed first. Absent: the step written before this one.
    /// An empty list: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Vec<String>>,
    /// Condition; the step is skipped where it is false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// Longest time of one attempt, from when its agent takes the request to the answer; by default 30s.
    /// At least twice the installation's clock skew and 10 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complete_within: Option<Millis>,
    /// The agent's retry allowance within one attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryDefinition>,
    /// What the Supervisor does when attempts fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supervisor: Option<PolicyDefinition>,
    /// The effect may not be repeated: while it is unknown whether it happened, the service is
    /// not called again, and the order stops for an operator.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_most_once: bool,
    /// The effect may not be repeated, and the service can be asked whether it happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<ProbeDefinition>,
    /// How the step's effect is compensated: a compensation, or `none` where there is nothing to compensate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compensation: Option<CompensationDefinition>,
    /// After this step the order is only ever retried forward, never compensated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub point_of_no_return: bool,
}

/// A question to the service: did the effect under this key happen?
///
/// The service answers `{"applied": true, "output": …}` or `{"applied": false}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "load", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ProbeDefinition {
    /// What the agent is asked to do. It gets the step's input and the effect's own key.
    pub action: String,
    /// Longest time of one attempt, from when its agent takes the request to the answer; absent: the
    /// step's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complete_within: Option<Millis>,
}

/// The agent's retry allowance within one attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "load", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RetryDefinition {
    /// Most calls to the remote service in one attempt, the first one included.
    pub calls: u32,
    /// Most calls in all, over attempts, redeliveries and crashes. Kept exactly, in the call
    /// ledger, at one write unit for each attempt. Absent: `calls` for each attempt, and a
    /// request that is delivered again after a crash has its calls again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u32>,
    /// Upper bound of the first wait; doubled each time, full jitter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial: Option<Millis>,
    /// Upper bound of any wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<Millis>,
}

/// What the Supervisor does when attempts fail.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "load", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PolicyDefinition {
    /// Failures that are met with another attempt; the next one is above the threshold.
    pub threshold: u32,
    /// Wait before the first retried attempt; doubled each time. Absent: none, but for the Supervisor's
    /// next sweep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Millis>,
    /// Not even for that sweep: a transient failure that an agent reports is counted by the Scheduler
    /// that reads it, which makes the next attempt in the same write. Not together with `delay`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retry_at_once: bool,
    /// Upper bound of the growing delay. Absent: 64 times `delay`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_delay: Option<Millis>,
    /// A longer patience between the threshold and `then`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<WaitDefinition>,
    /// How long work may wait for a service that is paused or whose circuit breaker is open
    /// before that counts as a failure. Absent: 24 hours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub park: Option<Millis>,
    /// What is done above the threshold. Absent: `compensate` before the point of no return,
    /// `error` from there on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<ThenDefinition>,
}

/// Above the threshold, before giving up: wait long, try once, and again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "load", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WaitDefinition {
    /// How long to wait before each extra attempt.
    pub delay: Millis,
    /// How many extra attempts.
    pub times: u32,
}

/// What ends the Supervisor's patience.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "load", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ThenDefinition {
    /// Compensate what has been done.
    Compensate,
    /// Stop in Error, with an alert, for an operator.
    Error,
}

/// How a step's effect is compensated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "load", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum CompensationDefinition {
    /// `none`: the step has no effect that would need undoing.
    None(NoCompensation),
    /// An action of an agent.
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

/// A compensation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "load", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CompensationAction {
    /// The agent; absent: the step's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// What the agent is asked to do.
    pub action: String,
    /// Input; beside the step's variables there is `output`, null where the step is ambiguous.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub input: Value,
    /// Longest time of one attempt, from when its agent takes the request to the answer; absent: the
    /// step's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complete_within: Option<Millis>,
    /// Allowance; absent: the step's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryDefinition>,
    /// Failures met with another attempt before CompensationFailed; absent: the step's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<u32>,
}
