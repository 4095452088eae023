//! `triad bench`: the speed of the embedded run on this machine, its CPU time by part, the effect of a flood on
//! orders of the high lane, the effect of overload on all orders, and many orders that wait for one moment.
//!
//! Each scenario runs in a child process, so that its memory and CPU time can be measured. CPU time is counted by
//! thread; the thread's name gives the part of the system.

mod account;
mod load;
mod overload;
mod priority;
mod throughput;
mod timers;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::output::print_line;
use throughput::SCENARIOS;

/// Name of the scenario of `--priority`.
const PRIORITY: &str = "priority";
/// Name of the scenario of `--timers`.
const TIMERS: &str = "timers";

/// Measure the embedded run: three steps, one HTTP call each, orders of 500 bytes
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad bench
  triad bench --orders 5000 --json
  triad bench --priority --orders 10000      what a flood does to orders of the high lane
  triad bench --timers 100000                orders that have waited for one moment
  triad bench --overload --svg overload.svg  goodput and latency at 0.1 to 10 times the best rate
  triad bench --overload --loads 0.5,2 --seconds 60 --json
  triad bench --overload --burst 100000      all orders at once, followed to their ends

Other work on the machine disturbs it: compare figures of one run only.")]
pub struct BenchArgs {
    /// Orders of each throughput scenario, or of the flood
    #[arg(long, value_name = "N", default_value_t = 3000, value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    orders: u32,
    /// Measure high orders, and normal ones beside them, during a flood of normal orders
    #[arg(long)]
    priority: bool,
    /// Measure how long N orders need that have waited for one moment, and new orders beside them
    #[arg(long, value_name = "N", conflicts_with_all = ["priority", "overload"], value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    timers: Option<u32>,
    /// Print a JSON line for each scenario
    #[arg(long)]
    json: bool,
    /// Run one scenario in this process
    #[arg(long, hide = true)]
    scenario: Option<String>,
    #[command(flatten)]
    overload: overload::OverloadArgs,
}

/// Runs `triad bench`. The exit code is 0 if every order ended as it should, otherwise 1.
///
/// # Errors
/// If a scenario's process cannot be started or fails, or its figures cannot be read or printed.
pub async fn run(args: BenchArgs) -> Result<ExitCode> {
    if let Some(name) = &args.scenario {
        return here(name, &args).await;
    }
    let good = if args.overload.overload {
        overload::run(&args.overload, args.orders, args.json).await?
    } else if args.priority {
        let figures: priority::Figures = child(PRIORITY, &[orders(args.orders)]).await?;
        if args.json {
            print_line(&serde_json::to_value(&figures)?)?;
        } else {
            priority::print(&figures);
        }
        figures.good
    } else if let Some(timers) = args.timers {
        let figures: timers::Figures = child(TIMERS, &[format!("--timers={timers}")]).await?;
        if args.json {
            print_line(&serde_json::to_value(&figures)?)?;
        } else {
            timers::print(&figures);
        }
        figures.good
    } else {
        throughput(&args).await?
    };
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Runs one scenario in this process.
async fn here(name: &str, args: &BenchArgs) -> Result<ExitCode> {
    let orders = args.orders;
    if overload::here(name, &args.overload).await? {
        // The scenario's function above has already printed its figures.
    } else if name == PRIORITY {
        print(&priority::measure(name, orders).await?)?;
    } else if let (TIMERS, Some(timers)) = (name, args.timers) {
        print(&timers::measure(name, timers).await?)?;
    } else if let Some(scenario) = SCENARIOS.iter().find(|s| s.name == name) {
        print(&throughput::measure(*scenario, orders).await?)?;
    } else {
        bail!("there is no scenario {name:?}");
    }
    Ok(ExitCode::SUCCESS)
}

fn print(figures: &impl Serialize) -> Result<()> {
    print_line(&serde_json::to_value(figures)?)
}

fn orders(count: u32) -> String {
    format!("--orders={count}")
}

/// Runs the throughput scenarios; returns whether all orders were processed.
async fn throughput(args: &BenchArgs) -> Result<bool> {
    let mut all: Vec<throughput::Figures> = Vec::new();
    for scenario in SCENARIOS {
        // With one order at a time, a few hundred orders are enough.
        let count = if scenario.in_flight == 1 {
            args.orders.min(300)
        } else {
            args.orders
        };
        let figures: throughput::Figures = child(scenario.name, &[orders(count)]).await?;
        if args.json {
            print_line(&serde_json::to_value(&figures)?)?;
        } else {
            let name = scenario.name;
            eprintln!("{name}: {:.0} orders/s", figures.orders_per_second);
        }
        all.push(figures);
    }
    if !args.json {
        throughput::print(&all);
    }
    Ok(all.iter().all(|f| f.good))
}

/// Runs one scenario in a child process.
async fn child<T: DeserializeOwned>(name: &str, options: &[String]) -> Result<T> {
    let output = tokio::process::Command::new(std::env::current_exe()?)
        .arg("bench")
        .arg(format!("--scenario={name}"))
        .args(options)
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
