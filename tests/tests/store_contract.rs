//! The contract of the state store, on DynamoDB's own API over the embedded engine, or over the
//! engine at `TRIAD_TEST_DYNAMODB_ENDPOINT` (`tests/dynamodb-local.sh`).

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Value, json};
use triad_core::due::shard_of;
use triad_core::{Accepted, Order, OrderId, Priority, Timestamp, Version, WorkflowRef};
use triad_dynamodb::DynamoStore;
use triad_runtime::system::SystemClock;
use triad_runtime::{Created, DefinitionStore, NewOrder, StateStore, Write, Written};
use triad_tests::engines::{Store, workflow};

const YAML: &str = "workflow: w\nsteps: [{id: a, agent: x, action: go, compensation: none}]";

fn id(text: &str) -> OrderId {
    OrderId::new(text).unwrap()
}

fn order(text: &str, due: u64) -> Order {
    let workflow = workflow(YAML);
    let accepted = Accepted {
        order_id: id(text),
        workflow: WorkflowRef {
            name: workflow.name.clone(),
            hash: workflow.hash.clone(),
        },
        priority: Priority::Normal,
        reply_topic: None,
        traceparent: None,
        submitted_at: Timestamp(1),
        due: Timestamp(due),
        details: Value::Null,
    };
    Order::new(&accepted, &workflow, Timestamp(due))
}

fn new(order: &Order, digest: &str) -> NewOrder {
    NewOrder {
        order: order.clone(),
        details: Arc::new(json!({"n": 1})),
        digest: digest.to_owned(),
    }
}

async fn create(store: &DynamoStore<SystemClock>, order: &Order) {
    let created = store.create(vec![new(order, "d")]).await;
    assert_eq!(created, [Ok(Created::Created)]);
}

/// The next version of an order, told apart by its sequence.
fn next(order: &Order, sequence: u32) -> Order {
    let mut next = order.clone();
    next.version = order.version.next();
    next.sequence = sequence;
    next
}

fn write(before: &Order, next: Order, token: u64) -> Write {
    Write {
        expected: before.version,
        next: Arc::new(next),
        token,
    }
}

#[tokio::test]
async fn what_is_created_is_loaded_as_it_was() {
    let engine = Store::of_contract().await;
    let store = engine.store();
    let order = order("1", 5_000);
    create(&store, &order).await;
    let loaded = store.load(vec![id("2"), id("1")]).await;
    assert_eq!(loaded, [Ok(None), Ok(Some(order))]);
}

#[tokio::test]
async fn an_order_that_exists_is_left_alone_and_its_digest_told() {
    let engine = Store::of_contract().await;
    let store = engine.store();
    let first = order("1", 5_000);
    create(&store, &first).await;
    let mut other = first.clone();
    other.sequence = 99;
    let again = store.create(vec![new(&other, "other")]).await;
    let digest = "d".to_owned();
    assert_eq!(again, [Ok(Created::Exists { digest })]);
    assert_eq!(store.load(vec![id("1")]).await, [Ok(Some(first))]);
}

#[tokio::test]
async fn one_failing_item_of_a_batch_says_nothing_about_the_others() {
    let engine = Store::of_contract().await;
    let store = engine.store();
    let orders: Vec<Order> = (0..5).map(|n| order(&n.to_string(), 5_000)).collect();
    create(&store, &orders[2]).await;
    let created = store
        .create(orders.iter().map(|o| new(o, "d")).collect())
        .await;
    for (n, result) in created.into_iter().enumerate() {
        let wanted = match n {
            2 => Created::Exists { digest: "d".into() },
            _ => Created::Created,
        };
        assert_eq!(result, Ok(wanted), "order {n}");
    }
}

#[tokio::test]
async fn of_sixteen_racing_writers_one_wins() {
    let engine = Store::of_contract().await;
    let store = engine.store();
    let mut standing = order("1", 5_000);
    create(&store, &standing).await;
    for round in 0..8 {
        let racers: Vec<_> = (0..16)
            .map(|racer| {
                let store = store.clone();
                let next = next(&standing, 100 * round + racer);
                let write = write(&standing, next, u64::from(1_000 + racer));
                tokio::spawn(async move { store.commit(vec![write]).await.remove(0) })
            })
            .collect();
        let mut winners = Vec::new();
        for (racer, result) in (0..).zip(racers) {
            if result.await.unwrap() == Ok(Written::Written) {
                winners.push(100 * round + racer);
            }
        }
        let [winner] = winners[..] else {
            panic!("winners of round {round}: {winners:?}");
        };
        let loaded = store.load(vec![id("1")]).await.remove(0).unwrap().unwrap();
        assert_eq!(loaded, next(&standing, winner));
        standing = loaded;
    }
}

#[tokio::test]
async fn a_write_that_meets_its_own_token_has_succeeded() {
    let engine = Store::of_contract().await;
    let store = engine.store();
    let standing = order("1", 5_000);
    create(&store, &standing).await;
    let first = write(&standing, next(&standing, 7), 42);
    for _ in 0..2 {
        let written = store.commit(vec![first.clone()]).await;
        assert_eq!(written, [Ok(Written::Written)]);
    }
    let other = write(&standing, next(&standing, 8), 43);
    assert_eq!(store.commit(vec![other]).await, [Ok(Written::Conflict)]);
    let loaded = store.load(vec![id("1")]).await;
    assert_eq!(loaded, [Ok(Some(next(&standing, 7)))]);
}

#[tokio::test]
async fn a_stale_or_early_or_orphaned_write_changes_nothing() {
    let engine = Store::of_contract().await;
    let store = engine.store();
    let standing = order("1", 5_000);
    create(&store, &standing).await;
    for version in [0, 2, 3] {
        let mut wrong = write(&standing, next(&standing, 7), 1);
        wrong.expected = Version(version);
        assert_eq!(store.commit(vec![wrong]).await, [Ok(Written::Conflict)]);
    }
    let absent = order("2", 5_000);
    let orphan = write(&absent, next(&absent, 7), 1);
    assert_eq!(store.commit(vec![orphan]).await, [Ok(Written::Conflict)]);
    let loaded = store.load(vec![id("1"), id("2")]).await;
    assert_eq!(loaded, [Ok(Some(standing)), Ok(None)]);
}

/// Every row of an order's shard up to `until`, page by page.
async fn due(store: &DynamoStore<SystemClock>, shard: u32, until: u64, limit: u32) -> Vec<String> {
    let (mut found, mut page) = (Vec::new(), None);
    loop {
        let got = store.due(shard, Timestamp(until), limit, page).await;
        let got = got.unwrap();
        assert!(got.rows.len() <= limit as usize);
        found.extend(got.rows.iter().map(|r| r.order.to_string()));
        page = got.next;
        if page.is_none() {
            return found;
        }
    }
}

#[tokio::test]
async fn the_due_index_pages_in_order_of_time_up_to_its_bound() {
    let engine = Store::of_contract().await;
    let store = engine.store();
    let shard = shard_of(&id("0"));
    let same_shard: Vec<String> = (0..400_u32)
        .map(|n| n.to_string())
        .filter(|n| shard_of(&id(n)) == shard)
        .take(9)
        .collect();
    assert_eq!(same_shard.len(), 9);
    for (place, name) in same_shard.iter().enumerate().rev() {
        create(&store, &order(name, 1_000 + place as u64)).await;
    }
    assert_eq!(due(&store, shard, 999, 2).await, [""; 0]);
    assert_eq!(due(&store, shard, 1_004, 2).await, same_shard[..5]);
    assert_eq!(due(&store, shard, 9_999, 4).await, same_shard);
    assert_eq!(due(&store, (shard + 1) % 16, 9_999, 4).await, [""; 0]);
}

#[tokio::test]
async fn an_order_without_a_due_time_is_not_in_the_due_index() {
    let engine = Store::of_contract().await;
    let store = engine.store();
    let standing = order("1", 1_000);
    create(&store, &standing).await;
    let shard = shard_of(&standing.id);
    assert_eq!(due(&store, shard, 9_999, 10).await, ["1"]);
    let mut later = next(&standing, 2);
    later.due = Some(Timestamp(5_000));
    let moved = store.commit(vec![write(&standing, later.clone(), 1)]).await;
    assert_eq!(moved, [Ok(Written::Written)]);
    assert_eq!(due(&store, shard, 4_999, 10).await, [""; 0]);
    let mut done = next(&later, 3);
    done.due = None;
    let taken_out = store.commit(vec![write(&later, done, 2)]).await;
    assert_eq!(taken_out, [Ok(Written::Written)]);
    assert_eq!(due(&store, shard, u64::from(u32::MAX), 10).await, [""; 0]);
}

#[tokio::test]
async fn listing_pages_through_every_order_once() {
    let engine = Store::of_contract().await;
    let store = engine.store();
    // More than two pages of the store.
    let names: Vec<String> = (0..1_100).map(|n| format!("o-{n}")).collect();
    let all = names.iter().map(|n| new(&order(n, 5_000), "d")).collect();
    assert!(store.create(all).await.iter().all(Result::is_ok));
    let (mut found, mut pages, mut page) = (Vec::new(), 0, None);
    loop {
        let got = store.list(None, page).await.unwrap();
        found.extend(got.orders.iter().map(|o| o.id.to_string()));
        pages += 1;
        page = got.next;
        if page.is_none() {
            break;
        }
    }
    assert!(pages > 1);
    assert_eq!(found.len(), names.len());
    let unique: HashSet<String> = found.into_iter().collect();
    assert_eq!(unique, names.into_iter().collect());
    let none = store.list(Some("Error".to_owned()), None).await.unwrap();
    assert!(none.orders.is_empty());
    let pending = store.list(Some("Pending".to_owned()), None).await.unwrap();
    assert!(!pending.orders.is_empty());
}

#[tokio::test]
async fn details_come_back_as_they_went_in() {
    let engine = Store::of_contract().await;
    let store = engine.store();
    let details = [
        json!({}),
        json!({"small": 14.0, "text": "Zürich – 東京 🚚", "none": null}),
        json!({"big": 9_007_199_254_740_993_u64, "negative": -0.5e-7, "nested": [[[{}]]]}),
        json!({"long": "abc ".repeat(20_000)}),
        json!({"": {"\u{1}": "\\\"\n"}}),
    ];
    for (n, details) in details.iter().enumerate() {
        let mut new = new(&order(&n.to_string(), 5_000), "d");
        new.details = Arc::new(details.clone());
        assert_eq!(store.create(vec![new]).await, [Ok(Created::Created)]);
    }
    let ids = (0..=details.len()).map(|n| id(&n.to_string())).collect();
    let found = store.details(ids).await;
    for (found, wanted) in found.iter().zip(&details) {
        assert_eq!(found.as_ref().unwrap().as_deref(), Some(wanted));
    }
    assert_eq!(found[details.len()], Ok(None));
}

#[tokio::test]
async fn a_published_definition_is_current_and_older_ones_stay() {
    let engine = Store::of_contract().await;
    let store = engine.store();
    let old = workflow(YAML);
    let new = workflow(&YAML.replace("go", "run"));
    assert_ne!(old.hash, new.hash);
    assert_eq!(store.current(old.name.clone()).await, Ok(None));
    for (workflow, text) in [(&old, "old"), (&new, "new")] {
        let definition = WorkflowRef {
            name: workflow.name.clone(),
            hash: workflow.hash.clone(),
        };
        let published = store.publish(definition.clone(), text.to_owned()).await;
        assert_eq!(published, Ok(()));
        let current = store.current(workflow.name.clone()).await;
        assert_eq!(current, Ok(Some(workflow.hash.clone())));
    }
    for (workflow, text) in [(&old, "old"), (&new, "new")] {
        let definition = WorkflowRef {
            name: workflow.name.clone(),
            hash: workflow.hash.clone(),
        };
        let found = store.definition(definition).await;
        assert_eq!(found, Ok(Some(text.to_owned())));
    }
}
