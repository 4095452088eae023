//! What can happen to an order.

use std::collections::BTreeSet;

use triad_workflow::StepId;

use crate::ids::ClaimId;
use crate::message::Reply;
use crate::operate::Operation;

/// An event.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A Scheduler wants to take the order up, under this id.
    Claim(ClaimId),
    /// An agent answers.
    Reply(Reply),
    /// The Supervisor found the order in the due index.
    Overdue(Untaken),
    /// There is room for an order that was set aside.
    Admit,
    /// All that a finished order wanted sent has been acknowledged by the bus.
    Confirmed,
    /// An operator acts.
    Operate(Operation),
}

/// Steps whose attempt no agent has taken before its complete-by, and none can take any more: the
/// Supervisor has revoked it in the call ledger. See [`crate::ledger`].
pub type Untaken = BTreeSet<StepId>;

impl Event {
    /// The event's name, for logs and tables.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Claim(_) => "claim",
            Self::Reply(_) => "reply",
            Self::Overdue(_) => "overdue",
            Self::Admit => "admit",
            Self::Confirmed => "confirmed",
            Self::Operate(_) => "operate",
        }
    }
}
