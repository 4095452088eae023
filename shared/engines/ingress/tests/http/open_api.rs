//! The OpenAPI document agrees with the handlers: the client of all tests checks every answer against it, and the
//! tests here produce every documented answer.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;
use triad_core::submission::SubmissionRefusal;
use triad_ingress::{NewToken, OrderEndWaiters, Role};
use triad_runtime::StoreError;

use crate::common::client::{Client, read};
use crate::common::document::{DOCUMENT, SEEN, check, misfits};
use crate::common::{Made, World, order};
use crate::operators::console::document::is_kept;
use crate::{acts, callbacks};

/// Every documented answer, by path, method and status.
fn documented() -> BTreeSet<(String, String, String)> {
    let mut all = BTreeSet::new();
    for (path, methods) in DOCUMENT["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let statuses = operation["responses"].as_object().unwrap().keys();
            let statuses = statuses.filter(|status| *status != "default");
            all.extend(statuses.map(|s| (path.clone(), method.clone(), s.clone())));
        }
    }
    all
}

/// Requests an order with GET and HEAD.
async fn read_both(client: &Client, path: &str, headers: &[(&str, &str)]) {
    for method in ["GET", "HEAD"] {
        client.send(method, path, headers, b"").await;
    }
}

#[tokio::test]
async fn every_answer_of_the_document_is_given() {
    let mut made = Made {
        ends: OrderEndWaiters::new(1),
        ..Made::default()
    };
    made.settings.limits.body_within = Duration::from_millis(50);
    let world = World::with(made).await;
    let client = &world.client;
    for path in ["/healthz", "/readyz", "/v1/openapi.json"] {
        read_both(client, path, &[]).await;
    }
    for _ in 0..2 {
        world.submit("1").await;
    }
    client.batch("/v1/orders", "{}").await;
    client.post("/v1/orders?wait=0s", &order("1")).await;
    client
        .post("/v1/orders", &json!({"order_id": "1", "workflow": "w"}))
        .await;
    client.post_bytes(b"{").await;
    client.post_bytes(b"{}").await;
    client.post_bytes(&vec![b' '; 300_000]).await;
    client.send("POST", "/v1/orders", &[], b"").await;
    let json = ("content-type", "application/json");
    client
        .send("POST", "/v1/orders", &[json, ("host", "x.example")], b"")
        .await;
    slow(client).await;
    for path in ["1", "1?wait=0s", "2", "%"] {
        read_both(client, &format!("/v1/orders/{path}"), &[]).await;
    }
    read_both(client, "/v1/orders/1", &[("host", "x.example")]).await;
    failing(&world).await;
    crowded(&world).await;
    strangers().await;
    acts::every_answer().await;
    callbacks::every_answer().await;
    let seen = SEEN.lock().unwrap().clone();
    let missing: Vec<_> = documented().difference(&seen).cloned().collect();
    assert!(missing.is_empty(), "never given: {missing:?}");
}

/// Sends a request whose body does not arrive.
async fn slow(client: &Client) {
    let mut stream = client.connect().await;
    let half = b"POST /v1/orders HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
        content-type: application/json\r\ncontent-length: 100\r\n\r\n{";
    tokio::io::AsyncWriteExt::write_all(&mut stream, half)
        .await
        .unwrap();
    let said = read(&mut stream).await.unwrap();
    assert_eq!(said.status, 408);
    check("POST", "/v1/orders", &said);
}

/// Produces the answers of a failing store.
async fn failing(world: &World) {
    for why in [
        StoreError::Transient("x".into()),
        StoreError::Item("x".into()),
    ] {
        world.store.fail_load(Some(why));
        read_both(&world.client, "/v1/orders/1", &[]).await;
    }
    world.store.fail_load(None);
    world
        .store
        .fail_create(Some(StoreError::Transient("x".into())));
    world.submit("3").await;
    world.store.fail_create(None);
    *world.store.panics.lock().unwrap() = true;
    world.submit("3").await;
    *world.store.panics.lock().unwrap() = false;
    // The readiness result is cached for a second, so a second server is used.
    let other = World::start().await;
    other
        .store
        .fail_load(Some(StoreError::Transient("x".into())));
    read_both(&other.client, "/readyz", &[]).await;
}

/// Produces the answers when all permits to wait are taken.
async fn crowded(world: &World) {
    let client = world.client.clone();
    let asked =
        tokio::spawn(async move { client.send("GET", "/v1/orders/1?wait=60s", &[], b"").await });
    world.waiting(1).await;
    read_both(&world.client, "/v1/orders/1?wait=1s", &[]).await;
    world.client.post("/v1/orders?wait=1s", &order("4")).await;
    world.finish("1").await;
    assert_eq!(asked.await.unwrap().status, 200);
    world.client.post("/v1/orders?wait=1s", &order("1")).await;
}

/// Produces the answers to callers without a token, and to those whose token lacks the role.
async fn strangers() {
    let dir = tempfile::tempdir().unwrap();
    let token = NewToken::make("op", &[Role::Operate]).unwrap();
    let mut made = Made::default();
    made.settings.tokens = Some(dir.path().join("tokens"));
    std::fs::write(dir.path().join("tokens"), &token.line).unwrap();
    let world = World::with(made).await;
    world.submit("1").await;
    read_both(&world.client, "/v1/orders/1", &[]).await;
    let bearer = format!("Bearer {}", token.token);
    read_both(&world.client, "/v1/orders/1", &[("authorization", &bearer)]).await;
    for (path, _) in acts::requests("1") {
        for headers in [&[][..], &[("authorization", bearer.as_str())]] {
            world.client.send("POST", &path, headers, b"").await;
        }
    }
}

#[test]
fn the_document_in_the_repository_is_the_one_that_is_made() {
    let place = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
    is_kept(&triad_ingress::document(), place);
}

#[tokio::test]
async fn it_is_served_as_it_is_checked_in() {
    let world = World::start().await;
    let said = world.get("/v1/openapi.json").await;
    assert_eq!(said.json(), *DOCUMENT);
    assert_eq!(said.header("content-type"), Some("application/json"));
}

#[tokio::test]
async fn a_path_has_the_methods_of_the_document_and_no_others() {
    let world = World::start().await;
    for (path, methods) in DOCUMENT["paths"].as_object().unwrap() {
        let asked = path.replace("{id}", "7").replace("{step}", "a");
        for method in [
            "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE",
        ] {
            let said = world.client.send(method, &asked, &[], b"").await;
            let is_known = methods.get(method.to_lowercase()).is_some();
            assert_eq!(said.status != 405, is_known, "{method} {path}");
            let mut allowed = said.header("allow").into_iter().flat_map(|a| a.split(','));
            assert!(is_known || allowed.clone().count() > 0);
            assert!(allowed.all(|a| methods.get(a.to_lowercase()).is_some()));
        }
    }
}

#[test]
fn the_codes_of_refused_orders_are_those_of_the_document() {
    let codes = DOCUMENT["components"]["schemas"]["Code"]["enum"]
        .as_array()
        .unwrap();
    for code in SubmissionRefusal::CODES {
        assert!(codes.contains(&json!(code)), "{code}");
    }
}

#[test]
fn the_schema_of_a_new_order_takes_what_the_handlers_take() {
    let schema = json!({"$ref": "#/components/schemas/NewOrder"});
    let full = json!({"order_id": "a-B_9.~:@=,", "workflow": "w", "details": {}, "reply_topic": "reply.x",
        "order_timeout": "30m"});
    assert_eq!(misfits(&schema, &full), [""; 0]);
    for wrong in [
        json!([]),
        json!({"order_id": "1"}),
        json!({"order_id": " 1", "workflow": "w"}),
        json!({"order_id": "x".repeat(129), "workflow": "w"}),
        json!({"order_id": "1", "workflow": "w", "more": 1}),
        json!({"order_id": "1", "workflow": "w", "details": []}),
    ] {
        assert_ne!(misfits(&schema, &wrong), [""; 0], "{wrong}");
    }
}
