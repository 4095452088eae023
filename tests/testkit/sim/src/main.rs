//! Runs simulated worlds and prints their results.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use sha2::{Digest, Sha256};
use triad_sim::crashes::{self, Workload};
use triad_sim::fleet::{Plan, Totals, run_seeds};
use triad_sim::{Options, Saved, of_seed, replay, run};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Number of seeds between two saves of the state in a long run.
const CHUNK: u64 = 2_000;

/// The simulated world: the production handlers, one seed, virtual time.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs many seeds; fails if one does, or if something was never reached or looked at.
    Seeds(Seeds),
    /// Runs one seed and prints its events.
    One(OneArgs),
    /// Goes through every crash point of the reference workloads, and every pair of them.
    Crashes(CrashPoints),
    /// Runs seeds for long, in pieces; called again the same program goes on where it was. Fails as `seeds` does,
    /// of all seeds so far.
    Nightly(Nightly),
    /// Runs plain three-step orders without faults, for the speed.
    Speed {
        /// How many orders.
        #[arg(long, default_value_t = 10_000)]
        orders: usize,
    },
    /// Runs seeds from 0 on until one fails, and says which and why; fails if none does.
    FirstBreach(FirstBreach),
}

#[derive(Debug, Args)]
struct Seeds {
    /// How many seeds.
    #[arg(long, default_value_t = 20_000)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Worlds at once.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Begin no seed after so many minutes.
    #[arg(long)]
    minutes: Option<u64>,
    /// Go on after a failing seed.
    #[arg(long)]
    keep_going: bool,
}

#[derive(Debug, Args)]
struct OneArgs {
    /// The seed.
    #[arg(required_unless_present = "replay")]
    seed: Option<u64>,
    /// Only its first so many faults.
    #[arg(long)]
    faults: Option<u64>,
    /// A world that was kept in a file, in the place of a seed.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seed", "save"])]
    replay: Option<PathBuf>,
    /// Keep in this file what is drawn for the seed.
    #[arg(long, value_name = "FILE", requires = "sees")]
    save: Option<PathBuf>,
    /// What the kept world must reach whenever it is replayed, by its name among what is counted. Several
    /// may be given.
    #[arg(long, value_name = "NAME", requires = "save")]
    sees: Vec<String>,
}

#[derive(Debug, Args)]
struct CrashPoints {
    /// Single crashes alone.
    #[arg(long)]
    singles: bool,
    /// Worlds at once.
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

#[derive(Debug, Args)]
struct Nightly {
    /// Seeds in all, those of earlier calls included.
    #[arg(long, default_value_t = 1_000_000)]
    seeds: u64,
    /// Stop after so many minutes; the next call goes on.
    #[arg(long)]
    minutes: Option<u64>,
    /// Where the next seed and the totals are kept.
    #[arg(long, default_value = "sim-nightly.json")]
    state: PathBuf,
    /// What the program is known by, whose seeds are gone on with: a digest of its sources, where another machine or
    /// another build of them is to go on. The digest of its file where this is not said.
    #[arg(long, value_name = "DIGEST")]
    program: Option<String>,
    /// Worlds at once.
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

#[derive(Debug, Args)]
struct FirstBreach {
    /// Most seeds.
    #[arg(long, default_value_t = 20_000)]
    seeds: u64,
    /// Worlds at once.
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

fn main() -> anyhow::Result<ExitCode> {
    let good = match Arguments::parse().command {
        Command::Seeds(a) => seeds(&a),
        Command::One(a) => run_one(&a)?,
        Command::Crashes(a) => crash_points(&a),
        Command::Nightly(a) => nightly(&a)?,
        Command::Speed { orders } => speed(orders),
        Command::FirstBreach(a) => first_breach(&a),
    };
    Ok(ExitCode::from(u8::from(!good)))
}

fn until(minutes: Option<u64>) -> Option<Instant> {
    minutes.map(|m| Instant::now() + Duration::from_secs(60 * m))
}

/// Prints the totals, and the events of the first failing seed.
fn conclude(totals: &Totals, began: Instant) -> bool {
    print!("{}", totals.summary());
    let seconds = began.elapsed().as_secs_f64();
    println!("{seconds:.0} s");
    if let Some(first) = totals.failed.first() {
        let options = Options {
            trace: true,
            faults: Some(first.faults),
            ..Options::default()
        };
        println!("{}", run(first.seed, options).report());
        println!(
            "again: triad-sim one {} --faults {}",
            first.seed, first.faults
        );
    }
    totals.is_good()
}

fn seeds(a: &Seeds) -> bool {
    let began = Instant::now();
    let totals = run_seeds(Plan {
        from: a.from,
        seeds: a.seeds,
        threads: a.threads,
        until: until(a.minutes),
        keep_going: a.keep_going,
    });
    conclude(&totals, began)
}

fn run_one(a: &OneArgs) -> anyhow::Result<bool> {
    let options = Options {
        trace: true,
        faults: a.faults,
        ..Options::default()
    };
    if let Some(path) = &a.replay {
        let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
        let saved: Saved = serde_json::from_slice(&bytes)?;
        let outcome = replay(&saved, options)?;
        println!("{}", outcome.report());
        let missed = saved.sees.iter();
        let missed: Vec<_> = missed.filter(|n| outcome.coverage.count(n) == 0).collect();
        if !missed.is_empty() {
            println!("it was kept for {missed:?}, and does not reach that any more");
        }
        return Ok(outcome.breaches.is_empty() && missed.is_empty());
    }
    let seed = a.seed.unwrap_or_default();
    let outcome = run(seed, options);
    println!("{}", outcome.report());
    if let Some(path) = &a.save {
        let saved = of_seed(seed).with_context(|| {
            format!("seed {seed} is a world under load or with one fault: these are not kept")
        })?;
        let missed = a.sees.iter().find(|name| outcome.coverage.count(name) == 0);
        anyhow::ensure!(missed.is_none(), "seed {seed} does not reach {missed:?}");
        let mut saved = saved;
        saved.sees.clone_from(&a.sees);
        std::fs::write(path, serde_json::to_string_pretty(&saved)? + "\n")?;
    }
    Ok(outcome.breaches.is_empty())
}

fn crash_points(a: &CrashPoints) -> bool {
    let mut good = true;
    for workload in Workload::ALL {
        let began = Instant::now();
        let found = crashes::all(workload, !a.singles, a.threads);
        println!(
            "{workload:?}: {} effects, {} single crashes, {} pairs, {} crashes came, {} failed, {:.1} s",
            found.effects,
            found.singles,
            found.pairs,
            found.crashed,
            found.failures.len(),
            began.elapsed().as_secs_f64()
        );
        if !found.is_whole(!a.singles) {
            println!("not every crash point was gone through");
            good = false;
        }
        for (at, what) in found.failures.iter().take(20) {
            println!("{at:?}: {what}");
        }
        if let Some((at, _)) = found.failures.first() {
            println!("{}", crashes::run_with(workload, at, true).report());
        }
        good &= found.failures.is_empty();
    }
    good
}

fn nightly(a: &Nightly) -> anyhow::Result<bool> {
    let began = Instant::now();
    let program = a.program.clone().map_or_else(digest_of_file, Ok)?;
    let mut totals = Totals::default();
    if let Ok(bytes) = std::fs::read(&a.state) {
        let kept: SavedTotals = serde_json::from_slice(&bytes)
            .with_context(|| format!("{} cannot be read", a.state.display()))?;
        if kept.program == program {
            totals = kept.totals;
        } else {
            eprintln!(
                "the program is another one: its seeds show nothing of this one, which begins anew"
            );
        }
    }
    let until = until(a.minutes);
    while totals.next < a.seeds && until.is_none_or(|u| Instant::now() < u) {
        let piece = run_seeds(Plan {
            from: totals.next,
            seeds: CHUNK.min(a.seeds - totals.next),
            threads: a.threads,
            until: None,
            keep_going: true,
        });
        totals.add(piece);
        let kept = SavedTotals {
            program: program.clone(),
            totals,
        };
        keep(&a.state, &kept)?;
        totals = kept.totals;
        let speed = began.elapsed().as_secs();
        eprintln!(
            "{} seeds, {} failed, {speed} s",
            totals.next,
            totals.failed.len()
        );
    }
    Ok(conclude(&totals, began))
}

/// What is kept between two calls.
#[derive(serde::Serialize, serde::Deserialize)]
struct SavedTotals {
    /// What the program that ran the seeds is known by.
    program: String,
    totals: Totals,
}

/// The digest of this program's file.
fn digest_of_file() -> anyhow::Result<String> {
    let file = std::env::current_exe().context("this program does not know its file")?;
    let bytes =
        std::fs::read(&file).with_context(|| format!("{} cannot be read", file.display()))?;
    let digest = Sha256::digest(&bytes);
    Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Writes the state to a temporary file and renames it, so that a kill never leaves an incomplete file.
fn keep(path: &Path, kept: &SavedTotals) -> anyhow::Result<()> {
    let beside = path.with_extension("new");
    std::fs::write(&beside, serde_json::to_vec_pretty(kept)?)?;
    std::fs::rename(&beside, path)?;
    Ok(())
}

fn speed(orders: usize) -> bool {
    let began = Instant::now();
    let options = Options {
        plain_orders: Some(orders),
        ..Options::default()
    };
    let outcome = run(0, options);
    let seconds = began.elapsed().as_secs_f64();
    let speed = orders as f64 / seconds;
    println!("{orders} orders of three steps in {seconds:.1} s, {speed:.0} orders/s");
    println!("{}", outcome.report());
    outcome.breaches.is_empty()
}

fn first_breach(a: &FirstBreach) -> bool {
    match triad_sim::first_breach::first_breach(a.seeds, a.threads) {
        Some(first) => {
            println!("{} after {} seeds", first.invariant, first.seeds);
            true
        }
        None => {
            println!("none in {} seeds", a.seeds);
            false
        }
    }
}
