//! An agent's checks before every call of a downstream, with the real tables: the circuit breaker that all instances
//! share, pauses, limits, and the call ledger.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use triad_core::breaker::BreakerSettings;
use triad_core::downstream::{DownstreamAction, ForcedTo};
use triad_core::message::{Alert, AlertKind, Reply, ReplyOutcome, SchedulerMessage};
use triad_core::{Failure, OperatorAct, topics};
use triad_dynamodb::{Capacity, DynamoStore};
use triad_runtime::agent::{Agent, Remotes};
use triad_runtime::operator::{Operator, read_downstream};
use triad_runtime::settings::{DownstreamSettings, Settings};
use triad_runtime::system::{SystemClock, SystemEntropy};
use triad_runtime::{Call, Clock, Fault, Handled, InputRecord, Redelivery, RemoteService};
use triad_tests::bus::MemoryBus;
use triad_tests::clock::ManualClock;
use triad_tests::engines::Store;
use triad_tests::poll::until;
use triad_workflow::{AgentName, Millis};

/// In the year 2096: the tables use the real clock, so nothing expires during the test.
const BEGIN: u64 = 4_000_000_000_000;
const BREAKER: BreakerSettings = BreakerSettings {
    window: 4,
    minimum: 2,
    failure_percent: 50,
    open: Millis(1_000),
    max_open: Millis(8_000),
    probes: 2,
    probe_within: Millis(5_000),
};

/// A remote service that the test controls.
#[derive(Clone, Default)]
struct Service(Arc<Inner>);

#[derive(Default)]
struct Inner {
    calls: AtomicU32,
    under_way: AtomicU32,
    most: AtomicU32,
    faults: Mutex<Option<Fault>>,
    holds: Mutex<bool>,
    released: tokio::sync::Notify,
}

impl Service {
    fn calls(&self) -> u32 {
        self.0.calls.load(Ordering::SeqCst)
    }
    fn fails(&self, retry_after: Option<Millis>) {
        *lock(&self.0.faults) = Some(Fault::Transient {
            code: "http-503".into(),
            message: "busy".into(),
            retry_after,
            maybe_applied: true,
        });
    }
    fn works(&self) {
        *lock(&self.0.faults) = None;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RemoteService for Service {
    async fn call(&self, _: Call<'_>) -> Result<Value, Fault> {
        self.0.calls.fetch_add(1, Ordering::SeqCst);
        let now = self.0.under_way.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.most.fetch_max(now, Ordering::SeqCst);
        let held = *lock(&self.0.holds);
        if held {
            self.0.released.notified().await;
        }
        self.0.under_way.fetch_sub(1, Ordering::SeqCst);
        match lock(&self.0.faults).clone() {
            Some(fault) => Err(fault),
            None => Ok(json!({"ok": true})),
        }
    }
}

type TestAgent = Agent<DynamoStore<SystemClock>, MemoryBus, ManualClock, SystemEntropy>;

/// Tables, a service and a clock, for any number of agent instances.
struct World {
    engine: Store,
    service: Service,
    clock: ManualClock,
    limits: DownstreamSettings,
    requests: AtomicU32,
}

impl World {
    async fn start(limits: DownstreamSettings) -> Self {
        Self {
            engine: Store::start().await,
            service: Service::default(),
            clock: ManualClock::at(BEGIN),
            limits,
            requests: AtomicU32::new(0),
        }
    }

    fn settings(&self) -> Settings {
        Settings {
            downstreams: [(payment(), self.limits)].into(),
            refresh_downstreams: Millis(2_000),
            ..Settings::default()
        }
    }

    fn instance(&self) -> (TestAgent, MemoryBus) {
        self.metered(Arc::default())
    }

    fn metered(&self, capacity: Arc<Capacity>) -> (TestAgent, MemoryBus) {
        let bus = MemoryBus::default();
        let agent = Agent::new(
            Remotes::new().with(payment(), self.service.clone()),
            self.engine.store().metered(capacity),
            bus.clone(),
            self.clock.clone(),
            SystemEntropy,
            self.settings(),
        );
        (agent, bus)
    }

    fn operator(
        &self,
    ) -> Operator<DynamoStore<SystemClock>, MemoryBus, ManualClock, SystemEntropy> {
        Operator::new(
            self.engine.store(),
            MemoryBus::default(),
            self.clock.clone(),
            SystemEntropy,
            self.settings(),
        )
    }

    /// A new request that allows one call.
    fn request(&self) -> Value {
        let number = self.requests.fetch_add(1, Ordering::SeqCst);
        json!({
            "order_id": format!("o-{number}"), "step": "charge", "direction": "forward",
            "attempt": 1, "complete_by": self.clock.now().0 + 30_000, "attempt_timeout_ms": 20_000,
            "allowance": 1,
            "backoff_initial_ms": 10, "backoff_max_ms": 10,
            "idempotency_key": format!("o-{number}/charge/forward"),
            "action": "charge", "input": {}, "agent": "payment", "workflow": "w",
        })
    }

    async fn ask(&self, agent: &TestAgent, bus: &MemoryBus) -> ReplyOutcome {
        deliver(agent, bus, &self.request()).await.outcome
    }

    async fn breaker(&self) -> &'static str {
        let (record, _) = read_downstream(&self.engine.store(), &payment())
            .await
            .expect("the tables work");
        record.breaker.name()
    }
}

fn payment() -> AgentName {
    AgentName::new("payment").expect("a name")
}

fn limits() -> DownstreamSettings {
    DownstreamSettings {
        breaker: BREAKER,
        ..DownstreamSettings::default()
    }
}

fn record(request: &Value) -> InputRecord {
    InputRecord {
        topic: "agent.payment".into(),
        value: Some(request.to_string().into_bytes()),
        ..InputRecord::default()
    }
}

/// Delivers a request to an agent; returns the agent's reply.
async fn deliver(agent: &TestAgent, bus: &MemoryBus, request: &Value) -> Reply {
    assert_eq!(
        agent.handle_one(&record(request), None).await,
        Handled::Done
    );
    replies(bus).pop().expect("there is a reply")
}

fn replies(bus: &MemoryBus) -> Vec<Reply> {
    let mut replies = Vec::new();
    let mut others = Vec::new();
    while let Some(sent) = bus.next() {
        let value = sent.value.clone().unwrap_or_default();
        match serde_json::from_slice(&value) {
            Ok(SchedulerMessage::Reply(reply)) => replies.push(reply),
            _ => others.push(sent),
        }
    }
    for alert in others {
        bus.keep(alert);
    }
    replies
}

fn deferral(outcome: &ReplyOutcome) -> (u64, &Failure) {
    match outcome {
        ReplyOutcome::Deferred { until, failure, .. } => (until.0, failure),
        other => panic!("it should have been deferred: {other:?}"),
    }
}

fn is_done(outcome: &ReplyOutcome) -> bool {
    matches!(outcome, ReplyOutcome::Succeeded { .. })
}

/// Opens the breaker, with failing calls of one instance.
async fn open(world: &World, agent: &TestAgent, bus: &MemoryBus) {
    world.service.fails(None);
    for _ in 0..2 {
        assert!(matches!(
            world.ask(agent, bus).await,
            ReplyOutcome::Failed { .. }
        ));
    }
    assert_eq!(world.breaker().await, "open");
}

#[tokio::test]
async fn an_open_breaker_holds_for_every_instance_and_work_is_deferred_without_a_call() {
    let world = World::start(limits()).await;
    let (one, one_bus) = world.instance();
    open(&world, &one, &one_bus).await;
    let calls = world.service.calls();
    let (two, two_bus) = world.instance();
    for (agent, bus) in [(&one, &one_bus), (&two, &two_bus)] {
        let outcome = world.ask(agent, bus).await;
        let (until, failure) = deferral(&outcome);
        assert_eq!(failure.code, "breaker-open");
        assert!(until > BEGIN, "not before its timer");
    }
    assert_eq!(world.service.calls(), calls, "no call was made");
}

#[tokio::test]
async fn a_second_delivery_of_a_counted_attempt_under_way_waits_for_its_answer() {
    let world = World::start(limits()).await;
    let (agent, bus) = world.instance();
    let mut request = world.request();
    request["counted"] = json!(true);
    *lock(&world.service.0.holds) = true;
    let record = record(&request);
    let both = async {
        tokio::join!(
            agent.handle_one(&record, None),
            agent.handle_one(&record, None)
        )
    };
    let release = async {
        until("the call is under way", async || {
            (world.service.calls() == 1).then_some(())
        })
        .await;
        *lock(&world.service.0.holds) = false;
        world.service.0.released.notify_waiters();
    };
    let (answers, ()) = tokio::join!(both, release);
    assert_eq!(answers, (Handled::Done, Handled::Done));
    assert_eq!(world.service.calls(), 1);
    let replies = replies(&bus);
    assert_eq!(replies.len(), 2);
    assert!(replies.iter().all(|r| is_done(&r.outcome)), "{replies:?}");
}

#[tokio::test]
async fn what_is_answered_is_noted_while_another_request_of_the_batch_hangs() {
    let world = World::start(limits()).await;
    let (agent, _bus) = world.instance();
    let hangs = record(&world.request());
    *lock(&world.service.0.holds) = true;
    let tombstone = InputRecord::default();
    let noted = Mutex::new(Vec::new());
    let records = [hangs, tombstone];
    let done = |place| lock(&noted).push(place);
    let all = agent.handle_each(&records, None, &done);
    let seen = until("the second record is noted", async || {
        (*lock(&noted) == [1]).then_some(())
    });
    tokio::select! {
        () = seen => {}
        handled = all => panic!("the first hangs: {handled:?}"),
    }
}

#[tokio::test]
async fn a_counted_attempt_that_is_taken_when_time_is_up_keeps_its_allowance() {
    let world = World::start(limits()).await;
    let (agent, bus) = world.instance();
    let mut request = world.request();
    request["counted"] = json!(true);
    let delivery = record(&request);
    let handled = agent.handle_one(&delivery, Some(world.clock.now())).await;
    assert_eq!(handled, Handled::Redeliver(Redelivery::OutOfTime));
    let reply = deliver(&agent, &bus, &request).await;
    assert!(is_done(&reply.outcome), "{reply:?}");
}

#[tokio::test]
async fn after_the_timer_probes_close_it_and_the_outage_and_its_end_are_events() {
    let world = World::start(limits()).await;
    let (one, bus) = world.instance();
    open(&world, &one, &bus).await;
    world.service.works();
    world.clock.advance(Millis(1_001));
    let before = world.service.calls();
    assert!(is_done(&world.ask(&one, &bus).await), "the first probe");
    assert_eq!(world.breaker().await, "half-open");
    assert!(is_done(&world.ask(&one, &bus).await), "the second probe");
    assert_eq!(world.breaker().await, "closed");
    assert_eq!(world.service.calls(), before + 2);
    let changes: Vec<String> = std::iter::from_fn(|| bus.next())
        .filter(|r| r.topic == topics::ALERTS)
        .map(|r| serde_json::from_slice::<Alert>(&r.value.unwrap()).unwrap())
        .inspect(|a| assert_eq!(a.kind, AlertKind::Breaker))
        .map(|a| a.cause)
        .collect();
    let seen = ["is down", "is reachable again"];
    assert_eq!(changes.len(), 2, "{changes:?}");
    for (change, part) in changes.iter().zip(seen) {
        assert!(change.contains(part), "{part} in {change}");
    }
}

#[tokio::test]
async fn no_more_probes_are_out_than_may_be_and_a_bad_one_opens_it_for_longer() {
    let world = World::start(limits()).await;
    let (one, bus) = world.instance();
    open(&world, &one, &bus).await;
    world.clock.advance(Millis(1_001));
    *lock(&world.service.0.holds) = true;
    let calls = world.service.calls();
    let asked: Vec<_> = (0..6).map(|_| world.request()).collect();
    let records: Vec<_> = asked.iter().map(record).collect();
    let all = one.handle(&records, None);
    let free = async {
        until("two probes are out", async || {
            (world.service.0.under_way.load(Ordering::SeqCst) == 2).then_some(())
        })
        .await;
        *lock(&world.service.0.holds) = false;
        world.service.0.released.notify_waiters();
    };
    let (handled, ()) = tokio::join!(all, free);
    assert!(handled.iter().all(Handled::is_done));
    assert_eq!(world.service.calls(), calls + 2, "two probes and no more");
    let outcomes = replies(&bus);
    let deferred = |r: &&Reply| matches!(r.outcome, ReplyOutcome::Deferred { .. });
    // The two orders whose calls were probes wait like the others after their failure.
    assert_eq!(outcomes.iter().filter(deferred).count(), 6);
    assert_eq!(world.breaker().await, "open");
    world.clock.advance(Millis(999));
    let outcome = world.ask(&one, &bus).await;
    deferral(&outcome);
}

#[tokio::test]
async fn what_the_service_asks_of_three_orders_opens_it_for_as_long() {
    let breaker = BreakerSettings {
        window: 20,
        minimum: 20,
        ..BREAKER
    };
    let world = World::start(DownstreamSettings {
        breaker,
        ..DownstreamSettings::default()
    })
    .await;
    let (one, bus) = world.instance();
    world.service.fails(Some(Millis(5_000)));
    for breaker in ["closed", "closed", "open"] {
        let outcome = world.ask(&one, &bus).await;
        assert!(deferral(&outcome).0 >= BEGIN + 5_000, "it waits by itself");
        assert_eq!(world.breaker().await, breaker);
    }
    let outcome = world.ask(&one, &bus).await;
    assert!(deferral(&outcome).0 >= BEGIN + 5_000);
}

#[tokio::test]
async fn the_happy_path_costs_no_read_a_call() {
    let world = World::start(limits()).await;
    let capacity = Arc::new(Capacity::metered());
    let (one, bus) = world.metered(capacity.clone());
    for _ in 0..50 {
        assert!(is_done(&world.ask(&one, &bus).await));
    }
    let units = capacity.units();
    assert!(units.read <= 0.5, "one cheap read for all: {units:?}");
    assert!(units.write < f64::EPSILON, "{units:?}");
}

#[tokio::test]
async fn an_operators_pause_reaches_an_instance_when_its_copy_is_old_and_so_does_its_end() {
    let world = World::start(limits()).await;
    let (one, bus) = world.instance();
    assert!(is_done(&world.ask(&one, &bus).await));
    let act = OperatorAct::new("ann", "maintenance");
    let force = DownstreamAction::Force(ForcedTo::Open);
    let operator = world.operator();
    let done = operator.operate_downstream(&payment(), &force, &act).await;
    done.expect("the tables work");
    world.clock.advance(Millis(2_000));
    let outcome = world.ask(&one, &bus).await;
    let (_, failure) = deferral(&outcome);
    assert_eq!(failure.fingerprint(), "operator/downstream-paused");
    assert!(failure.message.contains("ann"), "{failure}");
    let release = DownstreamAction::Release;
    let done = operator
        .operate_downstream(&payment(), &release, &act)
        .await;
    done.expect("the tables work");
    world.clock.advance(Millis(2_000));
    assert!(is_done(&world.ask(&one, &bus).await));
}

#[tokio::test]
async fn a_paused_step_type_holds_up_no_other_step_of_its_downstream() {
    let world = World::start(limits()).await;
    let (one, bus) = world.instance();
    let act = OperatorAct::new("ann", "warehouse is closed");
    let pause = DownstreamAction::PauseStep("w".parse_into(), "charge".parse_into());
    let done = world.operator();
    done.operate_downstream(&payment(), &pause, &act)
        .await
        .expect("the tables work");
    deferral(&world.ask(&one, &bus).await);
    let mut other = world.request();
    other["step"] = json!("refund");
    assert!(is_done(&deliver(&one, &bus, &other).await.outcome));
}

#[tokio::test]
async fn all_instances_together_keep_the_rate() {
    let world = World::start(DownstreamSettings {
        rate_per_second: Some(10),
        ..limits()
    })
    .await;
    let instances = [world.instance(), world.instance()];
    let asked: Vec<_> = (0..30).map(|_| record(&world.request())).collect();
    let (left, right) = asked.split_at(15);
    let work = async {
        tokio::join!(
            instances[0].0.handle(left, None),
            instances[1].0.handle(right, None)
        )
    };
    // While the clock stands still, calls beyond the limit wait; then it is advanced.
    let watch = async {
        until("the second is used up", async || {
            (world.service.calls() == 10 && world.clock.sleepers(Millis(2_000)) >= 20).then_some(())
        })
        .await;
        world.clock.advance(Millis(3_000));
    };
    let (handled, ()) = tokio::join!(work, watch);
    assert!(handled.0.iter().chain(&handled.1).all(Handled::is_done));
    assert!(
        world.service.calls() <= 20,
        "two seconds were on the clock: {}",
        world.service.calls()
    );
    let outcomes: Vec<_> = instances.iter().flat_map(|(_, b)| replies(b)).collect();
    assert_eq!(outcomes.len(), 30, "every request has its answer");
}

#[tokio::test]
async fn an_instance_makes_no_more_calls_at_once_than_its_limit() {
    let world = World::start(DownstreamSettings {
        concurrency: Some(3),
        ..limits()
    })
    .await;
    let (one, bus) = world.instance();
    *lock(&world.service.0.holds) = true;
    let records: Vec<_> = (0..5).map(|_| record(&world.request())).collect();
    let all = one.handle(&records, None);
    let watch = async {
        until("three calls are under way", async || {
            (world.service.0.under_way.load(Ordering::SeqCst) == 3).then_some(())
        })
        .await;
        until("two wait", async || {
            (world.clock.sleepers(Millis(2_000)) == 2).then_some(())
        })
        .await;
        world.clock.advance(Millis(2_000));
        until("the two are deferred", async || {
            (world.clock.sleepers(Millis(2_000)) == 0).then_some(())
        })
        .await;
        *lock(&world.service.0.holds) = false;
        world.service.0.released.notify_waiters();
    };
    let (handled, ()) = tokio::join!(all, watch);
    assert!(handled.iter().all(Handled::is_done));
    assert_eq!(world.service.0.most.load(Ordering::SeqCst), 3);
    let outcomes = replies(&bus);
    let limited = outcomes.iter().filter(|r| match &r.outcome {
        ReplyOutcome::Deferred { failure, .. } => failure.code == "concurrency-limit",
        _ => false,
    });
    assert_eq!(limited.count(), 2);
}

#[tokio::test]
async fn a_counted_request_that_is_delivered_again_elsewhere_is_left_to_the_other_delivery() {
    let world = World::start(limits()).await;
    let (one, bus) = world.instance();
    let mut request = world.request();
    request["allowance"] = json!(3);
    request["counted"] = json!(true);
    assert!(is_done(&deliver(&one, &bus, &request).await.outcome));
    let (two, two_bus) = world.instance();
    let handled = two.handle_one(&record(&request), None).await;
    assert!(handled.is_done(), "{handled:?}");
    assert_eq!(world.service.calls(), 1, "the other delivery's");
    assert!(
        replies(&two_bus).is_empty(),
        "it knows nothing of the effect"
    );
    // The first process has now cached the permission.
    assert!(is_done(&deliver(&one, &bus, &request).await.outcome));
}

trait ParseInto {
    fn parse_into<T: TryFrom<String>>(&self) -> T
    where
        T::Error: std::fmt::Debug;
}

impl ParseInto for str {
    fn parse_into<T: TryFrom<String>>(&self) -> T
    where
        T::Error: std::fmt::Debug,
    {
        T::try_from(self.to_owned()).expect("a good name")
    }
}
