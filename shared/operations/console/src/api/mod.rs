//! The API: JSON under `/v1/operate`, described by `openapi.json`.

mod alerts;
pub(crate) mod campaigns;
mod letters;
mod orders;
mod parts;

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, Method, Request, StatusCode};
use serde::de::DeserializeOwned;
use triad_core::CampaignId;

use crate::acts;
use crate::answer::{self, Answer};
use crate::caller::{Caller, Keys, Role};
use crate::events;
use crate::installation::Installation;
use crate::params::{Params, order_id, segments};
use crate::problem::Problem;
use crate::shared_state::Desk;

/// Prefix of every path of the API.
pub(crate) const ROOT: &str = "/v1/operate";
/// The OpenAPI document, as it is served.
pub(crate) const OPEN_API: &str = include_str!("../../openapi.json");
/// Methods of a path that only reads.
const READS: &str = "GET, HEAD";

/// Answers a request; a problem becomes an answer.
pub(crate) async fn answer<I: Installation>(
    desk: &Arc<Desk<I>>,
    request: Request<Bytes>,
    keys: &dyn Keys,
) -> Answer {
    let answered = route(desk, request, keys).await;
    answered.unwrap_or_else(|problem| answer::problem(&problem))
}

async fn route<I: Installation>(
    desk: &Arc<Desk<I>>,
    request: Request<Bytes>,
    keys: &dyn Keys,
) -> Result<Answer, Problem> {
    let (head, body) = request.into_parts();
    let path = head.uri.path().strip_prefix(ROOT).unwrap_or_default();
    let path = segments(path)?;
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let allow = methods(&path)?;
    if !allow
        .split(", ")
        .any(|method| method == head.method.as_str())
    {
        return Err(Problem::method(allow));
    }
    if path == ["openapi.json"] {
        return Ok(answer::of(StatusCode::OK, "application/json", OPEN_API));
    }
    let reads = head.method != Method::POST;
    // Another site can have a browser send a form with a cookie, but not with an `Authorization` header.
    let caller = caller(desk, &head.headers, keys, reads)?;
    let _place = desk.enter()?;
    let query = Params::of(head.uri.query().unwrap_or_default().as_bytes())?;
    match reads {
        true => route_read(desk, &path, &query, &head.headers).await,
        false => act(desk, &caller, &path, &head.headers, &body).await,
    }
}

/// The caller of a request. `by_cookie`: whether a browser's session counts.
pub(crate) fn caller<I: Installation>(
    desk: &Desk<I>,
    headers: &HeaderMap,
    keys: &dyn Keys,
    by_cookie: bool,
) -> Result<Caller, Problem> {
    let found = desk
        .sessions
        .caller(headers, keys, &desk.settings, by_cookie, desk.now());
    let caller = found.ok_or_else(unknown)?;
    may_look(&caller)?;
    Ok(caller)
}

/// Refuses a caller whose token is known and has no role here.
fn may_look(caller: &Caller) -> Result<(), Problem> {
    if caller.role < Role::Read {
        let name = caller.name.as_deref().unwrap_or_default();
        let text =
            format!("the token {name} may only submit orders: the role read or operate is needed");
        return Err(Problem::new(StatusCode::FORBIDDEN, "role", text));
    }
    Ok(())
}

/// The methods that a path allows.
fn methods(path: &[&str]) -> Result<&'static str, Problem> {
    match path {
        [
            "openapi.json" | "orders" | "counts" | "causes" | "downstreams" | "workflows"
            | "dead-letters" | "alerts",
        ]
        | ["orders", _]
        | ["workflows", _, _]
        | ["dead-letters", _, _, _] => Ok(READS),
        ["events"] => Ok("GET"),
        ["campaigns"] => Ok("GET, HEAD, POST"),
        ["campaigns", _] | ["campaigns", _, "batches", _] => Ok(READS),
        ["campaigns", _, "stop" | "resume"] => Ok("POST"),
        ["acts"] | ["downstreams" | "dead-letters", "acts"] => Ok("POST"),
        _ => Err(Problem::no_path()),
    }
}

fn unknown() -> Problem {
    let text = "send the header `Authorization: Bearer TOKEN`, with a token that has the role read or operate";
    Problem::new(StatusCode::UNAUTHORIZED, "token", text)
}

async fn route_read<I: Installation>(
    desk: &Arc<Desk<I>>,
    path: &[&str],
    query: &Params,
    headers: &HeaderMap,
) -> Result<Answer, Problem> {
    match path {
        ["orders"] => orders::list(desk, query).await,
        ["orders", id] => orders::get_order(desk, order_id(id)?, query).await,
        ["campaigns"] => campaigns::list(desk, query).await,
        ["campaigns", id] => campaigns::get_campaign(desk, id, query).await,
        ["campaigns", id, _, batch] => campaigns::batch(desk, id, batch, query).await,
        ["counts"] => parts::counts(desk, query).await,
        ["causes"] => parts::causes(desk, query).await,
        ["downstreams"] => parts::downstreams(desk, query).await,
        ["workflows"] => parts::workflows(desk, query).await,
        ["workflows", name, version] => parts::workflow(desk, name, version, query).await,
        ["dead-letters"] => letters::list(desk, query).await,
        ["alerts"] => alerts::list(desk, query).await,
        ["dead-letters", topic, partition, offset] => {
            letters::get_letter(desk, &format!("{topic}/{partition}/{offset}"), query).await
        }
        ["events"] => {
            query.only(&["order", "campaign", "campaigns"])?;
            let order = query.one("order").map(order_id).transpose()?;
            let campaign = query.one("campaign").map(str::parse::<CampaignId>);
            let campaign = campaign.transpose();
            let campaign = campaign.map_err(|e| Problem::bad("bad-campaign-id", e.to_string()))?;
            let of = events::Of {
                order,
                campaign,
                campaigns: query.flag("campaigns"),
            };
            events::listen(desk, of, headers).await
        }
        _ => Err(Problem::no_path()),
    }
}

async fn act<I: Installation>(
    desk: &Arc<Desk<I>>,
    caller: &Caller,
    path: &[&str],
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Answer, Problem> {
    match path {
        ["acts"] => {
            let done = acts::orders::carry_out(desk, caller, read(headers, body)?).await?;
            answer::json(&done.json(&desk.settings.hidden)?)
        }
        ["campaigns"] => {
            let started = acts::campaigns::start(desk, caller, read(headers, body)?).await?;
            answer::json(&started.json(&desk.settings.hidden)?)
        }
        ["campaigns", id, what] => {
            let (which, request) = ((*id, *what == "resume"), read(headers, body)?);
            let changed = acts::campaigns::change(desk, caller, which, request).await?;
            answer::json(&acts::campaigns::json(&changed, &desk.settings.hidden)?)
        }
        ["downstreams", _] => {
            let request: acts::downstreams::Request = read(headers, body)?;
            let dry_run = request.dry_run;
            let results = acts::downstreams::carry_out(desk, caller, request).await?;
            answer::json(&acts::downstreams::json(&results, dry_run))
        }
        ["dead-letters", _] => {
            let done = acts::letters::carry_out(desk, caller, read(headers, body)?).await?;
            answer::json(&done.json()?)
        }
        _ => Err(Problem::no_path()),
    }
}

/// Parses a JSON body. Requires the content type JSON: another site cannot send it without a CORS preflight.
fn read<T: DeserializeOwned>(headers: &HeaderMap, body: &[u8]) -> Result<T, Problem> {
    let told = headers
        .get(CONTENT_TYPE)
        .and_then(|told| told.to_str().ok());
    let told = told
        .and_then(|told| told.split(';').next())
        .unwrap_or_default();
    let is_plain = headers
        .get(CONTENT_ENCODING)
        .is_none_or(|v| v == "identity");
    if !told.trim().eq_ignore_ascii_case("application/json") || !is_plain {
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported-media-type",
            "Content-Type is application/json, without Content-Encoding",
        ));
    }
    serde_json::from_slice(body).map_err(|e| Problem::bad("bad-body", format!("the body: {e}")))
}
