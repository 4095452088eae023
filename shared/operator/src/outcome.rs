//! What comes of an act on one order, as one type.

use std::fmt;

use triad_core::migrate::Change;
use triad_core::{OperationRefusal, Order, WorkflowRef};
use triad_runtime::operator::{Migrated, OperateError, Operated};

/// What came of an act on one order; in a dry run: what would. Its text is one line for a person.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It is done; where the order is now.
    Done(Now),
    /// The order is on another version of its workflow.
    Migrated {
        /// The version.
        to: WorkflowRef,
        /// What has changed for the order.
        changes: Vec<Change>,
    },
    /// It is not possible.
    Refused(OperationRefusal),
    /// The order cannot be moved: what stands against it, a line each.
    NotMovable(Vec<String>),
    /// There is no such order.
    NotFound,
    /// It failed; trying again is safe.
    Failed(OperateError),
}

/// Where an order is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// The name of its state.
    pub state: &'static str,
    /// An operator holds it.
    pub paused: bool,
    /// An operator has closed it.
    pub closed: bool,
}

/// An outcome in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Done.
    Done,
    /// Not possible; nothing was written.
    Refused,
    /// It failed; trying again is safe.
    Failed,
}

impl Verdict {
    /// The word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }
}

impl Now {
    fn of(order: &Order) -> Self {
        Self {
            state: order.state.name(),
            paused: order.paused.is_some(),
            closed: order.closed.is_some(),
        }
    }
}

impl Outcome {
    /// The outcome in a word.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match self {
            Self::Done(_) | Self::Migrated { .. } => Verdict::Done,
            Self::Refused(_) | Self::NotMovable(_) | Self::NotFound => Verdict::Refused,
            Self::Failed(_) => Verdict::Failed,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done(now) => {
                f.write_str(now.state)?;
                f.write_str(if now.paused { ", paused" } else { "" })?;
                f.write_str(if now.closed { ", closed" } else { "" })
            }
            Self::Migrated { to, changes } if changes.is_empty() => {
                write!(f, "on {to}: nothing changes for it")
            }
            Self::Migrated { to, changes } => {
                let lines: Vec<String> = changes
                    .iter()
                    .map(|c| format!("{} {}", c.step, c.what))
                    .collect();
                write!(f, "on {to}: {}", lines.join(", "))
            }
            Self::Refused(refusal) => refusal.fmt(f),
            Self::NotMovable(against) => f.write_str(&against.join("; ")),
            Self::NotFound => f.write_str("there is no such order"),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl From<Result<Operated, OperateError>> for Outcome {
    fn from(came: Result<Operated, OperateError>) -> Self {
        match came {
            Ok(Operated::Done(order)) => Self::Done(Now::of(&order)),
            Ok(Operated::Refused(refusal)) => Self::Refused(refusal),
            Ok(Operated::NotFound) => Self::NotFound,
            Err(error) => Self::Failed(error),
        }
    }
}

impl From<Result<Migrated, OperateError>> for Outcome {
    fn from(came: Result<Migrated, OperateError>) -> Self {
        match came {
            Ok(Migrated::Done(order, changes)) => Self::Migrated {
                to: order.workflow,
                changes,
            },
            Ok(Migrated::Refused(against)) => Self::NotMovable(against),
            Ok(Migrated::NotFound) => Self::NotFound,
            Err(error) => Self::Failed(error),
        }
    }
}
