//! What a record's last write wants sent, as the record keeps it.
//!
//! State first, then messages: a write carries in its record what is to be sent, so that a
//! redelivered input, or the Supervisor, can make the very same [effects](crate::effect) again.
//!
//! A write carries on the statuses and alerts that the one before it wanted sent, whoever wrote
//! that: its writer may have died before sending, or may still be about to, as a Scheduler that
//! has lost its partition without knowing it may. Only who has seen them acknowledged by the bus
//! may leave them out, and does so by deciding on a copy [without its entries](Outbox::acknowledged) since.
//! Requests and announcements are not carried: an attempt that was never asked for is found
//! overdue.

use serde::{Deserialize, Serialize};
use triad_workflow::StepId;

use crate::failure::Failure;
use crate::ids::{Attempt, Direction, Timestamp};
use crate::message::AlertKind;
use crate::status::Status;

/// Which actor wrote a process record last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Writer {
    /// Submission, which created the record; no one has written to it since.
    Submission,
    /// The Scheduler, which handles the order's events one after the other.
    Scheduler,
    /// The Supervisor, which does not wait until the Scheduler has handled the order's events.
    Supervisor,
    /// An operator, who does not wait until the Scheduler has handled the order's events.
    Operator,
}

/// What a record's last write wants sent, and the statuses and alerts of earlier writes that may be
/// unsent.
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

/// How many statuses and alerts may be unsent before an order is told no more than it must be: from then on
/// it is not told that a step is tried again ([`Status::Retrying`]), and operators begin no new run of it.
///
/// None that has a sequence is ever dropped, for its sequence would be missing for good. So this bounds what the
/// record keeps: beyond it there is one for each step, and a few for the run's own course and end.
pub const MAX_ENTRIES: usize = 64;

/// One thing to send, with only what is not in the record already. The message is made from both:
/// see [`crate::effect`].
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
        /// The step that is completed; `None` for other statuses.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<StepId>,
        /// When it happened.
        at: Timestamp,
        /// The failure that led to the status; `None` if none did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<Failure>,
    },
    /// Tell operators that the order ended in Error or CompensationFailed, or that it has missed its deadline
    /// and goes on.
    Alert {
        /// Which of the three happened: [`AlertKind::OrderError`], [`AlertKind::CompensationFailed`] or
        /// [`AlertKind::OrderLate`].
        kind: AlertKind,
        /// When it happened.
        at: Timestamp,
        /// Why it happened.
        cause: Failure,
    },
}

impl Emission {
    /// Whether later writes carry it on until it is known to be sent.
    fn is_carried(&self) -> bool {
        matches!(self, Self::Status { .. } | Self::Alert { .. })
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
