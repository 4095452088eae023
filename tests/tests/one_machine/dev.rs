//! `triad dev` as a process: complete runs, faulty services, a kill, and wrong arguments.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use triad_reference_service::contract::Cause;
use triad_tests::cli::triad;
use triad_tests::dev::Dev;
use triad_tests::message_checks::{assert_alerts, assert_statuses};
use triad_tests::orders::{FULFILMENT, Files, lines, order, orders};
use triad_tests::poll::until;
use triad_tests::process::{Process, command};
use triad_tests::topics::{header, read_all, read_until};

/// The built-in workflow's first step that is never compensated.
const PIVOT: &str = "notify";

fn summary(last: &Value) -> &Value {
    assert_eq!(last["event"], "summary", "{last}");
    &last["summary"]
}

#[tokio::test]
async fn a_file_of_orders_runs_to_its_end() {
    let files = Files::new();
    let file = files.write("orders.jsonl", &lines(&orders("small", 10)));
    let ran = triad(
        &["dev", "--json", "--orders", &file, "--until-done"],
        &[],
        b"",
    )
    .await;
    let ran = ran.good();
    assert!(!ran.err.contains("AllBrokersDown"), "{}", ran.err);
    let said = ran.json_lines();
    let [first, .., last] = &said[..] else {
        panic!("fewer than two lines: {said:?}");
    };
    assert_eq!(first["event"], "started");
    for name in ["kafka", "service"] {
        let address = first[name].as_str().unwrap();
        assert!(address.contains("127.0.0.1:"), "{name} is at {address}");
    }
    let summary = summary(last);
    assert_eq!(summary["orders"], 10);
    assert_eq!(summary["states"], json!({"Processed": 10}));
    assert_eq!(summary["effects"], 50);
    assert_eq!(summary["lost"], 0);
    assert_eq!(summary["applied_twice"], 0);
}

#[tokio::test]
async fn a_resumed_run_counts_only_the_orders_that_end_in_it() {
    let files = Files::new();
    let file = files.write("orders.jsonl", &lines(&orders("once", 10)));
    let data = files.arg("state");
    let arguments = [
        "dev",
        "--json",
        "--until-done",
        "--data",
        &data,
        "--orders",
        &file,
    ];
    for (ended_before, is_measured) in [(0, true), (10, false)] {
        let said = triad(&arguments, &[], b"").await.good().json_lines();
        let summary = summary(said.last().expect("a summary"));
        assert_eq!(summary["states"], json!({"Processed": 10}), "{summary}");
        assert_eq!(summary["ended_before"], ended_before, "{summary}");
        let rate = summary["orders_per_second"].as_f64().expect("a rate");
        assert_eq!(rate > 0.0, is_measured, "{summary}");
    }
}

#[tokio::test]
async fn every_order_ends_as_the_ledger_of_a_misbehaving_service_justifies() {
    let files = Files::new();
    let mut all = orders("rough", 150);
    let seed = include_str!("../../../examples/orders/sample.jsonl");
    all.extend(
        seed.lines()
            .map(|l| serde_json::from_str::<Value>(l).unwrap()),
    );
    let file = files.path("orders.jsonl");
    std::fs::write(&file, lines(&all)).unwrap();
    let dev = Dev::start(&[
        "--transient",
        "10",
        "--permanent",
        "3",
        "--stall",
        "2",
        "--stall-for",
        "8s",
    ])
    .await;
    dev.submit(&file).await;
    let ended = dev.all_finished(all.len()).await;
    let ledger = dev.ledger().await;
    ledger.assert_justifies(&ended, PIVOT);
    let causes = &ledger.summary.total.causes;
    for cause in [
        Cause::Transient,
        Cause::LostAnswer,
        Cause::Stall,
        Cause::Declined,
    ] {
        assert!(causes.contains_key(&cause), "no {cause:?}: {causes:?}");
    }
    // Status messages may be sent after the record was written, so the test waits for the last ones.
    let told = ended.iter().filter_map(|o| o["status_sequence"].as_u64());
    let told = usize::try_from(told.sum::<u64>()).unwrap();
    read_until(&dev.kafka, &["status"], |r| r.len() >= told).await;
    assert_statuses(&read_all(&dev.kafka, &["status"]).await, &ended);
    assert_alerts(&read_all(&dev.kafka, &["alerts"]).await, &ended);

    let submitted: BTreeSet<&str> = all.iter().filter_map(|o| o["order_id"].as_str()).collect();
    let found: BTreeSet<&str> = ended
        .iter()
        .filter_map(|o| o["order_id"].as_str())
        .collect();
    assert_eq!(found, submitted);
    let states: BTreeSet<&str> = ended.iter().filter_map(|o| o["state"].as_str()).collect();
    assert!(
        states.contains("Processed") && states.contains("Compensated"),
        "the service has not misbehaved: {states:?}"
    );
}

#[tokio::test]
async fn a_durable_run_goes_on_after_a_kill() {
    let count = 200;
    let files = Files::new();
    let file = files.write("orders.jsonl", &lines(&orders("durable", count)));
    let data = files.arg("state");
    // With deadlines so long that a backlog on a slow machine does not reach them.
    let patient = FULFILMENT.replace("attempt_timeout: 5s", "attempt_timeout: 30s");
    let workflow = files.write("patient.yaml", &patient);
    let arguments = [
        "--data",
        &data,
        "--orders",
        &file,
        "--workflow",
        &workflow,
        "--latency",
        "20ms",
    ];
    let mut dev = Dev::start(&arguments).await;
    until(
        "some orders have finished and others have not",
        async || {
            let done = dev.triad(&["list", "--json", "--state", "Processed", "--limit", "9"]);
            (!done.await.good().json_lines().is_empty()).then_some(())
        },
    )
    .await;
    dev.process.kill().await;

    let mut again = command("triad");
    again
        .args(["dev", "--json", "--until-done"])
        .args(arguments);
    let mut again = Process::start(again);
    let ended = again.ended().await;
    let said = again.out();
    assert_eq!(ended.code(), Some(0), "{said:?} {:?}", again.err());
    let last: Value = serde_json::from_str(said.last().unwrap()).unwrap();
    let summary = summary(&last);
    assert_eq!(summary["orders"], count, "{summary}");
    assert_eq!(summary["states"], json!({"Processed": count}), "{summary}");
    assert_eq!(summary["lost"], 0);
    assert_eq!(summary["applied_twice"], 0);
    assert_eq!(summary["effects"], 5 * count);
}

#[tokio::test]
async fn a_rejected_order_is_a_dead_letter_and_exit_code_1() {
    let files = Files::new();
    let mut unknown = order("unknown", 2);
    unknown["workflow"] = "no-such-workflow".into();
    let text = lines(&[order("known", 1), unknown]);
    let file = files.write("orders.jsonl", &text);
    let ran = triad(
        &["dev", "--json", "--orders", &file, "--until-done"],
        &[],
        b"",
    )
    .await;
    let said = ran.ended(1).json_lines();
    let states = &summary(said.last().unwrap())["states"];
    assert_eq!(*states, json!({"Processed": 1, "Rejected": 1}));

    let dev = Dev::start(&["--orders", &file]).await;
    let letters = read_until(&dev.kafka, &["dead-letter"], |r| !r.is_empty()).await;
    assert_eq!(header(&letters[0], "triad-cause"), Some("unknown-workflow"));
    assert_eq!(letters[0].key.as_deref(), Some(&b"unknown"[..]));
    let alerts = read_until(&dev.kafka, &["alerts"], |r| !r.is_empty()).await;
    let alert: Value = serde_json::from_slice(alerts[0].value.as_ref().unwrap()).unwrap();
    assert_eq!(alert["kind"], "dead-letter");
}

#[tokio::test]
async fn a_bad_workflow_file_is_one_message_that_lists_everything() {
    let files = Files::new();
    let bad = "workflow: w
steps:
  - {id: a, agent: x, action: go, after: [missing], compensation: none}
  - {id: b, agent: x, action: go, after: [c], compensation: none}
  - {id: c, agent: x, action: go, after: [b], compensation: none}
";
    let file = files.write("bad.yaml", bad);
    let ran = triad(&["dev", "--workflow", &file], &[], b"")
        .await
        .ended(2);
    for part in ["bad.yaml", "missing"] {
        assert!(ran.err.contains(part), "{part} in {}", ran.err);
    }
    assert!(ran.err.matches("bad.yaml").count() >= 2, "{}", ran.err);
    assert!(ran.out.is_empty(), "{}", ran.out);
}

#[tokio::test]
async fn a_bad_file_of_orders_is_exit_code_2_with_every_line_named() {
    let files = Files::new();
    let file = files.write("orders.jsonl", "{\"order_id\": \"1\"}\n{\n\n{\"id\": 7}\n");
    let ran = triad(&["dev", "--orders", &file, "--until-done"], &[], b"").await;
    let err = ran.ended(2).err;
    assert!(
        err.contains("orders.jsonl:2") && err.contains("orders.jsonl:4"),
        "{err}"
    );
    let absent = files.arg("absent.jsonl");
    let ran = triad(&["dev", "--orders", &absent, "--until-done"], &[], b"").await;
    assert!(ran.ended(2).err.contains("absent.jsonl"));
}

#[tokio::test]
async fn a_bad_percentage_is_exit_code_2() {
    for arguments in [
        &["dev", "--transient", "101"][..],
        &["dev", "--permanent", "-1"],
        &["dev", "--stall", "some"],
        &["dev", "--transient", "60", "--stall", "60"],
        &["dev", "--until-done"],
    ] {
        let ran = triad(arguments, &[], b"").await;
        assert!(!ran.ended(2).err.is_empty(), "{arguments:?}");
    }
}

#[tokio::test]
async fn services_too_slow_for_every_deadline_are_exit_code_2() {
    let ran = triad(&["dev", "--latency", "6s"], &[], b"").await;
    let said = &ran.ended(2).err;
    assert!(said.contains("charge-payment"), "{said}");
    assert!(said.contains("none is answered in that time"), "{said}");
}
