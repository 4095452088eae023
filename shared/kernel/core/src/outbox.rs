//! The messages of a record's last write, as the record keeps them.
//!
//! State first, then messages: a record stores its unsent messages, so that a redelivered input, or the Supervisor,
//! can make the same [effects](crate::effect) again.
//!
//! A write carries over the unsent statuses and alerts of the write before it, whichever actor wrote that: its writer
//! may have died before sending, or may still send, as a Scheduler that has lost its partition without noticing may.
//! Only a writer that has seen the bus acknowledge them may leave them out, by deciding on a copy [without its
//! entries](Outbox::acknowledged). Requests and announcements are not carried: the Supervisor finds an attempt
//! without its request overdue, and submissions of child orders are made again from time to time.

use serde::{Deserialize, Serialize};
use triad_workflow::StepId;

use crate::children::ChildEnd;
use crate::failure::Failure;
use crate::ids::{Attempt, Direction, Timestamp};
use crate::message::AlertKind;
use crate::status::Status;

/// Which actor wrote a process record last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Writer {
    /// Submission, which created the record; no other actor has written to it since.
    Submission,
    /// The Scheduler, which handles the order's events one after the other.
    Scheduler,
    /// The Supervisor, which does not wait until the Scheduler has handled the order's events.
    Supervisor,
    /// An operator, who does not wait until the Scheduler has handled the order's events.
    Operator,
}

/// The messages of a record's last write, and the statuses and alerts of earlier writes that may be unsent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outbox {
    /// The actor that made the last write.
    pub writer: Writer,
    /// Identity of the Scheduler's input that the write answered. When that input is redelivered, its
    /// messages are sent again and nothing is written. `None` if no input of the Scheduler led to the write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedup_key: Option<String>,
    /// What to send, in the order of sending.
    pub entries: Vec<Emission>,
}

/// Number of unsent statuses and alerts from which an order sends no optional ones: [`Status::Retrying`] is left out,
/// and operators cannot begin a new run.
///
/// No entry with a sequence is ever dropped, because the sequence would have a gap for good. Above this bound a
/// record has at most one more entry for each step and a few for the run itself.
pub const MAX_ENTRIES: usize = 64;

/// One message to send, without the fields that the record has already. The message is made from both: see
/// [`crate::effect`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "send", rename_all = "kebab-case")]
pub enum Emission {
    /// Wake the Scheduler, so that it claims the order.
    Wake,
    /// Ask an agent for an attempt at a step. It is not sent once the attempt is not out any more.
    Request {
        /// The step of the attempt.
        step: StepId,
        /// Whether the attempt is at the step's action, its compensation or its probe.
        direction: Direction,
        /// Number of the attempt.
        attempt: Attempt,
    },
    /// Tell the submitting application what happened.
    Status {
        /// Sequence of the status message, from 1.
        sequence: u32,
        /// What happened.
        status: Status,
        /// The step that is completed, or for which a decision is asked; `None` for other statuses.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<StepId>,
        /// When it happened.
        at: Timestamp,
        /// The failure that led to the status; `None` if none did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<Failure>,
    },
    /// Submit child orders of a step, or have them compensated: whichever the step is at.
    Children {
        /// The step.
        step: StepId,
        /// Which of its child orders, from 0.
        numbers: Vec<u32>,
    },
    /// Tell the order's parent how it has ended.
    Ended {
        /// How.
        end: ChildEnd,
    },
    /// Alert operators that the order ended in Error or CompensationFailed, that it has missed its deadline and
    /// continues, or that events came for it that no step will use.
    Alert {
        /// Which of the four happened: [`AlertKind::OrderError`], [`AlertKind::CompensationFailed`],
        /// [`AlertKind::OrderLate`] or [`AlertKind::EventsUnused`].
        kind: AlertKind,
        /// When it happened.
        at: Timestamp,
        /// Why it happened.
        cause: Failure,
    },
}

impl Emission {
    /// Whether later writes carry it over until it is known to be sent.
    fn is_carried(&self) -> bool {
        matches!(
            self,
            Self::Status { .. } | Self::Alert { .. } | Self::Ended { .. }
        )
    }
}

impl Outbox {
    /// An outbox with nothing to send.
    #[must_use]
    pub fn empty(writer: Writer) -> Self {
        Self {
            writer,
            dedup_key: None,
            entries: Vec::new(),
        }
    }

    /// The same outbox once the bus has acknowledged every message: without entries.
    #[must_use]
    pub fn acknowledged(&self) -> Self {
        Self {
            entries: Vec::new(),
            ..self.clone()
        }
    }

    /// The outbox with which the next writer starts: the statuses and alerts of this outbox. It answers no
    /// input yet.
    #[must_use]
    pub fn carried_to(&self, writer: Writer) -> Self {
        let carried = self.entries.iter().filter(|e| e.is_carried());
        Self {
            writer,
            dedup_key: None,
            entries: carried.cloned().collect(),
        }
    }

    /// Whether [`MAX_ENTRIES`] statuses and alerts may be unsent.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let carried = self.entries.iter().filter(|e| e.is_carried());
        carried.count() >= MAX_ENTRIES
    }
}
