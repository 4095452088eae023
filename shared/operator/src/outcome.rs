//! What comes of an act on one order, as one type.

use std::fmt;

use triad_core::migrate::Change;
use triad_core::{OperationRefusal, Order, WorkflowRef};
use triad_runtime::operator::{Migrated, OperateError, Operated};

/// What came of an act on one order; in a dry run: what would come of it. Its text is one line for
/// a person.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The act is done; where the order is now.
    Done(Now),
    /// The order runs on another version of its workflow now.
    Migrated {
        /// The version that the order runs on now.
        to: WorkflowRef,
        /// What has changed for the order, a step each; empty if nothing has.
        changes: Vec<Change>,
    },
    /// The act does not fit the order's state; nothing was written.
    Refused(OperationRefusal),
    /// The order cannot be moved to that version, and nothing was written: the reasons, a line
    /// each.
    NotMovable(Vec<String>),
    /// There is no such order, or it has expired.
    NotFound,
    /// The store failed, others changed the order every time, or the record is damaged. Trying
    /// again is safe.
    Failed(OperateError),
}

/// The state of an order in short: its process state, and what operators have set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// The name of its process state.
    pub state: &'static str,
    /// Whether an operator has paused it.
    pub paused: bool,
    /// Whether an operator has closed it by hand.
    pub closed: bool,
}

/// What came of an act, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The act is done, or in a dry run would be.
    Done,
    /// The act is not possible, or there is no such order; nothing was written.
    Refused,
    /// The act failed; trying again is safe.
    Failed,
}

impl Verdict {
    /// The word for programs: `done`, `refused` or `failed`.
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
    /// The outcome in one word. An order that is not found counts as refused.
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
