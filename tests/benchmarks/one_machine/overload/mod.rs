//! `triad bench --overload`: the results when more orders are offered than can be processed.
//!
//! A closed loop measures the best rate. Then each load is offered in an open loop at a multiple of that rate, with
//! new engines and handlers; `--burst` offers all orders at once instead. The number of orders in flight is not
//! limited, and no service fails.

mod burst;
mod drive;
mod notes;
mod offered;
mod plot;
mod table;
pub mod times;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;

use super::throughput::{self, SCENARIOS};
use super::{child, orders as count_of, print};
use crate::output::{Usage, print_line};
pub use drive::on_own_thread;

/// Names of the scenarios.
const OFFERED: &str = "offered load";
const BURST: &str = "burst";
/// Limit: orders of one load.
const MAX_ORDERS: f64 = 5_000_000.0;

/// Options of the overload benchmark.
#[derive(Debug, Args)]
#[command(next_help_heading = "Overload")]
pub struct OverloadArgs {
    /// Measure goodput and latency against offered load; --orders is how many find the best rate
    #[arg(long, conflicts_with = "priority")]
    pub overload: bool,
    /// Loads to offer, as multiples of the best rate
    #[arg(long, value_name = "M,...", requires = "overload", value_delimiter = ',', value_parser = load,
        default_value = "0.1,0.25,0.5,0.75,1,1.5,2,5,10")]
    loads: Vec<f64>,
    /// How long each load is offered
    #[arg(long, value_name = "S", requires = "overload", default_value_t = 20, value_parser = clap::value_parser!(u32).range(4..=3600))]
    seconds: u32,
    /// How long orders are followed after a load, at most
    #[arg(long, value_name = "S", requires = "overload", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3600))]
    drain_seconds: u32,
    /// Offer N orders at once instead, and follow them to their ends
    #[arg(long, value_name = "N", requires = "overload", conflicts_with_all = ["loads", "seconds", "drain_seconds"], value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    burst: Option<u32>,
    /// Draw goodput and latency against load into this file, as SVG
    #[arg(
        long,
        value_name = "FILE",
        requires = "overload",
        conflicts_with = "burst"
    )]
    svg: Option<PathBuf>,
    /// Best rate, of a scenario in this process
    #[arg(long, hide = true)]
    best: Option<f64>,
}

fn load(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(load) if (0.01..=100.0).contains(&load) => Ok(load),
        _ => Err("a load is a number from 0.01 to 100".to_owned()),
    }
}

/// Runs `triad bench --overload`, each load in a child process. Returns true if nothing went wrong with any order.
/// `orders` is the number of orders with which the best rate is measured; `json` prints a JSON line for each load
/// instead of the tables.
///
/// # Errors
/// [`Usage`] if the SVG file cannot be written or the loads have more than 5,000,000 orders; an error of a scenario's
/// process; or that not every order was processed while the best rate was measured.
pub async fn run(args: &OverloadArgs, orders: u32, json: bool) -> Result<bool> {
    if let Some(count) = args.burst {
        let figures: burst::Figures = child(
            BURST,
            &["--overload".to_owned(), format!("--burst={count}")],
        )
        .await?;
        if json {
            print_line(&serde_json::to_value(&figures)?)?;
        } else {
            burst::print(&figures);
        }
        return Ok(figures.good);
    }
    args.svg.as_deref().map(can_be_written).transpose()?;
    let best = best_rate(orders, json).await?;
    let most = args.loads.iter().copied().fold(0.0, f64::max);
    if most * best * f64::from(args.seconds) > MAX_ORDERS {
        bail!(Usage(format!(
            "--seconds: {most} times {best:.0} orders/s is more than {MAX_ORDERS} orders; offer it for a shorter time"
        )));
    }
    let mut all = Vec::new();
    for load in &args.loads {
        let figures: offered::Figures = child(
            OFFERED,
            &[
                "--overload".to_owned(),
                format!("--loads={load}"),
                format!("--best={best}"),
                format!("--seconds={}", args.seconds),
                format!("--drain-seconds={}", args.drain_seconds),
            ],
        )
        .await?;
        if json {
            print_line(&serde_json::to_value(&figures)?)?;
        } else {
            let goodput = figures.goodput_per_second;
            eprintln!("load {load}: {goodput:.0} orders/s");
        }
        all.push(figures);
    }
    if let Some(file) = &args.svg {
        plot::write(file, best, &all)?;
    }
    if !json {
        table::print(best, &all);
    }
    Ok(all.iter().all(|f| f.good))
}

/// Measures the best rate in a closed loop, in orders per second.
async fn best_rate(orders: u32, json: bool) -> Result<f64> {
    let scenario = SCENARIOS.iter().find(|s| s.in_flight == 64);
    let scenario = scenario.context("no scenario has 64 orders in flight")?;
    let figures: throughput::Figures = child(scenario.name, &[count_of(orders)]).await?;
    if json {
        print_line(&serde_json::to_value(&figures)?)?;
    } else {
        eprintln!("best rate: {:.0} orders/s", figures.orders_per_second);
    }
    if !figures.good {
        bail!("not every order of the closed loop was processed");
    }
    Ok(figures.orders_per_second)
}

/// Checks the file before the run, which takes minutes.
fn can_be_written(file: &Path) -> Result<()> {
    let opened = std::fs::File::options()
        .create(true)
        .append(true)
        .open(file);
    opened.map_err(|e| Usage(format!("{}: {e}", file.display())))?;
    Ok(())
}

/// Runs the scenario of this name in this process and prints its figures as a JSON line. Returns
/// false, and does nothing, if the name is not one of this benchmark's.
///
/// # Errors
/// If the scenario fails or its figures cannot be printed.
pub async fn here(name: &str, args: &OverloadArgs) -> Result<bool> {
    match (name, args.burst, args.best, args.loads.first()) {
        (BURST, Some(orders), _, _) => print(&burst::measure(name, orders).await?)?,
        (OFFERED, _, Some(best), Some(load)) => {
            let (seconds, drain) = (args.seconds, args.drain_seconds);
            print(&offered::measure(name, (*load, best), seconds, drain).await?)?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}
