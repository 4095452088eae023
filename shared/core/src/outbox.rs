//! What a record's last write wants sent, and how it becomes messages.
//!
//! State first, then messages: a write carries in its record what is to be sent; the messages
//! are made from the record, so a redelivered input, or the Supervisor, can make the very same
//! messages again.
//!
//! A write carries on the statuses and alerts that the one before it wanted sent, whoever wrote
//! that: its writer may have died before sending, or may still be about to, as a Scheduler that
//! has lost its partition without knowing it may. Only who has seen them acknowledged by the bus
//! may leave them out, and does so by deciding on a copy [settled](Outbox::settled) since.
//! Requests and announcements are not carried: an attempt that was never asked for is found
//! overdue.

use serde::{Deserialize, Serialize};
use triad_workflow::{Repeat, StepId};

use crate::budget;
use crate::context::Context;
use crate::failure::Failure;
use crate::ids::{Attempt, Direction, IdempotencyKey, Timestamp};
use crate::message::{
    Alert, AlertKind, Envelope, Pace, Retry, SchedulerMessage, StatusMessage, StepRequest,
};
use crate::order::{Order, StepState};
use crate::planted::{Bug, planted};
use crate::status::Status;
use crate::topics;

/// Who wrote the record last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Writer {
    /// Submission, when it created the record.
    Submission,
    /// The Scheduler, in the order of the order's events.
    Scheduler,
    /// The Supervisor, beside that order.
    Supervisor,
    /// An operator, beside that order.
    Operator,
}

/// What a record's last write wants sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outbox {
    /// Who wanted it.
    pub writer: Writer,
    /// The Scheduler's input that the write answered: met again, it is known as done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<String>,
    /// What, in the order of sending.
    pub entries: Vec<Emission>,
}

/// Most entries in an outbox. Status entries are carried on only while unsent; beyond this
/// bound a write that would add more keeps the newest alert and statuses of one life.
pub const MAX_ENTRIES: usize = 64;

/// One thing to send, as small as it can be stored: the message is made from the record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "send", rename_all = "kebab-case")]
pub enum Emission {
    /// Announce the order to the Scheduler for the first time.
    Announce,
    /// Ask the Scheduler to take it up again.
    Retry,
    /// Ask an agent; skipped when the attempt is no longer the running one.
    Request {
        /// The step.
        step: StepId,
        /// Doing or undoing.
        direction: Direction,
        /// The attempt.
        attempt: Attempt,
    },
    /// Tell the submitting application.
    Status {
        /// Its sequence.
        sequence: u32,
        /// What happened.
        status: Status,
        /// When.
        at: Timestamp,
        /// Why, for those that have a cause.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<Failure>,
    },
    /// Tell operators that the order finished badly.
    Alert {
        /// How.
        kind: AlertKind,
        /// When.
        at: Timestamp,
        /// Why.
        cause: Failure,
    },
}

impl Emission {
    /// Whether it must reach the bus before anything that lets another writer go on.
    fn goes_first(&self) -> bool {
        matches!(self, Self::Status { .. } | Self::Alert { .. })
    }
}

impl Outbox {
    /// Nothing to send.
    #[must_use]
    pub fn empty(writer: Writer) -> Self {
        Self {
            writer,
            answers: None,
            entries: Vec::new(),
        }
    }

    /// What Submission leaves: the status `received`, which it sends itself, and the announcement.
    #[must_use]
    pub fn submission() -> Self {
        Self {
            writer: Writer::Submission,
            answers: None,
            entries: vec![Emission::Announce],
        }
    }

    /// What is left of it once the bus has acknowledged every message.
    #[must_use]
    pub fn settled(&self) -> Self {
        Self {
            entries: Vec::new(),
            ..self.clone()
        }
    }

    /// The outbox with which the next writer starts.
    #[must_use]
    pub fn carried_to(&self, writer: Writer) -> Self {
        let mut entries: Vec<_> = self
            .entries
            .iter()
            .filter(|e| e.goes_first() && !planted(Bug::OutboxNotCarried))
            .cloned()
            .collect();
        let surplus = entries.len().saturating_sub(MAX_ENTRIES);
        entries.drain(..surplus);
        Self {
            writer,
            answers: None,
            entries,
        }
    }
}

/// Messages in the two waves in which a writer beside the Scheduler's line must send them:
/// those of `first` are acknowledged before those of `then` are sent.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Messages {
    /// Statuses and alerts.
    pub first: Vec<Envelope>,
    /// Requests and announcements: what lets somebody else go on.
    pub then: Vec<Envelope>,
}

impl Messages {
    /// All of them, in order: for the Scheduler, whose input is acknowledged only after all.
    #[must_use]
    pub fn all(self) -> Vec<Envelope> {
        let mut all = self.first;
        all.extend(self.then);
        all
    }

    /// Whether there is nothing to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.first.is_empty() && self.then.is_empty()
    }
}

/// Makes the messages that a record wants sent.
///
/// A request whose input cannot be computed is left out: computing it was part of the decision
/// that put it into the outbox, so this does not happen to a sound record.
#[must_use]
pub fn messages(ctx: &Context<'_>, order: &Order) -> Messages {
    let mut out = Messages::default();
    for entry in &order.outbox.entries {
        let Some(message) = message(ctx, order, entry) else {
            continue;
        };
        if entry.goes_first() {
            out.first.push(message);
        } else {
            out.then.push(message);
        }
    }
    out
}

fn message(ctx: &Context<'_>, order: &Order, entry: &Emission) -> Option<Envelope> {
    match entry {
        Emission::Announce => Some(retry(order)),
        Emission::Retry => Some(retry(order)),
        Emission::Request {
            step,
            direction,
            attempt,
        } => request(ctx, order, step, *direction, *attempt),
        Emission::Status {
            sequence,
            status,
            at,
            cause,
        } => Some(status_message(
            order,
            &StatusMessage {
                order_id: order.id.clone(),
                sequence: *sequence,
                status: *status,
                cause: cause.clone(),
                at: *at,
            },
        )),
        Emission::Alert { kind, at, cause } => Some(alert(order, *kind, *at, cause)),
    }
}

fn retry(order: &Order) -> Envelope {
    let body = SchedulerMessage::Retry(Retry {
        order_id: order.id.clone(),
    });
    Envelope::about(
        topics::scheduler(order.priority).to_owned(),
        &order.id,
        "triad.order.retry",
        format!("{}/retry/{}", order.id, order.version),
        order.traceparent.as_deref(),
        &body,
    )
}

/// The announcement of an order that was just accepted.
#[must_use]
pub fn announcement(accepted: crate::message::Accepted) -> Envelope {
    let order = accepted.order_id.clone();
    let trace = accepted.traceparent.clone();
    Envelope::about(
        topics::scheduler(accepted.priority).to_owned(),
        &order,
        "triad.order.accepted",
        format!("{order}/accepted"),
        trace.as_deref(),
        &SchedulerMessage::Accepted(accepted),
    )
}

/// The status of a submission that was not accepted because too many orders are in flight.
/// It has sequence 0: no order was stored.
#[must_use]
pub fn rejected(
    order: &crate::ids::OrderId,
    reply_topic: Option<&str>,
    traceparent: Option<&str>,
    cause: Failure,
    at: Timestamp,
) -> Envelope {
    let body = StatusMessage {
        order_id: order.clone(),
        sequence: 0,
        status: Status::Rejected,
        cause: Some(cause),
        at,
    };
    Envelope::about(
        reply_topic.unwrap_or(topics::STATUS).to_owned(),
        order,
        "triad.order.rejected",
        format!("{order}/rejected/{}", at.0),
        traceparent,
        &body,
    )
}

/// The status `received`, which is sequence 1 of every order.
#[must_use]
pub fn received(order: &Order) -> Envelope {
    status_message(
        order,
        &StatusMessage {
            order_id: order.id.clone(),
            sequence: 1,
            status: Status::Received,
            cause: None,
            at: order.submitted_at,
        },
    )
}

fn status_message(order: &Order, body: &StatusMessage) -> Envelope {
    Envelope::about(
        order
            .reply_topic
            .clone()
            .unwrap_or_else(|| topics::STATUS.to_owned()),
        &order.id,
        &format!("triad.order.{}", body.status.as_str()),
        format!("{}/status/{}", order.id, body.sequence),
        order.traceparent.as_deref(),
        body,
    )
}

fn alert(order: &Order, kind: AlertKind, at: Timestamp, cause: &Failure) -> Envelope {
    let name = match kind {
        AlertKind::CompensationFailed => "CompensationFailed",
        AlertKind::OrderError | AlertKind::DeadLetter | AlertKind::Breaker => "Error",
    };
    let body = Alert {
        alert_id: format!("{}/{name}/{}", order.id, at.0),
        kind,
        order_id: Some(order.id.to_string()),
        cause: cause.to_string(),
        at,
    };
    Envelope::about(
        topics::ALERTS.to_owned(),
        &order.id,
        "triad.alert",
        body.alert_id.clone(),
        order.traceparent.as_deref(),
        &body,
    )
}

/// The request that belongs to a running attempt, or `None` if the attempt is not running.
fn request(
    ctx: &Context<'_>,
    order: &Order,
    step: &StepId,
    direction: Direction,
    attempt: Attempt,
) -> Option<Envelope> {
    let index = order.steps.iter().position(|s| &s.step == step)?;
    let record = &order.steps[index];
    let (running, complete_by) = match (&record.state, direction) {
        (
            StepState::Running {
                attempt,
                complete_by,
                ..
            },
            Direction::Forward,
        )
        | (
            StepState::Probing {
                attempt,
                complete_by,
                ..
            },
            Direction::Probe,
        )
        | (
            StepState::Undoing {
                attempt,
                complete_by,
                ..
            },
            Direction::Undo,
        ) => (*attempt, *complete_by),
        _ => return None,
    };
    if running != attempt {
        return None;
    }
    let defined = &ctx.workflow.steps[index];
    let key = |direction| IdempotencyKey::of(&order.id, step, direction, record.key);
    let forward = || crate::decide::input::forward(ctx, order, index).ok();
    let (agent, action, retry, within, input) = match direction {
        Direction::Forward => (
            &defined.agent,
            &defined.action,
            defined.retry,
            defined.complete_within,
            forward()?,
        ),
        Direction::Probe => {
            let Repeat::Probe(probe) = &defined.repeat else {
                return None;
            };
            (
                &defined.agent,
                &probe.action,
                probe.retry,
                probe.complete_within,
                forward()?,
            )
        }
        Direction::Undo => {
            let undo = defined.compensation.as_ref()?;
            let input = crate::decide::input::undo(ctx, order, index).ok()?;
            (
                &undo.agent,
                &undo.action,
                undo.retry,
                undo.complete_within,
                input,
            )
        }
    };
    let body = StepRequest {
        order_id: order.id.clone(),
        step: step.clone(),
        direction,
        attempt,
        complete_by,
        complete_within_ms: Some(within.0),
        allowance: budget::allowance(defined, record, direction),
        counted: budget::is_counted(defined, direction),
        backoff_initial_ms: retry.initial.0,
        backoff_max_ms: retry.max.0,
        idempotency_key: key(direction),
        undoes: (direction == Direction::Undo).then(|| key(Direction::Forward)),
        action: action.clone(),
        input,
        priority: order.priority,
        agent: agent.clone(),
        workflow: Some(order.workflow.name.clone()),
    };
    let id = format!("{}/{direction}/{attempt}", key(direction));
    Some(Envelope::about(
        topics::agent(agent, order.priority),
        &order.id,
        "triad.step.request",
        id,
        order.traceparent.as_deref(),
        &body,
    ))
}

/// An agent's answer, as a message to the Scheduler.
#[must_use]
pub fn reply(
    request: &StepRequest,
    calls: u32,
    outcome: crate::message::Outcome,
    pace: Pace,
    sent_at: Timestamp,
    traceparent: Option<&str>,
) -> Envelope {
    let body = SchedulerMessage::Reply(crate::message::Reply {
        order_id: request.order_id.clone(),
        step: request.step.clone(),
        direction: request.direction,
        attempt: request.attempt,
        complete_by: request.complete_by,
        calls,
        outcome,
        sent_at: Some(sent_at),
        pace: Some(pace),
    });
    Envelope::about(
        topics::scheduler(request.priority).to_owned(),
        &request.order_id,
        "triad.step.reply",
        format!(
            "{}/{}/{}/reply",
            request.idempotency_key, request.direction, request.attempt
        ),
        traceparent,
        &body,
    )
}
