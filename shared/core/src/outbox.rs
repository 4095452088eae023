//! What a record's last write wants sent, as the record keeps it.
//!
//! State first, then messages: a write carries in its record what is to be sent, so that a
//! redelivered input, or the Supervisor, can make the very same [effects](crate::effect) again.
//!
//! A write carries on the statuses and alerts that the one before it wanted sent, whoever wrote
//! that: its writer may have died before sending, or may still be about to, as a Scheduler that
//! has lost its partition without knowing it may. Only who has seen them acknowledged by the bus
//! may leave them out, and does so by deciding on a copy [settled](Outbox::settled) since.
//! Requests and announcements are not carried: an attempt that was never asked for is found
//! overdue.

use serde::{Deserialize, Serialize};
use triad_workflow::StepId;

use crate::failure::Failure;
use crate::ids::{Attempt, Direction, Timestamp};
use crate::message::AlertKind;
use crate::status::Status;

/// Who wrote the record last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Writer {
    /// Submission, when it created the record.
    Submission,
    /// The Scheduler, in the order of the order's events.
    Scheduler,
    /// The Supervisor, beside that order.
    Supervisor,
    /// An operator, beside that order.
    Operator,
}

/// What a record's last write wants sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outbox {
    /// Who wanted it.
    pub writer: Writer,
    /// The Scheduler's input that the write answered: met again, it is known as done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<String>,
    /// What, in the order of sending.
    pub entries: Vec<Emission>,
}

/// Most entries in an outbox. Status entries are carried on only while unsent; beyond this
/// bound a write that would add more keeps the newest alert and statuses of one life.
pub const MAX_ENTRIES: usize = 64;

/// One thing to send, as small as it can be stored: the effect is made from the record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "send", rename_all = "kebab-case")]
pub enum Emission {
    /// Announce the order to the Scheduler for the first time.
    Announce,
    /// Ask the Scheduler to take it up again.
    Retry,
    /// Ask an agent; skipped when the attempt is no longer the running one.
    Request {
        /// The step.
        step: StepId,
        /// Doing or undoing.
        direction: Direction,
        /// The attempt.
        attempt: Attempt,
    },
    /// Tell the submitting application.
    Status {
        /// Its sequence.
        sequence: u32,
        /// What happened.
        status: Status,
        /// When.
        at: Timestamp,
        /// Why, for those that have a cause.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<Failure>,
    },
    /// Tell operators that the order finished badly.
    Alert {
        /// How.
        kind: AlertKind,
        /// When.
        at: Timestamp,
        /// Why.
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
    /// Nothing to send.
    #[must_use]
    pub fn empty(writer: Writer) -> Self {
        Self {
            writer,
            answers: None,
            entries: Vec::new(),
        }
    }

    /// What Submission leaves: the status `received`, which it sends itself, and the announcement.
    #[must_use]
    pub fn submission() -> Self {
        Self {
            writer: Writer::Submission,
            answers: None,
            entries: vec![Emission::Announce],
        }
    }

    /// What is left of it once the bus has acknowledged every message.
    #[must_use]
    pub fn settled(&self) -> Self {
        Self {
            entries: Vec::new(),
            ..self.clone()
        }
    }

    /// The outbox with which the next writer starts.
    #[must_use]
    pub fn carried_to(&self, writer: Writer) -> Self {
        let mut entries: Vec<_> = self
            .entries
            .iter()
            .filter(|e| e.is_carried())
            .cloned()
            .collect();
        let surplus = entries.len().saturating_sub(MAX_ENTRIES);
        entries.drain(..surplus);
        Self {
            writer,
            answers: None,
            entries,
        }
    }
}
