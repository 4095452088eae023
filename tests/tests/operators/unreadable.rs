//! An unreadable record is reported by name, and hides no other record.

use std::sync::Arc;

use serde_json::{Value, json};
use triad_core::{Failure, FailureKind, Order, ProcessState, Timestamp};
use triad_operator::causes::causes;
use triad_operator::find::{self, Filter};
use triad_runtime::{NewOrder, StateStore, Write};
use triad_tests::cli::triad;
use triad_tests::engines::{Store, workflow};

const YAML: &str = "workflow: w\nsteps: [{id: a, agent: x, action: go, compensation: none}]";
const NOW: Timestamp = Timestamp(100_000);

/// Stores an order that is in Error or under way.
async fn order(engine: &Store, id: &str, is_in_error: bool) {
    let workflow = workflow(YAML);
    let accepted = json!({"order_id": id, "workflow": format!("w@{}", workflow.hash),
        "submitted_at": 1_000, "due": 2_000, "details": {}});
    let accepted = serde_json::from_value(accepted).expect("an accepted order");
    let first = Order::new(&accepted, &workflow, Timestamp(2_000));
    let store = engine.store();
    let new = NewOrder {
        order: first.clone(),
        details: Arc::new(Value::Null),
        digest: "d".into(),
        messages: Vec::new(),
    };
    assert!(store.create(vec![new]).await[0].is_ok());
    if !is_in_error {
        return;
    }
    let cause = Failure::new(FailureKind::Permanent, "no", "");
    let next = Order {
        version: first.version.next(),
        state: ProcessState::Error {
            at: Timestamp(3_000),
            cause,
        },
        due: None,
        ..first.clone()
    };
    let write = Write::silent(first.version, Arc::new(next), 1);
    assert!(store.commit(vec![write]).await[0].is_ok());
}

fn in_state(name: &str) -> Filter {
    Filter {
        state: Some(name.parse().expect("a state")),
        ..Filter::default()
    }
}

/// Stores two orders in Error and two under way; the records of `bad-error` and `bad-alive` are unreadable.
async fn world() -> Store {
    let engine = Store::start().await;
    for id in ["error", "bad-error"] {
        order(&engine, id, true).await;
    }
    for id in ["alive", "bad-alive"] {
        order(&engine, id, false).await;
    }
    engine.damage("bad-error", "Steps", "[").await;
    engine.damage("bad-alive", "Steps", "[").await;
    engine
}

#[tokio::test]
async fn every_way_to_find_orders_goes_on_and_names_what_cannot_be_read() {
    let engine = world().await;
    let store = engine.store();
    for (filter, sound, damaged) in [
        (
            Filter::default(),
            vec!["alive", "error"],
            vec!["bad-alive", "bad-error"],
        ),
        (in_state("Error"), vec!["error"], vec!["bad-error"]),
        (in_state("Pending"), vec!["alive"], vec!["bad-alive"]),
    ] {
        let found = find::orders(&store, &filter, 10, NOW).await;
        let found = found.expect("one bad record ends no search");
        let mut ids: Vec<_> = found.orders.iter().map(|o| o.id.as_str()).collect();
        ids.sort_unstable();
        assert_eq!(ids, sound, "{filter:?}");
        let mut bad = found.skipped.unreadable;
        bad.sort_by(|a, b| a.order_id.cmp(&b.order_id));
        let named: Vec<_> = bad.iter().map(|u| u.order_id.as_str()).collect();
        assert_eq!(named, damaged, "{filter:?}");
        assert!(bad.iter().all(|u| u.why.contains("Steps")), "{bad:?}");
    }
}

#[tokio::test]
async fn a_row_of_the_index_that_cannot_be_read_is_counted_nowhere_and_named() {
    let engine = world().await;
    engine.damage("bad-error", "Cause", "[").await;
    let found = causes(&engine.store(), &Filter::default(), NOW).await;
    let found = found.expect("one bad row ends no count");
    assert_eq!(found.groups.len(), 1);
    assert_eq!(found.groups[0].orders, 1);
    let [bad] = &found.skipped.unreadable[..] else {
        panic!("one row: {:?}", found.skipped)
    };
    assert_eq!(bad.order_id, "bad-error");
}

#[tokio::test]
async fn triad_list_names_it_on_standard_error_and_in_a_line_of_its_own() {
    let engine = world().await;
    let url = engine.url();
    let variables = [("TRIAD_DYNAMODB_ENDPOINT", url.as_str())];
    let ran = triad(&["list", "--state", "Error", "--json"], &variables, b"").await;
    let ran = ran.good();
    assert!(
        ran.err.contains("order bad-error cannot be read: "),
        "{ran:?}"
    );
    let [sound, damaged] = &ran.json_lines()[..] else {
        panic!("two lines: {ran:?}")
    };
    assert_eq!(sound["order_id"], "error");
    assert_eq!(damaged["order_id"], "bad-error");
    let ran = triad(&["list"], &variables, b"").await.good();
    assert!(
        ran.out.contains("alive") && ran.err.contains("bad-alive"),
        "{ran:?}"
    );
}
