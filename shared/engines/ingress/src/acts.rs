//! What an application does to its own order: it sends an event, or cancels; and what a service says of work that it has
//! taken.

use std::time::Duration;

use http::StatusCode;
use http::request::Parts;
use serde::de::DeserializeOwned;
use serde_json::Value;
use triad_console::request::media;
use triad_console::tokens::Role;
use triad_console::{Answer, Body, answer, no_path};
use triad_core::OrderId;
use triad_core::later::CALLBACK_TOKEN;
use triad_operator::operations::order_acts::{ActDetails, OrderAct};
use triad_operator::operations::{
    ActOnOrders, Asked, CallBack, Caller, Problem, Reason, Role as OperatorRole, SendEvent, ask,
};
use triad_operator::outcome::Verdict;
use triad_runtime::StateStore;

use crate::forms::{
    CallbackQuery, CallbackTaken, Cancel, Cancelled, EventForm, EventTaken, Kind, query,
};
use crate::service::Service;

/// Largest body of such a request, in bytes, inclusive: 64 KiB.
const MAX_BYTES: usize = 64 * 1024;
/// Longest wait of a request for its turn.
const TURN_WITHIN: Duration = Duration::from_secs(10);
/// What is written beside an act of a client without a token.
const NAMELESS: &str = "an application";

impl<S: StateStore> Service<S> {
    /// Sends an event to an order.
    pub(crate) async fn event(
        &self,
        head: &Parts,
        id: OrderId,
        body: Body,
    ) -> Result<Answer, Problem> {
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
        };
        let sent = self.ask(&caller, request).await?;
        let status = match sent.is_repeated {
            true => StatusCode::OK,
            false => StatusCode::ACCEPTED,
        };
        answer::json(
            status,
            &EventTaken {
                kind: Kind::Event,
                sent: &sent,
            },
        )
    }

    /// Takes what a service says of work that it has taken. The token of the call is all that it needs.
    pub(crate) async fn call_back(
        &self,
        head: &Parts,
        (id, step): (OrderId, String),
        heartbeat: bool,
        body: Body,
    ) -> Result<Answer, Problem> {
        let CallbackQuery { token } = query(&head.uri)?;
        let in_header = head.headers.get(CALLBACK_TOKEN);
        let in_header = in_header.and_then(|token| token.to_str().ok());
        let token = token.or(in_header.map(str::to_owned)).ok_or_else(|| {
            let text =
                "the token of the call is missing: send it in `triad-callback-token` or in ?token";
            Problem::new(401, "no-token", text)
        })?;
        let within = self.front.limits.body_within;
        let read = self
            .front
            .strangers_memory
            .read(body, MAX_BYTES, within)
            .await?;
        let data = match read.bytes.is_empty() {
            true => Value::Null,
            false => parse(&read.bytes)?,
        };
        let request = CallBack {
            id: id.to_string(),
            step,
            token,
            callback_id: None,
            data,
            heartbeat,
        };
        let caller = Caller {
            name: None,
            role: OperatorRole::Operate,
        };
        let taken = self.ask(&caller, request).await?;
        let status = match taken.is_repeated {
            true => StatusCode::OK,
            false => StatusCode::ACCEPTED,
        };
        answer::json(
            status,
            &CallbackTaken {
                kind: Kind::CalledBack,
                taken: &taken,
            },
        )
    }

    /// Cancels an order: it is compensated, unless its point of no return may have happened.
    pub(crate) async fn cancel(
        &self,
        head: &Parts,
        id: OrderId,
        body: Body,
    ) -> Result<Answer, Problem> {
        let caller = self.caller(head)?;
        let Cancel { why } = self.json(head, body).await?;
        let request = ActOnOrders {
            act: OrderAct::Cancel,
            orders: vec![id.to_string()],
            filter: None,
            limit: None,
            details: ActDetails::default(),
            reason: Reason { why, by: None },
            dry_run: false,
            rate: None,
        };
        if self.load(&id).await?.is_none() {
            return Err(no_such_order(&id));
        }
        let acted = self.ask(&caller, request).await?;
        let result = acted.results.into_iter().next();
        let result = result.ok_or_else(|| Problem::internal("there is no answer"))?;
        match result.result {
            Verdict::Done => answer::json(
                StatusCode::ACCEPTED,
                &Cancelled {
                    kind: Kind::Cancelled,
                    order_id: &id,
                },
            ),
            Verdict::Refused => Err(Problem::new(409, "not-cancelled", result.text)
                .next("The order goes on; GET /v1/orders/{id} says how far it is.")),
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

    async fn ask<Q: Asked>(&self, caller: &Caller, request: Q) -> Result<Q::Answer, Problem> {
        let turn = tokio::time::timeout(TURN_WITHIN, self.turns.acquire()).await;
        let busy = || Problem::busy("queue-full", "too many events and cancellations wait", 1);
        let _turn = turn.map_err(|_| busy())?.map_err(|_| busy())?;
        let operations = self.operations.as_ref().ok_or_else(no_path)?;
        ask(&**operations, caller, request).await
    }

    async fn json<T: DeserializeOwned>(&self, head: &Parts, body: Body) -> Result<T, Problem> {
        media(&head.headers, &["application/json"])?;
        let within = self.front.limits.body_within;
        let read = self.front.memory.read(body, MAX_BYTES, within).await?;
        parse(&read.bytes)
    }
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(body).map_err(|e| {
        let text = format!("the body is not what it has to be: {e}");
        Problem::new(422, "bad-body", text)
    })
}

pub(crate) fn no_such_order(id: &OrderId) -> Problem {
    let text = format!("there is no order {id}, or it has expired");
    Problem::missing("no-such-order", text)
        .next("Check the id; an order that was never taken can be submitted.")
}
