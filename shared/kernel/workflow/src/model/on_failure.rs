//! The authored form of another way to do a step's work.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    AwaitDefinition, CompensationAction, CompensationDefinition, FinishesLaterDefinition,
    PolicyDefinition, ProbeDefinition, RetryDefinition, StepDefinition, TimerDefinition,
};
use crate::duration::Millis;

/// A way to do a step's work, such as another carrier. In `on_failure` it is tried when those before it have failed and
/// left no effect, in `first_of` beside the others. What it does not say is as for the step.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "load", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AlternativeDefinition {
    /// In `on_failure`: codes of failures after which it is not tried, such as `declined`. Absent: it is tried after
    /// every failure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unless: Vec<String>,
    /// In `first_of`: this way waits for a moment, and takes nothing from the step. Absent: it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<TimerDefinition>,
    /// In `first_of`: this way waits for events, and takes nothing from the step. Absent: it does not.
    #[serde(default, rename = "await", skip_serializing_if = "Option::is_none")]
    pub awaits: Option<AwaitDefinition>,
    /// Name of the agent that carries it out. Absent: the step's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Name of the action that the agent is asked for. Absent: the step's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Input of the action: any value; `${ … }` inside strings is an expression. Absent: the step's.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub input: Value,
    /// Longest time of one attempt. Absent: the step's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt_timeout: Option<Millis>,
    /// The agent's retry allowance within one attempt. Absent: the step's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryDefinition>,
    /// What the Supervisor does when attempts fail; it has no `then`, because the step has it. Absent: the step's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supervisor: Option<PolicyDefinition>,
    /// Whether the effect may not be repeated. Absent: false, whatever the step says.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_most_once: bool,
    /// How the service is asked whether an effect that may not be repeated happened. Absent: it cannot be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<ProbeDefinition>,
    /// The service may take the work now and finish it later. Absent: its answer is the end, whatever the step says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finishes_later: Option<FinishesLaterDefinition>,
    /// How its effect is compensated, by default by the agent that carries it out. Absent: as the step's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compensation: Option<CompensationDefinition>,
}

impl AlternativeDefinition {
    /// The keys that it says itself, and does not take from its step.
    pub(crate) fn says(&self, key: &str) -> bool {
        match key {
            "agent" => self.agent.is_some(),
            "action" => self.action.is_some(),
            "input" => !self.input.is_null(),
            "attempt_timeout" => self.attempt_timeout.is_some(),
            "retry" => self.retry.is_some(),
            "supervisor" => self.supervisor.is_some(),
            "compensation" => self.compensation.is_some(),
            _ => true,
        }
    }

    /// Whether it calls nothing, and takes nothing from its step.
    pub(crate) fn waits(&self) -> bool {
        self.wait.is_some() || self.awaits.is_some()
    }

    /// The step that it is, in place of the step that it belongs to.
    pub(crate) fn in_place_of(&self, step: &StepDefinition) -> StepDefinition {
        let own = self.clone();
        let id = step.id.clone();
        let none = StepDefinition::default();
        let step = if self.waits() { &none } else { step };
        StepDefinition {
            id,
            wait: own.wait,
            awaits: own.awaits,
            agent: own.agent.or_else(|| step.agent.clone()),
            action: own.action.or_else(|| step.action.clone()),
            input: match own.input {
                Value::Null => step.input.clone(),
                input => input,
            },
            attempt_timeout: own.attempt_timeout.or(step.attempt_timeout),
            retry: own.retry.or_else(|| step.retry.clone()),
            supervisor: own.supervisor.or_else(|| step.supervisor.clone()),
            at_most_once: own.at_most_once,
            probe: own.probe,
            finishes_later: own.finishes_later,
            compensation: own.compensation.or_else(|| step.compensation.clone()),
            ..StepDefinition::default()
        }
    }
}

/// The actions by which a step and its alternatives are compensated.
pub(crate) fn compensations(step: &StepDefinition) -> impl Iterator<Item = &CompensationAction> {
    let (_, others) = step.others();
    let others = others.iter().map(|other| &other.compensation);
    let all = std::iter::once(&step.compensation).chain(others);
    all.filter_map(|written| match written {
        Some(CompensationDefinition::Action(action)) => Some(&**action),
        Some(CompensationDefinition::None(_)) | None => None,
    })
}
