//! Overload (G12): more concurrent orders than the system can handle, and no other fault, in `triad dev`, with
//! workers and with functions. Results of orders are asserted, never times. `TRIAD_OVERLOAD=full` enlarges the outage
//! tests, up to a quarter of an hour each, for `cargo test --release`, one test at a time. Each test prints its
//! figures.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::{interval, timeout};
use triad_core::ledger::{Mark, key};
use triad_core::{Direction, IdempotencyKey, Order, OrderId, ProcessState, StepRecord};
use triad_reference_service::{FaultPlan, Faults};
use triad_runtime::operator::read_downstream;
use triad_runtime::system::SystemClock;
use triad_runtime::{Clock, ControlStore};
use triad_tests::cli::triad;
use triad_tests::engines::{Engines, workflow};
use triad_tests::event_source::EventSource;
use triad_tests::orders::{FULFILMENT, Files, lines, orders};
use triad_tests::poll::until;
use triad_tests::process::{Process, binary, command};
use triad_tests::topics::{Raw, producer, write_with};
use triad_workflow::{AgentName, Millis, StepId};

/// More than the clocks of one machine can differ.
const SKEW: Millis = Millis(500);
/// Number of steps of an order.
const STEPS: u64 = 5;
/// Interval between two parts of a steady load.
const TICK: Duration = Duration::from_millis(250);
/// A test fails if this time passes without a further effect; it is shorter than the general limit of a wait.
const STALLED: Duration = Duration::from_secs(150);
/// Most orders that are given to a producer at once.
const AT_ONCE: usize = 10_000;
/// The unavailable downstream, which the orders of [`RESTOCK`] do not need.
const AWAY: &str = "payment";
/// The downstream of the last step of both workflows.
const LAST: &str = "notification";
/// The step whose calls are counted in the workflow of [`counted`].
const COUNTED: &str = "charge-payment";

/// A workflow that needs some of the downstreams of [`FULFILMENT`].
const RESTOCK: &str = "workflow: restock
defaults: { attempt_timeout: 5s, retry: { calls_per_attempt: 4, initial: 50ms, max: 1s } }
steps:
  - {id: count-stock, agent: inventory, action: count, compensation: none}
  - {id: tell-shop, agent: notification, action: send, compensation: none}
";
/// Number of steps of its orders.
const RESTOCK_STEPS: u64 = 2;

#[expect(
    clippy::disallowed_methods,
    reason = "how large the tests are is no setting of Triad's"
)]
fn sized<T>(small: T, full: T) -> T {
    let set = std::env::var("TRIAD_OVERLOAD");
    if set.is_ok_and(|size| size == "full") {
        full
    } else {
        small
    }
}

fn slow(latency_ms: u64) -> Faults {
    Faults {
        default: FaultPlan {
            latency_ms,
            ..FaultPlan::default()
        },
        ..Faults::default()
    }
}

/// These faults, with one downstream unavailable.
fn away(latency_ms: u64) -> Faults {
    let down = FaultPlan {
        down: true,
        ..FaultPlan::default()
    };
    Faults {
        services: [(AWAY.to_owned(), down)].into(),
        ..slow(latency_ms)
    }
}

/// The built-in workflow, with counted calls in one step.
fn counted() -> String {
    let step = format!("  - id: {COUNTED}\n");
    let retry = "    retry: { calls_per_attempt: 4, calls_per_run: 9, initial: 50ms, max: 1s }\n";
    FULFILMENT.replacen(&step, &format!("{step}{retry}"), 1)
}

/// `count` orders of [`RESTOCK`].
fn restocks(prefix: &str, count: usize) -> Vec<Value> {
    let mut all = orders(prefix, count);
    for order in &mut all {
        order["workflow"] = json!("restock");
    }
    all
}

async fn send(engines: &Engines, orders: &[Value]) {
    let producer = producer(&engines.brokers());
    for some in orders.chunks(AT_ONCE) {
        write_with(&producer, &raw(some)).await;
    }
}

fn raw(orders: &[Value]) -> Vec<Raw> {
    let raw = |order: &Value| Raw {
        topic: "orders".to_owned(),
        value: Some(order.to_string().into_bytes()),
        ..Raw::default()
    };
    orders.iter().map(raw).collect()
}

async fn submit(engines: &Engines, prefix: &str, count: usize) {
    send(engines, &orders(prefix, count)).await;
}

/// Submits orders at a constant rate, however long they take, and counts them.
async fn submit_steadily(
    engines: &Engines,
    orders: &[Value],
    a_second: usize,
    submitted: &AtomicUsize,
) {
    let each = (a_second as f64 * TICK.as_secs_f64()).ceil() as usize;
    let producer = producer(&engines.brokers());
    let mut pace = interval(TICK);
    for some in orders.chunks(each) {
        pace.tick().await;
        write_with(&producer, &raw(some)).await;
        submitted.fetch_add(some.len(), Ordering::Relaxed);
    }
}

/// A worker with short time limits. At full size only that of the queue is short, and waiting orders are woken as
/// rarely as in a real installation.
fn worker(engines: &Engines) -> Process {
    let mut command = command("triad-worker");
    command
        .args(["--sweep-every", "500ms", "--functions"])
        .arg("submission,scheduler,agent,supervisor")
        .envs(engines.variables(&engines.brokers()))
        .env("TRIAD_QUEUE_WITHIN", sized("3s", "10s"))
        .env("TRIAD_ANNOUNCE_WITHIN", sized("2s", "60s"));
    Process::start(command)
}

/// Number of effects that one service, or all services, have applied.
fn applied(engines: &Engines, service: Option<&str>) -> u64 {
    let summary = engines.service.summary();
    match service {
        Some(name) => summary.services.get(name).map_or(0, |c| c.applied),
        None => summary.total.applied,
    }
}

/// Waits for this many effects; fails when their number no longer grows.
async fn wait_for_effects(engines: &Engines, service: Option<&str>, wanted: u64) {
    let mut seen = 0;
    while seen < wanted {
        let more = until("more effects are applied", async || {
            let now = applied(engines, service);
            (now > seen).then_some(now)
        });
        seen = match timeout(STALLED, more).await {
            Ok(now) => now,
            Err(_) => panic!(
                "{seen} effects of {wanted}, then none: {}",
                left(engines).await
            ),
        };
    }
}

/// The number of unprocessed orders, and the first of them.
async fn left(engines: &Engines) -> String {
    let mut records = engines.records().await;
    let stored = records.len();
    records.retain(|order| order.state.name() != "Processed");
    let first: Vec<_> = records.iter().take(3).collect();
    format!("{} of {stored} orders, as {first:#?}", records.len())
}

/// Waits until all orders are processed, with this many effects; returns their records.
async fn all_processed(engines: &Engines, effects: u64) -> BTreeMap<OrderId, Order> {
    wait_for_effects(engines, None, effects).await;
    until("every order is processed", async || {
        let all = engines.records().await;
        let done = all.iter().all(|order| order.state.name() == "Processed");
        done.then(|| all.into_iter().map(|o| (o.id.clone(), o)).collect())
    })
    .await
}

/// Asserts that all orders are Processed, each with every effect once. Only the attempts in `taken` may have counted
/// failures; nothing may be compensated or in doubt.
async fn nothing_failed_but(
    engines: &Engines,
    submitted: &[Value],
    records: &BTreeMap<OrderId, Order>,
    taken: &BTreeSet<(OrderId, StepId)>,
) {
    for order in submitted {
        let id = order["order_id"].as_str().expect("an id");
        let id = OrderId::new(id).expect("an order id");
        let record = records.get(&id).expect("it is stored");
        assert_eq!(record.state.name(), "Processed", "{id}");
        for step in &record.steps {
            let own = u32::from(taken.contains(&(id.clone(), step.step.clone())));
            let failures = step.action.failures + step.compensation.failures;
            assert!(failures <= own && step.in_doubt.is_none(), "{id}: {step:?}");
        }
    }
    assert_eq!(records.len(), submitted.len(), "nothing else is stored");
    let ledger = engines.ledger().await;
    ledger.assert_nothing_twice();
    let steps: usize = records.values().map(|order| order.steps.len()).sum();
    let total = &ledger.summary.total;
    assert_eq!(
        (total.applied, total.compensated),
        (steps as u64, 0),
        "{total:?}"
    );
}

/// Asserts the same without exceptions.
async fn nothing_failed(engines: &Engines, prefix: &str, count: usize) {
    let records = all_processed(engines, STEPS * count as u64).await;
    nothing_failed_but(engines, &orders(prefix, count), &records, &BTreeSet::new()).await;
}

/// Prints the figures of the orders with this prefix.
fn print_figures(what: &str, began: Instant, records: &BTreeMap<OrderId, Order>, prefix: &str) {
    let of_prefix = records
        .values()
        .filter(|o| o.id.as_str().starts_with(prefix));
    let mut incidents: BTreeMap<String, usize> = BTreeMap::new();
    let mut spans = Vec::new();
    for order in of_prefix {
        if let ProcessState::Processed { at } = order.state {
            spans.push(at.since(order.submitted_at).0);
        }
        for incident in &order.incidents {
            *incidents.entry(format!("{:?}", incident.what)).or_default() += 1;
        }
    }
    spans.sort_unstable();
    let at = |share: usize| spans.get((spans.len().max(1) - 1) * share / 100).copied();
    println!(
        "{what}: {} orders Processed after {:?}; accepted to finished, p50, p99, longest, in ms: \
         {:?}; incidents {incidents:?}",
        spans.len(),
        began.elapsed(),
        [50, 99, 100].map(at),
    );
}

#[tokio::test]
async fn a_burst_of_healthy_orders_ends_well_in_dev() {
    let count = 1_500;
    let files = Files::new();
    let file = files.write("orders.jsonl", &lines(&orders("burst", count)));
    let ran = triad(
        &[
            "dev",
            "--json",
            "--orders",
            &file,
            "--until-done",
            "--in-flight",
            "0",
        ],
        &[],
        b"",
    )
    .await;
    let said = ran.good().json_lines();
    let summary = &said.last().expect("a summary")["summary"];
    assert_eq!(summary["states"], json!({ "Processed": count }));
    assert_eq!(summary["failures"], json!({}), "nothing failed");
    assert_eq!(summary["effects"], STEPS * count as u64, "each step once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_that_are_killed_one_after_the_other_fail_no_order() {
    let (count, kills) = sized((150, 4), (2_800, 6));
    let engines = Engines::start(FULFILMENT, slow(100)).await;
    let mut workers = [worker(&engines), worker(&engines), worker(&engines)];
    let began = Instant::now();
    let all = orders("outage", count);
    let submitted = AtomicUsize::new(0);
    let killed = async {
        for kill in 1..=kills {
            let before = applied(&engines, Some(LAST));
            until("more orders have come and more have ended", async || {
                let come = submitted.load(Ordering::Relaxed) >= kill * count / (kills + 1);
                (come && applied(&engines, Some(LAST)) > before).then_some(())
            })
            .await;
            let victim = &mut workers[kill % 3];
            victim.kill().await;
            *victim = worker(&engines);
            println!("killed number {kill} after {:?}", began.elapsed());
        }
    };
    tokio::join!(submit_steadily(&engines, &all, 40, &submitted), killed);
    let records = all_processed(&engines, STEPS * count as u64).await;
    print_figures("outage", began, &records, "outage");
    nothing_failed_but(&engines, &all, &records, &BTreeSet::new()).await;
}

/// Number of attempts under way whose complete-by has not passed by every clock.
fn not_over(records: &[Order]) -> usize {
    let now = SystemClock.now();
    let steps = records.iter().flat_map(|order| &order.steps);
    let deadlines = steps.filter_map(|step| step.state.complete_by());
    deadlines.filter(|at| at.plus(SKEW) > now).count()
}

/// Whether an agent has taken the attempt that is under way, by the call ledger.
async fn is_taken(engines: &Engines, order: &Order, step: &StepRecord) -> bool {
    let Some(out) = step.state.out().filter(|_| step.state.is_running()) else {
        return false;
    };
    let of = IdempotencyKey::of(&order.id, &step.step, Direction::Forward, step.key);
    let mark = key(&of, out.direction, out.attempt);
    let found = engines.store.store().read(mark, true).await;
    found.expect("tables can be read").is_some_and(|record| {
        let mark: Mark = serde_json::from_value(record.value).expect("a mark");
        !mark.revoked
    })
}

/// The counted attempts that agents had taken when they were killed. Only these may have made calls that were not
/// reported.
async fn taken(engines: &Engines, records: &[Order]) -> BTreeSet<(OrderId, StepId)> {
    let mut taken = BTreeSet::new();
    for order in records {
        for step in order.steps.iter().filter(|s| s.step.as_str() == COUNTED) {
            if is_taken(engines, order, step).await {
                taken.insert((order.id.clone(), step.step.clone()));
            }
        }
    }
    taken
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_of_everything_beyond_every_deadline_fails_no_order() {
    // At full size, 100,000 orders are left when the first thousand have ended.
    let (count, first, latency) = sized((100, 1, 200), (102_000, 1_000, 20));
    let engines = Engines::start(&counted(), slow(latency)).await;
    let all = orders("stop", count);
    send(&engines, &all).await;
    let mut before = [worker(&engines), worker(&engines)];
    wait_for_effects(&engines, Some(LAST), first).await;
    for worker in &mut before {
        worker.kill().await;
    }
    let stopped = Instant::now();
    // Waits until the complete-by of every attempt under way has passed by every clock.
    let records = until("every deadline has passed", async || {
        let records = engines.records().await;
        (not_over(&records) == 0).then_some(records)
    })
    .await;
    let ended = records.iter().filter(|o| o.state.is_finished()).count();
    let out = records.iter().flat_map(|order| &order.steps);
    let out = out.filter(|s| s.state.complete_by().is_some()).count();
    let taken = taken(&engines, &records).await;
    println!(
        "stopped for {:?} with {} orders not ended, {} of them stored, {out} attempts out, {} \
         counted ones taken",
        stopped.elapsed(),
        count - ended,
        records.len() - ended,
        taken.len(),
    );
    let began = Instant::now();
    let _after = [worker(&engines), worker(&engines)];
    let records = all_processed(&engines, STEPS * count as u64).await;
    print_figures("after the stop", began, &records, "stop");
    let steps = records.values().flat_map(|order| &order.steps);
    let failures: u32 = steps.map(|step| step.action.failures).sum();
    println!("{failures} failures were counted");
    nothing_failed_but(&engines, &all, &records, &taken).await;
}

async fn breaker(engines: &Engines) -> &'static str {
    let agent = AgentName::new(AWAY).expect("a name");
    let read = read_downstream(&engines.store.store(), &agent).await;
    read.expect("tables can be read").0.breaker.name()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_downstream_that_is_away_holds_up_only_what_needs_it_and_fails_no_order() {
    // At full size, the other orders come for ten minutes.
    let (in_need, others) = sized((100, 50), (20_000, 12_000));
    let engines = Engines::start(FULFILMENT, away(5)).await;
    engines.store.publish(&workflow(RESTOCK)).await;
    let _workers = [worker(&engines), worker(&engines)];
    let began = Instant::now();
    let needing = orders("needing", in_need);
    send(&engines, &needing).await;
    until("the breaker is known open", async || {
        (breaker(&engines).await != "closed").then_some(())
    })
    .await;
    let other = restocks("other", others);
    submit_steadily(&engines, &other, 20, &AtomicUsize::new(0)).await;
    println!(
        "away, the last of the others came after {:?}",
        began.elapsed()
    );
    // Only orders that do not need the unavailable service can have this effect.
    wait_for_effects(&engines, Some(LAST), others as u64).await;
    assert_eq!(applied(&engines, Some(AWAY)), 0, "it is away");
    let calls = engines.service.summary().services[AWAY].calls;
    println!(
        "away for {:?}, {calls} calls met it so, its breaker is {}",
        began.elapsed(),
        breaker(&engines).await
    );
    engines.set_faults(slow(5));
    let returned = Instant::now();
    let effects = STEPS * in_need as u64 + RESTOCK_STEPS * others as u64;
    let records = all_processed(&engines, effects).await;
    print_figures("in need, since the return", returned, &records, "needing");
    print_figures("the others", began, &records, "other");
    let all = [needing, other].concat();
    nothing_failed_but(&engines, &all, &records, &BTreeSet::new()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_of_healthy_orders_ends_well_through_the_functions() {
    let count = 150;
    let engines = Engines::start(FULFILMENT, slow(20)).await;
    let agents = engines.agent_topics();
    let agents: Vec<&str> = agents.iter().map(String::as_str).collect();
    let source = |function: &str, topics: &[&str]| {
        let brokers = engines.brokers();
        let variables = engines.variables(&brokers);
        EventSource::start(&binary(function), &variables, &brokers, topics)
    };
    let mut sources = [
        source("triad-submission", &["orders"]),
        source("triad-scheduler", &["scheduler"]),
        source("triad-agent", &agents),
    ];
    submit(&engines, "mapped", count).await;
    until("every order is processed", async || {
        for source in &mut sources {
            source.turn().await;
        }
        (engines.count("Processed").await == count).then_some(())
    })
    .await;
    nothing_failed(&engines, "mapped", count).await;
}
