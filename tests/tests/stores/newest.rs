//! On one machine lists of all orders begin with the newest, and new orders do not move what is on the next page.

use std::sync::Arc;

use serde_json::json;
use triad_core::{OrderId, Timestamp};
use triad_operator::find::Filter;
use triad_operator::pages::page;
use triad_runtime::{Created, NewOrder, StateStore};
use triad_sqlite::SqliteStore;
use triad_tests::clock::ManualClock;
use triad_tests::engines::workflow;
use triad_workflow::Millis;

use super::walk;

const NOW: Timestamp = Timestamp(4_102_444_800_000);

async fn create(store: &SqliteStore<ManualClock>, numbers: std::ops::Range<usize>) {
    let workflow = workflow(walk::YAML);
    for n in numbers {
        let id = OrderId::new(format!("o-{n}")).expect("an id");
        let details = json!({"n": n});
        let new = NewOrder {
            order: walk::new(&workflow, id, NOW, details.clone()),
            details: Arc::new(details),
            digest: format!("digest-{n}"),
            messages: Vec::new(),
        };
        assert_eq!(store.create(vec![new]).await, [Ok(Created::Created)]);
    }
}

#[tokio::test]
async fn a_list_of_all_orders_begins_with_the_newest_and_its_pages_stay() {
    let dir = tempfile::tempdir().expect("a directory");
    let clock = ManualClock::at(NOW.0);
    let store = SqliteStore::open(dir.path(), clock, Millis(86_400_000)).expect("a store");
    // More than one page of the store, and pages of the list that end within those.
    const BEFORE: usize = 1_203;
    create(&store, 0..BEFORE).await;
    let (mut found, mut cursor, mut newer) = (Vec::new(), None, BEFORE);
    loop {
        let got = page(&store, &Filter::default(), 70, cursor.as_ref(), NOW).await;
        let got = got.expect("the store works");
        found.extend(got.orders.into_iter().map(|order| order.id.to_string()));
        create(&store, newer..newer + 3).await;
        newer += 3;
        match got.next {
            Some(next) => cursor = Some(next),
            None => break,
        }
    }
    let wanted: Vec<String> = (0..BEFORE).rev().map(|n| format!("o-{n}")).collect();
    assert_eq!(found, wanted);
}
