//! The example of an agent written by hand, as a process beside `triad-worker`.

use serde_json::{Value, json};
use triad_reference_service::Faults;
use triad_runtime::InputRecord;
use triad_tests::engines::Engines;
use triad_tests::process::{Process, command};
use triad_tests::topics::{Raw, read_until, write};

const WORKFLOW: &str = include_str!("../../../examples/hand-written-agent/workflow.yaml");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_runs_through_a_hand_written_agent() {
    let engines = Engines::start(WORKFLOW, Faults::default()).await;
    let variables = engines.variables(&engines.brokers());
    let mut worker = command("triad-worker");
    worker
        .args(["--functions", "submission,scheduler,supervisor"])
        .envs(variables.clone());
    let mut agent = command("hand-written-agent");
    agent.envs(variables);
    let _running = [Process::start(worker), Process::start(agent)];

    let order = |id: &str, points: u64| Raw {
        topic: "orders".to_owned(),
        value: Some(
            json!({"order_id": id, "workflow": "loyalty",
                "details": {"customerID": "ANNA", "points": points}})
            .to_string()
            .into_bytes(),
        ),
        ..Raw::default()
    };
    let orders = [order("few", 10), order("too-many", 1_000_000)];
    write(&engines.brokers(), &orders).await;
    engines.all_in("Processed", 1).await;
    engines.all_in("Compensated", 1).await;
    assert_eq!(engines.state("few").await, Some("Processed"));
    let cause_is_told = |records: &[InputRecord]| {
        let values = records.iter().filter_map(|r| r.value.as_deref());
        values
            .filter_map(|v| serde_json::from_slice::<Value>(v).ok())
            .any(|s| {
                s["order_id"] == "too-many" && s["cause"].to_string().contains("too-many-points")
            })
    };
    read_until(&engines.brokers(), &["status"], cause_is_told).await;
}
