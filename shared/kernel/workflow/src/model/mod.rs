//! The authored form of a workflow: exactly what the YAML file says, nothing derived.
//!
//! Unknown fields are refused, so a misspelt field is an error and never a silent default.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::duration::Millis;

mod on_failure;
mod run;
mod service;
mod waits;

pub use on_failure::AlternativeDefinition;
pub(crate) use on_failure::compensations;
pub use run::{ForEachDefinition, RunDefinition};
pub use service::{
    ActionDefinition, AnswerDefinition, AnswerMeaning, BodyForm, CallDirection, KeyDefinition,
    KeyForm, Method, ServiceDefinition, TypesDefinition,
};
pub use waits::{
    AwaitDefinition, DecisionDefinition, EscalationDefinition, EventDefinition,
    FinishesLaterDefinition, OtherwiseDefinition, PollDefinition, TimerDefinition,
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
    /// Names of values of the details that expressions see as variables of their own: where `customer` is one of them,
    /// `customer.city` is `details.customer.city`. Absent: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<String>,
    /// What the end of an order brings to the step of another order that has started it: any value; `${ … }` inside
    /// strings is an expression over `order`, `details` and `steps`. Absent: the output of the step that is written last.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub output: Value,
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
    /// Names of the agents that the steps, those inside a `for_each`, their alternatives and all their compensations name,
    /// as often as they do.
    pub fn agents_in_use(&self) -> impl Iterator<Item = &str> {
        let with_inner = |step| std::iter::once(step).chain(StepDefinition::inner(step));
        self.steps.iter().flat_map(with_inner).flat_map(|step| {
            let (_, others) = step.others();
            let others = others.iter().map(|other| &other.agent);
            let agents = std::iter::once(&step.agent).chain(others);
            let compensations = compensations(step).map(|action| &action.agent);
            agents.chain(compensations).filter_map(Option::as_deref)
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
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "load", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StepDefinition {
    /// Name of the step, unique in the workflow.
    pub id: String,
    /// Name of the agent that carries the step out. Needed, with `action`, unless the step has `wait`,
    /// `await`, `run` or a `for_each` with `steps`.
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
    /// The step calls nothing and runs an order of another workflow, a child order: it is completed when that order is,
    /// with what it brings as output. With `for_each`, one child order for each element. Absent: it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunDefinition>,
    /// The step does its work once for each element of a list: its action, its `run`, or the `steps` in here. Its output
    /// is the list of their outputs. Either the list alone, such as `details.lines`, or a mapping with `in`. Absent: it
    /// does it once.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "run::short_or_whole"
    )]
    #[cfg_attr(feature = "load", schemars(with = "Option<run::Written>"))]
    pub for_each: Option<ForEachDefinition>,
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
    /// Other ways to do the step's work, such as another carrier, at most 4. Each is tried when the one before has failed
    /// and is compensated, if it may have had an effect. Absent: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on_failure: Vec<AlternativeDefinition>,
    /// 2 to 5 ways to do the step's work, all begun at once. The output of the first that succeeds is the step's, and the
    /// others are let go: what they did, or are doing, is compensated. Absent: the step does its work in one way at a time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub first_of: Vec<AlternativeDefinition>,
    /// How the step's effect is compensated: an action of an agent, or `none` if there is nothing to
    /// compensate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compensation: Option<CompensationDefinition>,
    /// Whether the order can no longer be compensated once this step may have happened: from then on it is
    /// only retried. Absent: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub point_of_no_return: bool,
}

impl StepDefinition {
    /// The steps inside its `for_each`.
    pub fn inner(&self) -> impl Iterator<Item = &StepDefinition> {
        let each = self.for_each.iter();
        each.flat_map(|each| each.steps.iter().flatten())
    }

    /// Whether it runs other orders: one, one for each element of a list, or one for each way to do its work.
    #[must_use]
    pub fn runs_orders(&self) -> bool {
        self.run.is_some() || self.makes_parts()
    }

    /// Whether the work of these orders is written in this definition and not another workflow.
    #[must_use]
    pub fn makes_parts(&self) -> bool {
        let waits = self.wait.is_some() || self.awaits.is_some();
        let has_ways = !self.others().1.is_empty() && !waits;
        self.run.is_none() && (self.for_each.is_some() || has_ways)
    }

    /// The ways to do its work that are written in a list of their own, and the key of that list.
    pub(crate) fn others(&self) -> (&'static str, &[AlternativeDefinition]) {
        match self.first_of.is_empty() {
            true => ("on_failure", &self.on_failure),
            false => ("first_of", &self.first_of),
        }
    }
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
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "load", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PolicyDefinition {
    /// How many failures of the step are each met with another attempt. The next failure is above the
    /// threshold. Absent: 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_threshold: Option<u32>,
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
    /// What holds after a failure with a certain code in place of the above, by that code, at most 16. Failures with
    /// such a code are counted by themselves. Absent: nothing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub by_code: BTreeMap<String, CodePolicyDefinition>,
}

/// What the Supervisor does after a failure with a certain code. What it does not say is as after every other failure.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "load", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CodePolicyDefinition {
    /// How many failures of the step are each met with another attempt; 0: it is given up at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_threshold: Option<u32>,
    /// How long the Supervisor waits before the next attempt after the first failure; doubled for each further one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Millis>,
    /// Upper bound of the growing delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_delay: Option<Millis>,
    /// Extra attempts, far apart, between the threshold and `then`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<WaitDefinition>,
    /// What is done above the threshold, and after a refusal with this code.
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
