//! What services say of work that they have taken: results, heartbeats, and what is wrong with them.

use std::time::Duration;

use serde_json::{Value, json};
use triad_core::{Attempt, CallbackSecret, StepState, Timestamp, topics};
use triad_runtime::{BusError, DefinitionStore as _, StoreError};
use triad_workflow::{StepId, WorkflowName};

use crate::common::client::{Said, read};
use crate::common::document::check;
use crate::common::{Made, World};

/// The token of the step `a` of each order.
fn token() -> String {
    let step = StepId::new("a").unwrap();
    let token = CallbackSecret([1, 2]).token(&step);
    token.as_str().to_owned()
}

/// The path of the step `a` of an order, with a token.
fn path(id: &str, token: &str) -> String {
    format!("/v1/orders/{id}/steps/a?token={token}")
}

/// The same for a heartbeat.
fn beat(id: &str, token: &str) -> String {
    format!("/v1/orders/{id}/steps/a/heartbeat?token={token}")
}

impl World {
    /// Submits an order of which the service of `a` may call back.
    async fn submit_later(&self, id: &str) {
        let order = json!({"order_id": id, "workflow": "later", "details": {}});
        assert_eq!(self.client.post("/v1/orders", &order).await.status, 201);
        let before = self.stored(id).await.unwrap().version;
        let mut next = self.next(id).await;
        let step = &mut next.steps[0];
        step.callback = Some(CallbackSecret([1, 2]).token(&step.step));
        step.state = StepState::Acting(triad_core::Work::due(Attempt(1)));
        self.write(next, before).await;
    }

    async fn say(&self, path: &str, body: &[u8]) -> Said {
        self.client.send("POST", path, &[], body).await
    }
}

#[tokio::test]
async fn a_callback_goes_to_the_topic_of_events_with_its_token_and_needs_no_other() {
    let world = World::start().await;
    world.submit_later("1").await;
    let said = world.say(&path("1", &token()), br#"{"parcel": 7}"#).await;
    assert_eq!(said.status, 202, "{said:?}");
    let answer = json!({"kind": "called-back", "order_id": "1", "step": "a", "is_repeated": false});
    assert_eq!(said.json(), answer);
    let headers = [("triad-callback-token", &*token())];
    let at = "/v1/orders/1/steps/a/heartbeat";
    let said = world.client.send("POST", at, &headers, b"").await;
    assert_eq!(said.status, 202, "{said:?}");
    let sent = world.heard.to(topics::EVENTS);
    let sent: Vec<Value> = sent
        .iter()
        .map(|sent| serde_json::from_slice(&sent.value).unwrap())
        .collect();
    assert_eq!(sent[0]["data"], json!({"parcel": 7}), "{sent:?}");
    assert_eq!(
        (&sent[1]["heartbeat"], &sent[1]["data"]),
        (&json!(true), &Value::Null)
    );
    for one in &sent {
        assert_eq!(
            (&one["step"], &one["token"]),
            (&json!("a"), &json!(token()))
        );
    }
    assert_ne!(sent[0]["id"], sent[1]["id"]);
    let shown = world.client.send("GET", "/v1/orders/1", &[], b"").await;
    assert!(
        !String::from_utf8_lossy(&shown.body).contains(&token()),
        "{shown:?}"
    );
}

/// Produces the documented answers of both paths.
pub async fn every_answer() {
    let mut made = Made::default();
    made.settings.limits.body_within = Duration::from_millis(50);
    let world = World::with(made).await;
    for id in ["1", "2", "3", "lost"] {
        world.submit_later(id).await;
    }
    world.finish("2").await;
    let done = |finished: &mut triad_core::Order| {
        finished.steps[0].state = StepState::Completed {
            attempt: Attempt(1),
            started: Some(Timestamp(1)),
            finished: Timestamp(2),
            position: 0,
            output: Value::Null.into(),
        };
    };
    let before = world.stored("3").await.unwrap().version;
    let mut next = world.next("3").await;
    done(&mut next);
    world.write(next, before).await;
    let before = world.stored("lost").await.unwrap().version;
    let mut lost = world.next("lost").await;
    lost.workflow.name = WorkflowName::new("gone").unwrap();
    let unreadable = world.sqlite.publish(lost.workflow.clone(), "{}".into());
    unreadable.await.unwrap();
    world.write(lost, before).await;
    let own = token();
    let paths: [fn(&str, &str) -> String; 2] = [path, beat];
    for path in paths {
        for (id, token, status) in [
            ("1", &*own, 202),
            ("3", &own, 200),
            ("2", &own, 409),
            ("none", &own, 404),
            ("lost", &own, 500),
            ("1", "0a", 403),
            ("%", &own, 400),
        ] {
            let said = world.say(&path(id, token), b"").await;
            assert_eq!(said.status, status, "{id} {token}: {said:?}");
        }
        let bare = path("1", "").replace("?token=", "");
        assert_eq!(world.say(&bare, b"").await.status, 401);
        let large = vec![b' '; 70_000];
        assert_eq!(world.say(&path("1", &own), &large).await.status, 413);
        assert_eq!(world.say(&path("1", &own), b"{").await.status, 422);
        let mut stream = world.client.connect().await;
        let at = path("1", &own);
        let half = head(&at, 100);
        tokio::io::AsyncWriteExt::write_all(&mut stream, half.as_bytes())
            .await
            .unwrap();
        check("POST", &at, &read(&mut stream).await.unwrap());
        world
            .store
            .fail_load(Some(StoreError::Transient("x".into())));
    }
    world.store.fail_load(None);
    *world.heard.refuses.lock().unwrap() = Some(BusError::Transient("x".into()));
    for path in paths {
        let said = world.say(&path("1", &own), b"").await;
        assert_eq!(said.is(), (503, "bus-unavailable".to_owned()));
    }
    crowded().await;
}

fn head(path: &str, bytes: usize) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {bytes}\r\n\r\n{{"
    )
}

/// Bodies of unknown callers have little room, so that they take none from orders.
async fn crowded() {
    let world = World::start().await;
    let mut open = Vec::new();
    for _ in 0..16 {
        let mut stream = world.client.connect().await;
        // All of a body but its last byte.
        let most = head(&path("1", "0a"), 64 * 1024) + &" ".repeat(64 * 1024 - 2);
        tokio::io::AsyncWriteExt::write_all(&mut stream, most.as_bytes())
            .await
            .unwrap();
        open.push(stream);
    }
    for at in [path("1", "0a"), beat("1", "0a")] {
        let said = refused(&world, &at).await;
        assert_eq!(said.is(), (429, "queue-full".to_owned()), "{at}");
    }
    world.submit("1").await;
}

/// The answer to a further body, once the others have been read.
async fn refused(world: &World, path: &str) -> Said {
    let mut last = None;
    for _ in 0..400 {
        let said = world.say(path, &[b' '; 100]).await;
        if said.status == 429 {
            return said;
        }
        last = Some(said);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it is never refused: {last:?}");
}
