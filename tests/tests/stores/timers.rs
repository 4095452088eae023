//! Sweeps over orders that wait, with the real tables: what they handle, and what they cost.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use triad_core::{OrderId, topics};
use triad_dynamodb::{Capacity, DynamoStore, Units};
use triad_runtime::scheduler::Scheduler;
use triad_runtime::settings::Settings;
use triad_runtime::submission::Submission;
use triad_runtime::supervisor::{Report, Supervisor};
use triad_runtime::system::{SystemClock, SystemEntropy};
use triad_runtime::{Handled, InputRecord, StateStore};
use triad_tests::bus::MemoryBus;
use triad_tests::clock::ManualClock;
use triad_tests::engines::{Store, workflow};
use triad_workflow::Millis;

/// 2096-10-02T07:06:40Z: the tables use the real clock, so nothing expires during the test.
const BEGIN: u64 = 4_000_000_000_000;
/// Thirty days later, and in milliseconds.
const MOMENT: &str = "2096-11-01T07:06:40Z";
const DAY: Millis = Millis(24 * 3_600_000);
const MONTH: u64 = 30;

const YAML: &str = "workflow: later
steps:
  - id: pause
    wait: { until: '${details.at}' }
  - id: remind
    agent: mail
    action: send
    compensation: none
";

/// The handlers over embedded tables, without agents; all but the tables go by a clock that the test moves.
struct World {
    engine: Store,
    capacity: Arc<Capacity>,
    clock: ManualClock,
    bus: MemoryBus,
    submission: Submission<DynamoStore<SystemClock>, MemoryBus, ManualClock>,
    scheduler: Scheduler<DynamoStore<SystemClock>, MemoryBus, ManualClock, SystemEntropy>,
    supervisor: Supervisor<DynamoStore<SystemClock>, MemoryBus, ManualClock, SystemEntropy>,
}

impl World {
    async fn start(settings: Settings) -> Self {
        let engine = Store::start().await;
        engine.publish(&workflow(YAML)).await;
        let (clock, bus) = (ManualClock::at(BEGIN), MemoryBus::default());
        let capacity = Arc::new(Capacity::metered());
        let store = engine.store().metered(capacity.clone());
        let ports = || (store.clone(), bus.clone(), clock.clone());
        let (s, b, c) = ports();
        let submission = Submission::new(s, b, c, settings.clone());
        let (s, b, c) = ports();
        let scheduler = Scheduler::new(s, b, c, SystemEntropy, settings.clone());
        let (s, b, c) = ports();
        let supervisor = Supervisor::new(s, b, c, SystemEntropy, settings);
        Self {
            engine,
            capacity,
            clock,
            bus,
            submission,
            scheduler,
            supervisor,
        }
    }

    /// Submits so many orders, and has them wait for the moment.
    async fn park(&self, orders: usize) {
        let orders: Vec<_> = (0..orders).map(order).collect();
        for batch in orders.chunks(100) {
            let handled = self.submission.handle(batch).await;
            assert!(handled.iter().all(Handled::is_done), "{handled:?}");
        }
        assert!(self.schedule().await.is_empty(), "nothing is asked for yet");
    }

    /// Has the Scheduler handle what was sent to it. Returns the orders for which agents were asked.
    async fn schedule(&self) -> Vec<String> {
        let sent = std::iter::from_fn(|| self.bus.next());
        let to_scheduler: Vec<_> = sent.filter(|r| r.topic == topics::SCHEDULER).collect();
        for batch in to_scheduler.chunks(100) {
            let handled = self.scheduler.handle(batch).await;
            assert!(handled.iter().all(Handled::is_done), "{handled:?}");
        }
        let mut asked = Vec::new();
        while let Some(record) = self.bus.next() {
            if record.topic == "agent.mail" {
                let request: Value = serde_json::from_slice(&record.value.unwrap()).unwrap();
                asked.push(request["order_id"].as_str().unwrap().to_owned());
            }
        }
        asked
    }

    /// One sweep, and its cost. The clock goes on while the sweep rests.
    async fn sweep(&self) -> (Report, Units) {
        let before = self.capacity.units();
        let push = async {
            loop {
                tokio::task::yield_now().await;
                if self.clock.sleepers(Millis(1_000)) > 0 {
                    self.clock.advance(Millis(10));
                }
            }
        };
        let report = tokio::select! {
            report = self.supervisor.sweep(Millis(60_000)) => report,
            () = push => unreachable!("it does not end"),
        };
        let after = self.capacity.units();
        let units = Units {
            write: after.write - before.write,
            read: after.read - before.read,
            calls: after.calls - before.calls,
        };
        (report, units)
    }

    async fn version(&self, n: usize) -> u64 {
        let id = OrderId::new(id(n)).unwrap();
        let found = self.engine.store().load(vec![id]).await.remove(0);
        found.unwrap().expect("it is stored").version.0
    }
}

fn id(n: usize) -> String {
    format!("order-{n}")
}

fn order(n: usize) -> InputRecord {
    let order = json!({"order_id": id(n), "workflow": "later", "details": {"at": MOMENT}});
    InputRecord {
        topic: topics::ORDERS.into(),
        timestamp_ms: i64::try_from(BEGIN).unwrap(),
        value: Some(order.to_string().into_bytes()),
        ..InputRecord::default()
    }
}

#[tokio::test]
async fn orders_that_wait_cost_nothing_until_their_moment() {
    let none = World::start(Settings::default()).await;
    let (report, empty) = none.sweep().await;
    assert_eq!(report, Report::default());
    let world = World::start(Settings::default()).await;
    world.park(200).await;
    let parked = world.version(7).await;
    for day in 0..MONTH {
        let (report, units) = world.sweep().await;
        assert_eq!((report, units), (Report::default(), empty), "day {day}");
        world.clock.advance(DAY);
    }
    assert_eq!(world.version(7).await, parked);
    world.clock.advance(Millis(1_000));
    assert_eq!(world.sweep().await.0.written, 200);
}

#[tokio::test]
async fn orders_whose_moment_has_come_are_handled_in_passes_of_bounded_size() {
    const ORDERS: usize = 2_000;
    let settings = Settings {
        sweep_limit: 500,
        ..Settings::default()
    };
    let (limit, page) = (settings.sweep_limit, settings.sweep_page as usize);
    let world = World::start(settings).await;
    world.park(ORDERS).await;
    world.clock.advance(Millis(MONTH * DAY.0 + 1_000));
    let (mut asked, mut passes) = (Vec::new(), 0);
    while asked.len() < ORDERS {
        let (report, units) = world.sweep().await;
        assert!(report.found < limit + page, "{report:?}");
        assert_eq!(report.written, report.found, "each is handled once");
        assert!(units.calls < 4 * report.found as u64, "{units:?}");
        asked.extend(world.schedule().await);
        passes += 1;
        assert!(passes <= ORDERS / limit, "{} of {ORDERS}", asked.len());
    }
    assert_eq!(asked.len(), ORDERS);
    assert_eq!(asked.into_iter().collect::<BTreeSet<_>>().len(), ORDERS);
    let (report, _) = world.sweep().await;
    assert_eq!((report.found, report.truncated), (0, false));
}
