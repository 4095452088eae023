//! Operators' commands write with the installation's retention.

use serde_json::json;
use triad_core::{Failure, FailureKind, Order, OrderId, ProcessState, Timestamp};
use triad_reference_service::Faults;
use triad_runtime::system::SystemClock;
use triad_runtime::{Clock, Created, NewOrder, StateStore, Write, Written};
use triad_tests::cli::{Ran, triad};
use triad_tests::clock::ManualClock;
use triad_tests::engines::{Engines, workflow};

const YAML: &str = "workflow: w\nsteps: [{id: a, agent: x, action: go, compensation: none}]";
const DAY_MS: u64 = 24 * 3_600_000;

/// Stores an order that has just stopped in Error.
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
    let write = Write {
        expected: first.version,
        next: next.into(),
        token: 1,
    };
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

/// Whether an order's record is there so many days from now.
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
