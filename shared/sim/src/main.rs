//! Runs many seeds and says what came of them.

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use triad_sim::{Coverage, Options, run};

/// Runs the simulated world for many seeds.
#[derive(Debug, Parser)]
struct Arguments {
    /// How many seeds.
    #[arg(long, default_value_t = 1_000)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Print the events of every seed.
    #[arg(long)]
    trace: bool,
    /// Go on after a failing seed.
    #[arg(long)]
    keep_going: bool,
    /// Instead: so many plain three-step orders without faults, for the speed.
    #[arg(long)]
    orders: Option<usize>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let began = Instant::now();
    if let Some(count) = arguments.orders {
        let options = Options {
            plain_orders: Some(count),
            ..Options::default()
        };
        let outcome = run(arguments.from, options);
        let speed = count as f64 / began.elapsed().as_secs_f64();
        println!("{count} orders of three steps, {speed:.0} orders/s");
        println!("{}", outcome.report());
        return ExitCode::from(u8::from(!outcome.breaches.is_empty()));
    }
    let mut coverage = Coverage::default();
    let (mut failed, mut orders, mut virtual_ms) = (0_u64, 0, 0);
    for seed in arguments.from..arguments.from + arguments.seeds {
        let options = Options {
            trace: arguments.trace,
            ..Options::default()
        };
        let outcome = run(seed, options);
        coverage.add(&outcome.coverage);
        orders += outcome.orders;
        virtual_ms += outcome.virtual_ms;
        if arguments.trace {
            println!("{}", outcome.report());
        }
        if !outcome.breaches.is_empty() {
            failed += 1;
            let first = &outcome.breaches[0];
            println!("seed {seed} FAILS: {}: {}", first.invariant, first.seen);
            if !arguments.keep_going {
                break;
            }
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    for (what, n) in coverage.iter() {
        println!("{n:>10}  {what}");
    }
    for what in coverage.missing() {
        println!("   NEVER  {what}");
    }
    println!(
        "{} seeds from {}, {failed} failed, {orders} orders, {:.0} virtual hours, {:.0} seeds/s",
        arguments.seeds,
        arguments.from,
        virtual_ms as f64 / 3_600_000.0,
        arguments.seeds as f64 / seconds
    );
    ExitCode::from(u8::from(failed > 0))
}
