//! What operators do to an order: each is one conditional write that says who and why.

use serde_json::Value;
use triad_workflow::StepId;

use crate::order::OperatorAct;

/// Largest corrected input, as JSON, in bytes: the process record holds it.
pub const MAX_INPUT_BYTES: usize = 8 * 1024;

/// One act of an operator.
#[derive(Debug, Clone, PartialEq)]
pub struct Operation {
    /// What.
    pub action: Action,
    /// Who and why.
    pub act: OperatorAct,
}

/// What an operator can do to an order.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Of an order in Error: have the failed step done again, with its failures and calls
    /// counted from zero. Of a Compensated order: run it again from the beginning.
    Resubmit {
        /// Replaces the input of a step that has had no effect.
        input: Option<(StepId, Value)>,
    },
    /// Compensate an order that has not reached its point of no return.
    Cancel,
    /// Try the failed compensations again.
    RetryCompensation,
    /// Take an order in Error or CompensationFailed as settled by hand.
    Close,
    /// Start no further step until it is resumed.
    Pause,
    /// Let a paused order go on.
    Resume,
    /// Say whether an effect happened that may not be repeated. The order goes on when nothing
    /// else is in doubt; a Compensated one stays compensated, and can then be resubmitted.
    Settle {
        /// The step in doubt.
        step: StepId,
        /// Its output, if it happened; `None` if it did not.
        applied: Option<Value>,
    },
}

impl Action {
    /// The action's name, as the CLI has it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Resubmit { .. } => "resubmit",
            Self::Cancel => "cancel",
            Self::RetryCompensation => "retry-undo",
            Self::Close => "close",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Settle { .. } => "settle",
        }
    }
}

/// Why an operator's act is not possible. Nothing is written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OperationRefusal {
    /// The state does not allow it.
    #[error("{action} is for orders in {wanted}; this one is {state}")]
    State {
        /// The action.
        action: &'static str,
        /// States that allow it.
        wanted: &'static str,
        /// The order's.
        state: &'static str,
    },
    /// The point of no return has been reached.
    #[error("step {0} is its point of no return and has been started: it can only go forward")]
    PastPivot(StepId),
    /// It is not known whether an effect happened that may not be repeated.
    #[error(
        "it is not known whether step {0} has had its effect, which may not be repeated: find out, and say so with triad settle"
    )]
    InDoubt(StepId),
    /// There is no such step to act on.
    #[error("step {step}: {why}")]
    Step {
        /// The step.
        step: StepId,
        /// Why not.
        why: String,
    },
    /// It is so already.
    #[error("it is {0} already")]
    Already(&'static str),
}
