//! What each process has in hand: all that it loses when it dies.

use triad_core::message::{SchedulerMessage, StepRequest};
use triad_core::pass::{Pass, Task};
use triad_core::{Order, Version};

use crate::canonical::Canonical;

/// A Scheduler's state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Scheduler {
    /// It has handled the first message of the line and not acknowledged it.
    pub(crate) handled: bool,
    /// A copy of the record as it last wrote it, with everything sent.
    pub(crate) copy: Option<Canonical<Order>>,
    /// What it has in hand: the message, and how far the pass is.
    pub(crate) doing: Option<(Canonical<SchedulerMessage>, Canonical<Pass>)>,
}

impl Scheduler {
    /// The version on which it has decided a write.
    pub fn writes_on(&self) -> Option<Version> {
        match self.doing.as_ref()?.1.task() {
            Task::Write { expected, .. } => Some(expected),
            _ => None,
        }
    }
}

/// A Supervisor's state: how far the pass is that it has in hand.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Supervisor {
    pub(crate) doing: Option<Canonical<Pass>>,
}

impl Supervisor {
    /// The version on which it has decided a write.
    pub fn writes_on(&self) -> Option<Version> {
        match self.doing.as_ref()?.task() {
            Task::Write { expected, .. } => Some(expected),
            _ => None,
        }
    }
}

/// The agent's state: what it is doing about the first request of its topic.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum Agent {
    /// Nothing.
    #[default]
    Idle,
    /// A call is on its way.
    Calling(Canonical<StepRequest>),
    /// The call has ended; about to answer.
    Answering(Canonical<StepRequest>, End),
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// The service has done it.
    Done,
    /// The service refuses for good, without an effect.
    Refused,
    /// Its answer was lost.
    Lost,
}
