//! Requests with `?wait` are answered when the order ends.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use triad_ingress::OrderEndWaiters;
use triad_runtime::{StateStore as _, Write, Written};

use crate::common::{Made, World, order, until};

#[tokio::test]
async fn who_submits_and_waits_is_answered_with_the_end_when_it_is_written() {
    let world = World::start().await;
    let client = world.client.clone();
    let asked = tokio::spawn(async move { client.post("/v1/orders?wait=60s", &order("7")).await });
    world.waiting(1).await;
    until("it is stored", || world.heard.topics().len() == 2).await;
    world.finish("7").await;
    let said = asked.await.unwrap();
    assert_eq!(said.status, 201);
    assert_eq!(said.json()["result"], "accepted");
    assert_eq!(said.json()["order"]["state"], "Processed");
    world.waiting(0).await;
    // The order has already ended, so the request is answered at once.
    let said = world.client.post("/v1/orders?wait=60s", &order("7")).await;
    assert_eq!(
        (said.status, &said.json()["order"]["state"]),
        (200, &json!("Processed"))
    );
    let said = world.get("/v1/orders/7?wait=60s").await;
    assert_eq!(
        (said.status, &said.json()["state"]),
        (200, &json!("Processed"))
    );
}

#[tokio::test]
async fn many_wait_for_one_order_and_only_its_end_wakes_them() {
    let world = World::start().await;
    world.submit("7").await;
    world.submit("8").await;
    let ask = |id: &'static str| {
        let client = world.client.clone();
        let path = format!("/v1/orders/{id}?wait=60s");
        tokio::spawn(async move { client.send("GET", &path, &[], b"").await })
    };
    let (first, second, other) = (ask("7"), ask("7"), ask("8"));
    world.waiting(3).await;
    let before = world.stored("7").await.unwrap().version;
    let next = world.next("7").await;
    assert_eq!(world.write(next, before).await, Written::Written);
    world.finish("7").await;
    for asked in [first, second] {
        let said = asked.await.unwrap();
        assert_eq!(
            (said.status, &said.json()["state"]),
            (200, &json!("Processed"))
        );
    }
    world.waiting(1).await;
    world.finish("8").await;
    assert_eq!(other.await.unwrap().status, 200);
}

#[tokio::test]
async fn when_the_time_is_up_it_is_202_with_the_order_as_it_is() {
    let world = World::start().await;
    for wait in ["0s", "5ms"] {
        let path = format!("/v1/orders?wait={wait}");
        let said = world.client.post(&path, &order(wait)).await;
        assert_eq!(
            (said.status, &said.json()["order"]["state"]),
            (202, &json!("Pending"))
        );
        assert_eq!(said.json()["result"], "accepted");
        let said = world.get(&format!("/v1/orders/{wait}?wait={wait}")).await;
        assert_eq!(
            (said.status, &said.json()["state"]),
            (202, &json!("Pending"))
        );
    }
    let said = world.get("/v1/orders/none?wait=60s").await;
    assert_eq!(said.status, 404, "nobody waits for what is not there");
}

#[tokio::test]
async fn an_end_that_nobody_tells_is_met_by_a_look() {
    let mut made = Made::default();
    made.settings.limits.look_every = Duration::from_millis(5);
    let world = World::with(made).await;
    world.submit("7").await;
    let client = world.client.clone();
    let asked =
        tokio::spawn(async move { client.send("GET", "/v1/orders/7?wait=60s", &[], b"").await });
    world.waiting(1).await;
    // Another process writes the end.
    let before = world.stored("7").await.unwrap().version;
    let end = world.end_of("7").await;
    let write = Write::silent(before, Arc::new(end), 7);
    assert_eq!(
        world.sqlite.commit(vec![write]).await,
        [Ok(Written::Written)]
    );
    assert_eq!(asked.await.unwrap().status, 200);
}

#[tokio::test]
async fn an_end_that_is_not_written_wakes_nobody() {
    let world = World::start().await;
    world.submit("7").await;
    let client = world.client.clone();
    let path = "/v1/orders/7?wait=60s";
    let asked = tokio::spawn(async move { client.send("GET", path, &[], b"").await });
    world.waiting(1).await;
    let end = world.end_of("7").await;
    let later = end.version;
    assert_eq!(world.write(end, later).await, Written::Conflict);
    // Meanwhile, a request that was woken would have read the store.
    for _ in 0..20 {
        assert_eq!(world.get("/v1/orders/7").await.json()["state"], "Pending");
    }
    assert!(!asked.is_finished(), "the order goes on");
    world.finish("7").await;
    assert_eq!(asked.await.unwrap().status, 200);
}

#[tokio::test]
async fn beyond_the_bound_nobody_waits_and_nothing_is_submitted() {
    let made = Made {
        ends: OrderEndWaiters::new(1),
        ..Made::default()
    };
    let world = World::with(made).await;
    world.submit("7").await;
    let mut waits = world.client.connect().await;
    let request = b"GET /v1/orders/7?wait=60s HTTP/1.1\r\nhost: localhost\r\n\r\n";
    tokio::io::AsyncWriteExt::write_all(&mut waits, request)
        .await
        .unwrap();
    world.waiting(1).await;
    let said = world.client.post("/v1/orders?wait=1s", &order("8")).await;
    assert_eq!(said.is(), (429, "too-many-waiting".into()));
    assert!(world.stored("8").await.is_none());
    assert_eq!(world.get("/v1/orders/7?wait=1s").await.status, 429);
    assert_eq!(
        world.submit("8").await.status,
        201,
        "without waiting there is room"
    );
    // The permit of a client that disconnects is freed.
    drop(waits);
    world.waiting(0).await;
}

#[tokio::test]
async fn a_wait_that_is_none_is_refused_before_anything_is_stored() {
    let world = World::start().await;
    for (query, code) in [
        ("wait=61s", "bad-wait"),
        ("wait=30", "bad-wait"),
        ("wait=1s&wait=1s", "bad-query"),
        ("wiat=1s", "bad-query"),
        ("priority=urgent", "bad-query"),
    ] {
        let said = world
            .client
            .post(&format!("/v1/orders?{query}"), &order("7"))
            .await;
        assert_eq!(said.is(), (400, code.into()), "{query}");
    }
    assert!(world.stored("7").await.is_none());
    let said = world.get("/v1/orders/7?priority=high").await;
    assert_eq!(said.is(), (400, "bad-query".into()));
}
