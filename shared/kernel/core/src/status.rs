//! Statuses of an order, for the submitting application.

use serde::{Deserialize, Serialize};

/// The status of an order in a status message to the submitting application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// The order was accepted and stored.
    Received,
    /// A Scheduler has claimed the order for the first time.
    Started,
    /// A step is completed. Sent only for workflows with `progress: true`.
    StepCompleted,
    /// A step waits for a person's decision. Sent when the wait begins, and again as its workflow says.
    DecisionAsked,
    /// An attempt at a step failed, and the step is tried again.
    Retrying,
    /// Finished: every step is completed or skipped.
    Completed,
    /// The order's effects are being compensated, for the first time or again.
    Compensating,
    /// Finished: every effect of the order that has a compensation is compensated.
    Compensated,
    /// Finished: the order is half compensated and needs an operator.
    CompensationFailed,
    /// Finished: the order stopped in Error and needs an operator.
    Failed,
    /// An operator has set the finished order going again, forward.
    Resubmitted,
    /// The order was not accepted, and nothing was stored. The message's cause says why: there is no room for
    /// it now, or it can never be taken as it is.
    Rejected,
    /// Details of the order were replaced.
    Amended,
    /// The order refuses what its application has asked for, to be cancelled or amended; the message's cause says why.
    /// The order goes on.
    Refused,
    /// Another order of this id is stored, with other content: this submission changes nothing, and the statuses of
    /// the stored order go on.
    Conflict,
}

impl Status {
    /// The status as it is in messages, such as `compensation-failed`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Received => "received",
            Self::Started => "started",
            Self::StepCompleted => "step-completed",
            Self::DecisionAsked => "decision-asked",
            Self::Retrying => "retrying",
            Self::Completed => "completed",
            Self::Compensating => "compensating",
            Self::Compensated => "compensated",
            Self::CompensationFailed => "compensation-failed",
            Self::Failed => "failed",
            Self::Resubmitted => "resubmitted",
            Self::Rejected => "rejected",
            Self::Amended => "amended",
            Self::Refused => "refused",
            Self::Conflict => "conflict",
        }
    }
}
