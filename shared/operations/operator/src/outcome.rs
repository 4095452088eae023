//! The outcome of an act on one order, as one type for all acts.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use triad_core::migrate::Change;
use triad_core::{OperationRefusal, Order, ProcessState, StepRecord, StepState, Work, WorkflowRef};
use triad_runtime::operator::{Migrated, OperateError, Operated};
use triad_workflow::StepId;

use crate::correction::CorrectionError;
use crate::resolving::Lacking;

/// The outcome of an act on one order; in a dry run: the outcome that the act would have. Its text is one line for a
/// person.
#[derive(Debug, Clone, PartialEq)]
pub enum ActOutcome {
    /// The act is done; the value says what state the order is in now.
    Done(Now),
    /// The order runs on another version of its workflow now.
    Migrated {
        /// The version that the order runs on now.
        to: WorkflowRef,
        /// What has changed for the order, a step each; empty if nothing has changed.
        changes: Vec<Change>,
        /// Whether the bus has not taken all messages of the act. The Supervisor sends them.
        unsent: bool,
    },
    /// The step's input cannot be corrected in this way; nothing was written.
    NotCorrected(CorrectionError),
    /// The output that the step was to be resolved with lacks what other steps read; nothing was
    /// written.
    OutputLacks {
        /// The step that was to be resolved.
        step: StepId,
        /// The fields that are missing, at least one.
        lacking: Vec<Lacking>,
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

/// Suffix of the text for an act whose messages the bus has not taken.
const UNSENT: &str = "; its messages are not sent yet, the Supervisor sends them";

/// The state of an order in short: its process state, and whether an operator has paused or closed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Now {
    /// The name of the order's process state, such as `Processing`.
    pub state: &'static str,
    /// The steps that are called again; none if nothing is, or none of them was called before.
    pub again: Vec<StepId>,
    /// Whether an operator has paused the order.
    pub paused: bool,
    /// Whether an operator has closed the order by hand.
    pub closed: bool,
    /// Whether the bus has not taken all messages of the act. The Supervisor sends them.
    pub unsent: bool,
}

/// What came of an act, as one of three results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
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

fn is_to_be_called(step: &StepRecord) -> bool {
    let is_due = matches!(
        step.state,
        StepState::Waiting | StepState::Acting(Work::Due { .. })
    );
    is_due && step.children.is_none()
}

impl Now {
    fn of(order: &Order) -> Self {
        let is_pending = matches!(order.state, ProcessState::Pending { .. });
        let again = order
            .steps
            .iter()
            .filter(|step| is_pending && step.actions() > 0 && is_to_be_called(step));
        Self {
            state: order.state.name(),
            again: again.map(|step| step.step.clone()).collect(),
            paused: order.paused.is_some(),
            closed: order.closed.is_some(),
            unsent: false,
        }
    }
}

impl ActOutcome {
    /// The outcome as one of three results. An order that is not found counts as refused, and an amendment that was
    /// made before as done.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match self {
            Self::Done(_)
            | Self::Migrated { .. }
            | Self::Refused(OperationRefusal::AmendedAlready) => Verdict::Done,
            Self::Refused(_)
            | Self::NotMovable(_)
            | Self::NotCorrected(_)
            | Self::OutputLacks { .. }
            | Self::NotFound => Verdict::Refused,
            Self::Failed(_) => Verdict::Failed,
        }
    }

    /// Whether the act is written and the bus has not taken all of its messages. The Supervisor sends
    /// them at one of its next sweeps.
    #[must_use]
    pub fn is_unsent(&self) -> bool {
        match self {
            Self::Done(now) => now.unsent,
            Self::Migrated { unsent, .. } => *unsent,
            _ => false,
        }
    }
}

impl fmt::Display for ActOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done(now) => {
                f.write_str(now.state)?;
                let again: Vec<&str> = now.again.iter().map(StepId::as_str).collect();
                match again.as_slice() {
                    [] => {}
                    [one] => write!(f, ": {one} is called again")?,
                    more => write!(f, ": {} are called again", more.join(", "))?,
                }
                f.write_str(if now.paused { ", paused" } else { "" })?;
                f.write_str(if now.closed { ", closed" } else { "" })?;
                f.write_str(if now.unsent { UNSENT } else { "" })
            }
            Self::Migrated {
                to,
                changes,
                unsent,
            } if changes.is_empty() => {
                let unsent = if *unsent { UNSENT } else { "" };
                write!(f, "on {to}: nothing changes for it{unsent}")
            }
            Self::Migrated {
                to,
                changes,
                unsent,
            } => {
                let lines: Vec<String> = changes
                    .iter()
                    .map(|c| format!("{} {}", c.step, c.what))
                    .collect();
                let unsent = if *unsent { UNSENT } else { "" };
                write!(f, "on {to}: {}{unsent}", lines.join(", "))
            }
            Self::NotCorrected(error) => error.fmt(f),
            Self::OutputLacks { step, lacking } => {
                let lacking: Vec<String> = lacking.iter().map(ToString::to_string).collect();
                let lacking = lacking.join(", ");
                write!(
                    f,
                    "the output of {step} lacks fields that other steps read: {lacking}"
                )
            }
            Self::Refused(refusal) => refusal.fmt(f),
            Self::NotMovable(against) => f.write_str(&against.join("; ")),
            Self::NotFound => f.write_str("there is no such order"),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl From<Result<Operated, OperateError>> for ActOutcome {
    fn from(came: Result<Operated, OperateError>) -> Self {
        match came {
            Ok(Operated::Done(order)) => Self::Done(Now::of(&order)),
            Ok(Operated::Unsent(order)) => Self::Done(Now {
                unsent: true,
                ..Now::of(&order)
            }),
            Ok(Operated::Refused(refusal)) => Self::Refused(refusal),
            Ok(Operated::NotFound) => Self::NotFound,
            Err(error) => Self::Failed(error),
        }
    }
}

impl From<Result<Migrated, OperateError>> for ActOutcome {
    fn from(came: Result<Migrated, OperateError>) -> Self {
        match came {
            Ok(Migrated::Done(order, changes)) => Self::Migrated {
                to: order.workflow,
                changes,
                unsent: false,
            },
            Ok(Migrated::Unsent(order, changes)) => Self::Migrated {
                to: order.workflow,
                changes,
                unsent: true,
            },
            Ok(Migrated::Refused(against)) => Self::NotMovable(against),
            Ok(Migrated::NotFound) => Self::NotFound,
            Err(error) => Self::Failed(error),
        }
    }
}
