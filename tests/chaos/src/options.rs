//! Options of a run.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

use super::checks::Guarantee;
use super::outages::plan::Outage;
use super::schedule::Kind;
use triad_judge::broken_store::Kind as Lie;

/// Runs real workers, broker, store and a remote service as separate processes, kills and freezes them while orders
/// run, and then checks tables, topics and ledger against the guarantees.
///
/// The report goes to standard output, progress to standard error. Ends with 0 if every guarantee held and every
/// check has looked at something, 1 if not, 2 if the run failed.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "triad-chaos",
    version,
    after_help = "Examples:
  triad-chaos                                      300 orders, a fault of each kind
  triad-chaos --orders 20000 --seed 7              the long run
  triad-chaos --orders 2000 --faults 40 --json     many faults, for a program to read
  triad-chaos --kind hang-store --orders 2000      the store hangs a minute while all workers are restarted
  triad-chaos --other-worker old/triad-worker      an upgrade and its rollback under faults
  triad-chaos --outages 60s --orders 2000          outages of one part at a time, and no kills
  triad-chaos --store-lies stale-read              a broken store: the judge must find it
  triad-chaos --orders 20 --expect g1 --expect g8  too few orders for some to end badly
  triad-chaos --template examples/orders/sample.jsonl --data ./state

Needs triad, triad-worker, triad-broker, triad-store and triad-reference-service beside it: cargo build --workspace --bins"
)]
pub struct Options {
    /// Orders to submit
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub orders: u32,
    /// Seed of the load, the services' faults and the schedule of kills; not of the timing
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Worker processes, each with all functions
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=32))]
    pub workers: u8,
    /// Kills and freezes, spread over the run. Default: one of each kind, and one more for every
    /// 400 orders
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=5_000))]
    pub faults: Option<u16>,
    /// Faults of this kind only; may be repeated. Default: all but hang-store, which lasts a minute
    #[arg(long, value_name = "KIND", conflicts_with = "outages")]
    pub kind: Vec<Kind>,
    /// A triad-worker of another version: each restart of a worker switches the version, so that both run side by
    /// side
    #[arg(long, value_name = "PROGRAM")]
    pub other_worker: Option<PathBuf>,
    /// Orders under way at once
    #[arg(long, value_name = "N", default_value_t = 150, value_parser = clap::value_parser!(u32).range(1..))]
    pub in_flight: u32,
    /// Take the orders' details from this JSON-lines file, in turn. Default: generated ones
    #[arg(long, value_name = "FILE")]
    pub template: Option<PathBuf>,
    /// Longest time without an order's end while the faults last; two minutes at least until the last fault has come
    #[arg(long, value_name = "TIME", default_value = "180s", value_parser = humantime::parse_duration)]
    pub patience: Duration,
    /// Longest time from the last fault until everything has finished
    #[arg(long, value_name = "TIME", default_value = "300s", value_parser = humantime::parse_duration)]
    pub quiet_within: Duration,
    /// Instead of kills and freezes: one topic is refused, one service hangs, the store denies access, each for this
    /// long, while orders run that do not need it
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub outages: Option<Duration>,
    /// With --outages: only this one; may be repeated. Default: all, one after the other
    #[arg(long, value_name = "OUTAGE", requires = "outages")]
    pub only: Vec<Outage>,
    /// Guarantee of which every check must have looked at something; may be repeated. Other checks without evidence
    /// are listed and are no failure. Default: all of them
    #[arg(long, value_name = "GUARANTEE", conflicts_with = "outages")]
    pub expect: Vec<Guarantee>,
    /// File for the history of the clients' operations on the store, which the independent judge decides on. Default:
    /// with the other data
    #[arg(long, value_name = "FILE")]
    pub history: Option<PathBuf>,
    /// Break the store: one request in ten gets a wrong answer of this kind, which the judge must find
    #[arg(long, value_name = "LIE")]
    pub store_lies: Option<Lie>,
    /// Directory for all data and logs, which must be empty. Default: a temporary one, kept if a guarantee was
    /// violated
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
    /// Directory of the other programs. Default: that of this one
    #[arg(long, value_name = "DIR")]
    pub bin_dir: Option<PathBuf>,
}

impl Options {
    /// How many faults the run has.
    #[must_use]
    pub fn faults(&self) -> usize {
        let by_load = self.kinds().len() + self.orders as usize / 400;
        self.faults.map_or(by_load, usize::from)
    }

    /// Kinds of faults in the run.
    #[must_use]
    pub fn kinds(&self) -> &[Kind] {
        match self.kind.as_slice() {
            [] => &Kind::USUAL,
            some => some,
        }
    }

    /// Whether the checks of a guarantee must have looked at something.
    #[must_use]
    pub fn expects(&self, guarantee: Guarantee) -> bool {
        self.expect.is_empty() || self.expect.contains(&guarantee)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_sound_and_small_runs_have_every_kind_of_fault() {
        Options::command().debug_assert();
        let default = Options::parse_from(["triad-chaos"]);
        assert_eq!(default.faults(), Kind::USUAL.len());
        let long = Options::parse_from(["triad-chaos", "--orders", "20000"]);
        assert_eq!(long.faults(), 55);
    }

    #[test]
    fn every_guarantee_is_expected_to_be_looked_at_unless_some_are_named() {
        let all = Options::parse_from(["triad-chaos"]);
        assert!(all.expects(Guarantee::G1) && all.expects(Guarantee::G10));
        let some = Options::parse_from(["triad-chaos", "--expect", "g1", "--expect", "g10"]);
        assert!(some.expects(Guarantee::G1) && some.expects(Guarantee::G10));
        assert!(!some.expects(Guarantee::G6));
    }
}
