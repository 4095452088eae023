//! The authored form of steps that wait, and of work that a service finishes later.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::duration::Millis;

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
    /// With `event`: what senders may name in place of the order, such as `${steps.charge.payment}`: a text of 1 to 128
    /// bytes in which `${ … }` is an expression, or an expression alone that is a text or a whole number. Absent: they
    /// name the order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
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
    /// With `event`: it is a person's decision. Absent: whoever may send events may send it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<DecisionDefinition>,
    /// How long the step waits at most, from when it begins; at most 366 days.
    pub within: Millis,
    /// What is done if the time is over. Absent: `compensate` before the point of no return, `error` from there on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub otherwise: Option<OtherwiseDefinition>,
}

/// A person's decision that a step waits for. What it brings is the step's output, with `by`, the name of who has decided.
/// The application gets the status `decision-asked` when the wait begins.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "load", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DecisionDefinition {
    /// Who may decide: names of users or of tokens, at most 16. Absent: whoever may act on orders.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by: Vec<String>,
    /// What the decision has to bring: a JSON Schema, draft 2020-12, at most 32 KiB, with references to its own parts
    /// alone. The console shows it as a form. Absent: anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<Map<String, Value>>,
    /// How often the status is sent again before the decision; at most 100 times in `within`. Absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remind: Option<Millis>,
    /// Who may decide, too, if there is no decision after some time. The status is sent again then. Absent: no others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escalate: Option<EscalationDefinition>,
}

/// Who may decide later.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "load", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EscalationDefinition {
    /// How long after the wait has begun; less than `within`.
    pub after: Millis,
    /// Names, at most 16.
    pub to: Vec<String>,
}

impl AwaitDefinition {
    /// The events that the step waits for, in one form.
    #[must_use]
    pub fn events(&self) -> Vec<EventDefinition> {
        let single = self.event.as_ref().map(|event| EventDefinition {
            event: event.clone(),
            matches: self.matches.clone(),
            key: self.key.clone(),
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
    /// As in `await`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
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
