//! The four functions as deployed binaries, under a Runtime API and an event source mapping.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use triad_reference_service::{FaultPlan, Faults};
use triad_runtime::InputRecord;
use triad_tests::engines::Engines;
use triad_tests::event_source::{EventSource, failures, invoke, start_function, sweep};
use triad_tests::orders::{FULFILMENT, Files, order};
use triad_tests::poll::until;
use triad_tests::process::binary;
use triad_tests::runtime_api::{Answer, InvokeError};
use triad_tests::topics::{Raw, header, read_until, write};

const SHORT: &str = "workflow: order-fulfilment
defaults: { attempt_timeout: 2s, supervisor: { failure_threshold: 1 } }
steps:
  - {id: charge, agent: payment, action: charge, compensation: {action: refund}}
";

fn submitted(order: &Value) -> Raw {
    Raw {
        topic: "orders".to_owned(),
        value: Some(order.to_string().into_bytes()),
        ..Raw::default()
    }
}

fn source(engines: &Engines, function: &str, topics: &[&str]) -> EventSource {
    let brokers = engines.brokers();
    EventSource::start(
        &binary(function),
        &engines.variables(&brokers),
        &brokers,
        topics,
    )
}

fn record(offset: i64, value: &Value) -> InputRecord {
    InputRecord {
        topic: "orders".to_owned(),
        offset,
        timestamp_ms: -1,
        value: Some(value.to_string().into_bytes()),
        ..InputRecord::default()
    }
}

#[tokio::test]
async fn an_order_goes_through_the_functions_alone() {
    let engines = Engines::start(FULFILMENT, Faults::default()).await;
    let agents = engines.agent_topics();
    let agents: Vec<&str> = agents.iter().map(String::as_str).collect();
    let mut sources = [
        source(&engines, "triad-submission", &["orders", "orders.high"]),
        source(&engines, "triad-scheduler", &["scheduler"]),
        source(&engines, "triad-agent", &agents),
    ];
    write(&engines.brokers(), &[submitted(&order("one", 1))]).await;
    while engines.state("one").await != Some("Processed") {
        for source in &mut sources {
            source.turn().await;
        }
    }
    let ledger = engines.ledger().await;
    ledger.assert_nothing_twice();
    assert_eq!(ledger.summary.total.applied, 5);
    let told = |records: &[InputRecord]| {
        let last = records.iter().filter_map(|r| r.value.as_deref());
        last.filter_map(|v| serde_json::from_slice::<Value>(v).ok())
            .any(|s| s["status"] == "completed")
    };
    read_until(&engines.brokers(), &["status"], told).await;
}

/// The metrics must be on standard output, from which CloudWatch reads them.
#[tokio::test]
async fn a_function_prints_what_it_measures_before_it_answers() {
    let engines = Engines::start(FULFILMENT, Faults::default()).await;
    let mut variables = engines.variables(&engines.brokers());
    variables.push(("TRIAD_METRICS_NAMESPACE", "Triad/test".to_owned()));
    let files = Files::new();
    let (function, printed) = (binary("triad-submission"), files.arg("printed"));
    let script = format!("#!/bin/sh\nexec '{}' > '{printed}'\n", function.display());
    let script = files.write("submission", &script);
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&script, executable).expect("a script");
    let (api, _function) = start_function(Path::new(&script), &variables);
    let mut records = [record(0, &order("one", 1)), record(1, &order("two", 1))];
    records[1].value = None;
    let answer = invoke(&api, &records).await.unwrap();
    assert!(failures(&answer).is_empty(), "{answer:?}");
    let printed = std::fs::read_to_string(printed).expect("it has printed");
    let lines = printed.lines().filter(|line| line.contains("\"_aws\""));
    let lines: Vec<Value> = lines
        .map(|l| serde_json::from_str(l).expect("JSON"))
        .collect();
    let told = |name: &str| lines.iter().find(|line| !line[name].is_null());
    let accepted = told("triad_orders_accepted_total").expect("an order was accepted");
    assert_eq!(accepted["workflow"], "order-fulfilment");
    assert_eq!(accepted["triad_orders_accepted_total"], 1);
    let about = &accepted["_aws"]["CloudWatchMetrics"][0];
    assert_eq!(about["Namespace"], "Triad/test");
    let dead = told("triad_dead_letters_total").expect("a record was put aside");
    assert_eq!(
        (&dead["topic"], &dead["cause"]),
        (&json!("orders"), &json!("tombstone"))
    );
}

#[tokio::test]
async fn a_poison_record_does_not_fail_its_batch() {
    a_poison_record_in("partial").await;
}

#[tokio::test]
async fn a_poison_record_does_not_fail_its_batch_where_lambda_retries_whole_ones() {
    a_poison_record_in("whole").await;
}

async fn a_poison_record_in(responses: &str) {
    let engines = Engines::start(FULFILMENT, Faults::default()).await;
    let mut variables = engines.variables(&engines.brokers());
    variables.push(("TRIAD_BATCH_RESPONSES", responses.to_owned()));
    let (api, _function) = start_function(&binary("triad-submission"), &variables);
    let mut records: Vec<InputRecord> = (0..5)
        .map(|n| record(n, &order(&format!("batch-{n}"), 1)))
        .collect();
    records[2].value = Some(vec![0xff, b'{']);
    records[3].value = None;
    let answer = invoke(&api, &records).await.unwrap();
    assert!(failures(&answer).is_empty(), "{answer:?}");
    for (n, state) in [(0, true), (1, true), (2, false), (3, false), (4, true)] {
        let found = engines.state(&format!("batch-{n}")).await;
        assert_eq!(found == Some("Pending"), state, "order {n}");
    }
    let letters = read_until(&engines.brokers(), &["dead-letter"], |r| r.len() == 2).await;
    let mut causes: Vec<_> = letters.iter().map(|l| header(l, "triad-cause")).collect();
    causes.sort_unstable();
    assert_eq!(causes, [Some("not-utf8"), Some("tombstone")]);
}

#[tokio::test]
async fn the_supervisor_recovers_an_order_whose_agent_is_never_invoked() {
    let engines = Engines::start(SHORT, Faults::default()).await;
    let variables = engines.variables(&engines.brokers());
    let mut submission = source(&engines, "triad-submission", &["orders"]);
    let mut scheduler = source(&engines, "triad-scheduler", &["scheduler"]);
    let (api, _supervisor) = start_function(&binary("triad-supervisor"), &variables);
    let api = Arc::new(api);
    write(&engines.brokers(), &[submitted(&order("silent", 1))]).await;
    while engines.state("silent").await != Some("Processing") {
        submission.turn().await;
        scheduler.turn().await;
    }
    // The first sweep that finds the order only begins the wait for an unread reply.
    until("a sweep releases the order", async || {
        let report = sweep(&api).await;
        assert_eq!(report["failed"], 0, "{report}");
        (engines.state("silent").await == Some("Pending")).then_some(())
    })
    .await;
    let waits = engines.record("silent").await.expect("it is stored");
    assert_eq!(
        waits.steps[0].action.failures, 0,
        "nobody took it: no failure"
    );

    // The agent starts now: for the first request it is too late, for the second in time.
    let topics = engines.agent_topics();
    let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
    let mut agent = source(&engines, "triad-agent", &topics);
    until("the order is processed", async || {
        scheduler.turn().await;
        agent.turn().await;
        sweep(&api).await;
        (engines.state("silent").await == Some("Processed")).then_some(())
    })
    .await;
    engines.ledger().await.assert_nothing_twice();
}

#[tokio::test]
async fn a_service_that_is_down_defers_its_orders_until_it_is_back() {
    let down = FaultPlan {
        down: true,
        ..FaultPlan::default()
    };
    let faults = Faults {
        services: [("payment".to_owned(), down)].into(),
        ..Faults::default()
    };
    let engines = Engines::start(SHORT, faults).await;
    let variables = engines.variables(&engines.brokers());
    let topics = engines.agent_topics();
    let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
    let mut sources = [
        source(&engines, "triad-submission", &["orders"]),
        source(&engines, "triad-scheduler", &["scheduler"]),
        source(&engines, "triad-agent", &topics),
    ];
    let (api, _supervisor) = start_function(&binary("triad-supervisor"), &variables);
    let submitted: Vec<Raw> = (0..4)
        .map(|n| submitted(&order(&format!("p-{n}"), 1)))
        .collect();
    write(&engines.brokers(), &submitted).await;
    // Orders that called the service before its breaker opened fail once and are then deferred. The others are
    // deferred at once, or not started while the breaker is open.
    let wait = async || {
        let (mut deferred, mut unstarted) = (0, 0);
        for n in 0..4 {
            let Some(order) = engines.record(&format!("p-{n}")).await else {
                continue;
            };
            deferred += usize::from(order.steps[0].state.name() == "deferred");
            unstarted += usize::from(order.sequence == 1);
        }
        deferred >= 1 && deferred + unstarted == 4
    };
    until("the orders wait", async || {
        for source in &mut sources {
            source.turn().await;
        }
        if wait().await {
            return Some(());
        }
        // The sweep repeats attempts that had used up their calls before the breaker opened.
        sweep(&api).await;
        None
    })
    .await;
    engines.set_faults(Faults::default());
    until("the orders are processed", async || {
        for source in &mut sources {
            source.turn().await;
        }
        sweep(&api).await;
        (engines.count("Processed").await == 4).then_some(())
    })
    .await;
    let record = engines.record("p-3").await.expect("it is stored");
    assert!(
        record.steps[0].action.failures <= 1,
        "waiting is no failure"
    );
    engines.ledger().await.assert_nothing_twice();
}

#[tokio::test]
async fn a_sweep_that_cannot_read_the_index_fails() {
    let engines = Engines::start(FULFILMENT, Faults::default()).await;
    let mut variables = engines.variables(&engines.brokers());
    // Nothing listens at this address.
    variables.retain(|(name, _)| *name != "TRIAD_DYNAMODB_ENDPOINT");
    variables.push(("TRIAD_DYNAMODB_ENDPOINT", "http://127.0.0.1:1".to_owned()));
    let (api, _supervisor) = start_function(&binary("triad-supervisor"), &variables);
    let within = Duration::from_secs(30);
    let answer = api.invoke("{}", within).await.unwrap();
    assert!(
        matches!(&answer, Answer::FunctionError { .. })
            && format!("{answer:?}").contains("could not be read"),
        "{answer:?}"
    );
}

#[tokio::test]
async fn without_a_broker_no_function_claims_success() {
    let mut engines = Engines::start(FULFILMENT, Faults::default()).await;
    let brokers = engines.brokers();
    let (api, _function) =
        start_function(&binary("triad-submission"), &engines.variables(&brokers));
    engines.stop_broker().await;
    let records = [
        record(0, &order("unsent-0", 1)),
        record(1, &order("unsent-1", 1)),
    ];
    // Longer and shorter than the time limit of a publish: the function must answer in time in both cases.
    for within in [Duration::from_secs(15), Duration::from_secs(6)] {
        let answer = api.invoke(event_of(&records), within).await;
        let answer = answer.unwrap_or_else(|e| panic!("no answer within {within:?}: {e}"));
        let first = failures(&answer);
        assert_eq!(first.get("orders-0"), Some(&0), "{answer:?}");
        let failed = answer.json()["batchItemFailures"].as_array().map(Vec::len);
        assert_eq!(failed, Some(2), "{answer:?}");
    }
}

fn event_of(records: &[InputRecord]) -> String {
    triad_tests::event_source::event(&records.iter().collect::<Vec<_>>())
}

#[tokio::test]
async fn a_bad_configuration_is_an_init_error_that_names_all_of_it() {
    let variables = [
        ("TRIAD_DYNAMODB_ENDPOINT", "localhost:8000".to_owned()),
        ("TRIAD_SKEW", "soon".to_owned()),
        ("TRIAD_AGENTS", "[]".to_owned()),
        ("TRIAD_REPLY_TOPICS", "status".to_owned()),
        ("TRIAD_BATCH_RESPONSES", "some".to_owned()),
    ];
    for function in [
        "triad-submission",
        "triad-scheduler",
        "triad-agent",
        "triad-supervisor",
        "triad-alerts",
        "triad-console",
    ] {
        let (api, _function) = start_function(&binary(function), &variables);
        let error = invoke(&api, &[]).await.unwrap_err();
        let InvokeError::Init { message, .. } = error else {
            panic!("{function}: {error}");
        };
        assert!(message.contains("TRIAD_BROKERS"), "{function}: {message}");
        for (name, _) in &variables {
            assert!(message.contains(name), "{function}: {name} in {message}");
        }
    }
}
