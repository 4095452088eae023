//! Events from outside, sent to an order by an operator or over HTTP.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use triad_core::received::{EventMessage, Incoming, Message, NotAnEvent, ReceivedEvent};
use triad_core::{Envelope, Order, OrderId, ProcessState, StepState, Timestamp};
use triad_runtime::keys::order_of;
use triad_runtime::{Bus, StateStore};
use triad_workflow::names::{check_event, check_key};
use triad_workflow::{Decision, Millis, StepKind, Workflow};

use super::local::{Execute, Installation, Local};
use super::{Caller, Problem, plain_form};
use crate::definition;

/// Send an event to an order: the step that waits for it takes it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SendEvent {
    /// The order's id.
    pub id: String,
    /// The event's name, as the workflow's `await` has it.
    pub event: String,
    /// The event's id: the same name and id again is the same event. Where it is left out, it is made of the name and
    /// the data, so that a request that is repeated sends one event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// What the event brings, at most 8 KiB of JSON; null where it is left out.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
    /// Who sends it, where the caller has no name of its own; at most 128 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// An event that was sent.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct EventSent {
    /// The order.
    #[schemars(with = "String")]
    pub order_id: OrderId,
    /// The event's name.
    pub event: String,
    /// The event's id.
    pub event_id: String,
    /// Whether the order has had this event before, so that it was not sent.
    pub is_repeated: bool,
}

plain_form!(EventSent: "event-sent");

impl Execute for SendEvent {
    type Answer = EventSent;

    async fn execute<I: Installation>(
        self,
        on: &Local<I>,
        caller: &Caller,
    ) -> Result<EventSent, Problem> {
        let event = self.read(caller)?;
        let found = order(on, &event.order_id).await;
        if found.is_err() {
            on.may_act(caller)?;
        }
        let order = found?;
        let workflow = definition::pinned(on.store(), &order.workflow).await?;
        let decision = asked_for(&order, &workflow, &event.event);
        let now = on.moment();
        let refusal = decision.and_then(|(decision, since)| {
            let waited = since.map_or(Millis(0), |since| now.since(since));
            let by = event.by.as_deref();
            let why = decision.refusal(by, &event.data, waited)?;
            Some((why, decision.may_be_by(by, waited)))
        });
        // Who is named for a decision needs no further right.
        let is_named = decision.is_some_and(|(decision, _)| !decision.by.is_empty());
        if !is_named || refusal.is_some() {
            on.may_act(caller)?;
        }
        on.may_change()?;
        let is_same = |had: &triad_core::received::KeptEvent| {
            (&had.event, &had.id) == (&event.event, &event.id)
        };
        let is_repeated = order.events.iter().any(is_same);
        if !is_repeated {
            can_be_taken(&order, &workflow, &event.event)?;
            match refusal {
                None => {}
                Some((why, true)) => return Err(Problem::new(422, "does-not-fit", why)),
                Some((why, false)) => return Err(Problem::new(403, "may-not-decide", why)),
            }
            send(on, event.message()).await?;
            tracing::info!(order = %event.order_id, event = %event.event, by = caller.name, "an event was sent");
        }
        Ok(EventSent {
            order_id: event.order_id,
            event: event.event,
            event_id: event.id,
            is_repeated,
        })
    }
}

/// Send an event to the order that waits for it under a key, where the sender does not know the order.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SendKeyedEvent {
    /// What the workflow's `await` has as `key`: a text of 1 to 128 bytes.
    pub key: String,
    /// The event's name, as the workflow's `await` has it.
    pub event: String,
    /// The event's id, as in `sendEvent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// What the event brings, at most 8 KiB of JSON; null where it is left out.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
    /// Who sends it, where the caller has no name of its own; at most 128 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

impl Execute for SendKeyedEvent {
    type Answer = EventSent;

    async fn execute<I: Installation>(
        self,
        on: &Local<I>,
        caller: &Caller,
    ) -> Result<EventSent, Problem> {
        let Self {
            key,
            event,
            event_id,
            data,
            by,
        } = self;
        let wrong = |why: &dyn std::fmt::Display| Problem::new(422, "wrong-field", why.to_string());
        check_event(&event).map_err(|e| wrong(&e))?;
        check_key(&key).map_err(|e| wrong(&e))?;
        let order = order_of(on.store(), &event, &key).await?;
        let unknown = || {
            let text = format!("no order waits for an event {event:?} under the key {key:?}");
            Problem::missing("unknown-key", text)
                .next("Send it again later: an order may begin to wait for it.")
        };
        let Some(id) = order else {
            on.may_act(caller)?;
            return Err(unknown());
        };
        let id = id.to_string();
        SendEvent {
            id,
            event,
            event_id,
            data,
            by,
        }
        .execute(on, caller)
        .await
    }
}

impl SendEvent {
    /// Reads the event by the rules of the topic.
    fn read(&self, caller: &Caller) -> Result<ReceivedEvent, Problem> {
        let value = serde_json::json!({
            "order_id": self.id, "event": self.event, "id": self.event_id, "data": self.data,
            "by": caller.named(&self.by)?,
        });
        match read(&value, &format!("{}\n{}", self.event, self.data))? {
            Incoming::Event(event) => Ok(*event),
            Incoming::Callback(_) | Incoming::Act(_) => {
                Err(Problem::internal("an event is no callback and no act"))
            }
        }
    }
}

/// Reads a message by the rules of the topic. One without an id has one that is made of `content`.
pub(super) fn read(value: &Value, content: &str) -> Result<Incoming, Problem> {
    let digest = Sha256::digest(content);
    let digest: String = digest[..16].iter().map(|b| format!("{b:02x}")).collect();
    let message = EventMessage {
        key: None,
        value: Some(value.to_string().as_bytes()),
        headers: &[],
        default_id: &digest,
    }
    .read();
    match message.map_err(|NotAnEvent { code, why }| Problem::new(422, code, why))? {
        Message::Of(incoming) => Ok(incoming),
        Message::Keyed(_) => Err(Problem::internal("it names its order")),
    }
}

/// The record of an order.
pub(super) async fn order<I: Installation>(on: &Local<I>, id: &OrderId) -> Result<Order, Problem> {
    let found = on.store().load(vec![id.clone()]).await.pop();
    let unanswered = || Problem::internal("the store has not answered");
    found.ok_or_else(unanswered)??.ok_or_else(|| {
        let text = format!("there is no order {id}, or it has expired");
        Problem::missing("no-such-order", text)
    })
}

/// Refuses an event that no step of the order can take.
fn can_be_taken(order: &Order, workflow: &Workflow, event: &str) -> Result<(), Problem> {
    if !matches!(
        order.state,
        ProcessState::Pending { .. } | ProcessState::Processing(_)
    ) {
        let text = format!(
            "order {} is {}: no step of it waits any more",
            order.id,
            order.state.name()
        );
        return Err(Problem::new(409, "event-too-late", text));
    }
    if order.is_unread() {
        return Ok(());
    }
    let ahead = order
        .steps
        .iter()
        .zip(&workflow.steps)
        .filter(|(record, _)| {
            let state = &record.state;
            matches!(state, StepState::Waiting)
                || state.parked_until().is_some()
                || state.is_retry_due()
        });
    let awaited: Vec<&str> = ahead
        .filter_map(|(_, step)| match &step.kind {
            StepKind::Await(wait) => Some(&wait.events),
            StepKind::Call(_) | StepKind::Timer(_) | StepKind::Run(_) => None,
        })
        .flatten()
        .map(|awaited| awaited.event.as_str())
        .collect();
    if awaited.contains(&event) {
        return Ok(());
    }
    let text = match awaited.is_empty() {
        true => format!("order {} waits for no event, now or later", order.id),
        false => format!(
            "order {} waits for no event {event:?}, now or later; it waits for {}",
            order.id,
            awaited.join(", ")
        ),
    };
    Err(Problem::new(422, "event-not-awaited", text))
}

/// The decision of this name that the order's first step that is not done waits for, or will; and since when it does.
#[must_use]
pub fn asked_for<'a>(
    order: &Order,
    workflow: &'a Workflow,
    event: &str,
) -> Option<(&'a Decision, Option<Timestamp>)> {
    let mut steps = order.steps.iter().zip(&workflow.steps);
    steps.find_map(|(record, step)| {
        let StepKind::Await(wait) = &step.kind else {
            return None;
        };
        let is_it = wait.events.iter().any(|awaited| awaited.event == event);
        let decision = wait.decision.as_ref();
        let decision = decision.filter(|_| is_it && !record.state.is_done())?;
        Some((decision, record.state.parked_since()))
    })
}

/// Puts a message on the topic `events`.
pub(super) async fn send<I: Installation>(on: &Local<I>, message: Envelope) -> Result<(), Problem> {
    let sent = on.parts().bus.publish(vec![message]).await.pop();
    let unanswered = || Problem::internal("the bus has not answered");
    sent.ok_or_else(unanswered)?.map_err(|e| {
        let text = format!("it could not be sent: {e}");
        Problem::later("bus-unavailable", text, 2)
    })
}
