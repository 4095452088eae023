//! The burst scenario: all orders are submitted at once, and then followed until all have ended.

use std::collections::BTreeMap;

use anyhow::Result;
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use serde::{Deserialize, Serialize};
use triad_core::OrderId;
use triad_runtime::StateStore;

use super::super::load::Running;
use super::drive::{Driver, Plan};
use super::notes::prefix;
use super::times::{min_and_median, slices};

/// Length of the time slices for which the rate is given, in milliseconds.
const SLICE_MS: u32 = 10_000;
/// Number of records in one read.
const PAGE: u32 = 100;

/// The figures of a burst.
#[derive(Debug, Serialize, Deserialize)]
pub struct Figures {
    scenario: String,
    orders: u32,
    /// Seconds until the Kafka client had accepted the last order.
    offered_s: f64,
    /// Seconds until the last order completed.
    completed_s: f64,
    /// Orders completed per second, over the whole time.
    goodput_per_second: f64,
    /// Orders completed per second, in each whole slice of 10 seconds.
    slices_per_second: Vec<f64>,
    min_per_second: Option<f64>,
    median_per_second: Option<f64>,
    /// Number of orders by the state of their process record; `none` counts orders without a record.
    states: BTreeMap<String, u32>,
    /// Number of statuses that report a failure and of dead letters, by their text.
    wrong: BTreeMap<String, u32>,
    /// Number of keys or steps whose effect was applied more than once.
    applied_twice: u64,
    /// CPU seconds of all threads for each 1,000 completed orders.
    cpu_s: f64,
    /// Largest resident memory of the process, in MB.
    peak_mb: f64,
    /// Whether every order ended Processed, no status reported a failure, no dead letter was written, and no effect
    /// was applied twice.
    pub good: bool,
}

/// Submits `orders` normal orders at once and follows them until all have ended, or until 60 s pass without a status
/// of any of them. `name` is the name of the scenario in the figures.
///
/// # Errors If engines or handlers fail, the broker refuses an order, or records cannot be read.
pub async fn measure(name: &str, orders: u32) -> Result<Figures> {
    let mut running = Running::start(false).await?;
    let driver = Driver::open(&running.engines, Plan::Burst { orders })?
        .drive()
        .await?;
    running.stop_handlers().await?;
    let driver = driver.read_rest().await?;
    let states = states(&running, orders).await?;
    let ledger = running.engines.service.summary().await?;
    running.stop().await?;

    let notes = driver.notes;
    let completed: Vec<u32> = notes.normal.completed().collect();
    let last_ms = completed.iter().max().copied().unwrap_or(0);
    let slices = slices(&completed, SLICE_MS);
    let (min, median) = min_and_median(&slices).unzip();
    let applied_twice = ledger.keys_applied_twice + ledger.steps_applied_twice;
    Ok(Figures {
        scenario: name.to_owned(),
        orders,
        offered_s: f64::from(driver.offered_ms) / 1000.0,
        completed_s: f64::from(last_ms) / 1000.0,
        goodput_per_second: completed.len() as f64 * 1000.0 / f64::from(last_ms.max(1)),
        slices_per_second: slices,
        min_per_second: min,
        median_per_second: median,
        good: states.get("Processed") == Some(&orders)
            && completed.len() == orders as usize
            && notes.wrong.is_empty()
            && applied_twice == 0,
        states,
        wrong: notes.wrong,
        applied_twice,
        cpu_s: driver.cpu_s * 1000.0 / completed.len().max(1) as f64,
        peak_mb: driver.peak_mb,
    })
}

/// Orders by process state, read from the tables a page at a time.
async fn states(running: &Running, orders: u32) -> Result<BTreeMap<String, u32>> {
    let mut states = BTreeMap::new();
    let prefix = prefix(triad_core::Priority::Normal);
    for first in (0..orders).step_by(PAGE as usize) {
        let page = (first..orders.min(first.saturating_add(PAGE)))
            .map(|n| OrderId::new(format!("{prefix}-{n}")))
            .collect::<Result<Vec<_>, _>>()?;
        for record in running.engines.wiring.store.load(page).await {
            let state = record?.map_or("none", |order| order.state.name());
            *states.entry(state.to_owned()).or_default() += 1;
        }
    }
    Ok(states)
}

/// Prints the figures to standard output, as tables.
pub fn print(figures: &Figures) {
    let f = figures;
    let counts = |counts: &BTreeMap<String, u32>| {
        let counts: Vec<String> = counts.iter().map(|(k, v)| format!("{v} {k}")).collect();
        counts.join(", ")
    };
    let rate = |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), |r| format!("{r:.0}"));
    println!(
        "A burst of {} orders: sent in {:.1} s, completed in {:.1} s\n",
        f.orders, f.offered_s, f.completed_s
    );
    let mut table = Table::new();
    table
        .load_style(NOTHING)
        .set_header(["Slice of 10 s", "goodput, orders/s"]);
    for (n, rate) in f.slices_per_second.iter().enumerate() {
        let from = n * 10;
        table.add_row([format!("{from} to {} s", from + 10), format!("{rate:.0}")]);
    }
    table.add_row(["slowest whole slice".to_owned(), rate(f.min_per_second)]);
    table.add_row(["median whole slice".to_owned(), rate(f.median_per_second)]);
    table.add_row(["all".to_owned(), format!("{:.0}", f.goodput_per_second)]);
    println!("{table}\n");
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.add_row(["Ended".to_owned(), counts(&f.states)]);
    if !f.wrong.is_empty() {
        table.add_row(["WENT WRONG".to_owned(), counts(&f.wrong)]);
    }
    if f.applied_twice > 0 {
        table.add_row(["APPLIED TWICE".to_owned(), f.applied_twice.to_string()]);
    }
    table.add_row(["CPU s / 1,000".to_owned(), format!("{:.2}", f.cpu_s)]);
    table.add_row(["Peak memory".to_owned(), format!("{:.0} MB", f.peak_mb)]);
    println!("{table}");
}
