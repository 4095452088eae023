//! The OpenAPI document agrees with the handlers: every test checks each answer against it. The tests here produce
//! every documented answer, except those of a failing store and those of a listener.

use std::collections::BTreeSet;

use serde_json::json;
use triad_console::tokens::{NewToken, Role};

use triad_operator::versions::SAFE_TO_REMOVE_AFTER;
use triad_runtime::{ControlStore, ControlWrite, Written};

use crate::common::client::Client;
use crate::common::document::{DOCUMENT, SEEN, is_kept};
use crate::common::{World, identity, publish, publish_definition};

fn documented() -> BTreeSet<(String, String, String)> {
    let mut all = BTreeSet::new();
    for (path, methods) in DOCUMENT["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            for status in operation["responses"].as_object().unwrap().keys() {
                all.insert((path.clone(), method.clone(), status.clone()));
            }
        }
    }
    all
}

#[test]
fn the_document_in_the_repository_is_the_one_that_is_made() {
    let place = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
    is_kept(&triad_console::document(), place);
}

async fn both(client: &Client, path: &str, headers: &[(&str, &str)]) -> u16 {
    let said = client.send("GET", path, headers, b"").await;
    let head = client.send("HEAD", path, headers, b"").await;
    assert_eq!((said.status, head.body.len()), (head.status, 0), "{path}");
    said.status
}

const LOOKS: [&str; 13] = [
    "/v1/operate/orders",
    "/v1/operate/orders/a",
    "/v1/operate/counts",
    "/v1/operate/causes",
    "/v1/operate/downstreams",
    "/v1/operate/workflows",
    "/v1/operate/workflows/w/present",
    "/v1/operate/dead-letters",
    "/v1/operate/dead-letters/orders/3/1",
    "/v1/operate/alerts",
    "/v1/operate/overview",
    "/v1/operate/audit",
    "/v1/operate/history",
];
const ACTS: [&str; 3] = [
    "/v1/operate/acts",
    "/v1/operate/downstreams/acts",
    "/v1/operate/dead-letters/acts",
];

#[tokio::test]
async fn every_answer_of_the_document_is_given() {
    let world = World::start().await;
    let newer = publish(&world.store, "w", "other").await;
    world.failed("a", "x").await;
    world.letter(1, "{").await;
    let client = world.client.clone();
    assert_eq!(both(&client, "/v1/operate/openapi.json", &[]).await, 200);
    for path in LOOKS {
        assert_eq!(both(&client, path, &[]).await, 200, "{path}");
        let wrong = format!("{path}?wrong=1");
        assert_eq!(both(&client, &wrong, &[]).await, 400, "{path}");
    }
    for path in ["/v1/operate/orders/%", "/v1/operate/orders/a%f"] {
        let said = client.send("GET", path, &[], b"").await;
        assert_eq!(said.is(), (400, "bad-path".into()), "{path}");
    }
    let against = format!(
        "/v1/operate/workflows/w/{}?against={}",
        newer.hash,
        identity(&world.workflow).hash
    );
    let said = world.get(&against).await.json();
    assert_eq!(said["changes"], json!(["changed  step pay: action"]));
    for path in [
        "/v1/operate/orders/none",
        "/v1/operate/workflows/none/present",
        "/v1/operate/dead-letters/orders/3/2",
    ] {
        assert_eq!(both(&client, path, &[]).await, 404, "{path}");
    }
    for (path, good, missing) in [
        (
            ACTS[0],
            json!({"act": "pause", "orders": ["a"], "why": "w", "by": "b"}),
            json!({"act": "migrate", "orders": ["a"], "why": "w", "by": "b", "to_workflow": "none"}),
        ),
        (
            ACTS[1],
            json!({"act": "pause", "downstream": "bank", "why": "w", "by": "b"}),
            json!({"act": "pause", "downstream": "none", "why": "w", "by": "b"}),
        ),
        (
            ACTS[2],
            json!({"act": "dismiss", "letters": ["orders/3/1"], "why": "w", "by": "b"}),
            json!({"act": "replay", "letters": ["orders/3/2"], "why": "w", "by": "b"}),
        ),
    ] {
        assert_eq!(world.act(path, &good).await.status, 200, "{path}");
        assert_eq!(world.act(path, &missing).await.status, 404, "{path}");
        assert_eq!(world.act(path, &json!({})).await.status, 400, "{path}");
        assert_eq!(
            client.send("POST", path, &[], b"{}").await.status,
            415,
            "{path}"
        );
    }
    campaigns(&world).await;
    removal(&world).await;
    sent(&world).await;
    called_back(&world).await;
    events(&world).await;
    strangers().await;
    let seen = SEEN.lock().unwrap().clone();
    let missing: Vec<_> = documented().difference(&seen).cloned().collect();
    // Only a listener refuses a read: a caller who may read may read everything.
    let elsewhere = |(_, method, status): &&(String, String, String)| {
        status == "503" || status == "403" && method != "post"
    };
    let missing: Vec<_> = missing.iter().filter(|all| !elsewhere(all)).collect();
    assert!(missing.is_empty(), "never given: {missing:?}");
}

/// Counts, starts, shows, stops and resumes a campaign. No Supervisor runs in this test.
async fn campaigns(world: &World) {
    let (client, root) = (&world.client, "/v1/operate/campaigns");
    world.failed("c-1", "y").await;
    let wanted = |more: serde_json::Value| {
        let mut body =
            json!({"act": "resubmit", "filter": {"cause": "permanent/y"}, "why": "w", "by": "b"});
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().cloned().unwrap_or_default());
        body
    };
    let counted = world.act(root, &wanted(json!({}))).await.json();
    assert_eq!(
        (&counted["orders"], &counted["more"]),
        (&json!(1), &json!(false))
    );
    let started = world.act(root, &wanted(json!({"dry_run": false}))).await;
    assert_eq!(started.status, 200, "{started:?}");
    let id = started.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(
        world
            .act(root, &wanted(json!({"dry_run": false})))
            .await
            .status,
        409,
        "the same once more"
    );
    for wrong in [
        json!({"filter": {}}),
        json!({"filter": {"state": "Processed"}}),
        json!({"stop_share": 0}),
        json!({"patience": "soon"}),
        json!({"act": "resolve"}),
    ] {
        let said = world.act(root, &wanted(wrong.clone())).await;
        assert_eq!(said.status, 400, "{wrong}");
    }
    let missing = wanted(json!({"act": "migrate", "to_workflow": "none"}));
    assert_eq!(world.act(root, &missing).await.status, 404);
    assert!(world.carry_on().await.acted > 0);
    let (one, batch) = (format!("{root}/{id}"), format!("{root}/{id}/batches/1"));
    let shown = world.get(&one).await.json();
    let acted = world.get(&batch).await.json();
    assert_eq!(shown["orders"]["done"], 1, "{shown} {acted}");
    assert_eq!(acted["orders"][0]["order_id"], "c-1");
    for path in [root, &one, &batch] {
        assert_eq!(both(client, path, &[]).await, 200, "{path}");
        assert_eq!(
            both(client, &format!("{path}?wrong=1"), &[]).await,
            400,
            "{path}"
        );
    }
    for path in [
        format!("{root}/c-0000000000000000"),
        format!("{root}/none"),
        format!("{root}/{id}/batches/9"),
    ] {
        assert_eq!(both(client, &path, &[]).await, 404, "{path}");
    }
    let act = json!({"why": "w", "by": "b"});
    for what in ["stop", "resume"] {
        let path = format!("{one}/{what}");
        assert_eq!(world.act(&path, &act).await.status, 200, "{path}");
        assert_eq!(world.act(&path, &act).await.status, 409, "{path}");
        let none = format!("{root}/c-0000000000000000/{what}");
        assert_eq!(world.act(&none, &act).await.status, 404, "{path}");
    }
    for path in [
        root.to_owned(),
        format!("{one}/stop"),
        format!("{one}/resume"),
    ] {
        assert_eq!(world.act(&path, &json!({})).await.status, 400, "{path}");
        assert_eq!(
            client.send("POST", &path, &[], b"{}").await.status,
            415,
            "{path}"
        );
    }
    let notes = world.get(&one).await.json()["notes"].clone();
    let notes: Vec<_> = notes
        .as_array()
        .unwrap()
        .iter()
        .map(|n| n["what"].clone())
        .collect();
    assert_eq!(notes, ["stopped", "resumed"]);
}

/// Sends an event to an order that waits, to one that waits for another, to one that has ended, and to none.
async fn sent(world: &World) {
    let waits = json!({"workflow": "waits", "steps": [{"id": "b", "await": {"event": "paid", "within": "1h"}}]});
    let waits = publish_definition(&world.store, waits).await;
    world
        .order("e-1", |order| order.workflow = identity(&waits))
        .await;
    let path = |id: &str| format!("/v1/operate/orders/{id}/events");
    for (id, body, status) in [
        ("e-1", json!({"event": "paid"}), 200),
        ("e-1", json!({"event": "other"}), 422),
        ("a", json!({"event": "paid"}), 409),
        ("none", json!({"event": "paid"}), 404),
        ("e-1", json!({}), 400),
    ] {
        let said = world.act(&path(id), &body).await;
        assert_eq!(said.status, status, "{id} {body}: {said:?}");
    }
    let plain = world.client.send("POST", &path("e-1"), &[], b"{}").await;
    assert_eq!(plain.status, 415);
    keyed(world).await;
}

/// Sends the same events under keys, which lead to these orders.
async fn keyed(world: &World) {
    let path = "/v1/operate/keyed-events";
    for (event, key, order) in [
        ("paid", "k-1", "e-1"),
        ("other", "k-1", "e-1"),
        ("paid", "k-2", "a"),
    ] {
        let registered = ControlWrite {
            key: format!("awaited/{event}/{key}"),
            value: json!({"order": order}),
            expected: None,
            expires: None,
            token: 1,
        };
        assert_eq!(world.store.write(registered).await, Ok(Written::Written));
    }
    for (body, status) in [
        (json!({"key": "k-1", "event": "paid"}), 200),
        (json!({"key": "k-1", "event": "other"}), 422),
        (json!({"key": "k-2", "event": "paid"}), 409),
        (json!({"key": "k-3", "event": "paid"}), 404),
        (json!({"event": "paid"}), 400),
    ] {
        let said = world.act(path, &body).await;
        assert_eq!(said.status, status, "{body}: {said:?}");
    }
    let plain = world.client.send("POST", path, &[], b"{}").await;
    assert_eq!(plain.status, 415);
}

/// Calls back about work in progress, with its token and with another one.
async fn called_back(world: &World) {
    let later = json!({"workflow": "later", "steps": [{"id": "b", "agent": "x", "action": "go",
        "compensation": "none", "finishes_later": {"within": "1h"}}]});
    let later = publish_definition(&world.store, later).await;
    let token = triad_core::CallbackSecret([1, 2]).token(&later.steps[0].id);
    world
        .order("l-1", |order| {
            order.workflow = identity(&later);
            order.steps = vec![triad_core::StepRecord {
                state: triad_core::StepState::Acting(triad_core::Work::due(triad_core::Attempt(1))),
                callback: Some(token.clone()),
                ..triad_core::StepRecord::new(later.steps[0].id.clone())
            }];
        })
        .await;
    let path = |id: &str| format!("/v1/operate/orders/{id}/steps/b");
    let own = json!({"token": token.as_str(), "data": {"parcel": 7}});
    for (id, body, status) in [
        ("l-1", &own, 200),
        ("l-1", &json!({"token": "0a"}), 403),
        ("none", &own, 404),
        ("l-1", &json!({}), 400),
    ] {
        let said = world.act(&path(id), body).await;
        assert_eq!(said.status, status, "{id} {body}: {said:?}");
    }
    let plain = world.client.send("POST", &path("l-1"), &[], b"{}").await;
    assert_eq!(plain.status, 415);
}

/// Removes the versions of a workflow that no order needs.
async fn removal(world: &World) {
    let path = "/v1/operate/workflows/prune";
    assert_eq!(world.act(path, &json!({})).await.status, 400);
    let plain = world.client.send("POST", path, &[], b"{}").await;
    assert_eq!(plain.status, 415);
    publish(&world.store, "unused", "go").await;
    publish(&world.store, "unused", "other").await;
    world.clock.by(SAFE_TO_REMOVE_AFTER);
    let gone = async |dry_run: bool| {
        let act = json!({"why": "w", "by": "b", "dry_run": dry_run});
        let pruned = world.act(path, &act).await.json();
        let all = pruned["versions"].as_array().unwrap().iter();
        all.filter(|one| one["removed"] == true && one["workflow"] == "unused")
            .count()
    };
    assert_eq!(
        (gone(true).await, gone(false).await, gone(false).await),
        (1, 1, 0)
    );
}

/// A stream of events ends when the server stops, and not before.
async fn events(world: &World) {
    let path = "/v1/operate/events";
    for wrong in ["order=%2F", "campaign=7"] {
        let path = format!("{path}?{wrong}");
        assert_eq!(both(&world.client, &path, &[]).await, 400, "{wrong}");
    }
    let mut stream = world.client.listen(&format!("{path}?order=a")).await;
    let text = stream.until(Some("event: order")).await;
    assert!(text.contains("event: counts"), "{text}");
    world.client.answers.stop();
    stream.until(None).await;
    // A stream that is opened after the stop ends at once, so its whole answer can be checked.
    assert_eq!(both(&world.client, path, &[]).await, 200);
}

/// Produces the answers to callers who are unknown or may not act.
async fn strangers() {
    let reader = NewToken::make("reader", &[Role::Read]).unwrap();
    let world = World::with(triad_console::Settings::default(), Some(&reader.line)).await;
    let campaign = "/v1/operate/campaigns/c-0000000000000000";
    let further = [
        "/v1/operate/campaigns",
        campaign,
        &format!("{campaign}/batches/1"),
    ];
    for path in LOOKS.into_iter().chain(further) {
        assert_eq!(both(&world.client, path, &[]).await, 401, "{path}");
    }
    assert_eq!(both(&world.client, "/v1/operate/events", &[]).await, 401);
    let bearer = format!("Bearer {}", reader.token);
    let json = ("content-type", "application/json");
    let may_look = [json, ("authorization", bearer.as_str())];
    let why = json!({"why": "w"});
    for (path, body) in [
        (
            ACTS[0],
            json!({"act": "close", "orders": ["a"], "why": "w"}),
        ),
        (
            ACTS[1],
            json!({"act": "pause", "downstream": "bank", "why": "w"}),
        ),
        (
            ACTS[2],
            json!({"act": "dismiss", "letters": ["orders/3/1"], "why": "w"}),
        ),
        (
            "/v1/operate/campaigns",
            json!({"act": "close", "filter": {"state": "Error"}, "why": "w"}),
        ),
        (&format!("{campaign}/stop"), why.clone()),
        (&format!("{campaign}/resume"), why.clone()),
        ("/v1/operate/workflows/prune", why),
        ("/v1/operate/orders/a/events", json!({"event": "paid"})),
        (
            "/v1/operate/keyed-events",
            json!({"key": "k", "event": "paid"}),
        ),
        ("/v1/operate/orders/a/steps/b", json!({"token": "0a"})),
    ] {
        assert_eq!(world.act(path, &json!({})).await.status, 401, "{path}");
        let body = body.to_string();
        let said = world.client.send("POST", path, &may_look, body.as_bytes());
        assert_eq!(said.await.is(), (403, "role".into()), "{path}");
    }
}

#[tokio::test]
async fn a_path_has_the_methods_of_the_document_and_no_others() {
    let world = World::start().await;
    for (path, methods) in DOCUMENT["paths"].as_object().unwrap() {
        if path.ends_with("/events") {
            continue;
        }
        let asked = path.replace("{version}", "present").replace(['{', '}'], "");
        for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
            let said = world.client.send(method, &asked, &[], b"").await;
            let is_known = methods.get(method.to_lowercase()).is_some();
            assert_eq!(said.status != 405, is_known, "{method} {path}");
            assert!(is_known || said.header("allow").is_some());
        }
    }
}
