//! Visits every state and prints the number of states.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use stateright::report::{ReportData, ReportDiscovery, Reporter};
use stateright::{Checker, HasDiscoveries, Model};
use triad_model::{Bounds, Installation, Policy};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The exhaustive model: every reachable state of one order within the bounds.
#[derive(Debug, Parser)]
#[command(after_help = "Examples:
  triad-model
  triad-model --policy compensate
  triad-model --policy fork --steps 2 --instances 1 --horizon 30 --crashes 0
  triad-model --steps 2 --instances 1 --horizon 60")]
struct Arguments {
    /// Steps of the workflow.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=2))]
    steps: u64,
    /// Schedulers, and Supervisors.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=2))]
    instances: u64,
    /// What the workflow does about a failed step.
    #[arg(long, default_value = "retry")]
    policy: Failed,
    /// Times that the partition moves to the other Scheduler.
    #[arg(long, default_value_t = 1)]
    rebalances: u8,
    /// When time ends, in milliseconds; a step has 10.
    #[arg(long, default_value_t = 50)]
    horizon: u64,
    /// Processes that may die.
    #[arg(long, default_value_t = 1)]
    crashes: u8,
    /// Calls that may go wrong.
    #[arg(long, default_value_t = 1)]
    faults: u8,
    /// Threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Failed {
    /// One more attempt, then Error.
    Retry,
    /// It is compensated.
    Compensate,
    /// Parallel steps, each with one more attempt: one after a wait, one at once.
    Fork,
}

/// Prints the progress to standard error.
struct Progress;

impl Reporter<Installation> for Progress {
    fn report_checking(&mut self, data: ReportData) {
        eprint!(
            "\r{} states, {} s",
            data.unique_states,
            data.duration.as_secs()
        );
        if data.done {
            eprintln!();
        }
    }

    fn report_discoveries(
        &mut self,
        _: &Installation,
        _: BTreeMap<&'static str, ReportDiscovery<Installation>>,
    ) {
    }
}

fn main() -> ExitCode {
    let a = Arguments::parse();
    let model = Installation::new(Bounds {
        steps: a.steps as usize,
        horizon: a.horizon,
        crashes: a.crashes,
        faults: a.faults,
        rebalances: a.rebalances,
        policy: match a.policy {
            Failed::Retry => Policy::Retry,
            Failed::Compensate => Policy::Compensate,
            Failed::Fork => Policy::Fork,
        },
        instances: a.instances as usize,
    });
    let properties = model.properties();
    let began = Instant::now();
    let checker = model
        .checker()
        .threads(a.threads)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs();
    let checker = checker.join_and_report(&mut Progress);
    println!(
        "{} states, {} transitions, deepest {}, {:.0} s",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth(),
        began.elapsed().as_secs_f64()
    );
    let mut good = true;
    for property in properties {
        let found = checker.discovery(property.name);
        let always = matches!(property.expectation, stateright::Expectation::Always);
        let holds = found.is_some() != always;
        good &= holds;
        let verdict = match (always, holds) {
            (true, true) => "holds",
            (true, false) => "BROKEN",
            (false, true) => "reached",
            (false, false) => "NEVER REACHED",
        };
        println!("  {verdict:<14} {}", property.name);
        if let (true, Some(path)) = (always, found) {
            println!("{path}");
        }
    }
    ExitCode::from(u8::from(!good))
}
