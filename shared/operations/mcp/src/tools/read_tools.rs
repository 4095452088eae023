//! Tools that only read: their requests, and the parts of the answers that they return.

use serde_json::{Map, Value, json};

use super::args::{
    Filter, FindOrders, GetCampaign, GetDeadLetter, GetOrder, GetWorkflow, ListAlerts,
    ListDeadLetters,
};
use crate::api_request::{ApiAnswer, Asking, Query, in_path, problem};

/// Default and most orders or letters of a page. Their short forms fit into the bound of a result, so that pages
/// leave nothing out.
const PAGE: (usize, usize) = (20, 40);
/// Causes that an overview shows.
const CAUSES: usize = 10;
/// Longest text of an order in a list, in characters.
const TEXT: usize = 300;

pub(super) async fn overview(asking: &Asking) -> ApiAnswer {
    let none = Query::default();
    let counts = asking.get("/counts", &none).await?;
    let causes = asking.get("/causes", &none).await?;
    let downstreams = asking.get("/downstreams", &none).await?;
    let all = list(&causes, "causes");
    let shown = &all[..all.len().min(CAUSES)];
    let held = list(&downstreams, "downstreams").iter();
    let held: Vec<&Value> = held.filter(|one| is_held(one)).collect();
    Ok(json!({
        "kind": "overview",
        "needing_an_operator": counts["needing"],
        "under_way": counts["under_way"],
        "orders": counts["orders"],
        "rates": counts["rates"],
        "causes": shown,
        "more_causes": all.len() > shown.len(),
        "causes_sampled": causes["sampled"],
        "unreadable": causes["unreadable"],
        "downstreams": list(&downstreams, "downstreams").len(),
        "downstreams_held": held,
        "waiting": downstreams["waiting"],
        "deferred": downstreams["deferred"],
        "deferred_sampled": downstreams["sampled"],
    }))
}

/// Whether a downstream, or a step of it, is held by its breaker or by an operator.
fn is_held(downstream: &Value) -> bool {
    let record = &downstream["record"];
    record["breaker"]["state"] != "closed"
        || !record["forced"].is_null()
        || !list(record, "paused").is_empty()
}

fn list<'a>(answer: &'a Value, name: &str) -> &'a [Value] {
    answer[name].as_array().map_or(&[], Vec::as_slice)
}

pub(super) async fn causes(asking: &Asking, filter: Filter) -> ApiAnswer {
    let Filter {
        state,
        cause,
        workflow,
        older_than,
        id,
        search,
    } = filter;
    let query = Query::default().with("state", state).with("cause", cause);
    let query = query.with("workflow", workflow);
    let query = query.with("older_than", older_than).with("id", id);
    let query = query.with("search", search);
    asking.get("/causes", &query).await
}

pub(super) async fn orders(asking: &Asking, which: FindOrders) -> ApiAnswer {
    let limit = page(which.limit)?;
    let query = Query::default().with("state", which.state);
    let query = query.with("cause", which.cause);
    let query = query.with("workflow", which.workflow);
    let query = query.with("older_than", which.older_than);
    let query = query.with("search", which.search);
    let query = query.with("id", which.id).with("limit", Some(limit));
    let mut found = asking
        .get("/orders", &query.with("cursor", which.cursor))
        .await?;
    let short: Vec<Value> = list(&found, "orders").iter().map(in_short).collect();
    found["orders"] = short.into();
    Ok(found)
}

/// Parses the page size.
fn page(limit: Option<usize>) -> Result<usize, Value> {
    let limit = limit.unwrap_or(PAGE.0);
    match (1..=PAGE.1).contains(&limit) {
        true => Ok(limit),
        false => {
            let text = format!("limit is a number from 1 to {}", PAGE.1);
            Err(problem("bad-limit", &text))
        }
    }
}

/// The short form of an order, for lists.
fn in_short(order: &Value) -> Value {
    const KEPT: [&str; 9] = [
        "order_id",
        "state",
        "workflow",
        "submitted_at",
        "finished_at",
        "complete_by",
        "cause",
        "attempts",
        "run",
    ];
    let kept = KEPT.into_iter();
    let mut short: Map<String, Value> = kept
        .filter(|name| !order[name].is_null())
        .map(|name| (name.to_owned(), order[name].clone()))
        .collect();
    let message = order["failure"]["message"].as_str();
    short.extend(message.map(|text| ("message".to_owned(), cut(text).into())));
    let next = order["next"][0]["what"].as_str();
    short.extend(next.map(|text| ("next".to_owned(), cut(text).into())));
    for name in ["paused", "closed"] {
        if !order[name].is_null() {
            short.insert(name.to_owned(), true.into());
        }
    }
    short.into()
}

fn cut(text: &str) -> String {
    text.chars().take(TEXT).collect()
}

pub(super) async fn order(asking: &Asking, which: &GetOrder) -> ApiAnswer {
    let query = Query::default().with("inputs", which.inputs.then_some(true));
    let path = format!("/orders/{}", in_path(&which.order_id));
    let mut order = asking.get(&path, &query).await?;
    if let Some(fields) = order.as_object_mut() {
        // The timeline has them as text.
        fields.remove("incidents");
    }
    Ok(order)
}

pub(super) async fn downstreams(asking: &Asking) -> ApiAnswer {
    asking.get("/downstreams", &Query::default()).await
}

pub(super) async fn letters(asking: &Asking, which: ListDeadLetters) -> ApiAnswer {
    let limit = page(which.limit)?;
    let query = Query::default().with("cause", which.cause);
    let query = query.with("topic", which.topic).with("since", which.since);
    let query = query.with("not_replayed", which.not_replayed.then_some(true));
    asking
        .get("/dead-letters", &query.with("limit", Some(limit)))
        .await
}

pub(super) async fn alerts(asking: &Asking, which: ListAlerts) -> ApiAnswer {
    let limit = page(which.limit)?;
    let query = Query::default().with("since", which.since);
    asking
        .get("/alerts", &query.with("limit", Some(limit)))
        .await
}

pub(super) async fn letter(asking: &Asking, which: GetDeadLetter) -> ApiAnswer {
    let parts: Vec<String> = which.id.split('/').map(in_path).collect();
    if parts.len() != 3 {
        let text = "the id of a dead letter is TOPIC/PARTITION/OFFSET";
        return Err(problem("bad-letter-id", text));
    }
    let path = format!("/dead-letters/{}", parts.join("/"));
    let query = Query::default().with("written", which.written);
    asking.get(&path, &query).await
}

pub(super) async fn campaigns(asking: &Asking) -> ApiAnswer {
    asking.get("/campaigns", &Query::default()).await
}

pub(super) async fn campaign(asking: &Asking, which: &GetCampaign) -> ApiAnswer {
    let mut path = format!("/campaigns/{}", in_path(&which.campaign));
    if let Some(batch) = which.batch {
        path = format!("{path}/batches/{batch}");
    }
    asking.get(&path, &Query::default()).await
}

pub(super) async fn workflows(asking: &Asking) -> ApiAnswer {
    asking.get("/workflows", &Query::default()).await
}

pub(super) async fn workflow(asking: &Asking, which: GetWorkflow) -> ApiAnswer {
    let version = which.version.as_deref().unwrap_or("present");
    let path = format!(
        "/workflows/{}/{}",
        in_path(&which.workflow),
        in_path(version)
    );
    let query = Query::default().with("against", which.against);
    asking.get(&path, &query).await
}
