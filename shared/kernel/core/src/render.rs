//! The message of an effect: its topic, key, id and headers.

use crate::children::{ChildEnd, ChildEnded, ChildOrder, Parent};
use crate::effect::{self, Effect, SendOrder};
use crate::failure::Failure;
use crate::ids::{Attempt, Direction, IdempotencyKey, OrderId, Priority, Timestamp};
use crate::message::{
    Accepted, Envelope, Pace, Reply, ReplyOutcome, SchedulerMessage, StatusMessage, StepRequest,
    Wake,
};
use crate::order::Order;
use crate::status::Status;
use crate::step::{StepState, Work};
use crate::topics;
use crate::trace::TraceContext;

/// The trace of an order: its submission's.
fn trace_of(order: &Order) -> Option<TraceContext> {
    order.traceparent.as_deref().and_then(TraceContext::parse)
}

/// The messages of effects of one order, in two parts: those that must be acknowledged before any of the others
/// is sent ([`SendOrder::First`]), and the others.
#[must_use]
pub fn by_turn<'a>(
    effects: impl IntoIterator<Item = &'a Effect>,
    order: &Order,
) -> (Vec<Envelope>, Vec<Envelope>) {
    let (mut first, mut then) = (Vec::new(), Vec::new());
    for one in effects {
        let part = match one.turn() {
            SendOrder::First => &mut first,
            SendOrder::Then | SendOrder::SchedulerOnly => &mut then,
        };
        part.push(effect(one, order));
    }
    (first, then)
}

/// The message of an effect: a status to the order's reply topic, or to `status` if it has none; an alert to
/// `alerts`; a wake to the topic of the Scheduler; a request to that of the agent. Its id is the same however
/// often it is made from the same record.
#[must_use]
pub fn effect(effect: &Effect, order: &Order) -> Envelope {
    match effect {
        Effect::Status(body) => status(order, body),
        Effect::Alert(body) => body.message(order.id.as_str(), trace_of(order)),
        Effect::Wake => wake(order),
        Effect::Request(body) => request(order, body),
        Effect::Child(body) => child(order, body),
        Effect::Ended(body) => ended(order, body),
    }
}

fn status(order: &Order, body: &StatusMessage) -> Envelope {
    Envelope::about(
        order
            .reply_topic
            .clone()
            .unwrap_or_else(|| topics::STATUS.to_owned()),
        &order.id,
        &format!("triad.order.{}", body.status.as_str()),
        format!("{}/status/{}", order.id, body.sequence),
        trace_of(order),
        body,
    )
}

fn wake(order: &Order) -> Envelope {
    let body = SchedulerMessage::Wake(Wake {
        order_id: order.id.clone(),
    });
    Envelope::about(
        topics::scheduler(order.priority).to_owned(),
        &order.id,
        "triad.order.wake",
        format!("{}/wake/{}", order.id, order.version),
        trace_of(order),
        &body,
    )
}

/// The message that starts a child order, or has it compensated.
fn child(order: &Order, body: &ChildOrder) -> Envelope {
    let what = match body.compensate {
        Some(_) => "compensate",
        None => "start",
    };
    Envelope::about(
        topics::scheduler(order.priority).to_owned(),
        &body.order_id,
        &format!("triad.order.{what}"),
        format!("{}/{what}", body.order_id),
        trace_of(order),
        &SchedulerMessage::Child(Box::new(body.clone())),
    )
}

/// The end of an order, for its parent.
fn ended(order: &Order, body: &ChildEnded) -> Envelope {
    child_ended(
        order.priority,
        format!("{}/ended/{}", order.id, order.version),
        trace_of(order),
        body.clone(),
    )
}

/// The message that tells an order the end of a child order of it that is not stored.
#[must_use]
pub fn end_of_child(
    parent: &Parent,
    child: &OrderId,
    priority: Priority,
    trace: Option<TraceContext>,
    end: ChildEnd,
) -> Envelope {
    let body = ChildEnded {
        order_id: parent.order_id.clone(),
        parent: parent.clone(),
        child: child.clone(),
        end,
    };
    child_ended(priority, format!("{child}/refused"), trace, body)
}

fn child_ended(
    priority: Priority,
    id: String,
    trace: Option<TraceContext>,
    body: ChildEnded,
) -> Envelope {
    let parent = body.order_id.clone();
    Envelope::about(
        topics::scheduler(priority).to_owned(),
        &parent,
        "triad.order.child-ended",
        id,
        trace,
        &SchedulerMessage::ChildEnded(Box::new(body)),
    )
}

fn request(order: &Order, body: &StepRequest) -> Envelope {
    let StepRequest {
        idempotency_key,
        direction,
        attempt,
        ..
    } = body;
    Envelope::about(
        topics::agent(&body.agent, body.priority),
        &order.id,
        "triad.step.request",
        request_id(idempotency_key, *direction, *attempt),
        trace_of(order),
        body,
    )
}

/// The id of the message that asks for an attempt: `<idempotency key>/<direction>/<attempt>`.
#[must_use]
pub fn request_id(key: &IdempotencyKey, direction: Direction, attempt: Attempt) -> String {
    format!("{key}/{direction}/{attempt}")
}

/// The ids of the messages that asked for the attempts that an order is at now: those that are out, deferred
/// or failed; where the next attempt is due, the one before it; and the last one of a compensation that was
/// given up. At most one for each step, in the order of the steps. The record does not say whether an attempt
/// that was deferred, or that came before a due one, was a probe: its id is made as if it was not.
#[must_use]
pub fn requests_at_hand(order: &Order) -> Vec<String> {
    let steps = order.steps.iter();
    let at_hand = steps.filter_map(|record| {
        let (direction, attempt) = match (&record.state, record.state.work()) {
            (StepState::NotCompensated { attempt, .. }, _) => (Direction::Compensate, *attempt),
            (_, Some(Work::Out(out))) => (out.direction, out.attempt),
            (
                _,
                Some(Work::Failed {
                    direction, attempt, ..
                }),
            ) => (*direction, *attempt),
            (_, Some(work @ (Work::Due { .. } | Work::Delayed { .. } | Work::Deferred { .. }))) => {
                (record.direction(), work.attempt())
            }
            (_, Some(Work::Parked { .. }) | None) => return None,
        };
        let key = IdempotencyKey::of(&order.id, &record.step, direction, record.key);
        (attempt.0 > 0).then(|| request_id(&key, direction, attempt))
    });
    at_hand.collect()
}

/// The message that announces an order to the Scheduler once it was accepted. Its id is
/// `<order>/accepted`.
#[must_use]
pub fn announcement(accepted: Accepted) -> Envelope {
    let order = accepted.order_id.clone();
    let trace = accepted
        .traceparent
        .as_deref()
        .and_then(TraceContext::parse);
    Envelope::about(
        topics::scheduler(accepted.priority).to_owned(),
        &order,
        "triad.order.accepted",
        format!("{order}/accepted"),
        trace,
        &SchedulerMessage::Accepted(accepted),
    )
}

/// The message with the status `rejected` or `conflict`, for a submission that was not accepted: too many orders are in
/// flight, it can never be accepted, or its id is taken; or with the status `refused`, for an act of an application. Its
/// sequence is 0, because no order was stored or changed. A `reply_topic` of `None` means the topic `status`. `cause` says
/// why, and `at` is the time of the refusal. The message is a child of the hop `trace`; `None`: it belongs to no trace.
#[must_use]
pub fn not_accepted(
    (order, reply_topic): (&OrderId, Option<&str>),
    trace: Option<TraceContext>,
    status: Status,
    cause: Failure,
    at: Timestamp,
) -> Envelope {
    let body = StatusMessage {
        order_id: order.clone(),
        sequence: 0,
        status,
        step: None,
        cause: Some(cause),
        at,
    };
    Envelope::about(
        reply_topic.unwrap_or(topics::STATUS).to_owned(),
        order,
        &format!("triad.order.{}", status.as_str()),
        format!("{order}/{}/{}", status.as_str(), at.0),
        trace,
        &body,
    )
}

/// The message with the status `received`, which has sequence 1.
#[must_use]
pub fn received(order: &Order) -> Envelope {
    status(order, &effect::received(order))
}

/// An agent's answer to a request, as a message to the Scheduler. `calls` is how many calls to the
/// remote service were made for the request, and `sent_at` the moment of sending by the agent's clock. The
/// message is a child of the hop `trace`; `None`: it belongs to no trace.
#[must_use]
pub fn reply(
    request: &StepRequest,
    calls: u32,
    outcome: ReplyOutcome,
    pace: Pace,
    sent_at: Timestamp,
    trace: Option<TraceContext>,
) -> Envelope {
    let body = SchedulerMessage::Reply(Reply {
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
        trace,
        &body,
    )
}
