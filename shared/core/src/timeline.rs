//! What an operator finds in an order's timeline: recoveries, failures and operators' acts.

use serde::{Deserialize, Serialize};
use triad_workflow::StepId;

use crate::failure::Failure;
use crate::ids::{Attempt, Timestamp};

/// Incidents kept in a record; beyond it the oldest are dropped, operators' acts last.
pub const MAX_INCIDENTS: usize = 40;
/// Longest name and longest reason of an operator, in bytes; longer ones are cut.
pub const MAX_ACT_BYTES: usize = 256;
/// Longest note of a line, in bytes; longer ones are cut. What a note is about is in the record
/// whole.
pub const MAX_NOTE_BYTES: usize = 1_024;

/// Who did something to an order, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorAct {
    /// Who.
    pub by: String,
    /// Why.
    pub why: String,
}

impl OperatorAct {
    /// An act; over-long texts are cut at a character boundary.
    #[must_use]
    pub fn new(by: &str, why: &str) -> Self {
        Self {
            by: crate::failure::cut(by, MAX_ACT_BYTES),
            why: crate::failure::cut(why, MAX_ACT_BYTES),
        }
    }
}

/// One line of the timeline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Incident {
    /// When it was written down.
    pub at: Timestamp,
    /// What happened.
    pub what: IncidentKind,
    /// The step, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepId>,
    /// The attempt it happened to, if to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<Attempt>,
    /// When that attempt was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
    /// Calls that the attempt made, if it said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<u32>,
    /// The failure, with its step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// The operator, if one did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub act: Option<OperatorAct>,
    /// What was changed, where the kind does not say it: the corrected input, the new version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Incident {
    /// A line with nothing but its time and kind.
    #[must_use]
    pub fn new(what: IncidentKind, at: Timestamp) -> Self {
        Self {
            at,
            what,
            step: None,
            attempt: None,
            started: None,
            calls: None,
            failure: None,
            act: None,
            note: None,
        }
    }

    /// The same, about a failure and its step.
    #[must_use]
    pub fn of(self, failure: &Failure) -> Self {
        Self {
            step: failure.step.clone(),
            failure: Some(failure.clone()),
            ..self
        }
    }
}

/// Kinds of line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IncidentKind {
    /// An attempt at a step failed.
    AttemptFailed,
    /// An attempt at a compensation failed.
    #[serde(rename = "undo-failed")]
    CompensationFailed,
    /// The compensation of the order began.
    #[serde(rename = "undo-began")]
    CompensationBegan,
    /// Work was deferred: the service is paused, or its circuit breaker is open.
    #[serde(rename = "parked")]
    Deferred,
    /// The service was asked whether an effect happened, and said so.
    Probed,
    /// An operator had the failed step, or the whole compensated order, done again.
    Resubmitted,
    /// An operator cancelled the order.
    Cancelled,
    /// An operator had the failed compensation tried again.
    #[serde(rename = "undo-retried")]
    CompensationRetried,
    /// An operator closed the order by hand.
    Closed,
    /// An operator held the order.
    Paused,
    /// An operator let the order go on.
    Resumed,
    /// An operator said whether an effect in doubt happened.
    Settled,
    /// An operator moved the order to another version of its workflow.
    Migrated,
}
