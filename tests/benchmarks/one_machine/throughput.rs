//! The throughput scenarios: orders per second, and CPU time and memory.

use std::collections::BTreeMap;

use anyhow::Result;
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use serde::{Deserialize, Serialize};

use super::account::{CpuTime, peak_mb};
use super::load::{Running, orders};
use crate::dev::follow::Follower;
use crate::dev::summary::Summary;

/// One run of the throughput benchmark.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// Name of the scenario, for output and for `--scenario`.
    pub name: &'static str,
    /// Most orders under way at once; 0 for no limit.
    pub in_flight: u32,
    /// Whether state is kept on disk.
    durable: bool,
}

const fn scenario(name: &'static str, in_flight: u32, durable: bool) -> Scenario {
    Scenario {
        name,
        in_flight,
        durable,
    }
}

/// All scenarios in the order in which they run: with state in memory, then on disk; each with one order, with 64
/// orders, and with all orders under way at once.
pub const SCENARIOS: [Scenario; 6] = [
    scenario("memory, one alone", 1, false),
    scenario("memory, 64 in flight", 64, false),
    scenario("memory, unlimited", 0, false),
    scenario("--data, one alone", 1, true),
    scenario("--data, 64 in flight", 64, true),
    scenario("--data, unlimited", 0, true),
];

/// The figures of one throughput scenario.
#[derive(Debug, Serialize, Deserialize)]
pub struct Figures {
    scenario: String,
    orders: usize,
    /// Orders that ended, per second from the first submission to the last end.
    pub orders_per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
    /// CPU seconds of all threads for each 1,000 orders.
    cpu_s: f64,
    /// CPU seconds for each 1,000 orders, by part of the system.
    parts: BTreeMap<String, f64>,
    /// Largest resident memory of the process, in MB.
    peak_mb: f64,
    /// Whether every order ended Processed.
    pub good: bool,
}

/// Runs `count` orders through the scenario in this process and measures it.
///
/// # Errors
/// If engines or handlers fail, an order cannot be submitted, or `/proc` cannot be read.
pub async fn measure(scenario: Scenario, count: u32) -> Result<Figures> {
    let running = Running::start(scenario.durable).await?;
    let before = CpuTime::now()?;
    let all = orders("order", count);
    let outcome = Follower::open(&running.engines, all, scenario.in_flight, false)?
        .run()
        .await?;
    let mut parts = CpuTime::now()?.since(&before);
    let summary = Summary::of(&running.engines, &outcome).await?;
    running.stop().await?;
    let thousands = f64::from(count) / 1000.0;
    parts.values_mut().for_each(|used| *used /= thousands);
    parts.retain(|_, used| *used >= 0.001);
    Ok(Figures {
        scenario: scenario.name.to_owned(),
        orders: count as usize,
        orders_per_second: summary.orders_per_second,
        p50_ms: summary.latency_ms.p50,
        p99_ms: summary.latency_ms.p99,
        cpu_s: parts.values().sum(),
        parts,
        peak_mb: peak_mb()?,
        good: summary.states.get("Processed") == Some(&(count as usize)),
    })
}

/// Prints the figures of all scenarios to standard output, as tables.
pub fn print(all: &[Figures]) {
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
