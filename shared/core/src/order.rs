//! The process record: one order's whole state, every write of which is one conditional write.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use triad_workflow::{DefinitionHash, StepId, Workflow, WorkflowName};

use crate::failure::Failure;
use crate::ids::{Attempt, ClaimId, OrderId, Timestamp, Version};
use crate::outbox::Outbox;

/// Incidents kept in a record; beyond it the oldest are dropped.
pub const MAX_INCIDENTS: usize = 40;

/// The definition an order is pinned to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WorkflowRef {
    /// Name of the workflow.
    pub name: WorkflowName,
    /// Content hash of the version.
    pub hash: DefinitionHash,
}

impl fmt::Display for WorkflowRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.name, self.hash)
    }
}

impl FromStr for WorkflowRef {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, hash) = text
            .split_once('@')
            .ok_or_else(|| format!("{text:?} is not name@hash"))?;
        Ok(Self {
            name: WorkflowName::new(name).map_err(|e| e.to_string())?,
            hash: hash.parse()?,
        })
    }
}

impl Serialize for WorkflowRef {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for WorkflowRef {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

/// Lane of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// The usual lane.
    #[default]
    Normal,
    /// Drained before the usual lane.
    High,
}

/// A process record.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    /// Identity.
    pub id: OrderId,
    /// Raised by every write, checked by every write.
    pub version: Version,
    /// Pinned definition.
    pub workflow: WorkflowRef,
    /// Lane.
    pub priority: Priority,
    /// Topic for status messages; `None` is the default one.
    pub reply_topic: Option<String>,
    /// W3C trace context of the submission.
    pub traceparent: Option<String>,
    /// When the submission was accepted.
    pub submitted_at: Timestamp,
    /// Where the order is in its life.
    pub state: ProcessState,
    /// One record a step, in the workflow's order.
    pub steps: Vec<StepRecord>,
    /// Sequence of the last status message that was written down.
    pub sequence: u32,
    /// What the last write wants sent.
    pub outbox: Outbox,
    /// Sort key in the due index: at or before the moment at which somebody must look; absent
    /// where nobody must.
    pub due: Option<Timestamp>,
    /// Recoveries and failures, oldest first, at most [`MAX_INCIDENTS`].
    pub incidents: Vec<Incident>,
    /// How often an operator has resubmitted it after an undo.
    pub round: u32,
}

/// Where an order is in its life.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum ProcessState {
    /// Waits for a Scheduler to claim it.
    Pending {
        /// When the Supervisor looks at it again; `None` when new.
        complete_by: Option<Timestamp>,
    },
    /// A Scheduler has claimed it; steps are running.
    Processing(Claim),
    /// All steps completed or skipped. Finished.
    Processed {
        /// When.
        at: Timestamp,
    },
    /// Stopped, for an operator. Finished.
    Error {
        /// When.
        at: Timestamp,
        /// Why.
        cause: Failure,
    },
    /// What was done is being undone.
    Compensating {
        /// The claim; `None` while it waits for a Scheduler.
        locked_by: Option<ClaimId>,
        /// When the running undo must have answered, or somebody must look.
        complete_by: Timestamp,
        /// Why it is undone.
        cause: Failure,
    },
    /// All that was done is undone. Finished.
    Compensated {
        /// When.
        at: Timestamp,
        /// Why it was undone.
        cause: Failure,
    },
    /// Half undone, for an operator. Finished.
    CompensationFailed {
        /// When.
        at: Timestamp,
        /// What could not be undone, and why.
        cause: Failure,
    },
}

/// A Scheduler's hold on an order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// Unique to the claim.
    pub locked_by: ClaimId,
    /// Earliest complete-by of what is running.
    pub complete_by: Timestamp,
}

impl ProcessState {
    /// The state's name, as tables and people have it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Pending { .. } => "Pending",
            Self::Processing(_) => "Processing",
            Self::Processed { .. } => "Processed",
            Self::Error { .. } => "Error",
            Self::Compensating { .. } => "Compensating",
            Self::Compensated { .. } => "Compensated",
            Self::CompensationFailed { .. } => "CompensationFailed",
        }
    }

    /// All names, in the order of an order's life.
    pub const NAMES: [&'static str; 7] = [
        "Pending",
        "Processing",
        "Compensating",
        "Processed",
        "Compensated",
        "Error",
        "CompensationFailed",
    ];

    /// Whether the order has reached its end, operators aside.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.finished_at().is_some()
    }

    /// When the order reached its end.
    #[must_use]
    pub fn finished_at(&self) -> Option<Timestamp> {
        match self {
            Self::Processed { at }
            | Self::Error { at, .. }
            | Self::Compensated { at, .. }
            | Self::CompensationFailed { at, .. } => Some(*at),
            Self::Pending { .. } | Self::Processing(_) | Self::Compensating { .. } => None,
        }
    }

    /// The live claim.
    #[must_use]
    pub fn locked_by(&self) -> Option<&ClaimId> {
        match self {
            Self::Processing(claim) => Some(&claim.locked_by),
            Self::Compensating { locked_by, .. } => locked_by.as_ref(),
            Self::Pending { .. }
            | Self::Processed { .. }
            | Self::Error { .. }
            | Self::Compensated { .. }
            | Self::CompensationFailed { .. } => None,
        }
    }

    /// Why it failed or is being undone.
    #[must_use]
    pub fn cause(&self) -> Option<&Failure> {
        match self {
            Self::Error { cause, .. }
            | Self::Compensating { cause, .. }
            | Self::Compensated { cause, .. }
            | Self::CompensationFailed { cause, .. } => Some(cause),
            Self::Pending { .. } | Self::Processing(_) | Self::Processed { .. } => None,
        }
    }
}

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
    /// Calls to the remote service: those reported, and the whole allowance of silent attempts.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub calls: u32,
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
    /// The agent reported that the attempt failed; the Supervisor will count it.
    Failed {
        /// Number of the attempt.
        attempt: Attempt,
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
        /// Number of the last undo attempt, 0 before the first.
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
    /// The agent reported that the undo attempt failed; the Supervisor will count it.
    UndoFailed {
        /// Number of the undo attempt.
        attempt: Attempt,
        /// What is undone.
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
            Self::Failed { .. } => "failed",
            Self::RetryDue { .. } => "retry-due",
            Self::Completed { .. } => "completed",
            Self::Refused { .. } => "refused",
            Self::Ambiguous { .. } => "ambiguous",
            Self::UndoDue { .. } => "undo-due",
            Self::Undoing { .. } => "undoing",
            Self::UndoFailed { .. } => "undo-failed",
            Self::Undone { .. } => "undone",
        }
    }

    /// Whether steps that come after this one may start.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Completed { .. } | Self::Skipped)
    }
}

/// Something that an operator should find in the timeline: a recovery or a failure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Incident {
    /// When it was written down.
    pub at: Timestamp,
    /// What happened.
    pub what: IncidentKind,
    /// The attempt it happened to, if to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<Attempt>,
    /// The failure, with its step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// Kinds of incident.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IncidentKind {
    /// An attempt at a step failed.
    AttemptFailed,
    /// An attempt at a compensation failed.
    UndoFailed,
    /// Undo began.
    UndoBegan,
}

impl Order {
    /// A new process record, as Submission writes it.
    #[must_use]
    pub fn new(accepted: &crate::message::Accepted, workflow: &Workflow, due: Timestamp) -> Self {
        Self {
            id: accepted.order_id.clone(),
            version: Version::FIRST,
            workflow: accepted.workflow.clone(),
            priority: accepted.priority,
            reply_topic: accepted.reply_topic.clone(),
            traceparent: accepted.traceparent.clone(),
            submitted_at: accepted.submitted_at,
            state: ProcessState::Pending { complete_by: None },
            steps: workflow
                .steps
                .iter()
                .map(|s| StepRecord {
                    step: s.id.clone(),
                    state: StepState::Waiting,
                    failures: 0,
                    undo_failures: 0,
                    calls: 0,
                    error: None,
                })
                .collect(),
            sequence: 1,
            outbox: Outbox::submission(),
            due: Some(due),
            incidents: Vec::new(),
            round: 0,
        }
    }

    /// The pattern's FailureCount: the most failures of any one step in the present direction.
    #[must_use]
    pub fn failure_count(&self) -> u32 {
        let undo = matches!(
            self.state,
            ProcessState::Compensating { .. }
                | ProcessState::Compensated { .. }
                | ProcessState::CompensationFailed { .. }
        );
        self.steps
            .iter()
            .map(|s| if undo { s.undo_failures } else { s.failures })
            .max()
            .unwrap_or(0)
    }

    /// The pattern's CompleteBy: when somebody must have finished or looked.
    #[must_use]
    pub fn complete_by(&self) -> Option<Timestamp> {
        match &self.state {
            ProcessState::Pending { complete_by } => *complete_by,
            ProcessState::Processing(claim) => Some(claim.complete_by),
            ProcessState::Compensating { complete_by, .. } => Some(*complete_by),
            ProcessState::Processed { .. }
            | ProcessState::Error { .. }
            | ProcessState::Compensated { .. }
            | ProcessState::CompensationFailed { .. } => None,
        }
    }

    /// Writes down an incident, dropping the oldest beyond the bound.
    pub(crate) fn note(&mut self, incident: Incident) {
        if self.incidents.len() == MAX_INCIDENTS {
            self.incidents.remove(0);
        }
        self.incidents.push(incident);
    }
}
