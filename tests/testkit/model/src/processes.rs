//! The memory of each process, which is lost when the process dies.

use triad_core::message::{SchedulerMessage, StepRequest};
use triad_core::pass::{Pass, Task};
use triad_core::{Order, Version};

use crate::canonical::Canonical;

/// The memory of one Scheduler, lost when it dies. The default is that of a Scheduler that has just started.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Scheduler {
    /// Whether it has handled the first message of the topic and not yet acknowledged it.
    pub(crate) handled: bool,
    /// A copy of the record as this Scheduler last wrote it, if all messages of that write are sent.
    pub(crate) copy: Option<Canonical<Order>>,
    /// The message that it handles, and the state of the pass.
    pub(crate) doing: Option<(Canonical<SchedulerMessage>, Canonical<Pass>)>,
}

impl Scheduler {
    /// The version that this Scheduler's next write expects; `None` if its next move is not a write.
    pub fn writes_on(&self) -> Option<Version> {
        match self.doing.as_ref()?.1.task() {
            Task::Write { expected, .. } => Some(expected),
            _ => None,
        }
    }
}

/// The memory of one Supervisor, lost when it dies: its current pass, if any.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Supervisor {
    pub(crate) doing: Option<Canonical<Pass>>,
}

impl Supervisor {
    /// The version that this Supervisor's next write expects; `None` if its next move is not a write.
    pub fn writes_on(&self) -> Option<Version> {
        match self.doing.as_ref()?.task() {
            Task::Write { expected, .. } => Some(expected),
            _ => None,
        }
    }
}

/// The agent's work on the first request of its topic, lost when it dies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum Agent {
    /// The agent has not taken the request, or there is none.
    #[default]
    Idle,
    /// The agent has called the service for this request, and the call has been neither answered nor given
    /// up.
    Calling(Canonical<StepRequest>),
    /// The call for this request has ended as stated; the reply is not sent yet.
    Answering(Canonical<StepRequest>, CallEnd),
}

/// How a call ended, as far as the agent can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallEnd {
    /// The service has carried out the request.
    Done,
    /// The service refused for good, and the call had no effect.
    Refused,
    /// No answer came, so the call may have had its effect.
    Lost,
}
