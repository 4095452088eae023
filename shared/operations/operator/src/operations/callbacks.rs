//! What services say of work that they have taken: that it is finished, or still going on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use triad_core::decide::addressed;
use triad_core::received::Incoming;
use triad_core::{Callback, Envelope, OrderId, ProcessState, Reason, topics};

use super::events::{order, read, send};
use super::local::{Execute, Installation, Local};
use super::{Caller, Operations as _, Problem, plain_form};
use crate::definition;

/// Say that work is finished, or still going on, that a service has taken for a step.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CallBack {
    /// The order's id.
    pub id: String,
    /// The step.
    pub step: String,
    /// The token that the service was given with the call, in the header `triad-callback-token`.
    pub token: String,
    /// The identity of this message. Where it is left out, it is made of the rest, so that a request that is repeated
    /// says one thing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback_id: Option<String>,
    /// The result of the work, at most 8 KiB of JSON; null where it is left out.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
    /// Whether the work is still going on; there is no result then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub heartbeat: bool,
}

/// What a service has said was taken.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CalledBack {
    /// The order.
    #[schemars(with = "String")]
    pub order_id: OrderId,
    /// The step.
    pub step: String,
    /// Whether the step was completed before, so that nothing was sent.
    pub is_repeated: bool,
}

plain_form!(CalledBack: "called-back");

impl Execute for CallBack {
    type Answer = CalledBack;

    async fn execute<I: Installation>(
        self,
        on: &Local<I>,
        caller: &Caller,
    ) -> Result<CalledBack, Problem> {
        on.may_act(caller)?;
        let value = json!({
            "order_id": self.id, "step": self.step, "token": self.token, "id": self.callback_id,
            "data": self.data, "heartbeat": self.heartbeat,
        });
        // A heartbeat comes more than once, and each one counts.
        let now = self.heartbeat.then(|| on.now().0);
        let content = format!("{}\n{}\n{now:?}", self.step, self.data);
        let Incoming::Callback(callback) = read(&value, &content)? else {
            return Err(Problem::internal("a callback is no event"));
        };
        let order = order(on, &callback.order_id).await?;
        let workflow = definition::pinned(on.store(), &order.workflow).await?;
        let runs = matches!(
            order.state,
            ProcessState::Pending { .. } | ProcessState::Processing(_)
        );
        let is_repeated = match addressed(&workflow, &order, &callback) {
            Ok(_) if runs => false,
            Err(Reason::Repeated) => true,
            Err(Reason::WrongToken) => {
                let text = "the token is not that of work which this order asks for";
                return Err(Problem::new(403, "wrong-token", text));
            }
            Ok(_) | Err(_) => {
                let text = format!(
                    "order {} is {}, and step {} is not worked on any more",
                    order.id,
                    order.state.name(),
                    callback.step
                );
                return Err(Problem::new(409, "callback-too-late", text));
            }
        };
        if !is_repeated {
            send(on, message(&callback, value)).await?;
        }
        Ok(CalledBack {
            order_id: callback.order_id,
            step: callback.step,
            is_repeated,
        })
    }
}

/// The callback as a message of the topic `events`.
fn message(callback: &Callback, mut value: Value) -> Envelope {
    value["id"] = callback.id.clone().into();
    Envelope {
        topic: topics::EVENTS.to_owned(),
        key: Some(callback.order_id.as_str().as_bytes().to_vec()),
        value: value.to_string().into_bytes(),
        headers: Vec::new(),
        trace: None,
    }
}
