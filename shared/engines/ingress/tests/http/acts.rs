//! What applications do to their orders: events, amendments and cancellations.

use std::time::Duration;

use serde_json::{Value, json};
use triad_core::received::KeptEvent;
use triad_core::topics;
use triad_ingress::{NewToken, Role};
use triad_runtime::system::SystemClock;
use triad_runtime::{
    BusError, Clock, ControlStore, ControlWrite, DefinitionStore, StoreError, Written,
};
use triad_workflow::WorkflowName;

use crate::common::client::{Said, read};
use crate::common::document::check;
use crate::common::{Made, World, order};

/// The paths, each with a body that it takes.
pub fn paths() -> [(&'static str, Value); 3] {
    [
        ("events", json!({"event": "paid", "data": {"sum": 5}})),
        (
            "amend",
            json!({"details": {"to": "Lyon"}, "why": "the customer has moved"}),
        ),
        ("cancel", json!({"why": "the customer changed his mind"})),
    ]
}

/// Each act on an order, as a path with a body that it takes; the order is also known by its id as a key.
pub fn requests(order: &str) -> Vec<(String, Value)> {
    let paths = paths().into_iter();
    let own = paths.map(|(path, body)| (format!("/v1/orders/{order}/{path}"), body));
    let keyed = json!({"key": order, "event": "paid", "data": {"sum": 5}});
    own.chain([("/v1/events".to_owned(), keyed)]).collect()
}

impl World {
    /// Has a key lead to an order, as a Scheduler does when the order begins to wait for the event `paid`.
    async fn register(&self, key: &str, order: &str) {
        let registered = ControlWrite {
            key: format!("awaited/paid/{key}"),
            value: json!({"order": order}),
            expected: None,
            expires: None,
            token: 1,
        };
        let written = self.sqlite.write(registered).await;
        assert_eq!(written, Ok(Written::Written));
    }

    async fn submit_waiting(&self, id: &str) {
        let order = json!({"order_id": id, "workflow": "waits", "details": {}});
        assert_eq!(self.client.post("/v1/orders", &order).await.status, 201);
    }

    async fn act(&self, id: &str, path: &str, body: &Value) -> Said {
        self.client
            .post(&format!("/v1/orders/{id}/{path}"), body)
            .await
    }
}

#[tokio::test]
async fn an_event_goes_to_the_topic_of_events_under_its_order() {
    let world = World::start().await;
    world.submit_waiting("1").await;
    let paid = json!({"event": "paid", "id": "p-1", "data": {"sum": 5}});
    let said = world.act("1", "events", &paid).await;
    assert_eq!(said.status, 202, "{said:?}");
    let answer = json!({"kind": "event", "order_id": "1", "event": "paid", "event_id": "p-1",
        "is_repeated": false});
    assert_eq!(said.json(), answer);
    let sent = world.heard.to(topics::EVENTS);
    let [event] = &sent[..] else {
        panic!("{sent:?}");
    };
    assert_eq!(event.key.as_deref(), Some("1".as_bytes()));
    let value: Value = serde_json::from_slice(&event.value).unwrap();
    assert_eq!(value, json!({"sum": 5}));
}

#[tokio::test]
async fn an_event_without_an_id_has_the_same_one_each_time_it_is_sent() {
    let world = World::start().await;
    world.submit_waiting("1").await;
    let send = async |sum: u32| {
        let event = json!({"event": "paid", "data": {"sum": sum}});
        world.act("1", "events", &event).await.json()["event_id"].clone()
    };
    let first = send(5).await;
    assert!(first.is_string(), "{first}");
    assert_eq!(send(5).await, first);
    assert_ne!(send(6).await, first, "other data is another event");
}

#[tokio::test]
async fn an_event_with_a_key_goes_to_the_order_that_waits_under_it() {
    let world = World::start().await;
    world.submit_waiting("1").await;
    let send = async |key: &str| {
        let paid = json!({"key": key, "event": "paid", "id": "p-1", "data": {"sum": 5}});
        world.client.post("/v1/events", &paid).await
    };
    let unknown = send("pay-7").await;
    assert_eq!(unknown.is(), (404, "unknown-key".to_owned()), "{unknown:?}");
    for key in ["", &"x".repeat(129)] {
        let said = send(key).await;
        assert_eq!(said.is(), (422, "wrong-field".to_owned()), "{said:?}");
    }
    assert!(world.heard.to(topics::EVENTS).is_empty(), "nothing is kept");
    world.register("pay-7", "1").await;
    let said = send("pay-7").await;
    assert_eq!((said.status, &said.json()["order_id"]), (202, &json!("1")));
    let sent = world.heard.to(topics::EVENTS);
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].key.as_deref(), Some("1".as_bytes()));
    let named = json!({"key": "pay-7", "event": "paid", "order_id": "1"});
    let said = world.client.post("/v1/events", &named).await;
    assert_eq!(said.is(), (422, "bad-body".to_owned()));
}

#[tokio::test]
async fn an_event_that_no_step_can_take_is_told_to_its_sender_and_not_sent() {
    let world = World::start().await;
    world.submit_waiting("1").await;
    world.submit_waiting("3").await;
    world.finish("3").await;
    for (id, body, is) in [
        ("none", json!({"event": "paid"}), (404, "no-such-order")),
        ("3", json!({"event": "paid"}), (409, "event-too-late")),
        ("1", json!({"event": "a b"}), (422, "wrong-field")),
        ("1", json!({"event": 5}), (422, "bad-body")),
        ("1", json!({"id": "p-1"}), (422, "bad-body")),
        ("1", json!({"event": "paid", "more": 1}), (422, "bad-body")),
        (
            "1",
            json!({"event": "paid", "data": "x".repeat(9_000)}),
            (422, "too-large"),
        ),
    ] {
        let said = world.act(id, "events", &body).await;
        assert_eq!(said.is(), (is.0, is.1.to_owned()), "{body}: {said:?}");
    }
    assert!(world.heard.to(topics::EVENTS).is_empty());
}

#[tokio::test]
async fn an_application_cancels_its_order() {
    let world = World::start().await;
    world.submit("1").await;
    let why = json!({"why": "the customer changed his mind"});
    let said = world.act("1", "cancel", &why).await;
    assert_eq!(said.status, 202, "{said:?}");
    assert_eq!(said.json(), json!({"kind": "cancelled", "order_id": "1"}));
    let stored = format!("{:?}", world.stored("1").await);
    assert!(
        stored.contains("an application") && stored.contains("the customer changed his mind"),
        "{stored}"
    );
    world.submit("2").await;
    world.finish("2").await;
    let late = world.act("2", "cancel", &why).await;
    assert_eq!(late.is(), (409, "not-cancelled".to_owned()));
    assert!(late.json()["next"].is_string(), "{late:?}");
    let none = world.act("none", "cancel", &why).await;
    assert_eq!(none.is(), (404, "no-such-order".to_owned()));
    let silent = world.act("1", "cancel", &json!({"why": ""})).await;
    assert_eq!(silent.is(), (400, "bad-why".to_owned()));
}

#[tokio::test]
async fn an_application_amends_its_order() {
    let world = World::start().await;
    world.submit("1").await;
    let amend = async |details: Value| {
        let body = json!({"details": details, "why": "the customer has moved"});
        world.act("1", "amend", &body).await
    };
    let said = amend(json!({"to": {"city": "Lyon"}, "n": null})).await;
    assert_eq!(said.status, 200, "{said:?}");
    let answer = json!({"kind": "amended", "order_id": "1", "text": "Pending"});
    assert_eq!(said.json(), answer);
    let stored = world.stored("1").await.unwrap();
    assert_eq!(
        stored.amendment,
        Some(json!({"to": {"city": "Lyon"}, "n": null}))
    );
    let line = stored.incidents.last().unwrap();
    let act = line.act.as_ref().unwrap();
    assert_eq!(act.by, "an application");
    assert_eq!(line.note.as_deref(), Some("details.n, details.to"));
    let again = amend(json!({"to": {"city": "Lyon"}})).await;
    assert_eq!(again.json()["text"], "the details are so already");
    assert_eq!(world.stored("1").await.unwrap().version, stored.version);
    world.finish("1").await;
    let late = amend(json!({"to": {"city": "Nice"}})).await;
    assert_eq!(late.is(), (409, "not-amended".to_owned()));
    assert!(late.json()["next"].is_string(), "{late:?}");
}

#[tokio::test]
async fn what_cannot_be_amended_is_told_with_its_reason() {
    let world = World::start().await;
    let strict = json!({"order_id": "1", "workflow": "strict", "details": {"n": 1}});
    assert_eq!(world.client.post("/v1/orders", &strict).await.status, 201);
    for (body, is, reason) in [
        (
            r#"{"details": {"n": "x"}, "why": "w"}"#,
            (409, "not-amended"),
            "details.n is a string",
        ),
        (
            r#"{"details": {}, "why": "w"}"#,
            (409, "not-amended"),
            "no field",
        ),
        (r#"{"details": [], "why": "w"}"#, (422, "bad-body"), ""),
        (r#"{"details": {"a": 1}}"#, (422, "bad-body"), "why"),
        (r#"{"details": {"a": 1}, "why": ""}"#, (400, "bad-why"), ""),
        (
            r#"{"details": {"a": 12345678901234567890123}, "why": "w"}"#,
            (422, "number-out-of-range"),
            "details.a",
        ),
    ] {
        let json = ("content-type", "application/json");
        let client = &world.client;
        let said = client
            .send("POST", "/v1/orders/1/amend", &[json], body.as_bytes())
            .await;
        assert_eq!(said.is(), (is.0, is.1.to_owned()), "{body}: {said:?}");
        let detail = said.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(reason), "{body}: {detail}");
    }
    let none = json!({"details": {"a": 1}, "why": "w"});
    let said = world.act("none", "amend", &none).await;
    assert_eq!(said.is(), (404, "no-such-order".to_owned()));
    assert_eq!(world.stored("1").await.unwrap().amendment, None);
    // The digits of an event are kept, too.
    world.submit_waiting("2").await;
    let client = &world.client;
    let event = br#"{"event": "paid", "data": 0.12345678901234567891}"#;
    let json = ("content-type", "application/json");
    let said = client
        .send("POST", "/v1/orders/2/events", &[json], event)
        .await;
    assert_eq!(said.is(), (422, "number-out-of-range".to_owned()));
}

#[tokio::test]
async fn the_token_of_an_application_is_enough_and_its_name_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let (shop, desk) = (
        NewToken::make("shop", &[Role::Submit]).unwrap(),
        NewToken::make("desk", &[Role::Read]).unwrap(),
    );
    let mut made = Made::default();
    let file = dir.path().join("tokens");
    std::fs::write(&file, format!("{}\n{}\n", shop.line, desk.line)).unwrap();
    made.settings.tokens = Some(file);
    let world = World::with(made).await;
    let post = async |token: &str, path: &str, body: &Value| {
        let bearer = format!("Bearer {token}");
        let headers = [
            ("content-type", "application/json"),
            ("authorization", bearer.as_str()),
        ];
        let body = body.to_string();
        world
            .client
            .send("POST", path, &headers, body.as_bytes())
            .await
    };
    assert_eq!(
        post(&shop.token, "/v1/orders", &order("1")).await.status,
        201
    );
    for (path, body) in requests("1") {
        let said = post(&desk.token, &path, &body).await;
        assert_eq!(said.is(), (403, "role".to_owned()));
        let said = post("triad_other", &path, &body).await;
        assert_eq!(said.is(), (401, "token".to_owned()));
    }
    let cancelled = post(&shop.token, "/v1/orders/1/cancel", &json!({"why": "w"})).await;
    assert_eq!(cancelled.status, 202, "{cancelled:?}");
    let stored = format!("{:?}", world.stored("1").await);
    assert!(stored.contains("shop"), "{stored}");
}

/// Stores an order with the event of [`paths`], as the Scheduler does once it has read it.
async fn keep_event(world: &World, order: &str) {
    let sent = world.act(order, "events", &paths()[0].1).await;
    let before = world.stored(order).await.unwrap().version;
    let mut next = world.next(order).await;
    next.events.push(KeptEvent {
        event: "paid".into(),
        id: sent.json()["event_id"].as_str().unwrap().to_owned(),
        at: SystemClock.now(),
        step: None,
        by: None,
        data: Some(json!({"sum": 5})),
    });
    world.write(next, before).await;
}

/// Produces the documented answers of both paths, beside those to strangers.
pub async fn every_answer() {
    let mut made = Made::default();
    made.settings.limits.body_within = Duration::from_millis(50);
    let world = World::with(made).await;
    for id in ["1", "2", "3", "lost"] {
        world.submit_waiting(id).await;
        world.register(id, id).await;
    }
    world.finish("2").await;
    let before = world.stored("lost").await.unwrap().version;
    let mut lost = world.next("lost").await;
    lost.workflow.name = WorkflowName::new("gone").unwrap();
    let unreadable = world.sqlite.publish(lost.workflow.clone(), "{}".into());
    unreadable.await.unwrap();
    world.write(lost, before).await;
    keep_event(&world, "3").await;
    assert_eq!(world.act("3", "events", &paths()[0].1).await.status, 200);
    let client = &world.client;
    let (at, body) = requests("3").pop().expect("the one with a key");
    assert_eq!(client.post(&at, &body).await.status, 200);
    let another = json!({"key": "3", "event": "paid", "id": "another"});
    assert_eq!(client.post(&at, &another).await.status, 202);
    for id in ["1", "2", "none", "lost", "%"] {
        for (at, body) in requests(id) {
            client.post(&at, &body).await;
        }
    }
    for (at, _) in requests("1") {
        client.post(&at, &json!({})).await;
        client.post(&at, &json!("x".repeat(70_000))).await;
        client.send("POST", &at, &[], b"{}").await;
        let mut stream = client.connect().await;
        let half = format!(
            "POST {at} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: 100\r\n\r\n{{"
        );
        tokio::io::AsyncWriteExt::write_all(&mut stream, half.as_bytes())
            .await
            .unwrap();
        check("POST", &at, &read(&mut stream).await.unwrap());
    }
    let away = BusError::Transient("x".into());
    *world.heard.refuses.lock().unwrap() = Some(away);
    let said = world.act("3", "events", &json!({"event": "paid"})).await;
    assert_eq!(said.is(), (503, "bus-unavailable".to_owned()));
    let said = client.post("/v1/events", &another).await;
    assert_eq!(said.is(), (503, "bus-unavailable".to_owned()));
    for (at, body) in requests("1") {
        for fault in [
            StoreError::Transient("x".into()),
            StoreError::Item("x".into()),
        ] {
            world.store.fail_load(Some(fault));
            client.post(&at, &body).await;
            world.store.fail_load(None);
        }
    }
    let mut made = Made::default();
    made.settings.limits.body_bytes = 1;
    let crowded = World::with(made).await;
    for (at, _) in requests("1") {
        let large = json!("x".repeat(20_000));
        let said = crowded.client.post(&at, &large).await;
        assert_eq!(said.is(), (429, "queue-full".to_owned()));
    }
}
