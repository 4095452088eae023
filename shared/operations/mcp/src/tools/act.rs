//! Acts in two calls: a dry run, then exactly the act that was tried.

use serde_json::{Value, json};
use triad_runtime::{Clock, Entropy};

use super::args::{ActArguments, ActTarget, DryRun};
use crate::api_request::{ApiAnswer, Query, in_path, problem};
use crate::dry_runs::Request;
use crate::request_context::Visit;

/// Makes a dry run, and stores it if the act would change something.
pub(super) async fn dry_run<C: Clock, E: Entropy>(visit: &Visit<C, E>, what: &DryRun) -> ApiAnswer {
    let (mut tried, request) = match (what.on, &what.campaign) {
        (ActTarget::Campaigns, Some(id)) => change_campaign(visit, what, id).await?,
        (ActTarget::Campaigns, None) => try_request(visit, what, "/campaigns").await?,
        (ActTarget::Orders, _) => try_request(visit, what, "/acts").await?,
        (ActTarget::Downstreams, _) => try_request(visit, what, "/downstreams/acts").await?,
        (ActTarget::DeadLetters, _) => try_request(visit, what, "/dead-letters/acts").await?,
    };
    let Some(request) = request else {
        tried["note"] = "This call would change nothing: what it names needs no such act.".into();
        return Ok(tried);
    };
    let mcp = &visit.mcp;
    let id = format!(
        "{:016x}{:016x}",
        mcp.entropy.next_u64(),
        mcp.entropy.next_u64()
    );
    let (caller, now) = (visit.asking.caller.clone(), mcp.clock.now());
    mcp.tried().keep(id.clone(), caller, now, request);
    tried["dry_run"] = id.into();
    tried["note"] =
        "Nothing was done. To do it, call `act` with this `dry_run` within five minutes.".into();
    Ok(tried)
}

/// Result of a dry run, and the request of the act, if it would change something.
type Tried = Result<(Value, Option<Request>), Value>;

/// Sends the request with the API's own dry run.
async fn try_request<C: Clock, E: Entropy>(
    visit: &Visit<C, E>,
    what: &DryRun,
    path: &str,
) -> Tried {
    let body = serde_json::to_value(what);
    let body = body.map_err(|e| problem("bad-arguments", &e.to_string()))?;
    let tried = visit.asking.post(path, &with(&body, true)).await?;
    // For a campaign, the number of fitting orders.
    let done = tried["done"].as_u64().or(tried["orders"].as_u64());
    let request = (done.unwrap_or_default() > 0).then(|| Request {
        path: path.to_owned(),
        body: with(&body, false),
    });
    Ok((tried, request))
}

/// Dry run for stopping or resuming a campaign: shows the campaign; the API checks the change only at the act.
async fn change_campaign<C: Clock, E: Entropy>(
    visit: &Visit<C, E>,
    what: &DryRun,
    id: &str,
) -> Tried {
    if !matches!(what.act.as_str(), "stop" | "resume") {
        let text =
            "an existing campaign accepts only stop and resume; to start one leave `campaign` out";
        return Err(problem("bad-act", text));
    }
    let path = format!("/campaigns/{}", in_path(id));
    let tried = visit.asking.get(&path, &Query::default()).await?;
    let mut body = json!({"why": what.why});
    if let Some(by) = &what.by {
        body["by"] = by.as_str().into();
    }
    let path = format!("{path}/{}", what.act);
    Ok((tried, Some(Request { path, body })))
}

/// Carries out the act of a dry run.
pub(super) async fn act<C: Clock, E: Entropy>(
    visit: &Visit<C, E>,
    what: &ActArguments,
) -> ApiAnswer {
    let (caller, now) = (&visit.asking.caller, visit.mcp.clock.now());
    let taken = visit.mcp.tried().take(&what.dry_run, caller, now);
    let request = taken.map_err(|why| problem(why.code(), &why.to_string()))?;
    visit.asking.post(&request.path, &request.body).await
}

fn with(body: &Value, dry_run: bool) -> Value {
    let mut body = body.clone();
    body["dry_run"] = dry_run.into();
    body
}
