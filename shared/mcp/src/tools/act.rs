//! Acting, in two calls: what was tried is what is done.

use serde_json::Value;
use triad_runtime::{Clock, Entropy};

use super::args::{Act, DryRun, On};
use crate::ask::{Told, problem};
use crate::tried::Request;
use crate::visit::Visit;

/// Tries an act, and keeps it if anything would come of it.
pub(super) async fn dry_run<C: Clock, E: Entropy>(visit: &Visit<C, E>, what: &DryRun) -> Told {
    let path = match what.on {
        On::Orders => "/acts",
        On::Downstreams => "/downstreams/acts",
        On::DeadLetters => "/dead-letters/acts",
    };
    let body = serde_json::to_value(what);
    let body = body.map_err(|e| problem("bad-arguments", &e.to_string()))?;
    let mut tried = visit.asking.post(path, &with(&body, true)).await?;
    if tried["done"].as_u64().unwrap_or_default() == 0 {
        tried["note"] = "Nothing would be done, so there is nothing to do.".into();
        return Ok(tried);
    }
    let mcp = &visit.mcp;
    let id = format!(
        "{:016x}{:016x}",
        mcp.entropy.next_u64(),
        mcp.entropy.next_u64()
    );
    let request = Request { path, body };
    let (caller, now) = (visit.asking.caller.clone(), mcp.clock.now());
    mcp.tried().keep(id.clone(), caller, now, request);
    tried["dry_run"] = id.into();
    tried["note"] =
        "Nothing was done. To do it, call `act` with this `dry_run` within five minutes.".into();
    Ok(tried)
}

/// Does what was tried.
pub(super) async fn act<C: Clock, E: Entropy>(visit: &Visit<C, E>, what: &Act) -> Told {
    let (caller, now) = (&visit.asking.caller, visit.mcp.clock.now());
    let taken = visit.mcp.tried().take(&what.dry_run, caller, now);
    let request = taken.map_err(|why| problem(why.code(), &why.to_string()))?;
    visit
        .asking
        .post(request.path, &with(&request.body, false))
        .await
}

fn with(body: &Value, dry_run: bool) -> Value {
    let mut body = body.clone();
    body["dry_run"] = dry_run.into();
    body
}
