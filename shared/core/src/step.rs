//! One step's record: where it is in its life, forward and back.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use triad_workflow::StepId;

use crate::failure::Failure;
use crate::ids::{Attempt, Timestamp};

/// One step's record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// The step.
    pub step: StepId,
    /// Where it is.
    #[serde(flatten)]
    pub state: StepState,
    /// Failed attempts at the action.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failures: u32,
    /// Failed attempts at the compensation.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub undo_failures: u32,
    /// Calls to the remote service in this round: those reported, and the whole allowance of
    /// silent attempts.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub calls: u32,
    /// The same of the compensation.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub undo_calls: u32,
    /// Number of the idempotency key: raised when an operator has the step done again after it
    /// was undone or refused, because the earlier key is spent.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub key: u32,
    /// Attempts at the action before it was undone: attempts are numbered on, so that no reply
    /// of an earlier round fits a later one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub earlier: u32,
    /// The same of the compensation: attempts in the rounds before this one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub earlier_undos: u32,
    /// An attempt was silent or lost its answer: the effect may have happened.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_doubt: bool,
    /// Since when it has been waiting for a service that is not to be called for now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parked_since: Option<Timestamp>,
    /// When the Supervisor first met the attempt that is out beyond its complete-by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unheard_since: Option<Timestamp>,
    /// The input that an operator has put in the place of the definition's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// The last failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands out references"
)]
fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// Where a step is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum StepState {
    /// Not started.
    Waiting,
    /// Its condition was false.
    Skipped,
    /// A request is out.
    Running {
        /// Number of the attempt.
        attempt: Attempt,
        /// When the request was made.
        started: Timestamp,
        /// After this, its reply changes nothing.
        complete_by: Timestamp,
    },
    /// The service is asked whether the effect of an earlier attempt happened.
    Probing {
        /// Number of the attempt.
        attempt: Attempt,
        /// When the request was made.
        started: Timestamp,
        /// After this, its reply changes nothing.
        complete_by: Timestamp,
    },
    /// The service is not to be called for now: paused, or its circuit breaker is open.
    Parked {
        /// Number of the attempt that was put off.
        attempt: Attempt,
        /// When to try again.
        until: Timestamp,
    },
    /// The agent reported that the attempt failed; the Supervisor will count it.
    Failed {
        /// Number of the attempt.
        attempt: Attempt,
        /// When its request was made.
        #[serde(default)]
        started: Timestamp,
        /// Calls that it made. In the record `calls` is the sum of them all.
        #[serde(default, rename = "attempt_calls")]
        calls: u32,
    },
    /// The next claim starts another attempt.
    RetryDue {
        /// Number of the last attempt.
        attempt: Attempt,
    },
    /// Done.
    Completed {
        /// Number of the attempt.
        attempt: Attempt,
        /// When its request was made.
        started: Timestamp,
        /// When its reply was taken.
        finished: Timestamp,
        /// Place in the order of completion, from 0.
        position: u32,
        /// What the service answered.
        output: Value,
    },
    /// The service refused, and cannot have had an effect.
    Refused {
        /// Number of the attempt.
        attempt: Attempt,
    },
    /// Given up without knowing whether it had an effect, and without a way to undo it.
    Ambiguous {
        /// Number of the last attempt.
        attempt: Attempt,
    },
    /// To be undone; an undo request goes out when its turn comes, or at the next claim.
    UndoDue {
        /// Number of the last undo attempt; before the first, of the last one of earlier rounds.
        attempt: Attempt,
        /// What is undone.
        #[serde(flatten)]
        applied: Applied,
    },
    /// An undo request is out.
    Undoing {
        /// Number of the undo attempt.
        attempt: Attempt,
        /// When the request was made.
        started: Timestamp,
        /// After this, its reply changes nothing.
        complete_by: Timestamp,
        /// What is undone.
        #[serde(flatten)]
        applied: Applied,
    },
    /// The service is not to be called for now: paused, or its circuit breaker is open.
    UndoParked {
        /// Number of the undo attempt that was put off.
        attempt: Attempt,
        /// When to try again.
        until: Timestamp,
        /// What is undone.
        #[serde(flatten)]
        applied: Applied,
    },
    /// The agent reported that the undo attempt failed; the Supervisor will count it.
    UndoFailed {
        /// Number of the undo attempt.
        attempt: Attempt,
        /// When its request was made.
        #[serde(default)]
        started: Timestamp,
        /// Calls that it made. In the record `calls` is the sum of them all.
        #[serde(default, rename = "attempt_calls")]
        calls: u32,
        /// What is undone.
        #[serde(flatten)]
        applied: Applied,
    },
    /// The Supervisor's patience with the undo has ended: for an operator.
    NotUndone {
        /// Number of the last undo attempt; 0 if none was ever made.
        attempt: Attempt,
        /// What is not undone.
        #[serde(flatten)]
        applied: Applied,
    },
    /// Undone.
    Undone {
        /// Number of the undo attempt.
        attempt: Attempt,
        /// When its reply was taken.
        finished: Timestamp,
    },
}

/// What is known about an effect that is to be undone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Applied {
    /// Place in the order of completion; `None` if it is ambiguous whether it was applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u32>,
    /// What the service answered; null if ambiguous.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub output: Value,
}

impl StepState {
    /// The state's name, as people have it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Skipped => "skipped",
            Self::Running { .. } => "running",
            Self::Probing { .. } => "probing",
            Self::Parked { .. } => "parked",
            Self::Failed { .. } => "failed",
            Self::RetryDue { .. } => "retry-due",
            Self::Completed { .. } => "completed",
            Self::Refused { .. } => "refused",
            Self::Ambiguous { .. } => "ambiguous",
            Self::UndoDue { .. } => "undo-due",
            Self::Undoing { .. } => "undoing",
            Self::UndoParked { .. } => "undo-parked",
            Self::UndoFailed { .. } => "undo-failed",
            Self::NotUndone { .. } => "not-undone",
            Self::Undone { .. } => "undone",
        }
    }

    /// When the request that is out must have been answered.
    #[must_use]
    pub fn complete_by(&self) -> Option<Timestamp> {
        match self {
            Self::Running { complete_by, .. }
            | Self::Probing { complete_by, .. }
            | Self::Undoing { complete_by, .. } => Some(*complete_by),
            _ => None,
        }
    }

    /// When parked work is to be tried again.
    #[must_use]
    pub fn parked_until(&self) -> Option<Timestamp> {
        match self {
            Self::Parked { until, .. } | Self::UndoParked { until, .. } => Some(*until),
            _ => None,
        }
    }

    /// What is to be undone and is not yet.
    #[must_use]
    pub fn to_undo(&self) -> Option<&Applied> {
        match self {
            Self::UndoDue { applied, .. }
            | Self::Undoing { applied, .. }
            | Self::UndoParked { applied, .. }
            | Self::UndoFailed { applied, .. }
            | Self::NotUndone { applied, .. } => Some(applied),
            _ => None,
        }
    }

    /// Number of the last attempt at the action, as far as the state knows it.
    #[must_use]
    pub fn attempt(&self) -> Option<Attempt> {
        match self {
            Self::Running { attempt, .. }
            | Self::Probing { attempt, .. }
            | Self::Parked { attempt, .. }
            | Self::Failed { attempt, .. }
            | Self::RetryDue { attempt }
            | Self::Completed { attempt, .. }
            | Self::Refused { attempt }
            | Self::Ambiguous { attempt } => Some(*attempt),
            _ => None,
        }
    }

    /// Number of the attempt whose request is out, in either direction.
    #[must_use]
    pub fn attempt_out(&self) -> Option<Attempt> {
        match self {
            Self::Running { attempt, .. }
            | Self::Probing { attempt, .. }
            | Self::Undoing { attempt, .. } => Some(*attempt),
            _ => None,
        }
    }

    /// Whether steps that come after this one may start.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Completed { .. } | Self::Skipped)
    }
}

impl StepRecord {
    /// A step that has not been started.
    #[must_use]
    pub fn new(step: StepId) -> Self {
        Self {
            step,
            state: StepState::Waiting,
            failures: 0,
            undo_failures: 0,
            calls: 0,
            undo_calls: 0,
            key: 0,
            earlier: 0,
            earlier_undos: 0,
            in_doubt: false,
            parked_since: None,
            unheard_since: None,
            input: None,
            error: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// State and record share one JSON object: no two fields may have the same name.
    #[test]
    fn every_state_survives_in_its_record() {
        let attempt = Attempt(2);
        let (started, finished, complete_by, until) =
            (Timestamp(1), Timestamp(2), Timestamp(3), Timestamp(4));
        let applied = Applied {
            position: Some(1),
            output: Value::from("out"),
        };
        let states = [
            StepState::Waiting,
            StepState::Skipped,
            StepState::Running {
                attempt,
                started,
                complete_by,
            },
            StepState::Probing {
                attempt,
                started,
                complete_by,
            },
            StepState::Parked { attempt, until },
            StepState::Failed {
                attempt,
                started,
                calls: 7,
            },
            StepState::RetryDue { attempt },
            StepState::Completed {
                attempt,
                started,
                finished,
                position: 1,
                output: Value::from(1),
            },
            StepState::Refused { attempt },
            StepState::Ambiguous { attempt },
            StepState::UndoDue {
                attempt,
                applied: applied.clone(),
            },
            StepState::Undoing {
                attempt,
                started,
                complete_by,
                applied: applied.clone(),
            },
            StepState::UndoParked {
                attempt,
                until,
                applied: applied.clone(),
            },
            StepState::UndoFailed {
                attempt,
                started,
                calls: 7,
                applied: applied.clone(),
            },
            StepState::NotUndone { attempt, applied },
            StepState::Undone { attempt, finished },
        ];
        for state in states {
            let record = StepRecord {
                state,
                failures: 1,
                undo_failures: 2,
                calls: 3,
                undo_calls: 4,
                key: 5,
                earlier: 6,
                in_doubt: true,
                parked_since: Some(Timestamp(9)),
                unheard_since: Some(Timestamp(10)),
                input: Some(Value::from(8)),
                error: None,
                ..StepRecord::new(StepId::new("a").expect("a name"))
            };
            let text = serde_json::to_string(&record).expect("it is JSON");
            let again: StepRecord = serde_json::from_str(&text).expect(&text);
            assert_eq!(again, record);
        }
    }
}
