//! The evidence of a run as plain data; the checks use nothing else.

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

/// All evidence.
#[derive(Debug)]
pub struct Evidence {
    /// The workflow of all orders.
    pub workflow: Arc<Workflow>,
    /// Acknowledged submissions.
    pub sent: Vec<Sent>,
    /// The values of the records of the order topics.
    pub inputs: BTreeMap<LetterId, Option<Vec<u8>>>,
    /// Process records by order.
    pub records: BTreeMap<String, Order>,
    /// Order details by order.
    pub details: BTreeMap<String, Value>,
    /// Statuses with their topic; those of one order in the order in which they came.
    pub statuses: Vec<(String, StatusMessage)>,
    /// Alerts.
    pub alerts: Vec<Alert>,
    /// Dead letters with their cause.
    pub letters: Vec<(LetterId, String)>,
    /// Requests to agents.
    pub requests: Vec<AgentRequest>,
    /// Agents' replies.
    pub replies: Vec<AgentReply>,
    /// Records of these topics that cannot be parsed as what the topic is for.
    pub unreadable: Vec<LetterId>,
    /// The calls at the remote service, in the order in which they ended.
    pub calls: Vec<LedgerLine>,
    /// The remote service's view of its keys.
    pub keys: Vec<KeyView>,
    /// Records as seen during the run, and the final ones.
    pub sightings: Sightings,
    /// Offsets of each consumer group in each partition that it reads.
    pub offsets: Vec<Offsets>,
    /// Work that was not finished when the time was over.
    pub unfinished: Vec<String>,
}

/// A consumer group in a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offsets {
    /// The group.
    pub group: String,
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The committed offset, if any.
    pub committed: Option<i64>,
    /// The first offset, and the one after the last.
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
    /// Whether it is of a compensation; otherwise of an action.
    pub is_compensation: bool,
    /// Number of the attempt.
    pub attempt: u32,
}

/// A request to an agent.
#[derive(Debug, Clone)]
pub struct AgentRequest {
    /// The attempt.
    pub id: AttemptId,
    /// The moment after which nothing may be started.
    pub complete_by: Timestamp,
    /// The most calls of the attempt.
    pub allowance: u32,
    /// Fingerprint of the whole message.
    pub content: u64,
    /// When it was sent, in milliseconds since the Unix epoch.
    pub at_ms: i64,
}

/// An agent's reply.
#[derive(Debug, Clone)]
pub struct AgentReply {
    /// The attempt.
    pub id: AttemptId,
    /// The moment after which the reply may change nothing.
    pub complete_by: Timestamp,
    /// Content of the reply.
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

/// Whether a direction is that of compensations. A probe is about the forward effect.
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
