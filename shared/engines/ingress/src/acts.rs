//! What an application does to its own order: it sends an event, amends it, or cancels it. Each act is a method, a line
//! of [`routes`], its place in the document ([`describe`]), and the types of its request and its answer.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::routing::post;
use http::StatusCode;
use http::request::Parts;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use triad_console::describe::{Description, Operation};
use triad_console::request::{InPath, exact_json, media};
use triad_console::tokens::Role;
use triad_console::{Answer, Body, answer, no_path};
use triad_core::OrderId;
use triad_operator::bulk::ActResult;
use triad_operator::operations::events::EventSent;
use triad_operator::operations::order_acts::{ActDetails, OrderAct};
use triad_operator::operations::{
    ActOnOrders, Asked, Caller, Method, Problem, Reason, Role as OperatorRole, SendEvent,
    SendKeyedEvent, ask,
};
use triad_operator::outcome::Verdict;
use triad_runtime::StateStore;

use crate::forms::OrderPath;
use crate::service::{Service, Shared, answered, named};

/// Largest body of such a request, in bytes, inclusive: 64 KiB.
pub(crate) const MAX_BYTES: usize = 64 * 1024;
/// Longest wait of a request for its turn.
const TURN_WITHIN: Duration = Duration::from_secs(10);
/// What is written beside an act of a client without a token.
const NAMELESS: &str = "an application";
/// What to do about an act that the order refuses.
const SEE_ORDER: &str = "The order goes on; GET /v1/orders/{id} says how far it is.";

/// The codes of problems that only acts have.
pub(crate) const CODES: [&str; 9] = [
    "bad-why",
    "does-not-fit",
    "event-not-awaited",
    "event-too-late",
    "may-not-decide",
    "not-amended",
    "not-an-event",
    "not-cancelled",
    "unknown-key",
];

/// The paths of the acts.
pub(crate) fn routes<S: StateStore>() -> Router<Arc<Service<S>>> {
    macro_rules! act {
        ($method:ident) => {
            post(
                async |State(service): Shared<S>, id: InPath, request: Request| {
                    let (head, body) = request.into_parts();
                    answered(match named(&head, id) {
                        Ok(id) => service.$method(&head, id, body).await,
                        Err(problem) => Err(problem),
                    })
                },
            )
        };
    }
    let by_key = post(async |State(service): Shared<S>, request: Request| {
        let (head, body) = request.into_parts();
        answered(service.keyed_event(&head, body).await)
    });
    Router::new()
        .route("/v1/events", by_key)
        .route("/v1/orders/{id}/events", act!(event))
        .route("/v1/orders/{id}/amend", act!(amend))
        .route("/v1/orders/{id}/cancel", act!(cancel))
}

/// What an answer is about.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
enum Kind {
    Event,
    Amended,
    Cancelled,
}

/// An event for an order.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Event")]
struct EventForm {
    /// The event's name, as the workflow's `await` has it.
    event: String,
    /// The event's id: the same name and id again is the same event. Without it, it is made of the name and the data.
    #[serde(default)]
    id: Option<String>,
    /// What the event brings, at most 8 KiB of JSON.
    #[serde(default)]
    data: Value,
}

/// An event for the order that waits for it under a key.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "KeyedEvent")]
struct KeyedEventForm {
    /// What the workflow's `await` has as `key`: a text of 1 to 128 bytes.
    key: String,
    /// The event's name, as the workflow's `await` has it.
    event: String,
    /// The event's id: the same name and id again is the same event. Without it, it is made of the name and the data.
    #[serde(default)]
    id: Option<String>,
    /// What the event brings, at most 8 KiB of JSON.
    #[serde(default)]
    data: Value,
}

/// The answer for an event that was taken.
#[derive(Debug, Serialize, JsonSchema)]
struct EventTaken<'a> {
    kind: Kind,
    #[serde(flatten)]
    sent: &'a EventSent,
}

/// What changes in the details of an order.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Amend {
    /// A merge patch (RFC 7396) over the details: fields that are null are removed, others replaced, and all others
    /// stay. At most 8 KiB of JSON.
    details: Map<String, Value>,
    /// The reason, for people; it is kept in the order's record.
    why: String,
}

/// The answer for an order whose details are as the amendment says.
#[derive(Debug, Serialize, JsonSchema)]
struct Amended<'a> {
    kind: Kind,
    /// The order's id.
    #[schemars(with = "String")]
    order_id: &'a OrderId,
    /// For people: the order's state, or that its details were so already.
    text: String,
}

/// Why an order is cancelled.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Cancel {
    /// The reason, for people; it is kept in the order's record.
    why: String,
}

/// The answer for an order that is compensated now.
#[derive(Debug, Serialize, JsonSchema)]
struct Cancelled<'a> {
    kind: Kind,
    /// The order's id.
    #[schemars(with = "String")]
    order_id: &'a OrderId,
}

/// Adds the acts to the document.
pub(crate) fn describe(made: &mut Description) {
    let path = made.fields::<OrderPath>();
    let problems = [400, 401, 403, 404, 408, 409, 413, 415, 422, 429, 500, 503];
    let of_order = |act: &str, id: &str, about: &str| {
        let at = format!("/v1/orders/{{id}}/{act}");
        Operation::new(&at, Method::Post, id, about).parameters("path", &path)
    };
    let json = "application/json";
    let (asked, answer) = (
        made.body::<EventForm>(),
        made.answer::<EventTaken<'static>>(),
    );
    let operation = of_order(
        "events",
        "sendEvent",
        "Sends an event to an order: the step that waits for it takes it, or it is kept for a later one. Needs the role \
         `submit`. The same name and id again is the same event, which is sent once.",
    )
    .body(json, &asked)
    .answer(200, "The order has had this event before.", json, &answer)
    .answer(202, "The event is stored, and its order takes it next.", json, &answer);
    made.add(operation, &problems);
    let asked = made.body::<KeyedEventForm>();
    let operation = Operation::new(
        "/v1/events",
        Method::Post,
        "sendKeyedEvent",
        "Sends an event to the order that waits for it under a key, such as a payment id that an earlier step has \
         returned. Needs the role `submit`. If no order does, the answer is 404 `unknown-key`: send it again later.",
    )
    .body(json, &asked)
    .answer(200, "The order has had this event before.", json, &answer)
    .answer(202, "The event is stored, and its order takes it next.", json, &answer);
    // Its path says nothing that could be wrong.
    made.add(operation, &problems[1..]);
    let (asked, answer) = (made.body::<Amend>(), made.answer::<Amended<'static>>());
    let operation = of_order(
        "amend",
        "amend",
        "Replaces details of an order that no step has read yet. Needs the role `submit`. What a step has read stays: the \
         answer is 409 `not-amended` then, and names each part with the steps that have read it; nothing is changed. The \
         same amendment again is 200.",
    )
    .body(json, &asked)
    .answer(200, "Each step that starts from now on reads the details so.", json, &answer);
    made.add(operation, &problems);
    let (asked, answer) = (made.body::<Cancel>(), made.answer::<Cancelled<'static>>());
    let operation = of_order(
        "cancel",
        "cancel",
        "Cancels an order that has not reached its point of no return: what was done is compensated. Needs the role \
         `submit`. Where that is not possible any more, the answer is 409 `not-cancelled` and says why.",
    )
    .body(json, &asked)
    .answer(202, "The order is compensated now.", json, &answer);
    made.add(operation, &problems);
}

impl<S: StateStore> Service<S> {
    /// Sends an event to an order.
    async fn event(&self, head: &Parts, id: OrderId, body: Body) -> Result<Answer, Problem> {
        let caller = self.caller(head)?;
        let EventForm {
            event,
            id: event_id,
            data,
        } = self.json(head, body).await?;
        let request = SendEvent {
            id: id.to_string(),
            event,
            event_id,
            data,
            by: None,
        };
        taken(&self.ask(&caller, request).await?)
    }

    /// Sends an event to the order that waits for it under a key.
    async fn keyed_event(&self, head: &Parts, body: Body) -> Result<Answer, Problem> {
        let caller = self.caller(head)?;
        let form: KeyedEventForm = self.json(head, body).await?;
        let request = SendKeyedEvent {
            key: form.key,
            event: form.event,
            event_id: form.id,
            data: form.data,
            by: None,
        };
        taken(&self.ask(&caller, request).await?)
    }

    /// Replaces details of an order that no step has read.
    async fn amend(&self, head: &Parts, id: OrderId, body: Body) -> Result<Answer, Problem> {
        let caller = self.caller(head)?;
        let Amend { details, why } = self.json(head, body).await?;
        let details = ActDetails {
            amendment: Some(details.into()),
            ..ActDetails::default()
        };
        let act = (OrderAct::Amend, details, why);
        let result = self.act(&caller, &id, act, "not-amended").await?;
        answer::json(
            StatusCode::OK,
            &Amended {
                kind: Kind::Amended,
                order_id: &id,
                text: result.text,
            },
        )
    }

    /// Cancels an order: it is compensated, unless its point of no return may have happened.
    async fn cancel(&self, head: &Parts, id: OrderId, body: Body) -> Result<Answer, Problem> {
        let caller = self.caller(head)?;
        let Cancel { why } = self.json(head, body).await?;
        let act = (OrderAct::Cancel, ActDetails::default(), why);
        self.act(&caller, &id, act, "not-cancelled").await?;
        answer::json(
            StatusCode::ACCEPTED,
            &Cancelled {
                kind: Kind::Cancelled,
                order_id: &id,
            },
        )
    }

    /// Does an act on an order. `refused` is the code of the problem if the order refuses it.
    async fn act(
        &self,
        caller: &Caller,
        id: &OrderId,
        (act, details, why): (OrderAct, ActDetails, String),
        refused: &'static str,
    ) -> Result<ActResult, Problem> {
        let request = ActOnOrders {
            act,
            orders: vec![id.to_string()],
            filter: None,
            limit: None,
            details,
            reason: Reason { why, by: None },
            dry_run: false,
            rate: None,
        };
        if self.load(id).await?.is_none() {
            return Err(no_such_order(id));
        }
        let acted = self.ask(caller, request).await?;
        let result = acted.results.into_iter().next();
        let result = result.ok_or_else(|| Problem::internal("there is no answer"))?;
        match result.result {
            Verdict::Done => Ok(result),
            Verdict::Refused => Err(Problem::new(409, refused, result.text).next(SEE_ORDER)),
            Verdict::Failed => Err(Problem::later("not-now", result.text, 1)),
        }
    }

    /// Who asks. A token needs the role `submit`.
    fn caller(&self, head: &Parts) -> Result<Caller, Problem> {
        let name = self.front.access.check(head, Role::Submit)?;
        Ok(Caller {
            name: Some(name.unwrap_or_else(|| NAMELESS.to_owned())),
            role: OperatorRole::Operate,
        })
    }

    pub(crate) async fn ask<Q: Asked>(
        &self,
        caller: &Caller,
        request: Q,
    ) -> Result<Q::Answer, Problem> {
        let turn = tokio::time::timeout(TURN_WITHIN, self.turns.acquire()).await;
        let busy = || Problem::busy("queue-full", "too many acts on orders wait", 1);
        let _turn = turn.map_err(|_| busy())?.map_err(|_| busy())?;
        let operations = self.operations.as_ref().ok_or_else(no_path)?;
        ask(&**operations, caller, request).await
    }

    async fn json<T: DeserializeOwned>(&self, head: &Parts, body: Body) -> Result<T, Problem> {
        media(&head.headers, &["application/json"])?;
        let within = self.front.limits.body_within;
        let read = self.front.memory.read(body, MAX_BYTES, within).await?;
        exact_json(&read.bytes, 422)
    }
}

/// The answer for an event that was sent.
fn taken(sent: &EventSent) -> Result<Answer, Problem> {
    let status = match sent.is_repeated {
        true => StatusCode::OK,
        false => StatusCode::ACCEPTED,
    };
    let kind = Kind::Event;
    answer::json(status, &EventTaken { kind, sent })
}

pub(crate) fn no_such_order(id: &OrderId) -> Problem {
    let text = format!("there is no order {id}, or it has expired");
    Problem::missing("no-such-order", text)
        .next("Check the id; an order that was never taken can be submitted.")
}
