//! The caps on orders in flight, with the real tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use triad_core::message::StatusMessage;
use triad_core::operate::{Action, Operation};
use triad_core::order::OperatorAct;
use triad_core::status::Status;
use triad_core::{
    ClaimId, Context, Decision, Event, OrderId, Priority, Timing, Version, decide, topics,
};
use triad_dynamodb::{Capacity, DynamoStore};
use triad_runtime::operator::Operator;
use triad_runtime::scheduler::Scheduler;
use triad_runtime::settings::{AdmissionSettings, Settings};
use triad_runtime::submission::Submission;
use triad_runtime::supervisor::{Report, Supervisor};
use triad_runtime::system::{SystemClock, SystemEntropy};
use triad_runtime::{Clock, Handled, InputRecord, StateStore, Write};
use triad_tests::bus::MemoryBus;
use triad_tests::clock::ManualClock;
use triad_tests::engines::{Store, workflow};
use triad_tests::poll::until;
use triad_workflow::{Millis, Workflow};

/// In the year 2096: the tables use the real clock, so nothing expires during the test.
const BEGIN: u64 = 4_000_000_000_000;

fn one_step(name: &str) -> Workflow {
    workflow(&format!(
        "workflow: {name}\nsteps: [{{id: only, agent: x, action: go, compensation: none}}]\n"
    ))
}

struct World {
    engine: Store,
    clock: ManualClock,
    bus: MemoryBus,
    submission: Submission<DynamoStore<SystemClock>, MemoryBus, ManualClock>,
}

impl World {
    async fn start(admission: AdmissionSettings) -> Self {
        let engine = Store::start().await;
        for name in ["small", "other"] {
            engine.publish(&one_step(name)).await;
        }
        let (clock, bus) = (ManualClock::at(BEGIN), MemoryBus::default());
        let settings = Settings {
            admission,
            ..Settings::default()
        };
        let submission = Submission::new(engine.store(), bus.clone(), clock.clone(), settings);
        Self {
            engine,
            clock,
            bus,
            submission,
        }
    }

    /// Submits orders; returns whether each was accepted. The clock is advanced while Submission waits for room.
    async fn submit(&self, workflow: &str, ids: &[&str]) -> Vec<bool> {
        let records: Vec<_> = ids.iter().map(|id| order(workflow, id)).collect();
        let handle = self.submission.handle(&records);
        let push = async {
            loop {
                tokio::task::yield_now().await;
                if self.clock.sleepers(Millis(1_000)) > 0 {
                    self.clock.advance(Millis(250));
                }
            }
        };
        let handled = tokio::select! {
            handled = handle => handled,
            () = push => unreachable!("it does not end"),
        };
        handled.iter().map(Handled::is_done).collect()
    }

    async fn is_stored(&self, id: &str) -> bool {
        let id = OrderId::new(id).unwrap();
        let found = self.engine.store().load(vec![id]).await.remove(0);
        found.unwrap().is_some()
    }

    /// Ends an order in Processed, as a Scheduler does.
    async fn finish(&self, id: &str) {
        let store = self.engine.store();
        let found = store.load(vec![OrderId::new(id).unwrap()]).await.remove(0);
        let order = found.unwrap().unwrap();
        let workflow = one_step(order.workflow.name.as_str());
        let ctx = Context {
            workflow: &workflow,
            details: Some(&json!({})),
            timing: Timing::default(),
        };
        let now = self.clock.now();
        let claim = Event::Claim(
            ClaimId(format!("c-{id}")),
            triad_core::CallbackSecret([1, 2]),
        );
        let Ok(Decision::Transition(claimed)) = decide(&ctx, &order, claim, now) else {
            panic!("it can be claimed")
        };
        let claimed = claimed.next;
        let reply = json!({"order_id": id, "step": "only", "direction": "forward", "attempt": 1,
            "complete_by": claimed.complete_by(), "calls": 1,
            "outcome": {"result": "succeeded", "output": null}});
        let reply = Event::Reply(serde_json::from_value(reply).unwrap());
        let Ok(Decision::Transition(done)) = decide(&ctx, &claimed, reply, now) else {
            panic!("it can be answered")
        };
        let done = done.next;
        for (expected, next) in [(order.version, claimed.clone()), (claimed.version, done)] {
            let write = Write::silent(expected, next.into(), expected.0);
            store.commit(vec![write]).await.remove(0).unwrap();
        }
    }

    fn rejected(&self) -> Vec<String> {
        std::iter::from_fn(|| self.bus.next())
            .filter(|r| r.topic == topics::STATUS)
            .map(|r| serde_json::from_slice::<StatusMessage>(&r.value.unwrap()).unwrap())
            .filter(|s| s.status == Status::Rejected)
            .inspect(|s| assert_eq!(s.cause.as_ref().unwrap().code, "too-many-in-flight"))
            .map(|s| s.order_id.to_string())
            .collect()
    }
}

/// The reply of an agent whose call has succeeded.
fn succeeded(request: &Value) -> Value {
    json!({"type": "reply", "order_id": request["order_id"], "step": request["step"],
        "direction": request["direction"], "attempt": request["attempt"],
        "complete_by": request["complete_by"], "calls": 1,
        "outcome": {"result": "succeeded", "output": null}})
}

fn order(workflow: &str, id: &str) -> InputRecord {
    let order = json!({"order_id": id, "workflow": workflow, "details": {}});
    InputRecord {
        topic: topics::ORDERS.into(),
        timestamp_ms: i64::try_from(BEGIN).unwrap(),
        value: Some(order.to_string().into_bytes()),
        ..InputRecord::default()
    }
}

fn caps(in_flight: Option<u32>, reject_after: Option<Millis>) -> AdmissionSettings {
    AdmissionSettings {
        in_flight,
        per_workflow: BTreeMap::new(),
        reject_after,
    }
}

#[tokio::test]
async fn beyond_the_cap_orders_wait_in_their_topic_and_get_in_when_one_has_ended() {
    let world = World::start(caps(Some(3), None)).await;
    assert_eq!(
        world.submit("small", &["1", "2", "3", "4", "5"]).await,
        [true, true, true, false, false]
    );
    assert!(!world.is_stored("4").await);
    assert_eq!(world.rejected(), [""; 0]);
    world.finish("1").await;
    world.clock.advance(Millis(2_000));
    assert_eq!(world.submit("small", &["4", "5"]).await, [true, false]);
    assert!(world.is_stored("4").await);
}

#[tokio::test]
async fn an_order_that_has_waited_for_as_long_as_it_may_is_rejected_with_a_status() {
    let world = World::start(caps(Some(1), Some(Millis(60_000)))).await;
    assert_eq!(world.submit("small", &["1", "2"]).await, [true, false]);
    world.clock.advance(Millis(60_000));
    assert_eq!(world.submit("small", &["2", "3"]).await, [true, true]);
    assert_eq!(world.rejected(), ["2", "3"]);
    assert!(!world.is_stored("2").await);
}

#[tokio::test]
async fn an_accepted_order_that_is_delivered_again_is_not_rejected() {
    let world = World::start(caps(Some(1), Some(Millis(0)))).await;
    assert_eq!(world.submit("small", &["1"]).await, [true]);
    assert_eq!(world.submit("small", &["1"]).await, [true]);
    assert_eq!(world.rejected(), [""; 0]);
    assert_eq!(world.submit("small", &["2"]).await, [true]);
    assert_eq!(world.rejected(), ["2"]);
}

#[tokio::test]
async fn a_workflow_has_a_cap_of_its_own() {
    let world = World::start(AdmissionSettings {
        in_flight: None,
        per_workflow: [("small".to_owned().try_into().unwrap(), 2)].into(),
        reject_after: Some(Millis(0)),
    })
    .await;
    for id in ["1", "2", "3"] {
        assert_eq!(world.submit("small", &[id]).await, [true]);
        assert_eq!(world.submit("other", &[&format!("o{id}")]).await, [true]);
    }
    assert_eq!(world.rejected(), ["3"]);
}

/// The two handlers that admit set-aside orders, on the same tables, with the same caps.
impl World {
    fn settings() -> Settings {
        Settings {
            admission: small(2),
            ..Settings::default()
        }
    }

    async fn sweep(&self, settings: Settings) -> Report {
        let supervisor = Supervisor::new(
            self.engine.store(),
            self.bus.clone(),
            self.clock.clone(),
            SystemEntropy,
            settings,
        );
        supervisor.sweep(Millis(60_000)).await
    }

    async fn is_set_aside(&self, id: &str) -> bool {
        let id = OrderId::new(id).unwrap();
        let found = self.engine.store().load(vec![id]).await.remove(0);
        let order = found.unwrap().expect("it is stored");
        assert_eq!(order.version == Version::FIRST, order.set_aside.is_some());
        order.set_aside.is_some()
    }

    async fn set_aside(&self, ids: &[&str]) -> Vec<bool> {
        let mut all = Vec::new();
        for id in ids {
            all.push(self.is_set_aside(id).await);
        }
        all
    }
}

fn small(cap: u32) -> AdmissionSettings {
    AdmissionSettings {
        in_flight: None,
        per_workflow: [("small".to_owned().try_into().unwrap(), cap)].into(),
        reject_after: None,
    }
}

#[tokio::test]
async fn an_order_beyond_its_workflow_s_cap_holds_up_nobody_and_is_let_in_by_age() {
    let world = World::start(small(2)).await;
    let line = [
        ("small", "1"),
        ("small", "2"),
        ("small", "3"),
        ("other", "o1"),
        ("small", "4"),
    ];
    let records: Vec<_> = line
        .iter()
        .map(|(workflow, id)| order(workflow, id))
        .collect();
    let handled = world.submission.handle(&records).await;
    assert_eq!(handled, vec![Handled::Done; 5], "nobody waits in the topic");
    assert!(world.is_stored("o1").await);
    let ids = ["1", "2", "3", "4"];
    assert_eq!(world.set_aside(&ids[2..]).await, [true, true]);
    let announced = |topic: &str| topic == topics::scheduler(Priority::Normal);
    let sent: Vec<_> = std::iter::from_fn(|| world.bus.next()).collect();
    assert_eq!(
        sent.iter().filter(|r| announced(&r.topic)).count(),
        3,
        "1, 2 and o1"
    );
    assert_eq!(
        sent.iter().filter(|r| r.topic == topics::STATUS).count(),
        5,
        "all are accepted"
    );

    // If there is no room, a sweep admits no order and sends no wake.
    let report = world.sweep(World::settings()).await;
    assert_eq!((report.admitted, report.failed), (0, 0));
    world.finish("1").await;
    world.clock.advance(Millis(10));
    assert_eq!(world.sweep(World::settings()).await.admitted, 1);
    assert_eq!(
        world.set_aside(&ids[2..]).await,
        [false, true],
        "the oldest"
    );
    assert_eq!(
        world.sweep(World::settings()).await.admitted,
        0,
        "the place is taken"
    );

    // Without a cap, sweeps admit every set-aside order, in any shard.
    let mut admitted = 0;
    for _ in 0..500 {
        admitted += world.sweep(Settings::default()).await.admitted;
    }
    assert_eq!(admitted, 1);
    assert_eq!(world.set_aside(&ids[2..]).await, [false, false]);
}

#[tokio::test]
async fn one_that_is_held_or_cannot_be_read_keeps_no_other_from_being_let_in() {
    let world = World::start(small(1)).await;
    assert_eq!(
        world.submit("small", &["1", "2", "3", "4"]).await,
        [true; 4]
    );
    let operator = Operator::new(
        world.engine.store(),
        world.bus.clone(),
        world.clock.clone(),
        SystemEntropy,
        World::settings(),
    );
    let hold = Operation {
        action: Action::Pause,
        act: OperatorAct::new("ann", "not yet"),
    };
    let held = operator
        .operate(&OrderId::new("2").unwrap(), &hold, false)
        .await;
    assert!(held.is_ok(), "{held:?}");
    world.engine.damage("3", "Steps", "no JSON").await;
    world.finish("1").await;
    let settings = Settings {
        admission: small(1),
        ..Settings::default()
    };
    assert_eq!(world.sweep(settings).await.admitted, 1);
    assert!(!world.is_set_aside("4").await, "it is let in past both");
}

#[tokio::test]
async fn who_ends_an_order_lets_the_next_one_in() {
    let world = World::start(small(2)).await;
    let ids = ["1", "2", "3", "4", "5"];
    assert_eq!(world.submit("small", &ids).await, [true; 5]);
    let settings = World::settings();
    let scheduler = Scheduler::new(
        world.engine.store(),
        world.bus.clone(),
        world.clock.clone(),
        SystemEntropy,
        settings,
    );
    // The Scheduler handles all its messages, and each of its requests is answered at once.
    let mut ended = Vec::new();
    for _ in 0..100 {
        let Some(record) = world.bus.next() else {
            break;
        };
        let answer = match record.topic.as_str() {
            "scheduler" => record,
            "agent.x" => {
                let request: Value = serde_json::from_slice(&record.value.unwrap()).unwrap();
                ended.push(request["order_id"].as_str().unwrap().to_owned());
                InputRecord {
                    topic: "scheduler".into(),
                    value: Some(succeeded(&request).to_string().into_bytes()),
                    ..InputRecord::default()
                }
            }
            _ => continue,
        };
        world.clock.advance(Millis(1));
        assert_eq!(scheduler.handle(&[answer]).await, [Handled::Done]);
    }
    assert_eq!(ended, ids, "all of them, by age, and nobody swept");
}

#[tokio::test]
async fn an_order_that_is_set_aside_can_be_cancelled_and_delivered_again() {
    let world = World::start(small(1)).await;
    assert_eq!(world.submit("small", &["1", "2"]).await, [true; 2]);
    let _ = std::iter::from_fn(|| world.bus.next()).count();
    // The same order once more is a repetition: it is accepted, and again no wake is sent.
    assert_eq!(world.submit("small", &["2"]).await, [true]);
    let sent: Vec<_> = std::iter::from_fn(|| world.bus.next())
        .map(|r| r.topic)
        .collect();
    assert_eq!(sent, [topics::STATUS]);
    let operator = Operator::new(
        world.engine.store(),
        world.bus.clone(),
        world.clock.clone(),
        SystemEntropy,
        World::settings(),
    );
    let act = Operation {
        action: Action::Cancel,
        act: OperatorAct::new("ann", "no longer wanted"),
    };
    let done = operator
        .operate(&OrderId::new("2").unwrap(), &act, false)
        .await;
    assert!(done.is_ok(), "{done:?}");
    let found = world
        .engine
        .store()
        .load(vec![OrderId::new("2").unwrap()])
        .await
        .remove(0);
    let order = found.unwrap().expect("it is stored");
    assert_eq!(
        (order.state.name(), order.set_aside),
        ("Compensating", None)
    );
    world.finish("1").await;
    assert_eq!(
        world.sweep(World::settings()).await.admitted,
        0,
        "it has ended"
    );
}

#[tokio::test]
async fn near_the_cap_the_index_is_not_read_again_with_every_batch() {
    let mut world = World::start(caps(Some(12), None)).await;
    let capacity = Arc::new(Capacity::metered());
    world.submission = Submission::new(
        world.engine.store().metered(capacity.clone()),
        world.bus.clone(),
        world.clock.clone(),
        Settings {
            admission: caps(Some(12), None),
            ..Settings::default()
        },
    );
    assert_eq!(world.submit("small", &["0"]).await, [true]);
    let read = capacity.units().read;
    for n in 1..12 {
        assert_eq!(world.submit("small", &[&n.to_string()]).await, [true]);
    }
    let units = capacity.units().read;
    assert!((units - read).abs() < f64::EPSILON, "{read}, then {units}");
    world.clock.advance(Millis(250));
    world.finish("0").await;
    assert_eq!(world.submit("small", &["12"]).await, [true]);
    assert!(capacity.units().read > units, "it has counted again");
}

#[tokio::test]
async fn several_instances_count_one_anothers_orders() {
    let world = World::start(caps(Some(2), Some(Millis(0)))).await;
    let second = Submission::new(
        world.engine.store(),
        world.bus.clone(),
        world.clock.clone(),
        Settings {
            admission: caps(Some(2), Some(Millis(0))),
            ..Settings::default()
        },
    );
    assert_eq!(world.submit("small", &["1", "2"]).await, [true, true]);
    let handled = second.handle(&[order("small", "3")]).await;
    assert_eq!(handled, [Handled::Done]);
    until("the third is rejected", async || {
        (world.rejected() == ["3"]).then_some(())
    })
    .await;
}
