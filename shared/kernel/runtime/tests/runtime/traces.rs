//! Spans of the handlers: none without a sink, all for a sampled order, and only failures for others.

use std::sync::{Arc, Mutex};

use serde_json::json;
use triad_core::{Action, Operation, OperatorAct, TraceContext};
use triad_runtime::operator::Operator;
use triad_runtime::scheduler::Scheduler;
use triad_runtime::settings::Settings;
use triad_runtime::submission::Submission;
use triad_runtime::traces::{Engines, Sampling, SpanKind, TraceSink, TraceSpan, Traces};
use triad_runtime::{Handled, InputRecord};

use crate::support::{World, order_id, record};

/// A sink that collects spans.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<TraceSpan>>>);

impl TraceSink for Kept {
    fn ended(&self, span: TraceSpan) {
        self.0.lock().expect("no panic").push(span);
    }
}

impl Kept {
    /// The spans since the previous query.
    fn take(&self) -> Vec<TraceSpan> {
        std::mem::take(&mut *self.0.lock().expect("no panic"))
    }

    fn settings(&self, share: f64) -> Settings {
        let sampling = Sampling::of_share(share).expect("a share");
        Settings {
            traces: Traces::to(self.clone(), sampling, Engines::DEPLOYED),
            ..Settings::default()
        }
    }
}

fn submitted(trace: Option<&str>) -> InputRecord {
    let header = |text: &str| ("traceparent".to_owned(), Some(text.as_bytes().to_vec()));
    InputRecord {
        topic: "orders".into(),
        timestamp_ms: -1,
        value: Some(br#"{"order_id": "7", "workflow": "w"}"#.to_vec()),
        headers: trace.map(header).into_iter().collect(),
        ..InputRecord::default()
    }
}

fn submit(world: &World, settings: Settings, record: InputRecord) -> Handled {
    world.workflow("w");
    let ports = || world.clone();
    let submission = Submission::new(ports(), ports(), ports(), settings);
    world.run(submission.handle(&[record])).remove(0)
}

fn stored(world: &World) -> Option<String> {
    world.inner().orders[&order_id("7")].traceparent.clone()
}

const GIVEN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[test]
fn where_nobody_is_told_only_a_submitters_context_is_stored() {
    for given in [None, Some(GIVEN)] {
        let world = World::new();
        assert!(submit(&world, Settings::default(), submitted(given)).is_done());
        assert_eq!(stored(&world).as_deref(), given);
        let sent = std::mem::take(&mut world.inner().sent);
        assert!(sent.iter().all(|m| m.trace.is_some() == given.is_some()));
    }
}

#[test]
fn the_decision_about_an_order_is_stored_with_its_context() {
    for (given, share, is_sampled) in [
        (None, 1.0, true),
        (None, 0.0, false),
        (Some(GIVEN.to_owned()), 0.0, true),
        (Some(GIVEN.replace("-01", "-00")), 1.0, false),
    ] {
        let world = World::new();
        let kept = Kept::default();
        let record = submitted(given.as_deref());
        assert!(submit(&world, kept.settings(share), record).is_done());
        let own = TraceContext::of_order(&order_id("7")).sampled(is_sampled);
        let expected = given.unwrap_or_else(|| own.to_string());
        assert_eq!(stored(&world), Some(expected));
        assert_eq!(!kept.take().is_empty(), is_sampled);
    }
}

/// The parents in a batch of spans that are not themselves in the batch.
fn missing(spans: &[TraceSpan]) -> Vec<TraceContext> {
    let parents = spans.iter().filter_map(|span| span.parent);
    let is_there = |parent: &TraceContext| spans.iter().any(|span| span.context == *parent);
    parents.filter(|parent| !is_there(parent)).collect()
}

/// Submits an order, claims it and cancels it; returns the spans.
fn submitted_claimed_and_cancelled(world: &World) -> Vec<TraceSpan> {
    let kept = Kept::default();
    let settings = kept.settings(1.0);
    assert!(submit(world, settings.clone(), submitted(None)).is_done());
    let announced = world.inner().sent.last().cloned();
    let announced = announced.expect("an announcement");
    let trace = announced.trace.expect("it is in a trace").to_string();
    let mut announced = record(announced);
    announced
        .headers
        .push(("traceparent".into(), Some(trace.into_bytes())));
    let ports = || world.clone();
    let scheduler = Scheduler::new(ports(), ports(), ports(), ports(), settings.clone());
    assert!(world.run(scheduler.handle(&[announced]))[0].is_done());
    let operator = Operator::new(ports(), ports(), ports(), ports(), settings);
    let cancel = Operation {
        action: Action::Cancel,
        act: OperatorAct::new("somebody", "a secret"),
    };
    let id = order_id("7");
    let operated = world.run(operator.operate(&id, &cancel, false));
    operated.expect("it is possible");
    kept.take()
}

#[test]
fn what_is_stored_with_its_record_is_the_same_message_and_the_same_span_as_what_is_published() {
    let [published, stored] = [false, true].map(|has_topics| {
        let world = World::new();
        world.inner().has_topics = has_topics;
        let spans = submitted_claimed_and_cancelled(&world);
        let mut spans: Vec<_> = spans.iter().map(|span| format!("{span:?}")).collect();
        spans.sort();
        let mut sent = std::mem::take(&mut world.inner().sent);
        sent.sort_by_key(|m| m.id().map(str::to_owned));
        (sent, spans)
    });
    assert!(published.0.iter().any(|message| message.topic == "status"));
    assert_eq!(published, stored);
}

#[test]
fn a_submission_a_claim_and_an_operators_act_are_one_tree() {
    let spans = submitted_claimed_and_cancelled(&World::new());
    assert_eq!(missing(&spans), []);
    let roots: Vec<_> = spans.iter().filter(|s| s.parent.is_none()).collect();
    assert_eq!(roots.len(), 1, "{roots:#?}");
    assert_eq!(roots[0].name, "submit orders");
    let kinds = |name: &str| {
        let named = spans.iter().filter(|s| s.name == name);
        named.map(|s| s.kind).collect::<Vec<_>>()
    };
    assert_eq!(kinds("claim scheduler"), [SpanKind::Consumer]);
    assert_eq!(kinds("send agent.bank"), [SpanKind::Producer]);
    assert_eq!(kinds("operate cancel"), [SpanKind::Internal]);
    let named = |name: &str| spans.iter().find(|s| s.name == name).expect("it is told");
    let (act, request) = (named("operate cancel"), named("send agent.bank"));
    assert_eq!(act.links, [request.context], "it stood at that attempt");
    assert_eq!(kinds("PutItem").len(), 2, "a claim and an act");
    let shown = format!("{spans:?}");
    assert!(!shown.contains("a secret") && !shown.contains("somebody"));
}

/// After a crash, the redelivery exports the root as the same span again. A redelivery of an order that is under way
/// exports another submission span beside it.
#[test]
fn a_submission_that_comes_again_has_the_same_root() {
    let world = World::new();
    let kept = Kept::default();
    let settings = kept.settings(1.0);
    let root = |spans: &[TraceSpan]| {
        let submits = spans.iter().find(|s| s.name == "submit orders");
        submits.expect("it is told").clone()
    };
    assert!(submit(&world, settings.clone(), submitted(None)).is_done());
    let first = root(&kept.take());
    world.after(5);
    assert!(submit(&world, settings.clone(), submitted(None)).is_done());
    let again = root(&kept.take());
    assert_eq!((again.context, again.parent), (first.context, None));
    for order in world.inner().orders.values_mut() {
        order.version = triad_core::Version(2);
    }
    assert!(submit(&world, settings, submitted(None)).is_done());
    let beside = root(&kept.take());
    assert_ne!(beside.context, first.context);
    assert_eq!(beside.parent, Some(first.context));
}

#[test]
fn of_an_order_that_is_not_sampled_failures_are_told_and_nothing_else() {
    let world = World::new();
    let kept = Kept::default();
    let settings = kept.settings(0.0);
    assert!(submit(&world, settings.clone(), submitted(None)).is_done());
    assert_eq!(kept.take(), []);
    let workflow = world.workflow("w");
    let announced = world.announced(&workflow, "8", json!({}));
    world.inner().faults.unwritten = true;
    let ports = || world.clone();
    let scheduler = Scheduler::new(ports(), ports(), ports(), ports(), settings);
    assert!(!world.run(scheduler.handle(&[announced]))[0].is_done());
    let told = kept.take();
    let failures: Vec<_> = told.iter().map(|s| s.failure.as_deref()).collect();
    assert_eq!(
        failures,
        [Some("store-transient"); 2],
        "the write and the claim"
    );
    let own = TraceContext::of_order(&order_id("8"));
    assert!(told.iter().all(|s| s.context.trace_id() == own.trace_id()));
}
