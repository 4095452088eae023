//! The control store and the attention index, over the embedded engine's real DynamoDB API, or
//! over the engine at `TRIAD_TEST_DYNAMODB_ENDPOINT`.

use serde_json::json;
use triad_core::Attention;
use triad_core::due::shard_of;
use triad_core::order::{Act, Hold};
use triad_core::{Failure, FailureKind, Order, OrderId, ProcessState, Timestamp, Version};
use triad_dynamodb::DynamoStore;
use triad_runtime::ports::NewOrder;
use triad_runtime::ports::OperatorStore;
use triad_runtime::system::SystemClock;
use triad_runtime::{ControlStore, ControlWrite, StateStore, Write, Written};
use triad_tests::engines::{Store, workflow};

fn write(expected: Option<u64>, token: u64) -> ControlWrite {
    ControlWrite {
        key: "k".into(),
        value: json!({"token": token}),
        expected,
        expires: None,
        token,
    }
}

#[tokio::test]
async fn a_control_record_is_written_on_its_version_alone_and_knows_its_own_write() {
    let engine = Store::of_contract().await;
    let store = engine.store();
    assert_eq!(store.read("k".into(), true).await, Ok(None));
    for (write, result) in [
        (write(None, 1), Written::Written),
        (write(None, 2), Written::Conflict),
        (write(None, 1), Written::Written),
        (write(Some(1), 3), Written::Written),
        (write(Some(1), 4), Written::Conflict),
        (write(Some(1), 3), Written::Written),
        (write(Some(7), 5), Written::Conflict),
    ] {
        let shown = format!("{write:?}");
        assert_eq!(store.write(write).await, Ok(result), "{shown}");
    }
    let found = store.read("k".into(), true).await.unwrap().unwrap();
    assert_eq!((found.version, found.value), (2, json!({"token": 3})));
}

#[tokio::test]
async fn an_expired_control_record_is_none_and_makes_room_though_it_is_still_there() {
    let engine = Store::of_contract().await;
    let store = engine.store();
    let old = ControlWrite {
        expires: Some(Timestamp(1_000_000)),
        ..write(None, 1)
    };
    assert_eq!(store.write(old).await, Ok(Written::Written));
    assert_eq!(store.read("k".into(), true).await, Ok(None));
    assert_eq!(store.write(write(None, 2)).await, Ok(Written::Written));
    let found = store.read("k".into(), false).await.unwrap().unwrap();
    assert_eq!(found.value, json!({"token": 2}));
}

async fn rows(store: &DynamoStore<SystemClock>, kind: Attention, id: &OrderId) -> Vec<String> {
    let page = store.attention(kind, shard_of(id), None).await.unwrap();
    assert_eq!(page.next, None);
    let row = |r: triad_runtime::ports::AttentionRow| {
        format!("{} {} {}", r.order, r.at.0, r.cause.unwrap().fingerprint())
    };
    page.rows.into_iter().map(row).collect()
}

#[tokio::test]
async fn an_order_that_needs_somebody_is_in_the_attention_index_until_it_is_closed() {
    let engine = Store::of_contract().await;
    let store = engine.store();
    let workflow =
        workflow("workflow: w\nsteps: [{id: a, agent: x, action: go, compensation: none}]\n");
    let accepted = json!({"order_id": "1", "workflow": format!("w@{}", workflow.hash),
        "submitted_at": 1, "due": 2, "details": {}});
    let accepted = serde_json::from_value(accepted).unwrap();
    let order = Order::new(&accepted, &workflow, Timestamp(2));
    let id = order.id.clone();
    let new = NewOrder {
        order: order.clone(),
        details: json!({}).into(),
        digest: "d".into(),
    };
    store.create(vec![new]).await.remove(0).unwrap();
    assert_eq!(rows(&store, Attention::Error, &id).await, [""; 0]);
    let now = triad_runtime::Clock::now(&SystemClock);
    let mut stopped = Order {
        version: Version(2),
        state: ProcessState::Error {
            at: now,
            cause: Failure::new(FailureKind::Permanent, "no", ""),
        },
        ..order
    };
    let commit = |next: &Order| Write {
        expected: Version(next.version.0 - 1),
        next: next.clone().into(),
        token: next.version.0,
    };
    let written = store.commit(vec![commit(&stopped)]).await;
    assert_eq!(written, [Ok(Written::Written)]);
    let expected = format!("1 {} permanent/no", now.0);
    assert_eq!(rows(&store, Attention::Error, &id).await, [expected]);
    assert_eq!(rows(&store, Attention::Paused, &id).await, [""; 0]);
    stopped.version = Version(3);
    stopped.closed = Some(Hold {
        at: now,
        act: Act::new("ann", "by hand"),
    });
    let written = store.commit(vec![commit(&stopped)]).await;
    assert_eq!(written, [Ok(Written::Written)]);
    assert_eq!(rows(&store, Attention::Error, &id).await, [""; 0]);
}
