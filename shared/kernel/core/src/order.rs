//! The process record: one order's whole state, changed by conditional writes only.

use serde::{Deserialize, Serialize};
use serde_json::Value;
#[cfg(doc)]
use triad_workflow::search::MAX_SEARCH_KEYS;
use triad_workflow::{SearchKey, Workflow};

use crate::children::{ChildEnd, Parent};
use crate::due::{aside_shard, shard_of};
use crate::failure::Failure;
use crate::ids::{CampaignId, ClaimId, OrderId, Priority, Timestamp, Version, WorkflowRef};
use crate::outbox::{Emission, Outbox, Writer};
use crate::received::KeptEvent;
use crate::step::StepRecord;
pub use crate::timeline::{Dropped, Incident, IncidentKind, MAX_INCIDENTS, OperatorAct};
use crate::timeline::{MAX_FULL_INCIDENTS, MAX_NOTE_BYTES};

/// A process record: the whole state of one order.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    /// The order's id.
    pub id: OrderId,
    /// Raised by one with every write, and checked by every write.
    pub version: Version,
    /// The version of the workflow that the order runs on.
    pub workflow: WorkflowRef,
    /// The order's priority, normal or high: it decides the topics of the order's messages.
    pub priority: Priority,
    /// Topic for status messages; `None` is the topic `status`.
    pub reply_topic: Option<String>,
    /// W3C trace context of the submission; `None` if it had none.
    pub traceparent: Option<String>,
    /// When the submission was accepted.
    pub submitted_at: Timestamp,
    /// The search keys by which operators find the order, at most [`MAX_SEARCH_KEYS`]. They were made from
    /// its workflow and details when it was submitted, and stay the same when it is moved to another version.
    pub search: Vec<SearchKey>,
    /// Where the order is in its life.
    pub state: ProcessState,
    /// One record for each step, in the order of [`Workflow::steps`]. Empty while the order waits for an instance
    /// that can read its definition ([`is_unread`](Self::is_unread)).
    pub steps: Vec<StepRecord>,
    /// Sequence of the last status message that was put into the outbox; at least 1, the status
    /// `received`.
    pub sequence: u32,
    /// Messages of the last write, and messages of earlier writes that may be unsent.
    pub outbox: Outbox,
    /// Sort key in the due index: at or before the moment at which the Supervisor must check the order; `None` if it
    /// need not.
    pub due: Option<Timestamp>,
    /// The timeline: recoveries, failures and operators' acts, oldest first, at most
    /// [`MAX_INCIDENTS`].
    pub incidents: Vec<Incident>,
    /// Lines that the timeline no longer has; `None` if it has all.
    pub dropped: Option<Dropped>,
    /// How often an operator has set the order going again after it had finished, forward or in its
    /// compensation; 0 at first. The cancelling of an order in Error is not counted.
    pub run: u32,
    /// Since when the order is set aside: it waits for room under its workflow's cap on orders in flight, or for an
    /// instance that can read its definition, and no step of it starts. `None` if it is not. See
    /// [`crate::due::aside_shard`].
    pub set_aside: Option<Timestamp>,
    /// Before when no step starts, as the application has asked; `None`: the order started at once.
    pub start_at: Option<Timestamp>,
    /// Deadline of the order; `None`: it has none. An order that is still running at this moment is compensated, or
    /// continues as late.
    pub deadline: Option<Timestamp>,
    /// Since when the order is known to be late: its deadline has passed, and its point of no return may have
    /// happened before, so that it continues. `None` if it is not late.
    pub late_since: Option<Timestamp>,
    /// The operator who paused the order, the reason and the time: no further step starts until the order is resumed.
    /// `None` if it is not paused. A finished order is not paused.
    pub paused: Option<Hold>,
    /// The operator who closed the order by hand, the reason and the time: it needs no operator any more. `None` if
    /// it is not closed.
    pub closed: Option<Hold>,
    /// Events from outside that the order has had, oldest first: those that are kept for a step that is to wait for
    /// them, and those that a step has taken. At most [`MAX_KEPT`](crate::received::MAX_KEPT) of the first, and of the
    /// second as many as the steps wait for in all.
    pub events: Vec<KeptEvent>,
    /// What was replaced in the details since they were submitted, as a merge patch over them (RFC 7396): see
    /// [`amend`](crate::amend). `None` if they are as submitted.
    pub amendment: Option<Value>,
    /// The step of another order that has started this one; `None` of an order that an application has submitted.
    pub parent: Option<Box<Parent>>,
    /// The campaign that acted on the order last; `None` if none has. Earlier ones are in the timeline: see
    /// [`is_acted_on_by`](Self::is_acted_on_by).
    pub campaign: Option<CampaignId>,
}

/// An operator's setting: who, why and since when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// When the operator set it.
    pub at: Timestamp,
    /// The operator and the reason.
    #[serde(flatten)]
    pub act: OperatorAct,
}

/// Where an order is in its life. An order leaves the states that are marked as finished only when an
/// operator sets it going again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum ProcessState {
    /// The order waits for a Scheduler to claim it.
    Pending {
        /// When the Supervisor checks the order if no Scheduler has claimed it by then. `None` of a new order: that
        /// moment is [`announce_within`](crate::Timing::announce_within) after the submission.
        complete_by: Option<Timestamp>,
    },
    /// A Scheduler has claimed the order, and its steps are worked on.
    Processing(Claim),
    /// All steps are completed or skipped. Finished.
    Processed {
        /// When the order finished.
        at: Timestamp,
    },
    /// The order has stopped and needs an operator. Finished.
    Error {
        /// When the order finished.
        at: Timestamp,
        /// Why it stopped.
        cause: Failure,
    },
    /// The steps that had an effect are being compensated.
    Compensating {
        /// Id of the claim; `None` while the order waits for a Scheduler.
        locked_by: Option<ClaimId>,
        /// While the order is claimed: the earliest moment by which a compensation that is out must be
        /// answered, a deferred one is to be tried again, or a failed one is to be counted. While it waits
        /// for a Scheduler: when the Supervisor looks at it, which is no later than that.
        complete_by: Timestamp,
        /// Why the order is compensated.
        cause: Failure,
    },
    /// Every effect that has a compensation is compensated. Finished.
    Compensated {
        /// When the order finished.
        at: Timestamp,
        /// Why the order was compensated.
        cause: Failure,
    },
    /// An effect could not be compensated, so the order is half compensated and needs an operator.
    /// Finished.
    CompensationFailed {
        /// When the order finished.
        at: Timestamp,
        /// What could not be compensated, and why.
        cause: Failure,
        /// Why the order was being compensated; `None` in a record of an earlier version.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        compensated_for: Option<Failure>,
    },
}

/// The claim of one Scheduler on one order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// Id of the claim, unique to the attempt to claim.
    pub locked_by: ClaimId,
    /// The earliest moment by which an attempt that is out must be answered, a deferred one is to be tried
    /// again, or a failed one is to be counted.
    pub complete_by: Timestamp,
}

impl ProcessState {
    /// The state's name, as the attribute `ProcessState` and people have it: one of
    /// [`ProcessState::NAMES`].
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

    /// The names of all states, those of orders in flight first.
    pub const NAMES: [&'static str; 7] = [
        "Pending",
        "Processing",
        "Compensating",
        "Processed",
        "Compensated",
        "Error",
        "CompensationFailed",
    ];

    /// Whether the order has reached its end. Only an operator can set a finished order going
    /// again.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.finished_at().is_some()
    }

    /// When the order reached its end; `None` while it is in flight.
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

    /// Id of the claim; `None` if no Scheduler has the order claimed.
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

    /// Why the order failed, or is or was compensated; `None` of an order that is Pending, Processing or
    /// Processed.
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

fn steps_of(workflow: &Workflow) -> Vec<StepRecord> {
    let steps = workflow.steps.iter();
    steps.map(|s| StepRecord::new(s.id.clone())).collect()
}

impl Order {
    /// A new process record, as Submission writes it: Pending, at version 1, and with an empty outbox,
    /// because Submission itself sends the status `received` and the announcement. `due` is the order's first
    /// hint in the due index; [`Accepted::due`](crate::Accepted::due) is not read.
    #[must_use]
    pub fn new(accepted: &crate::message::Accepted, workflow: &Workflow, due: Timestamp) -> Self {
        Self::of_steps(accepted, steps_of(workflow), due)
    }

    /// A new process record of an order whose definition Submission cannot read: set aside, and without steps. An
    /// instance that can read the definition completes the record and admits the order. Of `accepted`, search keys
    /// and what the definition says of the deadline must be left out.
    #[must_use]
    pub fn unread(accepted: &crate::message::Accepted) -> Self {
        Self::of_steps(accepted, Vec::new(), accepted.due).aside()
    }

    /// Whether this record waits for an instance that can read its definition: only such a record has no steps.
    #[must_use]
    pub fn is_unread(&self) -> bool {
        self.steps.is_empty()
    }

    /// An [unread](Self::is_unread) record, completed from its definition.
    pub(crate) fn read_by(&self, workflow: &Workflow, details: &Value) -> Self {
        let within = workflow.order_timeout;
        let begin = self.start_at.unwrap_or(self.submitted_at);
        let own = within.map(|within| begin.plus(within));
        Self {
            steps: steps_of(workflow),
            search: workflow.search.of(details),
            deadline: self.deadline.into_iter().chain(own).min(),
            ..self.clone()
        }
    }

    fn of_steps(
        accepted: &crate::message::Accepted,
        steps: Vec<StepRecord>,
        due: Timestamp,
    ) -> Self {
        Self {
            id: accepted.order_id.clone(),
            version: Version::FIRST,
            workflow: accepted.workflow.clone(),
            priority: accepted.priority,
            reply_topic: accepted.reply_topic.clone(),
            traceparent: accepted.traceparent.clone(),
            submitted_at: accepted.submitted_at,
            search: accepted.search.clone(),
            state: ProcessState::Pending {
                complete_by: accepted.start_at,
            },
            steps,
            sequence: 1,
            outbox: Outbox::empty(Writer::Submission),
            due: Some(due),
            incidents: Vec::new(),
            dropped: None,
            run: 0,
            set_aside: None,
            start_at: accepted.start_at,
            deadline: accepted.deadline,
            late_since: None,
            paused: None,
            closed: None,
            events: Vec::new(),
            amendment: None,
            parent: accepted.parent.clone(),
            campaign: None,
        }
    }

    /// The record of a child order that is to be compensated before it was ever stored: it ends without an effect, and
    /// a submission that comes later finds it.
    #[must_use]
    pub fn never_begun(
        accepted: &crate::message::Accepted,
        workflow: &Workflow,
        cause: Failure,
    ) -> Self {
        let at = accepted.submitted_at;
        let mut order = Self::new(accepted, workflow, at);
        order.outbox.entries.push(Emission::Ended {
            end: ChildEnd::NoEffect {
                cause: cause.clone(),
            },
        });
        order.state = ProcessState::Compensated { at, cause };
        order
    }

    /// The same new record, but set aside since its submission: no step starts until its workflow has room
    /// for the order. Its hint in the due index is the moment of its submission.
    #[must_use]
    pub fn aside(mut self) -> Self {
        self.set_aside = Some(self.submitted_at);
        self.due = self.set_aside;
        self
    }

    /// The number of the shard of the due index that the order's row is in, or would be in if it had one: see
    /// [`shard_of`], and [`aside_shard`] for an order that is set aside.
    #[must_use]
    pub fn due_shard(&self) -> u32 {
        match self.set_aside {
            Some(_) => aside_shard(&self.workflow.name),
            None => shard_of(&self.id),
        }
    }

    /// Whether this campaign has acted on the order, and so must not act on it again. The last campaign is in the
    /// record itself. An earlier one is found only while its line is in the timeline: the line may be dropped after
    /// [`MAX_INCIDENTS`] - 1 later acts and one more line.
    #[must_use]
    pub fn is_acted_on_by(&self, campaign: &CampaignId) -> bool {
        let acts = self.incidents.iter().filter_map(|line| line.act.as_ref());
        let known = acts.filter_map(|act| act.campaign.as_ref());
        known.chain(&self.campaign).any(|known| known == campaign)
    }

    /// Adds a line to the timeline. Beyond the bound the oldest line that is not an operator's act is dropped and
    /// counted, or the oldest of all if there are only acts.
    pub(crate) fn note(&mut self, mut incident: Incident) {
        incident.note = incident
            .note
            .map(|text| crate::failure::cut(&text, MAX_NOTE_BYTES));
        if self.incidents.len() >= MAX_INCIDENTS {
            let oldest = self.incidents.iter().position(|i| i.act.is_none());
            let gone = self.incidents.remove(oldest.unwrap_or(0));
            let before = self.dropped;
            self.dropped = Some(Dropped {
                lines: before.map_or(0, |d| d.lines).saturating_add(1),
                latest: before.map_or(gone.at, |d| d.latest.max(gone.at)),
            });
        }
        self.incidents.push(incident);
        let aged = self.incidents.len().checked_sub(MAX_FULL_INCIDENTS + 1);
        if let Some(aged) = aged.and_then(|at| self.incidents.get_mut(at)) {
            aged.age();
        }
    }

    /// The pattern's `FailureCount`, for an order of several steps: the largest number of failures that any
    /// one step has in this run. Once the order is being compensated, failures of compensations are
    /// counted, before that those of actions and probes. It is not a sum, because each step's failures are
    /// compared with its own threshold. For all attempts see [`attempts`](Self::attempts).
    #[must_use]
    pub fn failure_count(&self) -> u32 {
        let is_compensated = matches!(
            self.state,
            ProcessState::Compensating { .. }
                | ProcessState::Compensated { .. }
                | ProcessState::CompensationFailed { .. }
        );
        self.steps
            .iter()
            .map(|s| {
                if is_compensated {
                    s.compensation.failures
                } else {
                    s.action.failures
                }
            })
            .max()
            .unwrap_or(0)
    }

    /// How many attempts were made for the order in all runs: at actions, probes and compensations, those
    /// that are out included.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.steps.iter().map(StepRecord::attempts).sum()
    }

    /// The pattern's `CompleteBy`: when the Supervisor looks at the order at the latest, if nothing has
    /// happened to it by then. `None` of a new order and of a finished one.
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
