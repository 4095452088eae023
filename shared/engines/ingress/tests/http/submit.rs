//! One order: accepted, repeated, refused, and read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use triad_core::Priority;
use triad_ingress::Writable;
use triad_runtime::settings::Settings as Handlers;
use triad_runtime::{BusError, StoreError};

use crate::common::{Made, World, order};

#[tokio::test]
async fn a_new_order_is_stored_announced_and_found_under_its_location() {
    let world = World::start().await;
    let said = world.submit("shop-7:1").await;
    assert_eq!(said.status, 201);
    let body = json!({"kind": "submitted", "order_id": "shop-7:1", "result": "accepted"});
    assert_eq!(said.json(), body);
    assert_eq!(world.heard.topics(), ["status", "scheduler"]);
    let found = world.get(said.header("location").unwrap()).await;
    assert_eq!(found.status, 200);
    assert_eq!(found.json()["order_id"], "shop-7:1");
    assert_eq!(found.json()["state"], "Pending");
    assert_eq!(found.header("cache-control"), Some("no-store"));
}

#[tokio::test]
async fn the_same_again_is_200_and_other_content_is_409_without_a_dead_letter() {
    let world = World::start().await;
    assert_eq!(world.submit("7").await.status, 201);
    let again = world.submit("7").await;
    assert_eq!(again.status, 200);
    assert_eq!(again.json()["result"], "again");
    let mut other = order("7");
    other["details"]["n"] = json!(2);
    let said = world.client.post("/v1/orders", &other).await;
    assert_eq!(said.is(), (409, "conflicting-submission".into()));
    // The same order in another lane is another submission.
    let said = world
        .client
        .post("/v1/orders?priority=high", &order("7"))
        .await;
    assert_eq!(said.is(), (409, "conflicting-submission".into()));
    assert_eq!(world.heard.to("dead-letter"), []);
    assert_eq!(world.heard.to("alerts"), []);
}

#[tokio::test]
async fn what_is_invalid_has_the_code_of_its_dead_letter_and_none_is_written() {
    let world = World::start().await;
    let long = "x".repeat(129);
    let cases: [(Value, u16, &str); 16] = [
        (json!([order("1")]), 400, "not-an-order"),
        (json!("text"), 400, "not-an-order"),
        (json!(null), 400, "not-an-order"),
        (json!({"order_id": "1"}), 422, "missing-field"),
        (
            json!({"order_id": "1", "workflow": "w", "x": 1}),
            422,
            "unknown-field",
        ),
        (json!({"order_id": 1, "workflow": "w"}), 422, "wrong-field"),
        (json!({"order_id": "a/b", "workflow": "w"}), 422, "order-id"),
        (json!({"order_id": " a", "workflow": "w"}), 422, "order-id"),
        (json!({"order_id": long, "workflow": "w"}), 422, "order-id"),
        (
            json!({"order_id": "1", "workflow": "none"}),
            422,
            "unknown-workflow",
        ),
        (
            json!({"order_id": "1", "workflow": "strict"}),
            422,
            "details-do-not-fit",
        ),
        (
            json!({"order_id": "1", "workflow": "w", "reply_topic": "reply.x"}),
            422,
            "reply-topic",
        ),
        (
            json!({"order_id": "1", "workflow": "w", "order_timeout": "1ms"}),
            422,
            "order-timeout",
        ),
        (
            json!({"order_id": "1", "workflow": "w", "start_at": "9999-01-01"}),
            422,
            "start-at",
        ),
        (
            json!({"order_id": "1", "workflow": "w", "start_at": "tomorrow"}),
            422,
            "wrong-field",
        ),
        (
            json!({"order_id": "1", "workflow": "w", "details": 1}),
            422,
            "wrong-field",
        ),
    ];
    for (body, status, code) in cases {
        let said = world.client.post("/v1/orders", &body).await;
        assert_eq!(said.is(), (status, code.into()), "{body}");
    }
    for (body, code) in [
        (&b""[..], "not-json"),
        (b"{", "not-json"),
        (b"\"\xff\"", "not-utf8"),
    ] {
        assert_eq!(world.client.post_bytes(body).await.is(), (400, code.into()));
    }
    assert_eq!(world.heard.topics(), [""; 0]);
    assert!(world.stored("1").await.is_none());
}

#[tokio::test]
async fn lane_trace_and_reply_topic_are_those_of_a_topic() {
    let mut made = Made::default();
    made.handlers.reply_topics = ["reply.shop".to_owned()].into();
    let world = World::with(made).await;
    let mut body = order("7");
    body["reply_topic"] = json!("reply.shop");
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let headers = [
        ("content-type", "Application/JSON; charset=utf-8"),
        ("traceparent", trace),
    ];
    let path = "/v1/orders?priority=high";
    let body = body.to_string();
    let said = world.client.send("POST", path, &headers, body.as_bytes());
    assert_eq!(said.await.status, 201);
    assert_eq!(world.heard.topics(), ["reply.shop", "scheduler.high"]);
    let stored = world.stored("7").await.unwrap();
    assert_eq!(stored.priority, Priority::High);
    assert_eq!(stored.traceparent.as_deref(), Some(trace));
}

#[tokio::test]
async fn without_room_it_is_429_at_once_and_nothing_is_stored_or_told() {
    let handlers = Handlers {
        admission: triad_runtime::settings::AdmissionSettings {
            in_flight: Some(1),
            ..Handlers::default().admission
        },
        ..Handlers::default()
    };
    let world = World::with(Made {
        handlers,
        ..Made::default()
    });
    let world = world.await;
    assert_eq!(world.submit("1").await.status, 201);
    let said = world.submit("2").await;
    assert_eq!(said.is(), (429, "no-room".into()));
    assert_eq!(said.header("retry-after"), Some("2"));
    assert!(world.stored("2").await.is_none());
    assert_eq!(world.heard.topics(), ["status", "scheduler"]);
}

#[tokio::test]
async fn a_store_that_fails_is_503_and_the_same_request_is_taken_later() {
    let world = World::start().await;
    world
        .store
        .fail_create(Some(StoreError::Transient("throttled".into())));
    let said = world.submit("7").await;
    assert_eq!(said.is(), (503, "store-unavailable".into()));
    assert_eq!(said.header("retry-after"), Some("1"));
    world
        .store
        .fail_create(Some(StoreError::Item("it is larger than a row".into())));
    assert_eq!(world.submit("7").await.is(), (422, "unstorable".into()));
    assert_eq!(world.heard.topics(), [""; 0]);
    world.store.fail_create(None);
    assert_eq!(world.submit("7").await.status, 201);
    world
        .store
        .fail_load(Some(StoreError::Transient("throttled".into())));
    let said = world.get("/v1/orders/7").await;
    assert_eq!(said.is(), (503, "store-unavailable".into()));
    world
        .store
        .fail_load(Some(StoreError::Item("damaged".into())));
    assert_eq!(
        world.get("/v1/orders/7").await.is(),
        (500, "internal".into())
    );
}

#[tokio::test]
async fn a_bus_that_fails_is_503_and_the_order_is_announced_when_it_comes_again() {
    let world = World::start().await;
    *world.heard.refuses.lock().unwrap() = Some(BusError::Transient("no leader".into()));
    let said = world.submit("7").await;
    assert_eq!(said.is(), (503, "bus-unavailable".into()));
    assert!(world.stored("7").await.is_some());
    *world.heard.refuses.lock().unwrap() = None;
    let said = world.submit("7").await;
    assert_eq!(
        (said.status, &said.json()["result"]),
        (200, &json!("again"))
    );
    assert_eq!(world.heard.topics(), ["status", "scheduler"]);
}

#[tokio::test]
async fn a_panic_is_of_its_own_orders_alone() {
    let world = World::start().await;
    *world.store.panics.lock().unwrap() = true;
    for id in ["1", "2", "3"] {
        assert_eq!(world.submit(id).await.is(), (500, "internal".into()));
    }
    *world.store.panics.lock().unwrap() = false;
    assert_eq!(world.submit("1").await.status, 201);
}

#[tokio::test]
async fn an_order_that_is_not_there_is_404_and_ids_are_decoded_once() {
    let world = World::start().await;
    assert_eq!(
        world.get("/v1/orders/7").await.is(),
        (404, "no-such-order".into())
    );
    assert_eq!(world.submit("a:b").await.status, 201);
    assert_eq!(world.get("/v1/orders/a%3Ab").await.status, 200);
    assert_eq!(world.get("/v1/orders/a%253Ab").await.status, 404);
    let head = world.client.send("HEAD", "/v1/orders/a:b", &[], b"").await;
    assert_eq!((head.status, head.body.len()), (200, 0));
}

#[tokio::test]
async fn what_has_no_path_is_404_and_a_method_that_a_path_lacks_is_405() {
    let world = World::start().await;
    for path in [
        "/",
        "/v1",
        "/v1/orders/",
        "/v1/orders/a/b",
        "/V1/orders",
        "/v2/orders",
    ] {
        assert_eq!(
            world.get(path).await.is(),
            (404, "no-such-path".into()),
            "{path}"
        );
    }
    for (method, path, allow) in [
        ("GET", "/v1/orders", "POST"),
        ("PUT", "/v1/orders", "POST"),
        ("DELETE", "/v1/orders/7", "GET,HEAD"),
        ("POST", "/healthz", "GET,HEAD"),
        ("POST", "/v1/openapi.json", "GET,HEAD"),
        ("OPTIONS", "/readyz", "GET,HEAD"),
    ] {
        let said = world.client.send(method, path, &[], b"").await;
        assert_eq!(said.is(), (405, "method-not-allowed".into()));
        assert_eq!(said.header("allow"), Some(allow));
    }
}

#[tokio::test]
async fn only_json_is_an_order() {
    let world = World::start().await;
    for headers in [
        &[][..],
        &[("content-type", "text/plain")],
        &[("content-type", "application/x-www-form-urlencoded")],
        &[
            ("content-type", "application/json"),
            ("content-encoding", "gzip"),
        ],
    ] {
        let said = world
            .client
            .send("POST", "/v1/orders", headers, b"{}")
            .await;
        assert_eq!(
            said.is(),
            (415, "unsupported-media-type".into()),
            "{headers:?}"
        );
    }
}

#[tokio::test]
async fn it_is_ready_while_the_store_answers() {
    let world = World::start().await;
    world
        .store
        .fail_load(Some(StoreError::Transient("gone".into())));
    assert_eq!(world.get("/healthz").await.status, 200);
    assert_eq!(
        world.get("/readyz").await.is(),
        (503, "store-unavailable".into())
    );
    world.store.fail_load(None);
    assert_eq!(
        world.get("/readyz").await.json(),
        json!({"status": "ready"})
    );
}

/// A data directory that becomes full when the test sets it.
#[derive(Debug, Default)]
struct Full(AtomicBool);

impl Writable for Full {
    fn try_write(&self) -> BoxFuture<'_, Result<(), String>> {
        let is_full = self.0.load(Ordering::Relaxed);
        std::future::ready(match is_full {
            true => Err("no space".to_owned()),
            false => Ok(()),
        })
        .boxed()
    }
}

#[tokio::test]
async fn it_is_ready_only_while_what_an_order_needs_can_be_written() {
    let disk = Arc::new(Full::default());
    let mut made = Made::default();
    made.settings.written = vec![disk.clone()];
    let world = World::with(made).await;
    disk.0.store(true, Ordering::Relaxed);
    let told = world.get("/readyz").await;
    assert_eq!(told.is(), (503, "not-writable".into()));
    disk.0.store(false, Ordering::Relaxed);
    assert_eq!(world.get("/readyz").await.status, 200);
}
