//! `triad bench`: how fast the embedded run is on this machine, and where the time goes.
//!
//! Each scenario runs in a process of its own, so that memory and CPU time are its own. CPU
//! time is read from the system's account of each thread; a thread's name says which part of
//! the system it belongs to.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use triad_workflow::load;

use crate::dev::engines::{EngineOptions, Engines, limits};
use crate::dev::follow::{Follower, OrderLine};
use crate::dev::summary::Summary;
use crate::output::print_line;
use crate::worker::{self, Function};

const WORKFLOW: (&str, &str) = (
    "three-steps.yaml",
    include_str!("../../../examples/workflows/three-steps.yaml"),
);
/// Details are padded to this many bytes.
const ORDER_BYTES: usize = 500;
/// Ticks a second in which the kernel counts CPU time (`USER_HZ`).
const TICKS: f64 = 100.0;

/// Measure the embedded run: three steps, one HTTP call each, orders of 500 bytes
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad bench
  triad bench --orders 5000 --json

Other work on the machine disturbs it: compare figures of one run only.")]
pub struct BenchArgs {
    /// Orders of each throughput scenario
    #[arg(long, value_name = "N", default_value_t = 3000, value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    orders: u32,
    /// Print a JSON line for each scenario
    #[arg(long)]
    json: bool,
    /// Run one scenario in this process
    #[arg(long, hide = true)]
    scenario: Option<String>,
}

/// What is run: orders under way at once (0 is no limit), and whether state is kept on disk.
const SCENARIOS: [(&str, u32, bool); 6] = [
    ("memory, one alone", 1, false),
    ("memory, 64 in flight", 64, false),
    ("memory, unlimited", 0, false),
    ("--data, one alone", 1, true),
    ("--data, 64 in flight", 64, true),
    ("--data, unlimited", 0, true),
];

/// One scenario's figures.
#[derive(Debug, Serialize, Deserialize)]
struct Figures {
    scenario: String,
    orders: usize,
    orders_per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
    /// CPU seconds for 1,000 orders, all threads.
    cpu_s: f64,
    /// The same, by part of the system.
    parts: BTreeMap<String, f64>,
    /// Largest resident memory of the process, in MB.
    peak_mb: f64,
    /// Whether every order was processed.
    good: bool,
}

pub async fn run(args: BenchArgs) -> Result<ExitCode> {
    if let Some(name) = &args.scenario {
        let found = SCENARIOS.iter().find(|(n, _, _)| n == name);
        let Some((name, in_flight, durable)) = found else {
            bail!("there is no scenario {name:?}");
        };
        let figures = measure(name, *in_flight, *durable, args.orders).await?;
        print_line(&serde_json::to_value(&figures)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut all = Vec::new();
    for (name, in_flight, _) in SCENARIOS {
        // One order at a time says nothing more after a few hundred.
        let orders = if in_flight == 1 {
            args.orders.min(300)
        } else {
            args.orders
        };
        let figures = child(name, orders).await?;
        if args.json {
            print_line(&json!(figures))?;
        } else {
            eprintln!("{name}: {:.0} orders/s", figures.orders_per_second);
        }
        all.push(figures);
    }
    if !args.json {
        print(&all);
    }
    Ok(if all.iter().all(|f| f.good) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

async fn child(name: &str, orders: u32) -> Result<Figures> {
    let output = tokio::process::Command::new(std::env::current_exe()?)
        .arg("bench")
        .arg(format!("--scenario={name}"))
        .arg(format!("--orders={orders}"))
        .stderr(std::process::Stdio::inherit())
        .kill_on_drop(true)
        .output()
        .await?;
    if !output.status.success() {
        bail!("the scenario {name:?} ended with {}", output.status);
    }
    let line = String::from_utf8(output.stdout)?;
    serde_json::from_str(line.trim())
        .with_context(|| format!("the scenario {name:?} said {line:?}"))
}

async fn measure(name: &str, in_flight: u32, durable: bool, orders: u32) -> Result<Figures> {
    let scratch = durable.then(tempfile::tempdir).transpose()?;
    let engines = Engines::start(EngineOptions {
        data: scratch.as_ref().map(|d| PathBuf::from(d.path())),
        partitions: 4,
        workflows: vec![load::from_yaml(WORKFLOW.0, WORKFLOW.1, &limits())?],
        ..EngineOptions::default()
    })
    .await?;
    let stop = CancellationToken::new();
    let worker = tokio::spawn({
        let (wiring, remotes, stop) = (
            engines.wiring.clone(),
            engines.remotes.clone(),
            stop.clone(),
        );
        let functions = [
            Function::Submission,
            Function::Scheduler,
            Function::Agent,
            Function::Supervisor,
        ];
        let every = std::time::Duration::from_millis(500);
        async move { worker::run(wiring, remotes, &functions, every, stop).await }
    });
    // Consumers have joined and definitions are compiled before the clock starts.
    Follower::open(&engines, lines("warm", 20), 4, false)?
        .run()
        .await?;
    let before = threads()?;
    let outcome = Follower::open(&engines, lines("order", orders), in_flight, false)?
        .run()
        .await?;
    let after = threads()?;
    let summary = Summary::of(&engines, &outcome).await?;
    stop.cancel();
    worker.await??;
    engines.shutdown().await;
    let thousands = f64::from(orders) / 1000.0;
    let mut parts: BTreeMap<String, f64> = BTreeMap::new();
    for (thread, (part, ticks)) in &after {
        let used = ticks - before.get(thread).map_or(0.0, |(_, t)| *t);
        *parts.entry(part.clone()).or_default() += used / TICKS / thousands;
    }
    parts.retain(|_, used| *used >= 0.001);
    Ok(Figures {
        scenario: name.to_owned(),
        orders: orders as usize,
        orders_per_second: summary.orders_per_second,
        p50_ms: summary.latency_ms.p50,
        p99_ms: summary.latency_ms.p99,
        cpu_s: parts.values().sum(),
        parts,
        peak_mb: peak_mb()?,
        good: summary.states.get("Processed") == Some(&(orders as usize)),
    })
}

/// Orders of about [`ORDER_BYTES`] each.
fn lines(prefix: &str, orders: u32) -> Vec<OrderLine> {
    (0..orders)
        .map(|n| {
            let id = format!("{prefix}-{n}");
            let mut order = json!({
                "order_id": id, "workflow": "three-steps",
                "details": {"sku": n % 97, "quantity": n % 7 + 1, "customer": format!("C{}", n % 1000),
                    "amount": f64::from(n % 10_000) / 100.0, "city": "Reims", "note": ""}
            });
            let missing = ORDER_BYTES.saturating_sub(order.to_string().len());
            order["details"]["note"] = "n".repeat(missing).into();
            OrderLine::new(id, order.to_string().into_bytes())
        })
        .collect()
}

/// CPU ticks of every thread of this process, with the part it belongs to.
fn threads() -> Result<BTreeMap<String, (String, f64)>> {
    let mut all = BTreeMap::new();
    for task in std::fs::read_dir("/proc/self/task").context("needs Linux")? {
        let dir = task?.path();
        let Ok(stat) = std::fs::read_to_string(dir.join("stat")) else {
            continue; // The thread has ended meanwhile.
        };
        let (Some(open), Some(close)) = (stat.find('('), stat.rfind(')')) else {
            continue;
        };
        let name = &stat[open + 1..close];
        let fields: Vec<&str> = stat[close + 1..].split_whitespace().collect();
        // Fields 14 and 15 of proc(5), counted from the state, which is field 3.
        let ticks: f64 = fields[11..13]
            .iter()
            .filter_map(|t| t.parse::<f64>().ok())
            .sum();
        all.insert(dir.display().to_string(), (part(name), ticks));
    }
    Ok(all)
}

/// The part of the system that a thread belongs to.
fn part(thread: &str) -> String {
    let part = match thread {
        t if t.starts_with("dynamodb") => "store (embedded engine)",
        t if t.starts_with("triad-broker") || t.starts_with("broker") => "broker (embedded)",
        t if t.starts_with("rdk:") => "Kafka client (librdkafka)",
        "reference" => "remote service",
        _ => "handlers, SDK, HTTP client",
    };
    part.to_owned()
}

fn peak_mb() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let kb: f64 = status
        .lines()
        .find_map(|l| l.strip_prefix("VmHWM:"))
        .and_then(|l| l.trim().trim_end_matches("kB").trim().parse().ok())
        .context("no peak memory in /proc/self/status")?;
    Ok(kb / 1024.0)
}

fn print(all: &[Figures]) {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header([
        "Scenario",
        "orders/s",
        "p50 ms",
        "p99 ms",
        "CPU s / 1,000",
        "peak MB",
    ]);
    for f in all {
        table.add_row([
            f.scenario.clone(),
            format!("{:.0}", f.orders_per_second),
            format!("{:.1}", f.p50_ms),
            format!("{:.1}", f.p99_ms),
            format!("{:.2}", f.cpu_s),
            format!("{:.0}", f.peak_mb),
        ]);
    }
    println!("{table}\n");
    let mut table = Table::new();
    let mut head = vec!["CPU s / 1,000 orders, by part".to_owned()];
    head.extend(all.iter().map(|f| f.scenario.clone()));
    table.load_style(NOTHING).set_header(head);
    let names: std::collections::BTreeSet<&String> =
        all.iter().flat_map(|f| f.parts.keys()).collect();
    for name in names {
        let mut row = vec![name.clone()];
        row.extend(all.iter().map(|f| {
            f.parts
                .get(name)
                .map_or_else(String::new, |c| format!("{c:.2}"))
        }));
        table.add_row(row);
    }
    println!("{table}");
}
