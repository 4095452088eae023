//! The messages, as they are on the wire.
//!
//! Values are JSON; CloudEvents attributes are in the headers. Fields that are absent have
//! their defaults, and unknown fields are ignored, so that old and new instances understand one
//! another while a deployment rolls.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use triad_workflow::{AgentName, Millis, StepId, WorkflowName};

use crate::failure::Failure;
use crate::ids::{Attempt, Direction, IdempotencyKey, OrderId, Timestamp};
use crate::ids::{Priority, WorkflowRef};
use crate::trace::TraceContext;

/// A message ready to be sent: everything that the bus needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// Topic.
    pub topic: String,
    /// Key; for messages about an order, its id.
    pub key: Option<Vec<u8>>,
    /// Value.
    pub value: Vec<u8>,
    /// Headers, in order, but for the trace context.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// The hop that it is in its trace, where it belongs to one: the bus carries it on.
    pub trace: Option<TraceContext>,
}

/// The header of the trace context (W3C Trace Context, section 3.2).
pub const TRACEPARENT: &str = "traceparent";

/// CloudEvents `source` of everything that Triad sends.
pub const SOURCE: &str = "triad";

impl Envelope {
    /// A message about an order.
    pub(crate) fn about<T: Serialize>(
        topic: String,
        order: &OrderId,
        ce_type: &str,
        ce_id: String,
        trace: Option<TraceContext>,
        body: &T,
    ) -> Self {
        Self::event(topic, order.as_str(), ce_type, ce_id, trace, body)
    }

    /// A message with a key.
    pub(crate) fn event<T: Serialize>(
        topic: String,
        key: &str,
        ce_type: &str,
        ce_id: String,
        trace: Option<TraceContext>,
        body: &T,
    ) -> Self {
        let trace = trace.map(|trace| trace.child(&ce_id));
        let header = |name: &str, value: &str| (name.to_owned(), Some(value.as_bytes().to_vec()));
        let headers = vec![
            header("ce_specversion", "1.0"),
            header("ce_type", ce_type),
            header("ce_source", SOURCE),
            ("ce_id".to_owned(), Some(ce_id.into_bytes())),
            header("content-type", "application/json"),
        ];
        Self {
            topic,
            key: Some(key.as_bytes().to_vec()),
            value: serde_json::to_vec(body).expect("messages hold only JSON values"),
            headers,
            trace,
        }
    }

    /// The same message, as a hop that another one has caused; without a cause it stays what it is.
    #[must_use]
    pub fn caused_by(mut self, cause: Option<TraceContext>) -> Self {
        let id = self.headers.iter().find(|(name, _)| name == "ce_id");
        let id = id.and_then(|(_, id)| std::str::from_utf8(id.as_deref()?).ok());
        if let (Some(cause), Some(id)) = (cause, id) {
            self.trace = Some(cause.child(id));
        }
        self
    }

    /// The same, copied: for a bus that hands messages over within a process.
    #[must_use]
    pub fn copied_headers(&self) -> Vec<(String, Option<Vec<u8>>)> {
        let sent = self.sent_headers();
        sent.map(|(name, value)| (name.to_owned(), value.map(Cow::into_owned)))
            .collect()
    }

    /// All headers as a bus sends them: the message's own, then its trace context.
    pub fn sent_headers(&self) -> impl Iterator<Item = (&str, Option<Cow<'_, [u8]>>)> {
        let own = self.headers.iter();
        let own = own.map(|(name, value)| (name.as_str(), value.as_deref().map(Cow::Borrowed)));
        let trace = self.trace.map(|trace| trace.to_string().into_bytes());
        own.chain(trace.map(|trace| (TRACEPARENT, Some(Cow::Owned(trace)))))
    }
}

/// Everything that can be on the topic `scheduler`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum SchedulerMessage {
    /// An order was accepted.
    Accepted(Accepted),
    /// The Supervisor wants an order taken up again.
    Retry(Retry),
    /// An agent answers.
    Reply(Reply),
}

/// An order was accepted: what its first process record was made of, and its details, so that
/// the claim needs no read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Accepted {
    /// The order.
    pub order_id: OrderId,
    /// Pinned definition.
    pub workflow: WorkflowRef,
    /// Lane.
    #[serde(default)]
    pub priority: Priority,
    /// Topic for status messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_topic: Option<String>,
    /// W3C trace context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// When it was accepted.
    pub submitted_at: Timestamp,
    /// First hint in the due index.
    pub due: Timestamp,
    /// The order's details.
    pub details: Value,
}

/// An order waits to be taken up again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// The order.
    pub order_id: OrderId,
}

/// The Scheduler asks an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepRequest {
    /// The order.
    pub order_id: OrderId,
    /// The step.
    pub step: StepId,
    /// Doing or undoing.
    pub direction: Direction,
    /// Attempt; the reply carries it back.
    pub attempt: Attempt,
    /// After this nothing may be started or sent.
    pub complete_by: Timestamp,
    /// What the step gives the attempt, from when its agent takes the request, in milliseconds;
    /// `None` in a request of an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complete_within_ms: Option<u64>,
    /// Most calls to the remote service for this request.
    pub allowance: u32,
    /// The allowance must be claimed in the call ledger before the first call, so that a
    /// redelivery after a crash cannot use it again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub counted: bool,
    /// Upper bound of the first wait between calls.
    pub backoff_initial_ms: u64,
    /// Upper bound of any wait between calls.
    pub backoff_max_ms: u64,
    /// The same for every attempt and every call.
    pub idempotency_key: IdempotencyKey,
    /// Of a compensation: the key of the effect that it compensates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<IdempotencyKey>,
    /// What is to be done.
    pub action: String,
    /// With what.
    pub input: Value,
    /// The order's lane.
    #[serde(default)]
    pub priority: Priority,
    /// The agent that is asked; a request on another agent's topic is refused.
    pub agent: AgentName,
    /// The workflow: with the step it names a step type, which operators can pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<WorkflowName>,
}

impl StepRequest {
    /// Backoff bounds as spans: the first and the largest.
    #[must_use]
    pub fn backoff(&self) -> (Millis, Millis) {
        (Millis(self.backoff_initial_ms), Millis(self.backoff_max_ms))
    }
}

/// An agent's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The order.
    pub order_id: OrderId,
    /// The step.
    pub step: StepId,
    /// Doing or undoing.
    pub direction: Direction,
    /// The request's attempt.
    pub attempt: Attempt,
    /// The request's complete-by.
    pub complete_by: Timestamp,
    /// Calls that were made for this request.
    pub calls: u32,
    /// What came of it.
    pub outcome: Outcome,
    /// When the agent sent it; `None` from an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_at: Option<Timestamp>,
    /// How the request fared in the agent's topic and hands; `None` from an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<Pace>,
}

/// What an agent measured about one request: the signal from which the Scheduler learns how much
/// a downstream bears.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Pace {
    /// From when the request was written to the agent's topic until the agent took it, in
    /// milliseconds. Two clocks are in it: it is wrong by at most the skew.
    pub waited_ms: u64,
    /// From then until the answer, in milliseconds.
    pub took_ms: u64,
}

/// What came of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "kebab-case")]
pub enum Outcome {
    /// Done.
    Succeeded {
        /// What the service answered.
        output: Value,
    },
    /// Not done, as far as the agent knows.
    Failed {
        /// Class and cause.
        failure: Failure,
        /// Whether a call may have had an effect all the same: an answer was lost or unusable.
        maybe_applied: bool,
    },
    /// Put off: the service is paused, its circuit breaker is open, or its limits are reached.
    /// Not a failure.
    Deferred {
        /// When to try again.
        until: Timestamp,
        /// Why.
        failure: Failure,
        /// As of a failure, of the calls that were made before it was deferred.
        maybe_applied: bool,
    },
}

/// Largest output of a step, as JSON, in bytes: a process record holds them all.
pub const MAX_OUTPUT_BYTES: usize = 8 * 1024;

/// What the submitting application is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatusMessage {
    /// The order.
    pub order_id: OrderId,
    /// From 1, without gaps; a repeated one is the same message again.
    pub sequence: u32,
    /// What happened.
    pub status: crate::status::Status,
    /// The failure behind it, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Failure>,
    /// When it was written down.
    pub at: Timestamp,
}

/// What an operator must know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Alert {
    /// The same for every repetition of the same alert.
    pub alert_id: String,
    /// What it is about.
    pub kind: AlertKind,
    /// The order, if about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order_id: Option<String>,
    /// Why.
    pub cause: String,
    /// When.
    pub at: Timestamp,
}

/// Kinds of alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AlertKind {
    /// An order stopped in Error.
    OrderError,
    /// An order is half compensated.
    CompensationFailed,
    /// A record was dead-lettered.
    DeadLetter,
    /// The circuit breaker of a downstream has changed.
    Breaker,
}
