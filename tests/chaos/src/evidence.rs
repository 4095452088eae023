//! The evidence of a run as plain data. The checks use only this.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use triad_core::message::StatusMessage;
use triad_core::{Alert, Direction, Order, Timestamp};
use triad_reference_service::KeyView;
use triad_reference_service::book::LedgerLine;
use triad_runtime::dead_letter::LetterId;
use triad_workflow::Workflow;

use super::submit::Sent;
use super::watch::Sightings;

/// The evidence of a run.
#[derive(Debug)]
pub struct Evidence {
    /// The workflow of all orders.
    pub workflow: Arc<Workflow>,
    /// The acknowledged submissions.
    pub sent: Vec<Sent>,
    /// The values of the records in the order topics, by position.
    pub inputs: BTreeMap<LetterId, Option<Vec<u8>>>,
    /// Process records by order.
    pub records: BTreeMap<String, Order>,
    /// Order details by order.
    pub details: BTreeMap<String, Value>,
    /// The statuses with their topics; those of one order in order of arrival.
    pub statuses: Vec<(String, StatusMessage)>,
    /// The alerts.
    pub alerts: Vec<Alert>,
    /// The dead letters with their causes.
    pub letters: Vec<(LetterId, String)>,
    /// The requests to agents.
    pub requests: Vec<AgentRequest>,
    /// The agents' replies.
    pub replies: Vec<AgentReply>,
    /// The records of these topics that cannot be decoded as the topic's message.
    pub unreadable: Vec<LetterId>,
    /// The calls at the remote service, in the order in which they ended.
    pub calls: Vec<LedgerLine>,
    /// The remote service's state for each idempotency key.
    pub keys: Vec<KeyView>,
    /// Records as read during the run, and their final forms.
    pub sightings: Sightings,
    /// The offsets of each consumer group in each partition that it reads.
    pub offsets: Vec<Offsets>,
    /// Work that was unfinished when the time was over.
    pub unfinished: Vec<String>,
}

/// The offsets of a consumer group in a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offsets {
    /// The group.
    pub group: String,
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The offset that the group has committed, if any.
    pub committed: Option<i64>,
    /// The partition's first offset, and the offset after its last record.
    pub held: (i64, i64),
}

impl Offsets {
    /// Whether the group has committed everything.
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        self.committed.unwrap_or(self.held.0) >= self.held.1
    }
}

/// One attempt at a step, in one direction.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AttemptId {
    /// The order.
    pub order: String,
    /// The step.
    pub step: String,
    /// True for an attempt at a compensation, false for one at an action.
    pub is_compensation: bool,
    /// The attempt's number.
    pub attempt: u32,
}

/// A request to an agent.
#[derive(Debug, Clone)]
pub struct AgentRequest {
    /// The attempt.
    pub id: AttemptId,
    /// The time after which nothing of the attempt may be started.
    pub complete_by: Timestamp,
    /// The most calls in the attempt.
    pub allowance: u32,
    /// A hash of the whole message.
    pub content: u64,
    /// When it was sent, in milliseconds since the Unix epoch.
    pub at_ms: i64,
}

/// An agent's reply.
#[derive(Debug, Clone)]
pub struct AgentReply {
    /// The attempt.
    pub id: AttemptId,
    /// The time after which the reply may change nothing.
    pub complete_by: Timestamp,
    /// The content of the reply.
    pub said: ReplyContent,
    /// When it was sent, in milliseconds since the Unix epoch.
    pub at_ms: i64,
}

/// Content of a reply.
#[derive(Debug, Clone, PartialEq)]
pub enum ReplyContent {
    /// Success, with this output.
    Done(Value),
    /// Failure.
    Failed,
    /// Deferral, which is not counted.
    Deferred,
}

/// Whether a request of this direction concerns the compensation. A probe concerns the action.
#[must_use]
pub fn is_compensation(direction: Direction) -> bool {
    direction == Direction::Compensate
}

/// The attempt that a call belongs to.
#[must_use]
pub fn attempt_of(call: &LedgerLine) -> AttemptId {
    AttemptId {
        order: call.head.order.clone(),
        step: call.head.step.clone(),
        is_compensation: compensates(call),
        attempt: call.head.attempt,
    }
}

/// Whether a call is one of a compensation.
#[must_use]
pub fn compensates(call: &LedgerLine) -> bool {
    call.head.direction == triad_reference_service::Direction::Compensate
}
