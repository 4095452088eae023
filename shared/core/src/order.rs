//! The process record: one order's whole state, every write of which is one conditional write.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use triad_workflow::{DefinitionHash, Workflow, WorkflowName};

use crate::attention::Attention;
use crate::failure::Failure;
use crate::ids::{ClaimId, OrderId, Timestamp, Version};
use crate::outbox::Outbox;
use crate::planted::{Bug, planted};
pub use crate::step::{Applied, StepRecord, StepState};
pub use crate::timeline::{Act, Incident, IncidentKind, MAX_INCIDENTS};

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
    /// Recoveries, failures and operators' acts, oldest first, at most [`MAX_INCIDENTS`].
    pub incidents: Vec<Incident>,
    /// How often an operator has set it going again after it had finished.
    pub round: u32,
    /// An operator holds it: no step starts until it is let go on. Its end lifts the hold.
    pub paused: Option<Hold>,
    /// An operator has closed it by hand: it needs nobody's attention any more.
    pub closed: Option<Hold>,
}

/// Something that an operator has set, and since when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// Since when.
    pub at: Timestamp,
    /// Who and why.
    #[serde(flatten)]
    pub act: Act,
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
        /// Why the order was being compensated; `None` in a record of an earlier version.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        compensated_for: Option<Failure>,
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
                .map(|s| StepRecord::new(s.id.clone()))
                .collect(),
            sequence: 1,
            outbox: Outbox::submission(),
            due: Some(due),
            incidents: Vec::new(),
            round: 0,
            paused: None,
            closed: None,
        }
    }

    /// From when on the time for which finished records are kept is counted: from the end of the
    /// order, or from its closing by an operator, whichever is later.
    ///
    /// `None`, so that the record is kept, while the order is alive; while it is in Error or
    /// CompensationFailed and no operator has closed it; and while it is not known that its last
    /// messages are out, because whoever has to send them again makes them from the record.
    #[must_use]
    pub fn kept_from(&self) -> Option<Timestamp> {
        let finished = self.state.finished_at().filter(|_| self.due.is_none())?;
        if Attention::of(self).is_some() && !planted(Bug::StoppedExpires) {
            return None;
        }
        let closed = self.closed.as_ref().map(|hold| hold.at);
        Some(closed.map_or(finished, |at| at.max(finished)))
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
}
