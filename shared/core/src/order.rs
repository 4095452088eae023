//! The process record: one order's whole state, every write of which is one conditional write.

use serde::{Deserialize, Serialize};
use triad_workflow::Workflow;

use crate::due::{aside_shard, shard_of};
use crate::failure::Failure;
use crate::ids::{ClaimId, OrderId, Priority, Timestamp, Version, WorkflowRef};
use crate::outbox::Outbox;
use crate::step::StepRecord;
use crate::timeline::MAX_NOTE_BYTES;
pub use crate::timeline::{Incident, IncidentKind, MAX_INCIDENTS, OperatorAct};

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
    /// Since when it waits for room under the cap on its workflow's orders in flight: nothing of it
    /// starts until it is let in. See [`crate::due::aside_shard`].
    pub set_aside: Option<Timestamp>,
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
    pub act: OperatorAct,
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
    /// What was done is being compensated.
    Compensating {
        /// The claim; `None` while it waits for a Scheduler.
        locked_by: Option<ClaimId>,
        /// When the compensation that is out must have answered, or somebody must look.
        complete_by: Timestamp,
        /// Why it is compensated.
        cause: Failure,
    },
    /// All that was done is compensated. Finished.
    Compensated {
        /// When.
        at: Timestamp,
        /// Why it was compensated.
        cause: Failure,
    },
    /// Half compensated, for an operator. Finished.
    CompensationFailed {
        /// When.
        at: Timestamp,
        /// What could not be compensated, and why.
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

    /// Why it failed or is being compensated.
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
            set_aside: None,
            paused: None,
            closed: None,
        }
    }

    /// The same new record, set aside until there is room for it.
    #[must_use]
    pub fn aside(mut self) -> Self {
        self.set_aside = Some(self.submitted_at);
        self.due = self.set_aside;
        self
    }

    /// The shard of the due index in which its row is, while it has one.
    #[must_use]
    pub fn due_shard(&self) -> u32 {
        match self.set_aside {
            Some(_) => aside_shard(&self.workflow.name),
            None => shard_of(&self.id),
        }
    }

    /// Writes a line down. Beyond the bound the oldest line goes that is not an operator's act,
    /// or the oldest of all where there are only acts.
    pub(crate) fn note(&mut self, mut incident: Incident) {
        incident.note = incident
            .note
            .map(|text| crate::failure::cut(&text, MAX_NOTE_BYTES));
        if self.incidents.len() >= MAX_INCIDENTS {
            let oldest = self.incidents.iter().position(|i| i.act.is_none());
            self.incidents.remove(oldest.unwrap_or(0));
        }
        self.incidents.push(incident);
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
            .map(|s| {
                if undo {
                    s.compensation.failures
                } else {
                    s.action.failures
                }
            })
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
