//! The messages on the wire.
//!
//! Values are JSON; CloudEvents attributes are in the headers. Fields that are absent have
//! their defaults, and unknown fields are ignored, so that old and new instances understand one
//! another while a deployment rolls.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use triad_workflow::service::CallDefinition;
use triad_workflow::{AgentName, Millis, SearchKey, StepId, WorkflowName};

use crate::children::{ChildEnded, ChildOrder, Parent};
use crate::failure::Failure;
use crate::ids::{Attempt, Direction, IdempotencyKey, OrderId, Timestamp};
use crate::ids::{Priority, WorkflowRef};
use crate::later::CallbackToken;
use crate::topics;
use crate::trace::TraceContext;

/// A message ready to be sent: everything that the bus needs. Its value and headers are those of a
/// CloudEvent in Kafka's binary mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// The topic to send it to.
    pub topic: String,
    /// The Kafka key, which decides the partition: of a message about an order, the order's id. `None`: the
    /// message has no key, and the bus chooses the partition.
    pub key: Option<Vec<u8>>,
    /// The body, as JSON.
    pub value: Vec<u8>,
    /// Headers in the order of sending, without the trace context. A value of `None` is a null
    /// header.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// The hop of this message in its trace; `None` if it belongs to no trace.
    pub trace: Option<TraceContext>,
}

/// Name of the header that carries the trace context (W3C Trace Context, section 3.2).
pub const TRACEPARENT: &str = "traceparent";

/// The CloudEvents attribute `source` of every message that Triad sends.
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

    /// A message with this key, and `body` as its JSON value. The headers are those of a CloudEvent of type
    /// `ce_type` and id `ce_id`. The message is a child of the hop `trace`, and the id of its own hop is made
    /// of `ce_id`; if `trace` is `None`, it belongs to no trace.
    ///
    /// # Panics
    /// If `body` has no form in JSON.
    pub fn event<T: Serialize>(
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

    /// The same message, placed in a trace as caused by the hop `cause`. Unchanged if `cause` is
    /// `None` or the message has no [`id`](Self::id).
    #[must_use]
    pub fn caused_by(mut self, cause: Option<TraceContext>) -> Self {
        if let (Some(cause), Some(id)) = (cause, self.id()) {
            self.trace = Some(cause.child(id));
        }
        self
    }

    /// The same event with the name of its sender: the attribute `by` of a CloudEvent.
    #[must_use]
    pub fn sent_by(mut self, name: &str) -> Self {
        let by = Some(name.as_bytes().to_vec());
        self.headers.push(("ce_by".to_owned(), by));
        self
    }

    /// The message's id: the value of its header `ce_id`. `None` if it has no such header, or the value is
    /// null or not UTF-8.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        let (_, id) = self.headers.iter().find(|(name, _)| name == "ce_id")?;
        std::str::from_utf8(id.as_deref()?).ok()
    }

    /// The headers of [`Envelope::sent_headers`], copied, for a bus that hands messages over within
    /// a process.
    #[must_use]
    pub fn copied_headers(&self) -> Vec<(String, Option<Vec<u8>>)> {
        let sent = self.sent_headers();
        sent.map(|(name, value)| (name.to_owned(), value.map(Cow::into_owned)))
            .collect()
    }

    /// All headers as a bus sends them: the message's own, then [`TRACEPARENT`] if it belongs to a trace.
    pub fn sent_headers(&self) -> impl Iterator<Item = (&str, Option<Cow<'_, [u8]>>)> {
        let own = self.headers.iter();
        let own = own.map(|(name, value)| (name.as_str(), value.as_deref().map(Cow::Borrowed)));
        let trace = self.trace.map(|trace| trace.to_string().into_bytes());
        own.chain(trace.map(|trace| (TRACEPARENT, Some(Cow::Owned(trace)))))
    }
}

/// The body of every message on the topics `scheduler` and `scheduler.high`; its field `type` selects the variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum SchedulerMessage {
    /// An order was accepted and stored, and waits for its first claim.
    Accepted(Accepted),
    /// An order waits for a Scheduler to claim it again.
    Wake(Wake),
    /// An agent has answered a request.
    Reply(Reply),
    /// A child order of the order has ended.
    ChildEnded(Box<ChildEnded>),
    /// The order's parent starts it, or has it compensated.
    Child(Box<ChildOrder>),
}

/// An order was accepted: all fields of its first process record, and its details, so that the claim needs no read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Accepted {
    /// Id of the order.
    pub order_id: OrderId,
    /// The version of the workflow that the order runs on.
    pub workflow: WorkflowRef,
    /// The order's priority; absent: normal.
    #[serde(default)]
    pub priority: Priority,
    /// Topic for the order's status messages; `None` is the topic `status`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_topic: Option<String>,
    /// W3C trace context of the submission; `None` if it had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// When the submission was accepted.
    pub submitted_at: Timestamp,
    /// The order's first hint in the due index: if no Scheduler has claimed the order by then, the Supervisor
    /// announces it again.
    pub due: Timestamp,
    /// Before when no step starts; `None`: the order starts at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_at: Option<Timestamp>,
    /// By when the order must have finished; `None`: it has no deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// The search keys by which operators find the order; empty, or absent, if it has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub search: Vec<SearchKey>,
    /// The step of another order that has started this one; absent of an order that an application has submitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Box<Parent>>,
    /// The order's details as submitted.
    pub details: Value,
}

/// The message that wakes the Scheduler: an order waits to be claimed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wake {
    /// Id of the order.
    pub order_id: OrderId,
}

/// A request of the Scheduler to an agent: one attempt at a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepRequest {
    /// Id of the order.
    pub order_id: OrderId,
    /// Id of the step.
    pub step: StepId,
    /// Whether the step's action, its compensation or its probe is wanted.
    pub direction: Direction,
    /// Number of the attempt; the reply carries it back.
    pub attempt: Attempt,
    /// When the attempt is over: a reply that is sent later does not move the step on. From this moment minus
    /// the skew ([`Timing::skew`](crate::Timing::skew)) on, the agent starts and sends nothing.
    pub complete_by: Timestamp,
    /// How long the attempt may take from when its agent takes the request, in milliseconds.
    pub attempt_timeout_ms: u64,
    /// Most calls to the remote service for this request, the first one included.
    pub allowance: u32,
    /// True if the agent must claim the allowance in the call ledger before its first call, so that
    /// a redelivery after a crash cannot use it again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub counted: bool,
    /// True if an earlier attempt of this run has called the remote service for this effect, or may have: then the
    /// first call for this request repeats an earlier one. An operator begins a new run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeats: bool,
    /// Upper bound of the wait after the first call, in milliseconds.
    pub backoff_initial_ms: u64,
    /// Upper bound of the wait after any call, in milliseconds.
    pub backoff_max_ms: u64,
    /// The key of the effect, which every call to the remote service carries: see [`IdempotencyKey::of`].
    /// The attempts at one effect, and all their calls, have the same key.
    pub idempotency_key: IdempotencyKey,
    /// The key of the effect that is to be compensated; `None` if this is no compensation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compensates: Option<IdempotencyKey>,
    /// Name of the agent's action, from the definition: the step's action, or the action of its compensation or of
    /// its probe.
    pub action: String,
    /// How that action is called, from the description of its service; `None` if it has none: then it is
    /// `POST /<action>` with JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<Arc<CallDefinition>>,
    /// Input of that action, with its expressions computed. A probe has the input of the step's action.
    pub input: Value,
    /// The token by which the service may call back; `None` if it has to finish the work at once. Of a probe: it asks
    /// whether work is finished that the service has taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback: Option<CallbackToken>,
    /// Where the service is asked, as path and query, if it has named that when it took the work and the definition
    /// names no action for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// The order's priority; absent: normal.
    #[serde(default)]
    pub priority: Priority,
    /// The agent that is asked. A process that does not run this agent sends the request to the topic
    /// `dead-letter`.
    pub agent: AgentName,
    /// Name of the workflow. With the step it names a step type, which operators can pause.
    pub workflow: WorkflowName,
}

impl StepRequest {
    /// The upper bounds of the wait between calls, in milliseconds: after the first call, and after any call.
    #[must_use]
    pub fn backoff(&self) -> (Millis, Millis) {
        (Millis(self.backoff_initial_ms), Millis(self.backoff_max_ms))
    }
}

/// An agent's answer to one request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// Id of the order, as in the request.
    pub order_id: OrderId,
    /// Id of the step, as in the request.
    pub step: StepId,
    /// The request's direction.
    pub direction: Direction,
    /// Number of the attempt, as in the request.
    pub attempt: Attempt,
    /// The complete-by, as in the request.
    pub complete_by: Timestamp,
    /// How many calls to the remote service the agent made for this request.
    pub calls: u32,
    /// What became of the request.
    pub outcome: ReplyOutcome,
    /// When the agent sent the reply, by its clock. `None` if a third-party agent leaves it out; then the time of
    /// reading counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_at: Option<Timestamp>,
    /// How long the request waited in its topic, and how long the agent worked on it; `None` if the agent leaves it
    /// out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<Pace>,
}

/// An agent's measurements for one request, from which the Scheduler learns the downstream's capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Pace {
    /// From when the request was written to the agent's topic until the agent took it, in
    /// milliseconds. The two moments are of two clocks, so it is wrong by at most the skew.
    pub waited_ms: u64,
    /// From when the agent took the request until its reply, in milliseconds.
    pub took_ms: u64,
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "kebab-case")]
pub enum ReplyOutcome {
    /// The service has carried out the action or the compensation, or has answered the probe.
    Succeeded {
        /// What the service answered, at most [`MAX_OUTPUT_BYTES`].
        output: Value,
    },
    /// The attempt failed, as far as the agent knows.
    Failed {
        /// Class, code and text of the failure. After a permanent failure of the action, no further attempt
        /// at it is made unless an operator asks for one. Compensations and probes are tried again whatever
        /// the class, up to their threshold.
        failure: Failure,
        /// True if a call may have had its effect all the same: its answer was lost or unusable.
        maybe_applied: bool,
    },
    /// The service has taken the work, or is not done with it, and finishes it later.
    InProgress(Taking),
    /// The attempt is deferred: the service is paused, its circuit breaker is open, or its limits
    /// are reached. Not a failure.
    Deferred {
        /// When to try again; at most 15 minutes after the Scheduler has read the reply. Agents spread this
        /// moment over a while, so that orders that wait for the same thing do not all come back at once.
        until: Timestamp,
        /// The moment without that spread. If a circuit breaker is open or an operator has paused the
        /// downstream, no order is to call the downstream before it. `None` if the agent did not say, and
        /// then `until` counts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        opens: Option<Timestamp>,
        /// Why the attempt is deferred.
        failure: Failure,
        /// True if a call that was made before the attempt was deferred may have had its effect.
        maybe_applied: bool,
    },
}

/// What a service has answered that takes work and finishes it later.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Taking {
    /// After which time the service wants to be asked, in milliseconds; `None` if it did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask_after: Option<Millis>,
    /// What it answered, at most [`MAX_TAKEN_BYTES`](crate::later::MAX_TAKEN_BYTES).
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub output: Value,
    /// Where it wants to be asked: path and query at its own address, at most
    /// [`MAX_LOCATION_BYTES`](crate::later::MAX_LOCATION_BYTES). `None` if it named nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
}

/// Largest output of one step, as JSON, in bytes, inclusive: 8 KiB. A process record holds the
/// outputs of all its steps.
pub const MAX_OUTPUT_BYTES: usize = 8 * 1024;

/// A status message to the submitting application about its order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatusMessage {
    /// Id of the order.
    pub order_id: OrderId,
    /// Counted from 1 for each order, without gaps; a message with the same sequence is the same
    /// message again. 0 for [`Rejected`](crate::status::Status::Rejected),
    /// [`Conflict`](crate::status::Status::Conflict) and [`Refused`](crate::status::Status::Refused), which
    /// change no stored order.
    pub sequence: u32,
    /// What happened.
    pub status: crate::status::Status,
    /// The step of [`StepCompleted`](crate::status::Status::StepCompleted) and
    /// [`DecisionAsked`](crate::status::Status::DecisionAsked); `None` of other statuses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepId>,
    /// The failure that led to the status; `None` if none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Failure>,
    /// When it happened: when the submission was accepted or rejected, or else when the write that brought
    /// the status was decided.
    pub at: Timestamp,
}

/// An alert to operators.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Alert {
    /// Identity of the alert: the same however often it is sent.
    pub alert_id: String,
    /// What the alert is about.
    pub kind: AlertKind,
    /// The order; `None` if the alert is not about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order_id: Option<String>,
    /// What happened and why, for a person.
    pub cause: String,
    /// When it happened.
    pub at: Timestamp,
}

impl Alert {
    /// The alert as a message on the topic `alerts`. Its id is the alert's, so that it is the same however often it
    /// is sent. `key` is the subject of the alert: alerts with the same key stay in their order. The message is a
    /// child of the hop `trace`; if that is `None`, it belongs to no trace.
    #[must_use]
    pub fn message(&self, key: &str, trace: Option<TraceContext>) -> Envelope {
        let id = self.alert_id.clone();
        Envelope::event(
            topics::ALERTS.to_owned(),
            key,
            "triad.alert",
            id,
            trace,
            self,
        )
    }
}

/// What an alert is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AlertKind {
    /// An order has ended in state Error.
    OrderError,
    /// An order has ended in state CompensationFailed.
    CompensationFailed,
    /// An order has missed its deadline, and continues because its point of no return may have happened.
    OrderLate,
    /// Events came for an order, and no step of it will use them: it is being compensated, or has ended.
    EventsUnused,
    /// A record was sent to the topic `dead-letter`.
    DeadLetter,
    /// The circuit breaker of a downstream has changed its state, or an operator has changed the record of
    /// the downstream.
    Breaker,
    /// A handler cannot continue until an operator repairs the installation: rights, credentials, a missing table or
    /// topic.
    Misconfigured,
    /// A campaign has stopped without an operator's command: too many of its orders failed again or did not finish.
    CampaignStopped,
    /// An order's record cannot be read, or does not fit its definition: the order continues only after a repair.
    Unreadable,
}
