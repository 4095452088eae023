//! Acts in two calls: a dry run, then exactly the act that was tried.

use std::sync::Arc;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use triad_operator::operations::{GetCampaign, ROUTES, Route};
use triad_runtime::{Clock, Entropy};

use super::bad_arguments;
use crate::dry_runs::Tried;
use crate::request_context::Visit;
use crate::told::{Told, problem, told};

/// What an act can be on, and its request.
const ON: [(&str, &str); 4] = [
    ("orders", "ActOnOrders"),
    ("campaigns", "StartCampaign"),
    ("downstreams", "ActOnDownstreams"),
    ("dead-letters", "ActOnDeadLetters"),
];

/// An act that was tried.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ActArguments {
    /// The id that `dry_run` answered with, five minutes ago at most.
    pub(crate) dry_run: String,
}

fn route(name: &str) -> Result<&'static Route, Value> {
    let found = ROUTES.iter().find(|route| route.name == name);
    found.ok_or_else(|| problem("internal", &format!("there is no request {name}")))
}

/// The schema of a dry run: what the act is on, and the fields of its request. Fields of several requests have the
/// description of the first.
pub(super) fn schema() -> Arc<Map<String, Value>> {
    let inline = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schemas = inline.into_generator();
    let names: Vec<&str> = ON.iter().map(|(on, _)| *on).collect();
    let mut fields = Map::new();
    for (on, request) in ON {
        let Ok(route) = route(request) else { continue };
        let schema = (route.fields)(&mut schemas).to_value();
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            match fields.get_mut(name) {
                None => {
                    fields.insert(name.clone(), schema.clone());
                }
                // What is done depends on what it is on.
                Some(_) if name == "act" => {}
                Some(Value::Object(known)) if name == "filter" => {
                    let text = format!("In place of ids. For {on} by the fields of their list.");
                    known.insert("description".to_owned(), text.into());
                    known.remove("additionalProperties");
                }
                Some(_) => {}
            }
        }
    }
    fields.remove("dry_run");
    fields.insert("act".to_owned(), json!({"type": "string", "description":
        "Orders: resubmit, cancel, retry-compensation, close, pause, resume, resolve, migrate. Campaigns: the same \
         without resolve to start one; stop or resume for one that there is. Downstreams: pause, resume, force-open, \
         force-closed, release. Dead letters: replay, dismiss."}));
    fields.insert("on".to_owned(), json!({"enum": names, "description":
        "What the act is on. Orders: those that are named, or some that fit a filter. Campaigns: all orders that fit \
         a filter, in growing batches that stop where it does not help; or a campaign that there is."}));
    fields.insert(
        "campaign".to_owned(),
        json!({"type": "string", "description": "To stop or to resume a campaign: its id."}),
    );
    let schema = json!({"type": "object", "required": ["on", "act", "why"], "properties": fields});
    Arc::new(schema.as_object().cloned().unwrap_or_default())
}

/// Makes a dry run, and stores it if the act would change something.
pub(super) async fn dry_run<C: Clock, E: Entropy>(
    visit: &Visit<C, E>,
    mut fields: Map<String, Value>,
) -> Told {
    if fields.contains_key("dry_run") {
        return Err(bad_arguments("leave `dry_run` out: this is one"));
    }
    let on = fields.remove("on");
    let on = on.as_ref().and_then(Value::as_str).unwrap_or_default();
    let known = ON.iter().find(|(name, _)| *name == on);
    let (_, request) = known
        .ok_or_else(|| bad_arguments("`on` is orders, campaigns, downstreams or dead-letters"))?;
    let (mut shown, tried) = match fields.remove("campaign") {
        Some(id) if on == "campaigns" => change_campaign(visit, fields, id).await?,
        Some(_) => return Err(bad_arguments("`campaign` goes with campaigns alone")),
        None => {
            let route = route(request)?;
            fields.insert("dry_run".to_owned(), true.into());
            let asked = (route.from_fields)(fields.clone()).map_err(bad_arguments)?;
            let shown = visit
                .execute(asked)
                .await?
                .form()
                .map_err(|e| told(&e.into()))?;
            fields.insert("dry_run".to_owned(), false.into());
            // For a campaign, the number of fitting orders.
            let done = shown["done"].as_u64().or(shown["orders"].as_u64());
            let tried = (done.unwrap_or_default() > 0).then_some((route, fields));
            (shown, tried)
        }
    };
    let Some((route, fields)) = tried else {
        shown["note"] = "This call would change nothing: what it names needs no such act.".into();
        return Ok(shown);
    };
    let mcp = &visit.mcp;
    let id = format!(
        "{:016x}{:016x}",
        mcp.entropy.next_u64(),
        mcp.entropy.next_u64()
    );
    let (caller, now) = (visit.caller.clone(), mcp.clock.now());
    mcp.tried()
        .keep(id.clone(), caller, now, Tried { route, fields });
    shown["dry_run"] = id.into();
    shown["note"] =
        "Nothing was done. To do it, call `act` with this `dry_run` within five minutes.".into();
    Ok(shown)
}

/// What a dry run shows, and the request of the act, if it would change something.
type Shown = (Value, Option<(&'static Route, Map<String, Value>)>);

/// Dry run for stopping or resuming a campaign: shows the campaign; the change is checked only at the act.
async fn change_campaign<C: Clock, E: Entropy>(
    visit: &Visit<C, E>,
    mut fields: Map<String, Value>,
    id: Value,
) -> Result<Shown, Value> {
    let name = match fields.remove("act").as_ref().and_then(Value::as_str) {
        Some("stop") => "StopCampaign",
        Some("resume") => "ResumeCampaign",
        _ => {
            let text = "an existing campaign accepts only stop and resume; to start one leave `campaign` out";
            return Err(problem("bad-act", text));
        }
    };
    let route = route(name)?;
    let asked = GetCampaign {
        id: id.as_str().unwrap_or_default().to_owned(),
    };
    fields.insert("id".to_owned(), id);
    (route.from_fields)(fields.clone()).map_err(bad_arguments)?;
    let shown = visit.execute(asked.into()).await?.form();
    Ok((shown.map_err(|e| told(&e.into()))?, Some((route, fields))))
}

/// Carries out the act of a dry run.
pub(super) async fn act<C: Clock, E: Entropy>(visit: &Visit<C, E>, what: &ActArguments) -> Told {
    let (caller, now) = (&visit.caller, visit.mcp.clock.now());
    let taken = visit.mcp.tried().take(&what.dry_run, caller, now);
    let tried = taken.map_err(|why| problem(why.code(), &why.to_string()))?;
    let asked = (tried.route.from_fields)(tried.fields).map_err(bad_arguments)?;
    let done = visit.execute(asked).await?.form();
    done.map_err(|e| told(&e.into()))
}
