//! Traces of the deployed programs: functions under a Runtime API, and workers, send spans to an OTLP receiver in the
//! test.

use std::collections::BTreeSet;

use opentelemetry_proto::tonic::trace::v1::Span;
use triad_core::{OrderId, TraceContext};
use triad_reference_service::Faults;
use triad_tests::engines::Engines;
use triad_tests::event_source::EventSource;
use triad_tests::orders::{FULFILMENT, order};
use triad_tests::process::{Process, binary, command};
use triad_tests::topics::{Raw, write};

use crate::telemetry::traces::{Collector, said, tree, values};

/// Number of steps of the workflow; each has one request, one call and one reply.
const STEPS: usize = 5;

/// The environment variables of a process that traces every order under this service name.
fn traced(engines: &Engines, endpoint: &str, service: &'static str) -> Vec<(&'static str, String)> {
    let mut variables = engines.variables(&engines.brokers());
    variables.extend([
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.to_owned()),
        ("OTEL_TRACES_SAMPLER_ARG", "1".to_owned()),
        ("OTEL_SERVICE_NAME", service.to_owned()),
    ]);
    variables
}

async fn submit(engines: &Engines, ids: &[&str]) {
    let raw = |id: &&str| Raw {
        topic: "orders".to_owned(),
        value: Some(order(id, 1).to_string().into_bytes()),
        ..Raw::default()
    };
    let all: Vec<Raw> = ids.iter().map(raw).collect();
    write(&engines.brokers(), &all).await;
}

/// The spans of one order.
fn of_order(spans: &[Span], id: &str) -> Vec<Span> {
    let own = TraceContext::of_order(&OrderId::new(id).expect("an id"));
    let trace = own.trace_id().to_be_bytes();
    let spans = spans.iter().filter(|span| span.trace_id == trace);
    spans.cloned().collect()
}

/// Asserts that the spans form one tree, from the submission to the last write, through every hop.
fn assert_whole(spans: &[Span], id: &str) {
    let (roots, by_name) = tree(spans);
    let own = TraceContext::of_order(&OrderId::new(id).expect("an id"));
    let roots: Vec<_> = roots
        .iter()
        .map(|r| (r.name.as_str(), &r.span_id))
        .collect();
    assert_eq!(
        roots,
        [("submit orders", &own.hop_id().to_be_bytes().to_vec())]
    );
    let distinct = |part: &str| {
        let named = by_name.iter().filter(|(name, _)| name.starts_with(part));
        let spans = named.flat_map(|(_, spans)| spans);
        spans
            .map(|span| &span.span_id)
            .collect::<BTreeSet<_>>()
            .len()
    };
    assert!(distinct("claim scheduler") > 0);
    for each_step in ["send agent.", "attempt agent.", "POST /", "reply scheduler"] {
        assert_eq!(distinct(each_step), STEPS, "{each_step}");
    }
    let stored = &by_name["TransactWriteItems"];
    assert_eq!(values(stored, "db.system.name"), ["aws.dynamodb"]);
    let tables = values(&by_name["PutItem"], "db.collection.name");
    assert!(
        tables.iter().all(|table| table == "order-state"),
        "{tables:?}"
    );
    let states = values(&by_name["PutItem"], "triad.order.state");
    assert_eq!(states.last().map(String::as_str), Some("Processed"));
}

/// After its answer a function may be frozen, so it must have sent all spans before; the test does not wait for them.
#[tokio::test]
async fn functions_send_their_spans_before_they_answer() {
    let (collector, endpoint) = Collector::start().await;
    let engines = Engines::start(FULFILMENT, Faults::default()).await;
    let brokers = engines.brokers();
    let agents = engines.agent_topics();
    let agents: Vec<&str> = agents.iter().map(String::as_str).collect();
    let mut sources = [
        ("triad-submission", vec!["orders"]),
        ("triad-scheduler", vec!["scheduler"]),
        ("triad-agent", agents),
    ]
    .map(|(function, topics)| {
        let variables = traced(&engines, &endpoint, function);
        EventSource::start(&binary(function), &variables, &brokers, &topics)
    });
    submit(&engines, &["one"]).await;
    while engines.state("one").await != Some("Processed") {
        for source in &mut sources {
            let before = collector.spans().len();
            if source.turn().await.is_some() {
                assert!(collector.spans().len() > before, "its spans are out");
            }
        }
    }
    assert_whole(&of_order(&collector.spans(), "one"), "one");
    let services = collector.services.lock().expect("no panic").clone();
    let services: Vec<&str> = services.iter().map(String::as_str).collect();
    assert_eq!(
        services,
        ["triad-agent", "triad-scheduler", "triad-submission"]
    );
}

/// Workers send their spans every second, and the remaining ones when they are stopped.
#[tokio::test]
async fn an_order_that_goes_through_three_workers_is_one_tree() {
    let (collector, endpoint) = Collector::start().await;
    let engines = Engines::start(FULFILMENT, Faults::default()).await;
    let mut workers = ["submission", "scheduler", "agent"].map(|functions| {
        let mut command = command("triad-worker");
        command
            .args(["--functions", functions])
            .envs(traced(&engines, &endpoint, functions));
        Process::start(command)
    });
    let ids = ["one", "two", "three"];
    submit(&engines, &ids).await;
    engines.all_in("Processed", ids.len()).await;
    for worker in &mut workers {
        worker.interrupt();
        assert!(worker.ended().await.success(), "{:?}", worker.err());
    }
    let spans = collector.spans();
    for id in ids {
        let spans = of_order(&spans, id);
        assert_whole(&spans, id);
        let orders = spans.iter().filter_map(|span| {
            let mut said = said(span);
            said.remove("messaging.message.conversation_id")
        });
        assert!(orders.collect::<BTreeSet<_>>().iter().eq([id]));
    }
    let services = collector.services.lock().expect("no panic").clone();
    let services: Vec<&str> = services.iter().map(String::as_str).collect();
    assert_eq!(services, ["agent", "scheduler", "submission"]);
}
