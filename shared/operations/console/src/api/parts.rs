//! Counts, causes, downstreams, and versions of workflows.

use serde_json::{Map, Value, json};
use triad_operator::downstreams::{self, Published};
use triad_operator::versions::Uncounted;
use triad_operator::{causes as by_cause, changes, counts as counted, json as form, versions};
use triad_workflow::hash::canonical_json;

use super::orders::unreadable;
use crate::acts::downstreams::unknown;
use crate::answer::{self, Answer};
use crate::installation::Installation;
use crate::params::{FILTER_OF_CAUSES, Params};
use crate::problem::Problem;
use crate::shared_state::Desk;
use crate::versions::definition;

/// Orders counted by state.
pub(super) async fn counts<I: Installation>(
    desk: &Desk<I>,
    query: &Params,
) -> Result<Answer, Problem> {
    query.only(&[])?;
    let (store, now) = (desk.of.store(), desk.now());
    let mut shown = form::line("counts", &counted::counts(store, now).await?)?;
    shown["rates"] = form::of(&counted::rates(store, now).await?)?;
    answer::json(&shown)
}

/// Orders that need an operator, counted by cause.
pub(super) async fn causes<I: Installation>(
    desk: &Desk<I>,
    query: &Params,
) -> Result<Answer, Problem> {
    query.only(&FILTER_OF_CAUSES)?;
    let most = by_cause::MAX_ROWS;
    let found = by_cause::among(
        desk.of.store(),
        &query.filter(&desk.settings.hidden)?,
        desk.now(),
        most,
    )
    .await?;
    let groups: Result<Vec<Value>, _> = found
        .groups
        .iter()
        .map(|group| form::line("cause", group))
        .collect();
    answer::json(&json!({
        "kind": "causes",
        "causes": groups?,
        "others": found.others,
        "sampled": found.more,
        "unreadable": unreadable(&found.skipped),
    }))
}

/// Downstreams, and what waits for them.
pub(super) async fn downstreams<I: Installation>(
    desk: &Desk<I>,
    query: &Params,
) -> Result<Answer, Problem> {
    query.only(&[])?;
    let store = desk.of.store();
    let published = Published::read(store).await.map_err(unknown)?;
    let mut all = Vec::new();
    for agent in published.agents() {
        let view = downstreams::view(store, &agent).await?;
        let mut shown = form::line("downstream", &view)?;
        shown["not_called"] = view.is_not_called().into();
        all.push(shown);
    }
    let waiting = downstreams::waiting(store, desk.now()).await?;
    let waiting: Result<Vec<Value>, _> = waiting
        .iter()
        .map(|one| form::line("waiting", one))
        .collect();
    let deferred = downstreams::deferred(store, &published).await?;
    answer::json(&json!({
        "kind": "downstreams",
        "downstreams": all,
        "waiting": waiting?,
        "deferred": deferred.orders,
        "sampled": deferred.more,
    }))
}

/// The versions of workflows, and how many orders are on each.
pub(super) async fn workflows<I: Installation>(
    desk: &Desk<I>,
    query: &Params,
) -> Result<Answer, Problem> {
    query.only(&[])?;
    let found = versions::versions(desk.of.store(), desk.now(), Uncounted::Leave).await?;
    let all: Result<Vec<Value>, _> = found.iter().map(|one| form::line("version", one)).collect();
    answer::json(&json!({
        "kind": "workflows",
        "versions": all?,
    }))
}

/// One version of a workflow; with `against`, its differences from that version.
pub(super) async fn workflow<I: Installation>(
    desk: &Desk<I>,
    name: &str,
    version: &str,
    query: &Params,
) -> Result<Answer, Problem> {
    query.only(&["against"])?;
    let (named, workflow) = definition(desk, name, version).await?;
    let json = canonical_json(&workflow.definition);
    let content: Map<String, Value> = serde_json::from_str(&json)?;
    let mut shown = json!({
        "kind": "workflow",
        "workflow": named.name,
        "version": named.hash,
        "definition": content,
    });
    if let Some(against) = query.one("against") {
        let (_, before) = definition(desk, name, against).await?;
        shown["changes"] = changes::changes(&before, &workflow).into();
    }
    answer::json(&shown)
}
