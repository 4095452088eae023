//! A person's decision: who sees the form, who may send it, and what is sent.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use triad_console::Settings;
use triad_console::tokens::{NewToken, Role};
use triad_core::{Attempt, StepRecord, StepState, Work};
use triad_runtime::Clock;
use triad_runtime::system::SystemClock;
use triad_workflow::Millis;

use crate::common::{World, cookie, csrf_token, identity, publish_definition, send_form, text};

/// A workflow whose only step waits for a decision of "ann".
fn definition() -> Value {
    json!({"workflow": "credit", "steps": [{"id": "approve", "await": {
        "event": "decided", "within": "10d",
        "decision": {"by": ["ann"], "form": {"required": ["decision"], "properties": {
            "decision": {"enum": ["yes", "no"]}, "limit": {"type": "number", "title": "Credit limit"},
            "urgent": {"type": "boolean"}, "why": {"type": "string"}}}}}}]})
}

/// An order that waits for the decision.
async fn waiting(world: &World, id: &str) {
    let workflow = publish_definition(&world.store, definition()).await;
    let now = SystemClock.now();
    world
        .order(id, |order| {
            order.workflow = identity(&workflow);
            let mut record = StepRecord::new(workflow.steps[0].id.clone());
            record.state = StepState::Acting(Work::Parked {
                attempt: Attempt(1),
                since: now,
                until: now.plus(Millis(10 * 24 * 3_600_000)),
                ends: None,
                events: vec!["decided".to_owned()],
                keys: BTreeMap::new(),
            });
            order.steps = vec![record];
        })
        .await;
}

#[tokio::test]
async fn the_form_is_made_from_the_schema_and_sends_a_decision() {
    let world = World::start().await;
    waiting(&world, "a").await;
    let page = world.get("/console/orders/a").await;
    let (cookie, word, shown) = (cookie(&page), csrf_token(&text(&page)), text(&page));
    for part in [
        "Decide: approve",
        "May decide: ann.",
        "<select name=\"field.decision\" required>",
        "<option>yes</option>",
        "Credit limit",
        "name=\"field.why\"",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let form = [
        ("word", &*word),
        ("event", "decided"),
        ("field.decision", "yes"),
        ("field.limit", "12.50"),
        ("field.urgent", "true"),
        ("field.why", "known for years"),
    ];
    let path = "/console/orders/a/decide";
    // Nobody else may, what is no number is refused, and so is a form without its word.
    for (name, value, says) in [
        ("by", "eve", "eve may not decide; ann may"),
        ("field.limit", "much", "limit"),
        ("field.decision", "perhaps", "decision"),
    ] {
        let mut wrong = form.to_vec();
        wrong.retain(|(field, _)| *field != name);
        wrong.push((name, value));
        if name != "by" {
            wrong.push(("by", "ann"));
        }
        let said = send_form(&world, path, &cookie, &wrong).await;
        assert!(said.status >= 400 && text(&said).contains(says), "{said:?}");
    }
    let unsigned = [
        ("event", "decided"),
        ("field.decision", "yes"),
        ("by", "ann"),
    ];
    assert_eq!(
        send_form(&world, path, &cookie, &unsigned).await.status,
        403
    );
    assert!(world.heard.0.lock().unwrap().is_empty());

    let said = send_form(
        &world,
        path,
        &cookie,
        &[&form[..], &[("by", "ann")]].concat(),
    )
    .await;
    assert_eq!(said.status, 303, "{said:?}");
    assert_eq!(said.header("location"), Some("/console/orders/a"));
    let sent = world.heard.0.lock().unwrap().pop().expect("an event");
    let data: Value = serde_json::from_slice(&sent.value).expect("JSON");
    let expected =
        json!({"decision": "yes", "limit": 12.50, "urgent": true, "why": "known for years"});
    assert_eq!((sent.topic.as_str(), data), ("events", expected));
    let by = sent.headers.iter().find(|(name, _)| name == "ce_by");
    assert_eq!(by.and_then(|(_, by)| by.as_deref()), Some(&b"ann"[..]));
    let found = world.get("/v1/operate/orders?event=decided").await.json();
    assert_eq!(found["orders"].as_array().map(Vec::len), Some(1));
    let found = world.get("/v1/operate/orders?event=paid").await.json();
    assert_eq!(found["orders"].as_array().map(Vec::len), Some(0));
}

#[tokio::test]
async fn who_is_named_decides_with_the_right_to_read_alone() {
    let [ann, eve] = ["ann", "eve"].map(|name| NewToken::make(name, &[Role::Read]).unwrap());
    let lines = format!("{}\n{}\n", ann.line, eve.line);
    let world = World::with(Settings::default(), Some(&lines)).await;
    waiting(&world, "a").await;
    let path = "/v1/operate/orders/a/events";
    let body = json!({"event": "decided", "data": {"decision": "no"}}).to_string();
    let send = async |token: &NewToken| {
        let header = format!("Bearer {}", token.token);
        let headers = [
            ("authorization", header.as_str()),
            ("content-type", "application/json"),
        ];
        let said = world
            .client
            .send("POST", path, &headers, body.as_bytes())
            .await;
        (said.status, said.json())
    };
    let (status, refused) = send(&eve).await;
    assert_eq!((status, &refused["code"]), (403, &json!("role")));
    let (status, sent) = send(&ann).await;
    assert_eq!((status, &sent["event"]), (200, &json!("decided")));
    let other = json!({"event": "other", "data": 1}).to_string();
    let header = format!("Bearer {}", ann.token);
    let headers = [
        ("authorization", &*header),
        ("content-type", "application/json"),
    ];
    let said = world
        .client
        .send("POST", path, &headers, other.as_bytes())
        .await;
    assert_eq!(said.status, 403, "she is named for this decision alone");
}
