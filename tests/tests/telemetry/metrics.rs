//! The metrics: the code reports every metric in the table; the page, the dashboards and the alarms name only
//! existing metrics; `triad serve` and `triad-worker` offer them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use triad_core::{Accepted, Order, OrderId, Timestamp, WorkflowRef};
use triad_metrics::emf::Embedded;
use triad_runtime::metric::{self, Kind};
use triad_runtime::settings::Settings;
use triad_runtime::supervisor::Supervisor;
use triad_runtime::system::{SystemClock, SystemEntropy};
use triad_runtime::{Clock, Created, DefinitionStore, NewOrder, StateStore};
use triad_tests::bus::MemoryBus;
use triad_tests::dev::Dev;
use triad_tests::engines::{Store, workflow};
use triad_tests::http::client;
use triad_tests::orders::{lines, order, orders};
use triad_tests::poll::until;
use triad_tests::process::Process;
use triad_workflow::Millis;
use triad_workflow::hash::canonical_json;

use crate::one_machine::serve::Place;

/// Most simulated worlds that run until every metric of a handler has been reported.
const SEEDS: u64 = 600;
/// Metrics of the loops that read topics, which the simulated world does not use.
const OF_LOOPS: [&str; 2] = ["triad_oldest_record_age_seconds", "triad_lag_records"];
/// A metric that only a worker reports, if its store counts orders.
const OF_WORKERS: [&str; 1] = ["triad_orders_needing_operator"];
/// Metrics of the file and the backups of `triad serve`: `one_machine::backups` reads them.
const OF_SERVE: [&str; 6] = [
    "triad_disk_free_bytes",
    "triad_store_file_bytes",
    "triad_store_wal_bytes",
    "triad_write_groups_failed_total",
    "triad_last_backup_timestamp_seconds",
    "triad_backups_failed_total",
];
/// A metric about a defect of Triad, which no seed has.
const OF_FAULTS: [&str; 1] = ["triad_invariant_breaches_total"];

fn names() -> BTreeSet<&'static str> {
    metric::ALL.iter().map(|metric| metric.name).collect()
}

/// Runs a sweep over an order with more failures than its workflow allows, which would be a defect of Triad.
pub(crate) async fn sweep_over_a_breach() {
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
        start_at: None,
        deadline: None,
        search: Vec::new(),
        parent: None,
        details: json!({}),
    };
    let mut order = Order::new(&accepted, &workflow, past);
    order.steps[0].action.failures = 1_000;
    let new = NewOrder {
        order,
        details: json!({}).into(),
        digest: "d".into(),
        messages: Vec::new(),
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
    let late = report.oldest_due.map(|due| due.0);
    assert_eq!(late, Some(past.0), "since when it is due");
}

/// Runs a sweep over an empty table with this limit; with 0, the sweep is incomplete.
pub(crate) async fn sweep_within(sweep_limit: usize) {
    let table = Store::start().await;
    let settings = Settings {
        sweep_limit,
        ..Settings::default()
    };
    let bus = MemoryBus::default();
    let supervisor = Supervisor::new(table.store(), bus, SystemClock, SystemEntropy, settings);
    supervisor.sweep(Millis(60_000)).await;
}

/// The metrics in the log lines. Each line must have all labels, and the unit.
fn told(lines: &[String]) -> BTreeSet<&'static str> {
    let mut told = BTreeSet::new();
    for line in lines {
        let line: Value = serde_json::from_str(line).expect("a line is JSON");
        let about = &line["_aws"]["CloudWatchMetrics"][0];
        for one in about["Metrics"].as_array().expect("metrics") {
            let name = one["Name"].as_str().expect("a name");
            let metric = metric::ALL.iter().find(|metric| metric.name == name);
            let metric = metric.unwrap_or_else(|| panic!("{name} is not in the table"));
            assert_eq!(about["Dimensions"][0], json!(metric.labels), "{name}");
            for label in metric.labels {
                assert!(line[label].is_string(), "{name} by {label}: {line}");
            }
            let is_classes = line[name]["Values"].is_array();
            assert_eq!(is_classes, metric.kind == Kind::Histogram, "{name}");
            told.insert(metric.name);
        }
    }
    told
}

#[test]
fn the_code_tells_of_every_metric_of_the_table_and_of_no_other() {
    let embedded = Embedded::new("Triad/test").expect("a namespace");
    metric::describe();
    let mut met = BTreeSet::new();
    // Runs the handlers in simulated worlds until all their metrics have been reported.
    let elsewhere = OF_LOOPS.len() + OF_WORKERS.len() + OF_SERVE.len() + OF_FAULTS.len();
    let wanted = names().len() - elsewhere;
    for seed in 0..SEEDS {
        metrics::with_local_recorder(&embedded, || {
            let _ = triad_sim::run(seed, triad_sim::Options::default());
        });
        met.extend(told(&embedded.lines(1)));
        if met.len() == wanted {
            break;
        }
    }
    assert!(OF_FAULTS.iter().all(|name| !met.contains(*name)));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    metrics::with_local_recorder(&embedded, || runtime.block_on(sweep_over_a_breach()));
    met.extend(told(&embedded.lines(1)));
    met.extend(OF_LOOPS.into_iter().chain(OF_WORKERS).chain(OF_SERVE));
    let left: Vec<_> = names().difference(&met).copied().collect();
    assert!(left.is_empty(), "nobody tells of {left:?}");
}

#[test]
fn a_sweep_that_was_not_whole_is_not_counted_as_done() {
    let embedded = Embedded::new("Triad/test").expect("a namespace");
    metric::describe();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let results = |sweep_limit| {
        let sweep = sweep_within(sweep_limit);
        metrics::with_local_recorder(&embedded, || runtime.block_on(sweep));
        let lines = embedded.lines(1);
        let read = lines
            .iter()
            .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let counted = read.filter(|line| line["triad_sweeps_total"] == 1);
        counted
            .map(|line| line["result"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(results(100), ["whole"]);
    assert_eq!(results(0), ["truncated"]);
}

/// The page must have a row for each metric in the table.
#[test]
fn the_page_lists_every_metric() {
    let page = include_str!("../../../docs/reference/metrics.md");
    let rows: BTreeMap<&str, &str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `triad_").map(|rest| (line, rest)))
        .map(|(line, rest)| (rest.split('`').next().expect("a name"), line))
        .collect();
    assert_eq!(rows.len(), metric::ALL.len(), "each has one row");
    for metric in metric::ALL {
        let labels: Vec<String> = metric.labels.iter().map(|l| format!("`{l}`")).collect();
        let kind = format!("{:?}", metric.kind).to_lowercase();
        let row = format!(
            "| `{}` | {kind} | {} | {} | {} |",
            metric.name,
            metric.unit.as_str(),
            labels.join(", "),
            metric.help
        );
        let short = metric.name.trim_start_matches("triad_");
        assert_eq!(rows.get(short).copied(), Some(&*row), "the page's row");
    }
}

/// The names of metrics in a text: words with the prefix, without Prometheus's suffixes for histograms.
fn named_in(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in text.match_indices("triad_") {
        let end = |c: char| !(c.is_ascii_lowercase() || c == '_');
        let name = text[at..].split(end).next().expect("a first part");
        let bare = ["_bucket", "_sum", "_count"].iter();
        let bare = bare.filter_map(|suffix| name.strip_suffix(suffix));
        let known = |name: &str| names().contains(name);
        found.insert(bare.clone().find(|n| known(n)).unwrap_or(name).to_owned());
    }
    found
}

#[test]
fn dashboards_and_alarms_name_metrics_that_there_are() {
    let texts = [
        include_str!("../../../infra/dashboards/grafana.json"),
        include_str!("../../../infra/dashboards/alerts.yaml"),
        include_str!("../../../infra/dashboard.tf"),
        include_str!("../../../infra/alarms.tf"),
    ];
    let mut all = BTreeSet::new();
    for text in texts {
        let found = named_in(text);
        assert!(found.len() > 2, "they are found");
        for name in &found {
            assert!(names().contains(name.as_str()), "there is no {name}");
        }
        all.extend(found);
    }
    let unseen: Vec<_> = names().into_iter().filter(|n| !all.contains(*n)).collect();
    assert!(unseen.is_empty(), "no dashboard shows {unseen:?}");
}

/// The samples of a metric: labels and value.
fn samples<'a>(text: &'a str, name: &str) -> Vec<(&'a str, f64)> {
    let of_it = text.lines().filter_map(|line| line.strip_prefix(name));
    of_it
        .filter(|rest| rest.starts_with(['{', ' ']))
        .map(|rest| {
            let (labels, value) = rest.rsplit_once(' ').expect("a value");
            (labels, value.parse().expect("a number"))
        })
        .collect()
}

async fn read(address: &str) -> Option<String> {
    let answer = client().get(format!("http://{address}/metrics")).send();
    let answer = answer.await.ok()?.error_for_status().ok()?;
    assert!(
        answer.headers()["content-type"]
            .to_str()
            .is_ok_and(|t| t.starts_with("text/plain"))
    );
    answer.text().await.ok()
}

#[tokio::test]
async fn serve_offers_what_it_measures() {
    let place = Place::new().await;
    place.configure(&json!({ "metrics": "127.0.0.1:0" }));
    let serve = place.serve().await;
    let address = said_address(&serve.process);
    let begun = [
        (
            "triad_orders_accepted_total",
            r#"{workflow="order-fulfilment"}"#,
        ),
        (
            "triad_orders_ended_total",
            r#"{workflow="order-fulfilment",state="Error"}"#,
        ),
        (
            "triad_attempts_total",
            r#"{agent="payment",direction="forward",outcome="failed"}"#,
        ),
        ("triad_breaker_openings_total", r#"{agent="payment"}"#),
        (
            "triad_errors_total",
            r#"{handler="scheduler",port="store",class="transient"}"#,
        ),
        ("triad_conflicts_total", ""),
    ];
    // The address may be logged before the handlers start, so the test waits for the counters.
    until("the counters begin at 0", async || {
        let text = read(&address).await?;
        let has = |(name, labels): &(&str, &str)| samples(&text, name).contains(&(*labels, 0.0));
        begun.iter().all(has).then_some(())
    })
    .await;
    for n in 0..3 {
        let (status, _) = serve.submit(&order(&format!("o-{n}"), 1)).await;
        assert_eq!(status, 201);
    }
    let total = |text: &str, name| samples(text, name).iter().map(|(_, n)| n).sum::<f64>();
    // One page is not one moment: a counter on it may be older than another, so each is waited for.
    let text = until("three orders have ended, and a sweep", async || {
        let text = read(&address).await?;
        let ended = total(&text, "triad_orders_ended_total") >= 3.0;
        let attempted = total(&text, "triad_attempts_total") >= 15.0;
        let swept = samples(&text, "triad_sweeps_total");
        let swept = swept.iter().any(|(l, _)| l.contains("whole"));
        let measured = OF_LOOPS.iter().all(|name| {
            let of_topics = samples(&text, name);
            of_topics.iter().any(|(l, _)| l.contains("\"scheduler\""))
        });
        (ended && attempted && swept && measured).then_some(text)
    })
    .await;
    let mut ended = samples(&text, "triad_orders_ended_total");
    ended.retain(|(_, orders)| *orders > 0.0);
    assert_eq!(
        ended,
        [(r#"{workflow="order-fulfilment",state="Processed"}"#, 3.0)]
    );
    let accepted = samples(&text, "triad_orders_accepted_total");
    assert_eq!(accepted, [(r#"{workflow="order-fulfilment"}"#, 3.0)]);
    let called = total(&text, "triad_call_duration_seconds_count");
    let attempted = total(&text, "triad_attempts_total");
    assert!(called >= attempted, "{attempted} attempts, {called} calls");
    for name in OF_LOOPS {
        let of_topics = samples(&text, name);
        assert!(
            of_topics.iter().all(|(_, n)| *n <= 60.0),
            "{name}: {of_topics:?}"
        );
    }
    for metric in metric::ALL {
        if !samples(&text, metric.name).is_empty() {
            assert!(
                text.contains(&format!("# HELP {} ", metric.name)),
                "{}",
                metric.name
            );
        }
    }
    let elsewhere = client().get(format!("http://{address}/")).send().await;
    assert_eq!(elsewhere.expect("it answers").status(), 404);
    let posted = client()
        .post(format!("http://{address}/metrics"))
        .send()
        .await;
    assert_eq!(posted.expect("it answers").status(), 405);
    serve.stop().await;
}

#[tokio::test]
async fn dev_offers_what_it_measures_and_how_many_orders_are_in_error_until_none_is() {
    let dev = Dev::start(&["--metrics", "127.0.0.1:0"]).await;
    let started: Value = serde_json::from_str(&dev.process.out()[0]).expect("JSON");
    let address = started["metrics"].as_str().expect("it is said");
    let address = address
        .trim_start_matches("http://")
        .trim_end_matches("/metrics");
    let in_error = async |wanted: f64| {
        until(&format!("{wanted} orders are in Error"), async || {
            let text = read(address).await?;
            let labels = r#"{workflow="order-fulfilment",state="Error"}"#;
            let told = samples(&text, "triad_orders_needing_operator");
            told.contains(&(labels, wanted)).then_some(())
        })
        .await;
    };
    in_error(0.0).await;
    dev.services(json!({"notification": {"permanent": 1.0}}))
        .await;
    let text = lines(&orders("bad", 2));
    let _ = dev.triad_reading(&["submit", "-"], text.as_bytes()).await;
    dev.all_finished(2).await;
    in_error(2.0).await;
}

/// The address of the metrics, from the process's log.
fn said_address(process: &Process) -> String {
    let said = process.err();
    let line = said.iter().find(|line| line.contains("\"metrics\""));
    let line: Value = serde_json::from_str(line.expect("it is said")).expect("JSON");
    line["fields"]["address"]
        .as_str()
        .expect("an address")
        .to_owned()
}
