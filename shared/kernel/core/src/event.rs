//! What can happen to an order.

use std::collections::BTreeSet;

use triad_workflow::{Millis, StepId};

use crate::children::{ChildEnded, Parent};
use crate::ids::ClaimId;
use crate::later::{Callback, CallbackSecret};
use crate::message::Reply;
use crate::operate::Operation;
use crate::received::ReceivedEvent;

/// One thing that happens to an order, as input of [`crate::decide()`].
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A Scheduler wants to claim the order, under an id that is unique to this attempt to claim, and brings a secret
    /// for steps whose services may call back.
    Claim(ClaimId, CallbackSecret),
    /// An agent has answered a request.
    Reply(Reply),
    /// An event has come from outside.
    Received(Box<ReceivedEvent>),
    /// A service has called back about work that it had taken.
    CalledBack(Box<Callback>),
    /// A child order of the order has ended.
    ChildEnded(Box<ChildEnded>),
    /// The order's parent is compensated: the parent that asks for the same.
    ParentCompensated(Box<Parent>),
    /// The Supervisor has found the order in the due index.
    Overdue(Overdue),
    /// The Supervisor lets an order in that was set aside: its workflow's cap has room again.
    Admit,
    /// The bus has acknowledged every message of a finished order.
    Confirmed,
    /// An operator acts on the order.
    Operate(Operation),
}

/// Steps whose attempt was taken by no agent before its complete-by and can be taken by none any
/// more, because the Supervisor has revoked it in the call ledger. See [`crate::ledger`]. Empty if
/// there are none.
pub type Untaken = BTreeSet<StepId>;

/// What the Supervisor says of an order that it has found in the due index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overdue {
    /// Steps whose attempts it has revoked in the call ledger.
    pub untaken: Untaken,
    /// If the order waits for a Scheduler and is announced again: how long until it is announced once more, in
    /// milliseconds. Less than [`announce_within`](crate::Timing::announce_within) counts as that.
    pub rest: Millis,
}

impl From<Untaken> for Overdue {
    /// With the default interval between announcements.
    fn from(untaken: Untaken) -> Self {
        Self {
            untaken,
            rest: Millis(0),
        }
    }
}

impl Event {
    /// The event's name for logs and tables, such as `claim` or `overdue`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Claim(..) => "claim",
            Self::Reply(_) => "reply",
            Self::Received(_) => "received",
            Self::CalledBack(_) => "called-back",
            Self::ChildEnded(_) => "child-ended",
            Self::ParentCompensated(_) => "parent-compensated",
            Self::Overdue(_) => "overdue",
            Self::Admit => "admit",
            Self::Confirmed => "confirmed",
            Self::Operate(_) => "operate",
        }
    }
}
