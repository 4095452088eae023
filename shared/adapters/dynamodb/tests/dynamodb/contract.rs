//! Runs the contract suites of the state store, of expiry, of the operators' store and of the control store on
//! DynamoDB's API: against the embedded engine, or the engine at `TRIAD_TEST_DYNAMODB_ENDPOINT`. The simulated store
//! runs the same suites. The other tests here need a real API.

use std::sync::Arc;

use aws_sdk_dynamodb::types::{AttributeValue, TimeToLiveSpecification};
use serde_json::{Value, json};
use triad_core::outbox::Writer;
use triad_core::{
    Accepted, Attempt, Order, OrderId, Priority, ProcessState, StepState, Timestamp, Version,
    WorkflowRef,
};
use triad_dynamodb::{Capacity, DynamoStore, Units};
use triad_runtime::moving::{Keeping, KeptOrder, KeptRecord, MovingStore, StoredItem};
use triad_runtime::ports::OperatorStore;
use triad_runtime::settings::Settings;
use triad_runtime::supervisor::Supervisor;
use triad_runtime::system::{SystemClock, SystemEntropy};
use triad_runtime::{Clock, Created, NewOrder, StateStore, StoreError, Write, Written};
use triad_sim::contract::{OnThreads, TimedStore};
use triad_tests::bus::MemoryBus;
use triad_tests::clock::ManualClock;
use triad_tests::engines::{Store, workflow};
use triad_workflow::{Millis, SearchKey};

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
        start_at: None,
        deadline: None,
        search: Vec::new(),
        parent: None,
        details: Value::Null,
    };
    Order::new(&accepted, &workflow, Timestamp(due))
}

fn new(order: &Order, digest: &str) -> NewOrder {
    NewOrder {
        order: order.clone(),
        details: Arc::new(json!({"n": 1})),
        digest: digest.to_owned(),
        messages: Vec::new(),
    }
}

async fn create(store: &DynamoStore<SystemClock>, order: &Order) {
    let created = store.create(vec![new(order, "d")]).await;
    assert_eq!(created, [Ok(Created::Created)]);
}

/// An engine that does not delete what has expired by the machine's clock, for tests with another clock.
async fn without_deletion() -> Store {
    let engine = Store::of_contract().await;
    let tables = &engine.tables;
    for table in [&tables.orders, &tables.order_state, &tables.control] {
        let off = TimeToLiveSpecification::builder().attribute_name("ExpiresAt");
        let off = off.enabled(false).build().expect("it is complete");
        let done = engine.client.update_time_to_live().table_name(table);
        let done = done.time_to_live_specification(off).send().await;
        done.expect("it can be switched off");
    }
    engine
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_store_keeps_the_contract() {
    let engine = without_deletion().await;
    // The suite writes records with times in the first seconds of 1970. By the machine's clock they would have
    // expired.
    let store = engine.store_at(ManualClock::at(10_000));
    triad_sim::contract::store::all(&store, "contract", &OnThreads).await;
}

/// The engine with a clock that only the test moves. Its records lie in the far future, because the engine deletes
/// expired items by the machine's clock.
struct Timed {
    engine: Store,
    clock: ManualClock,
}

impl Timed {
    async fn start() -> Self {
        Self {
            engine: Store::of_contract().await,
            clock: ManualClock::at(4_102_444_800_000),
        }
    }
}

impl TimedStore for Timed {
    type Store = DynamoStore<ManualClock>;

    fn keeping(&self, retention: Millis) -> Self::Store {
        self.engine.store_keeping(self.clock.clone(), retention)
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    async fn pass(&self, span: Millis) {
        self.clock.advance(span);
    }
}

#[tokio::test]
async fn the_store_keeps_the_contract_of_expiry() {
    triad_sim::contract::expiry::all(&Timed::start().await, "contract").await;
}

#[tokio::test]
async fn the_store_keeps_the_contract_of_an_operators_store() {
    let engine = Store::of_contract().await;
    triad_sim::contract::operator::all(&engine.store(), "contract").await;
}

#[tokio::test]
async fn the_store_keeps_the_contract_of_a_control_store() {
    triad_sim::contract::control::all(&Timed::start().await, "contract").await;
}

#[tokio::test]
async fn the_store_keeps_the_contract_of_moving() {
    use triad_sim::contract::moving;
    // The records have times in the first seconds of 1970; by the machine's clock they would be expired and count as
    // absent.
    let clock = ManualClock::at(10_000);
    let engines = [without_deletion().await, without_deletion().await];
    let [from, to] = engines.each_ref().map(|e| e.store_at(clock.clone()));
    moving::moves_everything_and_knows_it_again(&from, &to).await;
    let engines = [without_deletion().await, without_deletion().await];
    let [one, other] = engines.each_ref().map(|e| e.store_at(clock.clone()));
    moving::leaves_what_stands(&one).await;
    moving::keeps_halves_and_control_records(&other).await;
}

#[tokio::test]
async fn an_order_of_which_one_half_is_refused_is_not_created() {
    let engine = Store::of_contract().await;
    let store = engine.store();
    let refused =
        triad_sim::contract::store::creates_neither_where_one_half_is_refused(&store, "half").await;
    assert!(refused, "the service has a bound");
}

/// The capacity that one sweep consumes while `stored` orders are stored, none of them due.
async fn sweep_over(stored: usize) -> Units {
    let engine = Store::start().await;
    let store = engine.store();
    let due = SystemClock.now().plus(Millis(3_600_000)).0;
    for first in (0..stored).step_by(100) {
        let orders = (first..stored.min(first + 100)).map(|n| order(&n.to_string(), due));
        let created = store.create(orders.map(|o| new(&o, "d")).collect()).await;
        assert!(created.iter().all(|c| *c == Ok(Created::Created)));
    }
    let capacity = Arc::new(Capacity::metered());
    let supervisor = Supervisor::new(
        store.metered(capacity.clone()),
        MemoryBus::default(),
        SystemClock,
        SystemEntropy,
        Settings::default(),
    );
    let report = supervisor.sweep(Millis(60_000)).await;
    assert!(report.is_whole() && report.found == 0, "{report:?}");
    capacity.units()
}

#[tokio::test]
async fn a_sweep_costs_the_same_whatever_is_stored_and_not_due() {
    let (nothing, much) = (sweep_over(0).await, sweep_over(500).await);
    assert_eq!(much, nothing);
    // One query, of half a read unit, for each of the 16 shards of the due index and for each of the 16 shards of
    // orders that are set aside.
    assert_eq!((much.calls, much.read, much.write), (32, 16.0, 0.0));
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
async fn a_table_without_search_indexes_is_searched_with_a_sentence_and_does_everything_else() {
    let engine = Store::start().await;
    engine.remove_search_indexes().await;
    let store = engine.store();
    let mut order = order("1", 5_000);
    let key: SearchKey = "customer=ALFKI".parse().expect("a search key");
    order.search = vec![key.clone()];
    create(&store, &order).await;
    let stored = store.load(vec![order.id.clone()]).await.remove(0);
    assert_eq!(stored, Ok(Some(order)));
    for index in 0..2 {
        let Err(StoreError::Configuration(why)) = store.search(key.clone(), index, None).await
        else {
            panic!("there is no index");
        };
        let name = format!("has no index search-{}", index + 1);
        assert!(
            why.contains(&name) && why.contains("terraform apply"),
            "{why}"
        );
    }
}

/// Seconds since the Unix epoch at which the items of a table expire, by the start of their key.
async fn expiry_of(engine: &Store, table: &str, key: &str) -> u64 {
    let found = engine.client.scan().table_name(table).send().await.unwrap();
    let is_it = |item: &&std::collections::HashMap<String, AttributeValue>| {
        item["OrderID"].as_s().unwrap().starts_with(key)
    };
    let mut items = found.items().iter().filter(is_it);
    let at = items.next().expect("an item")["ExpiresAt"].as_n().unwrap();
    assert!(items.next().is_none(), "one item");
    at.parse().unwrap()
}

#[tokio::test]
async fn an_output_expires_with_its_record() {
    let engine = Store::start().await;
    let clock = ManualClock::at(4_102_444_800_000);
    let retention = Millis(20_000);
    let store = engine.store_keeping(clock.clone(), retention);
    let mut order = order("1", 5_000);
    let created = store.create(vec![new(&order, "d")]).await;
    assert_eq!(created, [Ok(Created::Created)]);
    let write = async |store: &DynamoStore<ManualClock>, next: &Order| {
        let write = Write::silent(
            Version(next.version.0 - 1),
            Arc::new(next.clone()),
            next.version.0,
        );
        assert_eq!(store.commit(vec![write]).await, [Ok(Written::Written)]);
    };
    order.version = order.version.next();
    order.steps[0].state = StepState::Completed {
        attempt: Attempt(1),
        started: None,
        finished: clock.now(),
        position: 0,
        output: json!("x".repeat(2_000)).into(),
    };
    write(&store, &order).await;
    let year_s = 366 * 24 * 3_600;
    let provisional = clock.now().0 / 1_000 + 10 * year_s;
    let orders = &engine.tables.orders;
    assert_eq!(expiry_of(&engine, orders, "1/").await, provisional);
    order.version = order.version.next();
    order.state = ProcessState::Processed { at: clock.now() };
    order.due = None;
    write(&store, &order).await;
    let end = clock.now().plus(retention).0 / 1_000;
    assert_eq!(expiry_of(&engine, orders, "1/").await, end);
    assert_eq!(
        expiry_of(&engine, &engine.tables.order_state, "1").await,
        end
    );
    // A writer with a shorter retention lowers the expiry of neither.
    let shorter = engine.store_keeping(clock.clone(), Millis(5_000));
    order.version = order.version.next();
    write(&shorter, &order).await;
    assert_eq!(expiry_of(&engine, orders, "1/").await, end);
    assert_eq!(
        expiry_of(&engine, &engine.tables.order_state, "1").await,
        end
    );
    // An operator has begun a new run.
    order.version = order.version.next();
    order.state = ProcessState::Pending {
        complete_by: Some(clock.now()),
    };
    order.due = Some(clock.now());
    order.outbox.writer = Writer::Operator;
    write(&store, &order).await;
    assert_eq!(expiry_of(&engine, orders, "1/").await, provisional);
    // An import of the ended order leaves the order and its outputs.
    let kept = KeptOrder {
        id: order.id.clone(),
        record: Some(KeptRecord {
            order: Arc::new(order.clone()),
            token: 0,
            expires_s: Some(end),
        }),
        details: None,
    };
    let kept = StoredItem::Order(Box::new(kept));
    assert_eq!(
        store.keep(vec![kept], false).await,
        [Ok(Keeping::Different)]
    );
    assert_eq!(expiry_of(&engine, orders, "1/").await, provisional);
}
