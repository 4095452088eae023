//! More orders at once than are borne, and nothing wrong with any of them: in `triad dev`, through
//! workers and through the functions (G12). What is asserted is what became of the orders, never how
//! long it took.

use serde_json::{Value, json};
use triad_reference_service::{FaultPlan, Faults};
use triad_runtime::Clock;
use triad_runtime::system::SystemClock;
use triad_tests::cli::triad;
use triad_tests::engines::Engines;
use triad_tests::event_source::EventSource;
use triad_tests::orders::{FULFILMENT, Files, lines, orders};
use triad_tests::poll::until;
use triad_tests::process::{Process, binary, command};
use triad_tests::topics::{Raw, write};
use triad_workflow::Millis;

/// More than the clocks of one machine differ by.
const SKEW: Millis = Millis(500);
/// Steps of an order.
const STEPS: u64 = 5;

fn slow(latency_ms: u64) -> Faults {
    Faults {
        default: FaultPlan {
            latency_ms,
            ..FaultPlan::default()
        },
        ..Faults::default()
    }
}

async fn submit(engines: &Engines, prefix: &str, count: usize) {
    let raw = |order: Value| Raw {
        topic: "orders".to_owned(),
        value: Some(order.to_string().into_bytes()),
        ..Raw::default()
    };
    let all: Vec<Raw> = orders(prefix, count).into_iter().map(raw).collect();
    write(&engines.brokers(), &all).await;
}

fn worker(engines: &Engines) -> Process {
    let mut command = command("triad-worker");
    command
        .args(["--sweep-every", "500ms", "--functions"])
        .arg("submission,scheduler,agent,supervisor")
        .envs(engines.variables(&engines.brokers()));
    Process::start(command)
}

/// No failure was counted, nothing was undone, and nothing is in doubt.
async fn nothing_failed(engines: &Engines, prefix: &str, count: usize) {
    for order in orders(prefix, count) {
        let id = order["order_id"].as_str().expect("an id");
        let record = engines.record(id).await.expect("it is stored");
        assert_eq!(record.state.name(), "Processed", "{id}");
        for step in &record.steps {
            let failures = step.failures + step.undo_failures;
            assert_eq!((failures, step.in_doubt), (0, false), "{id}: {step:?}");
        }
    }
    engines.ledger().await.assert_nothing_twice();
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
    let count = 150;
    let engines = Engines::start(FULFILMENT, slow(100)).await;
    let mut workers = [worker(&engines), worker(&engines), worker(&engines)];
    submit(&engines, "outage", count).await;
    for victim in [0, 1, 2, 0] {
        let before = engines.count("Processed").await;
        until("some more orders have finished", async || {
            let done = engines.count("Processed").await;
            (done > before || done == count).then_some(())
        })
        .await;
        workers[victim].kill().await;
        workers[victim] = worker(&engines);
    }
    engines.all_in("Processed", count).await;
    nothing_failed(&engines, "outage", count).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_of_everything_beyond_every_deadline_fails_no_order() {
    let count = 100;
    let engines = Engines::start(FULFILMENT, slow(200)).await;
    let mut before = worker(&engines);
    submit(&engines, "stop", count).await;
    until("orders are under way", async || {
        (engines.count("Processed").await > 0).then_some(())
    })
    .await;
    before.kill().await;
    // Everything that is out has passed its complete-by: on every clock, and with its queue.
    until("every deadline has passed", async || {
        let mut out = 0;
        for order in orders("stop", count) {
            let id = order["order_id"].as_str().expect("an id");
            let Some(record) = engines.record(id).await else {
                continue;
            };
            let now = SystemClock.now();
            let deadlines = record.steps.iter().filter_map(|s| s.state.complete_by());
            out += deadlines.filter(|at| at.plus(SKEW) > now).count();
        }
        (out == 0).then_some(())
    })
    .await;
    let _after = worker(&engines);
    engines.all_in("Processed", count).await;
    nothing_failed(&engines, "stop", count).await;
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
