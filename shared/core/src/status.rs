//! Statuses that the submitting application is told of.

use serde::{Deserialize, Serialize};

/// A step in an order's public life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// Accepted and stored.
    Received,
    /// Claimed for the first time.
    Started,
    /// A step is being tried again.
    Retrying,
    /// Finished: every step completed.
    Completed,
    /// Being compensated.
    Compensating,
    /// Finished: compensated.
    Compensated,
    /// Finished: half compensated, an operator must look.
    CompensationFailed,
    /// Finished: stopped, an operator must look.
    Failed,
    /// An operator has set the finished order going again.
    Resubmitted,
    /// Not accepted: too many orders are in flight. Nothing was stored; submit it again later.
    Rejected,
}

impl Status {
    /// As it is on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Received => "received",
            Self::Started => "started",
            Self::Retrying => "retrying",
            Self::Completed => "completed",
            Self::Compensating => "compensating",
            Self::Compensated => "compensated",
            Self::CompensationFailed => "compensation-failed",
            Self::Failed => "failed",
            Self::Resubmitted => "resubmitted",
            Self::Rejected => "rejected",
        }
    }
}
