//! The independent judge on a real store: rival clients write through the recording endpoint, to a correct store and
//! to broken ones.

use std::sync::Arc;

use futures::future::join_all;
use serde_json::json;
use triad_core::{Accepted, Order, OrderId, Priority, Timestamp, WorkflowRef};
use triad_dynamodb::{DynamoStore, Endpoint as At, Tables, connect, create_tables};
use triad_embedded::Embedded;
use triad_judge::broken_store::{Kind, Lies};
use triad_judge::endpoint::Endpoint;
use triad_judge::recorder::Recorder;
use triad_judge::verdict::{Judged, judge};
use triad_runtime::system::SystemClock;
use triad_runtime::{Clock, ControlStore, ControlWrite, NewOrder, StateStore, Write};
use triad_tests::engines::{loopback, workflow};
use triad_tests::orders::Files;
use triad_workflow::Millis;

const YAML: &str = "workflow: w\nsteps: [{id: a, agent: x, action: go, compensation: none}]";
const ORDERS: usize = 5;
/// Number of rounds; in each, all clients write the same order concurrently.
const ROUNDS: usize = 60;
const CLIENTS: usize = 3;
/// One in this many requests gets a wrong answer.
const EVERY: u64 = 7;
/// Every transaction gets a wrong answer, because there are only few, which create the orders.
const EVERY_TRANSACTION: u64 = 1;

fn new_order(id: &str) -> NewOrder {
    let workflow = workflow(YAML);
    let accepted = Accepted {
        order_id: OrderId::new(id).expect("an order id"),
        workflow: WorkflowRef {
            name: workflow.name.clone(),
            hash: workflow.hash.clone(),
        },
        priority: Priority::Normal,
        reply_topic: None,
        traceparent: None,
        submitted_at: Timestamp(1),
        due: Timestamp(5_000),
        start_at: None,
        deadline: None,
        search: Vec::new(),
        parent: None,
        details: json!({"n": 1}),
    };
    NewOrder {
        order: Order::new(&accepted, &workflow, accepted.due),
        details: Arc::new(json!({"n": 1})),
        digest: "d".into(),
        messages: Vec::new(),
    }
}

/// A write of the next version. The sequence number makes it differ from a rival's write.
fn next(order: &Order, sequence: u32) -> Write {
    let mut next = order.clone();
    next.version = order.version.next();
    next.sequence = sequence;
    Write::silent(order.version, Arc::new(next), u64::from(sequence))
}

/// All clients write each order at once, in rounds. Results are not asserted, because answers may be wrong.
async fn rivalry(stores: &[DynamoStore<SystemClock>]) {
    for number in 0..ORDERS {
        let create = stores
            .iter()
            .map(|s| s.create(vec![new_order(&format!("o-{number}"))]));
        join_all(create).await;
    }
    for round in 0..ROUNDS {
        let id = OrderId::new(format!("o-{}", round % ORDERS)).expect("an order id");
        let read = stores.iter().map(|s| s.load(vec![id.clone()]));
        let found = join_all(read).await;
        let writes = stores.iter().zip(found).enumerate();
        let writes = writes.filter_map(|(client, (store, mut found))| {
            let order = found.remove(0).ok()??;
            let sequence = u32::try_from(round * CLIENTS + client + 2).ok()?;
            Some(store.commit(vec![next(&order, sequence)]))
        });
        join_all(writes).await;
        let read = stores.iter().map(|s| s.load(vec![id.clone()]));
        join_all(read).await;
        let mark = stores.iter().enumerate().map(|(client, store)| {
            store.write(ControlWrite {
                key: format!("call/{round}"),
                expected: None,
                value: json!({"allowance": client}),
                token: client as u64,
                expires: Some(SystemClock.now().plus(Millis(3_600_000))),
            })
        });
        join_all(mark).await;
    }
}

/// The judgement on a store that is broken in this way, and the number of wrong answers.
async fn judged(lies: Option<Kind>) -> (Judged, u64) {
    let store = Embedded::start(loopback(), None).expect("the engine starts");
    let tables = Tables::with_prefix("");
    let upstream = format!("http://{}", store.addr());
    let client = connect(At::Url(upstream.clone())).await;
    create_tables(&client, &tables).await.expect("tables");
    let files = Files::new();
    let recorder = Recorder::create(&files.path("history.jsonl")).expect("a file");
    let lies = lies.map(|kind| {
        let every = match kind {
            Kind::HalfTransaction => EVERY_TRANSACTION,
            _ => EVERY,
        };
        Lies::new(kind, every)
    });
    let endpoint = Endpoint::start(loopback(), upstream, recorder, lies).await;
    let mut endpoint = endpoint.expect("the endpoint starts");
    let mut stores = Vec::new();
    for _ in 0..CLIENTS {
        let client = connect(At::Url(endpoint.url())).await;
        let retention = Millis(24 * 3_600_000);
        stores.push(DynamoStore::new(
            client,
            tables.clone(),
            SystemClock,
            retention,
        ));
    }
    rivalry(&stores).await;
    let told = endpoint.lies();
    endpoint.stop().await;
    let (lines, path) = endpoint.recorder().finish().expect("it is written");
    assert!(lines > ROUNDS * CLIENTS, "{lines} lines");
    (judge(path).expect("it can be read"), told)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sound_store_is_acquitted() {
    let (judged, _) = judged(None).await;
    assert_eq!(judged.unexplained.objects, 0, "{judged:?}");
    assert_eq!(judged.undecided.objects, 0, "{judged:?}");
    assert_eq!(judged.objects, ORDERS + ROUNDS, "{judged:?}");
    // In each round one client has won the race for the record, and one that for the item in the table `control`.
    assert!(judged.writes >= ORDERS + 2 * ROUNDS, "{judged:?}");
    assert!(judged.refused >= ROUNDS, "{judged:?}");
}

async fn is_convicted(lie: Kind) {
    let (judged, told) = judged(Some(lie)).await;
    assert!(told > 0, "{lie:?} was never told");
    assert!(judged.unexplained.objects > 0, "{lie:?}: {judged:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_answers_with_an_older_version_is_convicted() {
    is_convicted(Kind::StaleRead).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_ignores_a_condition_is_convicted() {
    is_convicted(Kind::IgnoredCondition).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_drops_an_acknowledged_write_is_convicted() {
    is_convicted(Kind::DroppedWrite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_carries_out_half_of_a_transaction_is_convicted() {
    is_convicted(Kind::HalfTransaction).await;
}
