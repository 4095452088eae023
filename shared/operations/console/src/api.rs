//! The API under `/v1/operate`: a path for each request of operations, events, and the OpenAPI document.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{RawPathParams, RawQuery, Request, State};
use axum::routing::{get, post};
use bytes::Bytes;
use http::header::ACCEPT;
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value};
use triad_operator::operations::{
    Caller, Method, Problem, ROUTES, Request as Operation, Role, Route,
};

use crate::answer::{self, Answer};
use crate::caller::Keys;
use crate::desk::Desk;
use crate::events;
use crate::open_api;
pub(crate) use crate::open_api::ROOT;
use crate::request::{InPath, exact_json, in_path, media};

/// The media type of answers that Triad's own client reads ([`triad_operator::operations::Answer::exact`]).
const EXACT: &str = "application/vnd.triad+json";
/// Most bytes of a query.
const MAX_QUERY_BYTES: usize = 16 * 1024;

/// The callers that the listener lets in; each request carries them.
#[derive(Clone)]
pub(crate) struct LetIn(pub(crate) Arc<dyn Keys>);

/// The paths of the API.
pub(crate) fn router(desk: Arc<Desk>) -> Router {
    let mut paths = Router::new()
        .route("/openapi.json", get(open_api))
        .route("/events", get(listen));
    for route in ROUTES {
        let read =
            move |desk, parameters, query, request| read(route, desk, parameters, query, request);
        let act = move |desk, parameters, request| act(route, desk, parameters, request);
        paths = match route.method {
            Method::Get => paths.route(route.path, get(read)),
            Method::Post => paths.route(route.path, post(act)),
        };
    }
    paths
        .fallback(async || answer::problem(&no_path()))
        .method_not_allowed_fallback(async || answer::problem(&not_allowed()))
        .with_state(desk)
}

/// The path does not exist.
#[must_use]
pub fn no_path() -> Problem {
    Problem::missing("no-such-path", "this path does not exist")
}

/// The path has other methods. A router adds the header `Allow`.
#[must_use]
pub fn not_allowed() -> Problem {
    let text = "this path has other methods: the header Allow names them";
    Problem::new(405, "method-not-allowed", text)
}

async fn open_api() -> Answer {
    answer::of(StatusCode::OK, "application/json", open_api::text())
}

/// The caller of a request. `by_cookie`: whether a browser's session counts.
pub(crate) fn caller(
    desk: &Desk,
    headers: &HeaderMap,
    keys: &dyn Keys,
    by_cookie: bool,
) -> Result<Caller, Problem> {
    let now = desk.operations.now();
    let found = desk
        .sessions
        .caller(headers, keys, &desk.settings, by_cookie, now);
    let Some(caller) = found else {
        let text = "send the header `Authorization: Bearer TOKEN`, with a token that has the role read or operate";
        return Err(Problem::new(401, "token", text));
    };
    if caller.role < Role::Read {
        let name = caller.name.as_deref().unwrap_or_default();
        let text =
            format!("the token {name} may only submit orders: the role read or operate is needed");
        return Err(Problem::forbidden("role", text));
    }
    Ok(caller)
}

fn known(desk: &Desk, head: &Parts, by_cookie: bool) -> Result<Caller, Problem> {
    let keys = head.extensions.get::<LetIn>();
    let keys = keys.ok_or_else(|| Problem::internal("the listener does not say who is let in"))?;
    caller(desk, &head.headers, &*keys.0, by_cookie)
}

async fn read(
    route: &'static Route,
    State(desk): State<Arc<Desk>>,
    parameters: InPath,
    RawQuery(query): RawQuery,
    request: Request,
) -> Answer {
    let (head, _) = request.into_parts();
    let answered = async {
        let caller = known(&desk, &head, true)?;
        let fields = fields(
            &in_path(&head.uri, parameters)?,
            query.as_deref().unwrap_or_default(),
        )?;
        let operation = (route.from_query)(&fields).map_err(|why| wrong_query(route, &why))?;
        answered(&desk, &caller, &head.headers, operation).await
    };
    answered
        .await
        .unwrap_or_else(|problem| answer::problem(&problem))
}

async fn act(
    route: &'static Route,
    State(desk): State<Arc<Desk>>,
    parameters: InPath,
    request: Request,
) -> Answer {
    let (head, body) = request.into_parts();
    let answered = async {
        // Another site can have a browser send a form with a cookie, but not with an `Authorization` header.
        let caller = known(&desk, &head, false)?;
        let mut fields = object(&head.headers, &whole(body).await?)?;
        for (name, value) in &in_path(&head.uri, parameters)? {
            fields.insert(name.to_owned(), value.into());
        }
        let operation = (route.from_fields)(fields);
        let operation =
            operation.map_err(|e| Problem::bad("bad-body", format!("the body: {e}")))?;
        answered(&desk, &caller, &head.headers, operation).await
    };
    answered
        .await
        .unwrap_or_else(|problem| answer::problem(&problem))
}

/// The whole body, which the server has read before.
async fn whole(body: Body) -> Result<Bytes, Problem> {
    let body = axum::body::to_bytes(body, crate::MAX_BODY_BYTES).await;
    body.map_err(|e| Problem::bad("bad-body", format!("the body: {e}")))
}

async fn answered(
    desk: &Desk,
    caller: &Caller,
    headers: &HeaderMap,
    operation: Operation,
) -> Result<Answer, Problem> {
    let made = desk.operations.execute(caller, operation).await?;
    match headers.get(ACCEPT).is_some_and(|media| media == EXACT) {
        true => answer::json(StatusCode::OK, &made.exact()?),
        false => answer::json(StatusCode::OK, &made.form()?),
    }
}

/// The fields of the path and the query, as one query string. Empty values count as not given.
pub(crate) fn fields(parameters: &RawPathParams, query: &str) -> Result<String, Problem> {
    if query.len() > MAX_QUERY_BYTES {
        return Err(Problem::bad("bad-query", "the query is too long"));
    }
    let mut fields = form_urlencoded::Serializer::new(String::new());
    fields.extend_pairs(parameters);
    let said = form_urlencoded::parse(query.as_bytes());
    fields.extend_pairs(said.filter(|(_, value)| !value.trim().is_empty()));
    Ok(fields.finish())
}

fn wrong_query(route: &Route, why: &str) -> Problem {
    let names = route.names();
    let text = match names.is_empty() {
        true => format!("the query: {why}: there are no parameters"),
        false => format!("the query: {why}: there are {}", names.join(", ")),
    };
    Problem::bad("bad-query", text)
}

/// A JSON body.
fn object(headers: &HeaderMap, body: &[u8]) -> Result<Map<String, Value>, Problem> {
    media(headers, &["application/json"])?;
    exact_json(body, 400)
}

async fn listen(
    State(desk): State<Arc<Desk>>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Answer {
    let (head, _) = request.into_parts();
    let answered = async {
        let caller = known(&desk, &head, true)?;
        let of = serde_urlencoded::from_str(query.as_deref().unwrap_or_default());
        let of = of.map_err(|e| {
            let text = format!("the query: {e}: there are order, campaign, campaigns");
            Problem::bad("bad-query", text)
        })?;
        events::listen(&desk, caller, of, &head.headers).await
    };
    answered
        .await
        .unwrap_or_else(|problem| answer::problem(&problem))
}
