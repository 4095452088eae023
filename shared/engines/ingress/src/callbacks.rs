//! What a service says of work that it has taken for a step: that it is finished, or still going on. The token of the
//! call is all that it needs.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::routing::post;
use http::StatusCode;
use http::request::Parts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use triad_console::describe::{Description, Operation};
use triad_console::request::{InPath, exact_json, in_path};
use triad_console::{Answer, Body, answer};
use triad_core::OrderId;
use triad_core::later::CALLBACK_TOKEN;
use triad_operator::operations::callbacks::CalledBack;
use triad_operator::operations::{CallBack, Caller, Method, Problem, Role};
use triad_runtime::StateStore;

use crate::acts::MAX_BYTES;
use crate::forms::query;
use crate::service::{Service, Shared, answered};

/// The codes of problems that only callbacks have.
pub(crate) const CODES: [&str; 4] = [
    "callback-too-late",
    "no-token",
    "not-a-callback",
    "wrong-token",
];

/// The paths of callbacks.
pub(crate) fn routes<S: StateStore>() -> Router<Arc<Service<S>>> {
    macro_rules! said {
        (heartbeat: $is_alive:literal) => {
            post(
                async |State(service): Shared<S>, path: InPath, request: Request| {
                    let (head, body) = request.into_parts();
                    answered(match step(&head, path) {
                        Ok(step) => service.call_back(&head, step, $is_alive, body).await,
                        Err(problem) => Err(problem),
                    })
                },
            )
        };
    }
    Router::new()
        .route("/v1/orders/{id}/steps/{step}", said!(heartbeat: false))
        .route(
            "/v1/orders/{id}/steps/{step}/heartbeat",
            said!(heartbeat: true),
        )
}

/// The fields of the path of a step.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct StepPath {
    /// The order's id, percent-encoded where a path needs it.
    #[schemars(length(min = 1, max = 128))]
    id: String,
    /// The step's id.
    step: String,
}

/// The headers of a callback.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct CallbackHeaders {
    /// The token that the service was given with the call, if it is not in the query.
    #[schemars(rename = "triad-callback-token")]
    token: String,
}

/// The token of a callback, where it is not in the header `triad-callback-token`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CallbackQuery {
    /// The token that the service was given with the call.
    #[serde(default)]
    token: Option<String>,
}

/// What an answer is about.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
enum Kind {
    CalledBack,
}

/// The answer for a callback that was taken.
#[derive(Debug, Serialize, JsonSchema)]
struct CallbackTaken<'a> {
    kind: Kind,
    #[serde(flatten)]
    taken: &'a CalledBack,
}

/// Adds the callbacks to the document.
pub(crate) fn describe(made: &mut Description) {
    let json = "application/json";
    let step = made.fields::<StepPath>();
    let data = made.body::<Value>();
    let taken = made.answer::<CallbackTaken<'static>>();
    for (path, id, about, has_data) in [
        (
            "/v1/orders/{id}/steps/{step}",
            "callBack",
            "A service says that it has finished work that it had taken with 202. It needs no other token than the one of \
             the call. The body is the result, which the step judges.",
            true,
        ),
        (
            "/v1/orders/{id}/steps/{step}/heartbeat",
            "beat",
            "A service says that work which it has taken is still going on.",
            false,
        ),
    ] {
        let operation = Operation::new(path, Method::Post, id, about)
            .open()
            .parameters("path", &step)
            .parameters("query", &made.fields::<CallbackQuery>())
            .parameters("header", &made.fields::<CallbackHeaders>());
        let operation = match has_data {
            true => operation.body(json, &data),
            false => operation,
        };
        let stored = "It is stored, and the order takes it next.";
        let operation = operation
            .answer(200, "The step was completed before.", json, &taken)
            .answer(202, stored, json, &taken);
        let problems = [400, 401, 403, 404, 408, 409, 413, 422, 429, 500, 503];
        made.add(operation, &problems);
    }
}

/// The order and the step that a path names.
fn step(head: &Parts, path: InPath) -> Result<(OrderId, String), Problem> {
    let bad = |why| Problem::bad("bad-order-id", why);
    let fields = in_path(&head.uri, path).map_err(|problem| bad(problem.detail.into_owned()))?;
    let field = |name| fields.iter().find(|(known, _)| *known == name);
    let [id, step] =
        ["id", "step"].map(|name| field(name).map(|(_, text)| text).unwrap_or_default());
    let id = OrderId::new(id).map_err(|e| bad(e.to_string()))?;
    Ok((id, step.to_owned()))
}

impl<S: StateStore> Service<S> {
    async fn call_back(
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
        // Nothing is known of the caller yet.
        let memory = &self.front.strangers_memory;
        let read = memory.read(body, MAX_BYTES, within).await?;
        let data = match read.bytes.is_empty() {
            true => Value::Null,
            false => exact_json(&read.bytes, 422)?,
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
            role: Role::Operate,
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
}
