//! Operators' commands keep finished records for the installation's retention.

use serde_json::{Value, json};
use triad_core::outbox::Writer;
use triad_core::{Failure, FailureKind, Order, OrderId, ProcessState, Timestamp};
use triad_reference_service::Faults;
use triad_runtime::system::SystemClock;
use triad_runtime::{Clock, Created, NewOrder, StateStore, StoreError, Write, Written};
use triad_tests::cli::{Ran, triad};
use triad_tests::clock::ManualClock;
use triad_tests::engines::{Engines, Store, workflow};
use triad_workflow::Millis;

const YAML: &str = "workflow: w\nsteps: [{id: a, agent: x, action: go, compensation: none}]";
const DAY_MS: u64 = 24 * 3_600_000;

/// Stores an order that has just ended in Error.
async fn stopped(engines: &Engines, id: &str) {
    let workflow = workflow(YAML);
    let accepted = json!({"order_id": id, "workflow": format!("w@{}", workflow.hash),
        "submitted_at": 1, "due": 2, "details": {}});
    let accepted = serde_json::from_value(accepted).unwrap();
    let first = Order::new(&accepted, &workflow, Timestamp(2));
    let new = NewOrder {
        order: first.clone(),
        details: json!({}).into(),
        digest: "d".into(),
        messages: Vec::new(),
    };
    let store = engines.store.store();
    assert_eq!(store.create(vec![new]).await, [Ok(Created::Created)]);
    let next = Order {
        version: first.version.next(),
        state: ProcessState::Error {
            at: SystemClock.now(),
            cause: Failure::new(FailureKind::Permanent, "no", ""),
        },
        due: None,
        ..first.clone()
    };
    let write = Write::silent(first.version, next.into(), 1);
    assert_eq!(store.commit(vec![write]).await, [Ok(Written::Written)]);
}

async fn close(engines: &Engines, id: &str, retention: &str) -> Ran {
    let (brokers, url) = (engines.brokers(), engines.store.url());
    let variables = [
        ("TRIAD_BROKERS", &brokers[..]),
        ("TRIAD_DYNAMODB_ENDPOINT", &url),
        ("TRIAD_RETENTION", retention),
    ];
    let close = ["close", id, "--by", "ann", "--why", "by hand"];
    triad(&close, &variables, b"").await
}

/// Whether an order's record still exists this many days from now.
async fn is_there_in(engines: &Engines, id: &str, days: u64) -> bool {
    let then = SystemClock.now().0 + days * DAY_MS;
    let store = engines.store.store_at(ManualClock::at(then));
    let mut found = store.load(vec![OrderId::new(id).unwrap()]).await;
    found.remove(0).unwrap().is_some()
}

#[tokio::test]
async fn an_order_that_is_closed_is_kept_for_the_installation_s_retention() {
    let engines = Engines::start(YAML, Faults::default()).await;
    for (id, retention, days) in [("long", "90days", 90), ("usual", "", 30)] {
        stopped(&engines, id).await;
        assert!(is_there_in(&engines, id, 9_999).await, "until it is closed");
        let _ = close(&engines, id, retention).await.good();
        assert!(is_there_in(&engines, id, days - 1).await, "{id}");
        assert!(!is_there_in(&engines, id, days + 1).await, "{id}");
    }
    let wrong = close(&engines, "long", "soon").await.ended(2);
    assert!(wrong.err.contains("TRIAD_RETENTION"), "{wrong:?}");
}

/// The next version of an order in this state, with all messages acknowledged.
fn next(order: &Order, state: ProcessState, writer: Writer) -> Order {
    let mut next = Order {
        version: order.version.next(),
        state,
        ..order.clone()
    };
    next.outbox.writer = writer;
    if next.state.is_finished() {
        next.due = None;
    }
    next
}

fn write(before: &Order, next: &Order) -> Write {
    Write::silent(before.version, next.clone().into(), next.version.0)
}

#[tokio::test]
async fn details_expire_with_their_own_retention_and_are_kept_again_when_the_order_goes_on() {
    let table = Store::start().await;
    let keeping = Millis(60 * DAY_MS);
    let store = table.store().keeping_details(Some(keeping));
    let workflow = workflow(YAML);
    let accepted = json!({"order_id": "1", "workflow": format!("w@{}", workflow.hash),
        "submitted_at": 1, "due": 2, "details": {}});
    let accepted = serde_json::from_value(accepted).unwrap();
    let first = Order::new(&accepted, &workflow, Timestamp(2));
    let new = NewOrder {
        order: first.clone(),
        details: json!({}).into(),
        digest: "d".into(),
        messages: Vec::new(),
    };
    assert_eq!(store.create(vec![new]).await, [Ok(Created::Created)]);
    let expiry = async || table.details_item("1").await["ExpiresAt"]["N"].clone();
    let claimed = next(&first, first.state.clone(), Writer::Scheduler);
    assert_eq!(
        store.commit(vec![write(&first, &claimed)]).await,
        [Ok(Written::Written)]
    );
    assert_eq!(expiry().await, Value::Null, "the order is alive");

    let at = SystemClock.now();
    let ended = next(&claimed, ProcessState::Processed { at }, Writer::Scheduler);
    let end = write(&claimed, &ended);
    assert_eq!(
        store.commit(vec![end.clone()]).await,
        [Ok(Written::Written)]
    );
    let expected = (at.plus(keeping).0 / 1_000).to_string();
    assert_eq!(expiry().await, json!(expected));
    assert_eq!(
        store.commit(vec![end]).await,
        [Ok(Written::Written)],
        "its own write"
    );
    let stale = Write {
        token: 77,
        ..write(&claimed, &ended)
    };
    assert_eq!(
        store.commit(vec![stale]).await,
        [Ok(Written::Conflict)],
        "the version fences it"
    );

    let again = next(&ended, first.state.clone(), Writer::Operator);
    let again = Order {
        due: Some(at),
        ..again
    };
    assert_eq!(
        store.commit(vec![write(&ended, &again)]).await,
        [Ok(Written::Written)]
    );
    assert_eq!(expiry().await, Value::Null, "it is needed again");

    let compensated = ProcessState::Compensated {
        at,
        cause: Failure::new(FailureKind::Permanent, "no", ""),
    };
    let ended = next(&again, compensated, Writer::Scheduler);
    assert_eq!(
        store.commit(vec![write(&again, &ended)]).await,
        [Ok(Written::Written)]
    );
    table.remove_details("1").await;
    let again = next(&ended, first.state.clone(), Writer::Operator);
    let refused = store.commit(vec![write(&ended, &again)]).await.remove(0);
    assert!(
        matches!(&refused, Err(StoreError::Item(why)) if why.contains("have expired")),
        "{refused:?}"
    );
    let found = store.load(vec![first.id.clone()]).await.remove(0);
    assert_eq!(
        found.unwrap().unwrap().version,
        ended.version,
        "nothing was written"
    );
}

#[tokio::test]
async fn details_are_kept_where_nothing_else_is_said() {
    let engines = Engines::start(YAML, Faults::default()).await;
    stopped(&engines, "kept").await;
    let _ = close(&engines, "kept", "1h").await.good();
    assert_eq!(
        engines.store.details_item("kept").await["ExpiresAt"],
        Value::Null
    );
}
