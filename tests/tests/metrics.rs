//! What is counted from the logs: the lines that the code writes, in the form in which functions write
//! them, held against the metric filters that infra/metrics.tf makes.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tracing_subscriber::util::SubscriberInitExt;
use triad_bootstrap::logging::{Form, lines};
use triad_core::{Accepted, Order, OrderId, Timestamp, WorkflowRef};
use triad_runtime::settings::Settings;
use triad_runtime::supervisor::{Report, Supervisor};
use triad_runtime::system::{SystemClock, SystemEntropy};
use triad_runtime::{Clock, Created, DefinitionStore, NewOrder, StateStore};
use triad_tests::bus::MemoryBus;
use triad_tests::engines::{Store, workflow};
use triad_workflow::Millis;
use triad_workflow::hash::canonical_json;

const FILTERS: &str = include_str!("../../infra/metrics.tf");
const NAMES: &str = include_str!("../../shared/runtime/src/metric.rs");
/// Simulated worlds that are run at most until every metric of a handler has been met.
const SEEDS: u64 = 600;

/// The metrics that a filter is made for.
fn filtered() -> BTreeSet<&'static str> {
    let (_, block) = FILTERS.split_once("metrics = {").expect("the metrics");
    let (block, _) = block.split_once('}').expect("their end");
    let names = block.lines().filter_map(|line| line.split_once('='));
    names.map(|(name, _)| name.trim()).collect()
}

/// The metrics that the code has names for.
fn named() -> BTreeSet<&'static str> {
    let consts = NAMES.lines().filter(|line| line.starts_with("pub const "));
    consts
        .map(|line| line.split('"').nth(1).expect("a text"))
        .collect()
}

/// Where a filter looks for the metric's name in a line: `{ $.a.b = "NAME" }` is `/a/b`.
fn place() -> String {
    let mut lines = FILTERS
        .lines()
        .filter_map(|l| l.trim().strip_prefix("pattern"));
    let pattern = lines
        .next()
        .expect("a pattern")
        .trim_start_matches([' ', '=']);
    let selector = pattern
        .strip_prefix(r#""{ $."#)
        .and_then(|p| p.strip_suffix(r#" = \"${each.value.metric}\" }""#));
    let selector = selector.unwrap_or_else(|| panic!("{pattern} is another form of pattern"));
    format!("/{}", selector.replace('.', "/"))
}

#[test]
fn every_metric_of_the_code_has_its_filter_and_every_filter_its_metric() {
    assert_eq!(filtered(), named());
    assert!(named().len() > 5, "they are found");
}

/// What a log has been written.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        written.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// The metrics that filters count in the lines since the last time.
    fn counted(&self) -> BTreeSet<String> {
        let bytes = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let text = String::from_utf8(bytes).expect("text");
        let mut counted = BTreeSet::new();
        for line in text.lines() {
            let json: Value = serde_json::from_str(line).expect("a line is JSON");
            let found = json.pointer(&place()).and_then(Value::as_str);
            // A name that stands elsewhere in the line is counted by nobody.
            if found.is_none() {
                assert!(!line.contains(r#""metric":"#), "{line}");
            }
            counted.extend(found.map(str::to_owned));
        }
        counted
    }
}

/// An order that has failed oftener than it may: a fault of the software, as the Supervisor meets it.
async fn sweep_over_a_breach() {
    let table = Store::start().await;
    let store = table.store();
    let yaml = "workflow: w\nsteps: [{id: a, agent: x, action: go, compensation: none}]";
    let workflow = workflow(yaml);
    let pinned = WorkflowRef {
        name: workflow.name.clone(),
        hash: workflow.hash.clone(),
    };
    let published = store.publish(pinned.clone(), canonical_json(&workflow.definition));
    published.await.expect("it is published");
    let past = Timestamp(SystemClock.now().0 - 3_600_000);
    let accepted = Accepted {
        order_id: OrderId::new("1").expect("an id"),
        workflow: pinned,
        priority: Default::default(),
        reply_topic: None,
        traceparent: None,
        submitted_at: past,
        due: past,
        deadline: None,
        details: json!({}),
    };
    let mut order = Order::new(&accepted, &workflow, past);
    order.steps[0].action.failures = 1_000;
    let new = NewOrder {
        order,
        details: json!({}).into(),
        digest: "d".into(),
    };
    assert_eq!(store.create(vec![new]).await, [Ok(Created::Created)]);
    let supervisor = Supervisor::new(
        store,
        MemoryBus::default(),
        SystemClock,
        SystemEntropy,
        Settings::default(),
    );
    let report = supervisor.sweep(Millis(60_000)).await;
    assert_eq!((report.found, report.written), (1, 1), "{report:?}");
}

#[test]
fn every_metric_is_counted_from_a_line_that_the_code_writes_at_the_usual_level() {
    let log = Log::default();
    let into = log.clone();
    let _logging = lines(Form::Json, None, move || into.clone()).set_default();
    let mut counted = BTreeSet::new();
    // The handlers, in the simulated world, until they have written all that they can.
    let of_others = ["InvariantBreach", "SweepDone"];
    let wanted = named().len() - of_others.len();
    for seed in 0..SEEDS {
        let _ = triad_sim::run(seed, triad_sim::Options::default());
        counted.extend(log.counted());
        if counted.len() == wanted {
            break;
        }
    }
    assert!(of_others.iter().all(|name| !counted.contains(*name)));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(sweep_over_a_breach());
    Report::default().log(true);
    counted.extend(log.counted());
    let counted: BTreeSet<&str> = counted.iter().map(String::as_str).collect();
    assert_eq!(counted, filtered());
}

#[test]
fn a_sweep_that_was_not_whole_is_not_counted_as_done() {
    let log = Log::default();
    let into = log.clone();
    let _logging = lines(Form::Json, None, move || into.clone()).set_default();
    let whole = Report::default();
    let cut = Report {
        truncated: true,
        found: 7,
        ..whole
    };
    let unread = Report {
        unread: 1,
        failed: 1,
        ..whole
    };
    for always in [true, false] {
        cut.log(always);
        unread.log(always);
        assert_eq!(log.counted(), BTreeSet::new());
    }
    whole.log(true);
    assert_eq!(log.counted(), BTreeSet::from(["SweepDone".to_owned()]));
    // A worker that finds nothing says so to those alone who ask for it.
    whole.log(false);
    assert_eq!(log.counted(), BTreeSet::new());
}
