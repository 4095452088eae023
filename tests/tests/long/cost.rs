//! The cost of an order with three steps in DynamoDB's capacity units, as the store reports them.

use std::sync::Arc;

use serde_json::{Value, json};
use triad_core::{Envelope, OrderId, topics};
use triad_dynamodb::{Capacity, DynamoStore, Units};
use triad_operator::find::Filter;
use triad_operator::pages::page;
use triad_runtime::agent::{Agent, Remotes};
use triad_runtime::scheduler::Scheduler;
use triad_runtime::settings::Settings;
use triad_runtime::submission::Submission;
use triad_runtime::system::{SystemClock, SystemEntropy};
use triad_runtime::{Bus, Call, Clock, Fault, InputRecord, RemoteService, StateStore};
use triad_tests::bus::MemoryBus;
use triad_tests::engines::{Store, workflow};
use triad_workflow::AgentName;

const YAML: &str = r#"
workflow: three-steps
steps:
  - id: reserve-inventory
    agent: inventory
    action: reserve
    input: { lines: "${details.details}" }
    compensation: { action: release }
  - id: charge-payment
    agent: payment
    action: charge
    input: { customer: "${details.customerID}", freight: "${details.freight}" }
    compensation: { action: refund, input: { charge: "${output}" } }
  - id: ship
    agent: carrier
    action: ship
    input: { address: "${details.shipAddress}", charge: "${steps[\"charge-payment\"].reference}" }
    point_of_no_return: true
"#;

const ORDERS: usize = 20;

/// A remote service with the answers of the reference service.
struct Service;

impl RemoteService for Service {
    async fn call(&self, call: Call<'_>) -> Result<Value, Fault> {
        if call.action == "print-label" {
            return Ok(json!({"label": label(&call.idempotency_key.0)}));
        }
        Ok(json!({
            "reference": format!("{}-01ab45cd89", call.step),
            "action": call.action,
            "customer": "HANAR",
        }))
    }
}

/// A document of six kilobytes that hardly compresses, like an image in base64.
fn label(key: &str) -> String {
    let mut state = key
        .bytes()
        .fold(7_u64, |n, b| n.wrapping_mul(31) + u64::from(b));
    let mut character = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        char::from(
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
                [(state >> 58) as usize],
        )
    };
    (0..6 * 1024).map(|_| character()).collect()
}

/// Details of about one kilobyte, like an order of a shop.
fn details(number: usize) -> Value {
    let line = |n: usize| {
        json!({"productID": 11 + n, "productName": format!("Queso Cabrales {n}"),
            "unitPrice": 14.0 + n as f64, "quantity": 3 * n + 1, "discount": 0.05})
    };
    json!({
        "orderID": 10_248 + number,
        "customerID": "HANAR",
        "employeeID": 5,
        "orderDate": "1996-07-04T00:00:00.000Z",
        "requiredDate": "1996-08-01T00:00:00.000Z",
        "shipVia": 3,
        "freight": 32.38,
        "shipName": "Hanari Carnes",
        "shipAddress": {
            "street": "Rua do Paço, 67", "city": "Rio de Janeiro", "region": "RJ",
            "postalCode": "05454-876", "country": "Brazil"
        },
        "note": "Please ring twice; the entrance is in the yard behind the bakery.",
        "details": (0..6).map(line).collect::<Vec<_>>(),
    })
}

/// Runs orders through all handlers; returns the average cost of an order.
async fn cost(cached_orders: usize) -> Units {
    cost_of(YAML, cached_orders).await
}

/// The same with another definition of the workflow.
async fn cost_of(yaml: &str, cached_orders: usize) -> Units {
    let engine = Store::start().await;
    engine.publish(&workflow(yaml)).await;
    let capacity = Arc::new(Capacity::metered());
    let store: DynamoStore<SystemClock> = engine.store().metered(capacity.clone());
    let settings = Settings {
        cached_orders,
        ..Settings::default()
    };
    let bus = MemoryBus::default();
    let submission = Submission::new(store.clone(), bus.clone(), SystemClock, settings.clone());
    let scheduler = Scheduler::new(
        store.clone(),
        bus.clone(),
        SystemClock,
        SystemEntropy,
        settings.clone(),
    );
    let remotes = ["inventory", "payment", "carrier"]
        .into_iter()
        .fold(Remotes::new(), |all, name| {
            all.with(AgentName::new(name).unwrap(), Service)
        });
    let agent = Agent::new(
        remotes,
        store.clone(),
        bus.clone(),
        SystemClock,
        SystemEntropy,
        settings,
    );

    for number in 0..ORDERS {
        let details = details(number);
        let bytes = details.to_string().len();
        assert!((900..=1_024).contains(&bytes), "details of {bytes} bytes");
        let order = json!({"order_id": format!("order-{number}"),
            "workflow": "three-steps", "details": details});
        let submitted = Envelope {
            topic: topics::ORDERS.to_owned(),
            key: None,
            value: order.to_string().into_bytes(),
            headers: Vec::new(),
            trace: None,
        };
        assert_eq!(bus.publish(vec![submitted]).await, [Ok(())]);
        while let Some(record) = bus.next() {
            let handled = handle(&submission, &scheduler, &agent, record).await;
            assert!(handled, "every record is done at once");
        }
    }
    let units = capacity.units();
    for number in 0..ORDERS {
        let id = OrderId::new(format!("order-{number}")).unwrap();
        let order = engine.store().load(vec![id]).await.remove(0);
        assert_eq!(order.unwrap().unwrap().state.name(), "Processed");
    }
    #[expect(clippy::cast_precision_loss, reason = "a small number")]
    let each = |sum: f64| sum / ORDERS as f64;
    let units = Units {
        write: each(units.write),
        read: each(units.read),
        calls: units.calls / ORDERS as u64,
    };
    println!(
        "an order of {}, {} search keys, {cached_orders} cached: {} write units, {} read units, {} calls",
        workflow(yaml).steps.len(),
        workflow(yaml).search.names().count(),
        units.write,
        units.read,
        units.calls
    );
    units
}

async fn handle<S, B, C, E>(
    submission: &Submission<S, B, C>,
    scheduler: &Scheduler<S, B, C, E>,
    agent: &Agent<S, B, C, E>,
    record: InputRecord,
) -> bool
where
    S: StateStore + triad_runtime::DefinitionStore + triad_runtime::ControlStore + Clone,
    B: Bus,
    C: triad_runtime::Clock,
    E: triad_runtime::Entropy,
{
    let topic = record.topic.clone();
    let records = [record];
    let handled = match topic.as_str() {
        topics::ORDERS => submission.handle(&records).await,
        topics::SCHEDULER => scheduler.handle(&records).await,
        topics::STATUS => return true,
        agents if agents.starts_with("agent.") => agent.handle(&records, None).await,
        other => panic!("nothing should be sent to {other}: {records:?}"),
    };
    handled.iter().all(triad_runtime::Handled::is_done)
}

/// Lower limit of the write units of an order, to check that all are counted. The transaction that stores the order
/// writes two items, at two units each. Then the order is claimed, proceeds to the next step twice, and ends: four
/// more writes.
const WRITTEN_AT_LEAST: f64 = 8.0;
/// Lower limit of the read units without a cache: the record before each of these four writes, half a unit each.
const READ_AT_LEAST: f64 = 2.0;

fn assert_within_budget(units: &Units) {
    assert!(
        units.write >= WRITTEN_AT_LEAST,
        "not all is counted: {units:?}"
    );
    assert!(units.write <= 12.0, "{units:?}");
    assert!(units.read <= 4.0, "{units:?}");
}

#[tokio::test]
async fn a_three_step_order_stays_within_its_budget() {
    assert_within_budget(&cost(Settings::default().cached_orders).await);
}

#[tokio::test]
async fn the_read_budget_does_not_need_the_cache() {
    let units = cost(0).await;
    assert_within_budget(&units);
    assert!(units.read >= READ_AT_LEAST, "not all is counted: {units:?}");
}

/// Each step's input reads the output of the step before.
#[tokio::test]
async fn large_outputs_are_paid_for_once() {
    let mut steps = String::new();
    for n in 0..32 {
        let before = match n {
            0 => "none".to_owned(),
            n => format!("${{size(steps.s{}.label)}}", n - 1),
        };
        let step = format!(
            "{{ id: s{n}, agent: carrier, action: print-label, compensation: none, input: {{ before: '{before}' }} }}"
        );
        steps.push_str(&format!("\n  - {step}"));
    }
    let yaml = format!("workflow: three-steps\nsteps:{steps}\n");
    for cached in [Settings::default().cached_orders, 0] {
        let units = cost_of(&yaml, cached).await;
        assert!(units.write <= 500.0, "{units:?}");
        assert!(units.read <= 200.0, "{units:?}");
    }
}

/// The workflow with these search keys.
fn searched(keys: &str) -> String {
    YAML.replace("steps:", &format!("search: {{ {keys} }}\nsteps:"))
}

#[tokio::test]
async fn each_search_key_of_an_order_costs_one_write_unit() {
    let cached = Settings::default().cached_orders;
    let none = cost_of(YAML, cached).await;
    // This search key has no value, so it has no row.
    let missing = cost_of(&searched("k: '${details.nothing}'"), cached).await;
    let one = cost_of(&searched("customer: '${details.customerID}'"), cached).await;
    let two = "customer: '${details.customerID}', invoice: '${details.orderID}'";
    let two = cost_of(&searched(two), cached).await;
    // Reads are not compared: a slow run reads the definition again.
    for units in [&none, &missing, &one] {
        assert_within_budget(units);
    }
    let written = [missing.write, one.write, two.write];
    assert_eq!(written, [0.0, 1.0, 2.0].map(|more| none.write + more));
}

/// The cost of a search for a customer with one order, among `stored` other orders.
async fn search_among(stored: usize) -> Units {
    let engine = Store::start().await;
    let capacity = Arc::new(Capacity::metered());
    let yaml = searched("invoice: '${details.orderID}'");
    engine.publish(&workflow(&yaml)).await;
    let bus = MemoryBus::default();
    let submission = Submission::new(engine.store(), bus, SystemClock, Settings::default());
    for number in 0..stored {
        let order = json!({"order_id": format!("order-{number}"),
            "workflow": "three-steps", "details": details(number)});
        let record = InputRecord {
            topic: topics::ORDERS.to_owned(),
            value: Some(order.to_string().into_bytes()),
            ..InputRecord::default()
        };
        let handled = submission.handle(&[record]).await;
        assert!(handled[0].is_done(), "{handled:?}");
    }
    let filter = Filter {
        search: Some("invoice=10250".parse().expect("a search key")),
        ..Filter::default()
    };
    let store = engine.store().metered(capacity.clone());
    let now = SystemClock.now();
    let found = page(&store, &filter, 100, None, now).await;
    let found = found.expect("the store works");
    assert_eq!(found.orders.len(), 1);
    capacity.units()
}

#[tokio::test]
async fn a_search_costs_the_same_whatever_else_is_stored() {
    let (few, many) = (search_among(5).await, search_among(200).await);
    assert_eq!(many, few);
    // Half a unit for each of the two indexes, and one for a consistent read of the order.
    assert_eq!((many.read, many.write), (2.0, 0.0));
}
