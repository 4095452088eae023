//! The messages in an order's outbox, with the ids by which a topic or a service's log shows them.

use serde::Serialize;
use triad_core::outbox::Emission;
use triad_core::render::request_id;
use triad_core::{Attempt, Direction, Effect, Envelope, IdempotencyKey, Order, effect, render};
use triad_workflow::StepId;

/// A message in an order's outbox, which may have been sent already.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MessageView<'a> {
    /// What is sent; its fields stand beside those below.
    #[serde(flatten)]
    pub what: &'a Emission,
    /// The topic. Left out for a request, whose topic is that of the agent that the workflow names, and for
    /// what sends no message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// The message's id, its header `ce_id`: the same however often it is sent. Left out for what sends no
    /// message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// The key by which the service recognises the effect that a request asks for. Left out for all others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<IdempotencyKey>,
}

/// The messages that the record's last write wants sent, and earlier statuses and alerts that are not yet noted as
/// acknowledged, in the order of the record. Empty for a finished order that no sweep needs to look at: the process
/// that wrote its end has sent them, or its input is redelivered.
#[must_use]
pub fn of(order: &Order) -> Vec<MessageView<'_>> {
    if order.state.is_finished() && order.due.is_none() {
        return Vec::new();
    }
    // Statuses and alerts in the record's order, then wakes.
    let told = effect::status_effects(order);
    let (wakes, others): (Vec<_>, Vec<_>) = told
        .iter()
        .map(|effect| (effect, render::effect(effect, order)))
        .partition(|(effect, _)| matches!(effect, Effect::Wake));
    let (mut wakes, mut others) = (wakes.into_iter(), others.into_iter());
    let mut views = Vec::new();
    for what in &order.outbox.entries {
        let sent = match what {
            Emission::Wake => wakes.next(),
            Emission::Status { .. } | Emission::Alert { .. } | Emission::Ended { .. } => {
                others.next()
            }
            Emission::Children { .. } => None,
            Emission::Request {
                step,
                direction,
                attempt,
            } => {
                views.push(request(order, what, (step, *direction, *attempt)));
                continue;
            }
        };
        views.push(view(what, sent.map(|(_, sent)| sent)));
    }
    views
}

fn request<'a>(
    order: &Order,
    what: &'a Emission,
    (step, direction, attempt): (&StepId, Direction, Attempt),
) -> MessageView<'a> {
    let record = order.steps.iter().find(|record| record.step == *step);
    let key = record.map(|record| IdempotencyKey::of(&order.id, step, direction, record.key));
    let id = key.as_ref().map(|key| request_id(key, direction, attempt));
    MessageView {
        what,
        topic: None,
        message_id: id,
        idempotency_key: key,
    }
}

fn view(what: &Emission, sent: Option<Envelope>) -> MessageView<'_> {
    MessageView {
        what,
        message_id: sent.as_ref().and_then(|sent| sent.id().map(str::to_owned)),
        topic: sent.map(|sent| sent.topic),
        idempotency_key: None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use triad_core::message::AlertKind;
    use triad_core::status::Status;
    use triad_core::{Failure, FailureKind, ProcessState, Timestamp};
    use triad_workflow::{Limits, Workflow};

    use super::*;
    use crate::json as form;

    fn order() -> Order {
        let definition = json!({"workflow": "w", "steps": [{"id": "pay", "agent": "bank",
            "action": "do", "compensation": {"action": "back"}}]});
        let definition = serde_json::from_value(definition).expect("a definition");
        let workflow = Workflow::compile(definition, &Limits::published()).expect("it is sound");
        let accepted = json!({"order_id": "o", "workflow": format!("w@{}", workflow.hash),
            "submitted_at": 0, "due": 1, "details": {}});
        let accepted = serde_json::from_value(accepted).expect("an order");
        Order::new(&accepted, &workflow, Timestamp(0))
    }

    #[test]
    fn each_message_has_what_it_is_found_by() {
        let mut order = order();
        order.steps[0].key = 2;
        let (step, at) = (order.steps[0].step.clone(), Timestamp(0));
        let cause = Failure::new(FailureKind::Permanent, "x", "y");
        order.outbox.entries = vec![
            Emission::Wake,
            Emission::Request {
                step,
                direction: Direction::Compensate,
                attempt: Attempt(3),
            },
            Emission::Status {
                sequence: 7,
                status: Status::Failed,
                step: None,
                at,
                cause: None,
            },
            Emission::Alert {
                kind: AlertKind::OrderError,
                at,
                cause: cause.clone(),
            },
        ];
        let told = form::of(&of(&order)).expect("JSON");
        let moment = "1970-01-01T00:00:00.000Z";
        let expected = json!([
            {"send": "wake", "topic": "scheduler", "message_id": "o/wake/1"},
            {"send": "request", "step": "pay", "direction": "compensate", "attempt": 3,
                "message_id": "o/pay/compensate/2/compensate/3", "idempotency_key": "o/pay/compensate/2"},
            {"send": "status", "sequence": 7, "status": "failed", "at": moment, "topic": "status",
                "message_id": "o/status/7"},
            {"send": "alert", "kind": "order-error", "at": moment, "topic": "alerts",
                "message_id": "o/Error/0", "cause": form::of(&cause).expect("JSON")},
        ]);
        assert_eq!(told, expected);

        order.state = ProcessState::Processed { at };
        order.due = Some(at);
        assert_eq!(of(&order).len(), 4, "it is not confirmed");
        order.due = None;
        assert_eq!(of(&order), []);
    }
}
