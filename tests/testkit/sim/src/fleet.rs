//! Runs many seeds on several threads, one world at a time on each, and adds up the results.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::kernel::coverage::Coverage;
use crate::run::{Options, WorldResult, run};

/// Number of faults up to which all prefixes are tried in turn to find the shortest failing one.
const ONE_BY_ONE: u64 = 500;
/// Most failed seeds that are kept.
const MAX_FAILURES: usize = 100;

/// A seed in which an invariant was violated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// The seed whose run failed.
    pub seed: u64,
    /// Name of the first invariant that was violated.
    pub invariant: String,
    /// A description of what was found.
    pub seen: String,
    /// The smallest number of first faults with which the run still fails, as [`shortest`] finds it.
    pub faults: u64,
}

/// The sums of many seeds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Number of seeds that were run.
    pub seeds: u64,
    /// The seed after the highest one that was run; 0 if none was.
    pub next: u64,
    /// Number of orders that were accepted.
    pub orders: u64,
    /// Number of faults that happened.
    pub faults: u64,
    /// Number of effects of the instances: writes, sends, calls and offset commits.
    pub effects: u64,
    /// Virtual time that passed, in milliseconds.
    pub virtual_ms: u64,
    /// How often each name of [`coverage`](crate::coverage) was reached, such as faults, states, acts, policies and
    /// invariants.
    pub reached: BTreeMap<String, u64>,
    /// The seeds that failed, lowest first; at most 100.
    pub failed: Vec<Failed>,
}

impl Totals {
    fn take(&mut self, outcome: &WorldResult) {
        self.seeds += 1;
        self.orders += outcome.orders as u64;
        self.faults += outcome.faults;
        self.effects += outcome.effects;
        self.virtual_ms += outcome.virtual_ms;
        for (what, n) in outcome.coverage.iter() {
            match self.reached.get_mut(what) {
                Some(count) => *count += n,
                None => {
                    self.reached.insert(what.to_owned(), n);
                }
            }
        }
    }

    /// Adds the totals of other seeds to these.
    pub fn add(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.next = self.next.max(other.next);
        self.orders += other.orders;
        self.faults += other.faults;
        self.effects += other.effects;
        self.virtual_ms += other.virtual_ms;
        for (what, n) in other.reached {
            *self.reached.entry(what).or_default() += n;
        }
        self.failed.extend(other.failed);
        self.failed.sort_by_key(|f| f.seed);
        self.failed.truncate(MAX_FAILURES);
    }

    /// The names in [`WANTED`](crate::coverage::WANTED) that no seed has reached.
    #[must_use]
    pub fn missing(&self) -> Vec<&'static str> {
        let mut coverage = Coverage::default();
        for (what, n) in &self.reached {
            coverage.add_named(what, *n);
        }
        coverage.missing()
    }

    /// Whether no seed has failed, and the seeds together have reached everything that is required. False if no seed
    /// was run.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.failed.is_empty() && self.missing().is_empty()
    }

    /// The totals as lines of text: the counts, the names that were not reached, and the failed seeds.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut text = String::new();
        for (what, n) in &self.reached {
            text += &format!("{n:>12}  {what}\n");
        }
        for what in self.missing() {
            text += &format!("       NEVER  {what}\n");
        }
        for f in &self.failed {
            let Failed {
                seed,
                invariant,
                seen,
                faults,
            } = f;
            text +=
                &format!("seed {seed} FAILS with its first {faults} faults: {invariant}: {seen}\n");
        }
        let hours = self.virtual_ms / 3_600_000;
        text + &format!(
            "{} seeds, {} orders, {} faults, {} effects, {hours} virtual hours, {} failed\n",
            self.seeds,
            self.orders,
            self.faults,
            self.effects,
            self.failed.len()
        )
    }
}

/// Which seeds are run, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// The first seed.
    pub from: u64,
    /// Number of seeds to run, beginning with the first.
    pub seeds: u64,
    /// Number of seeds that are run at once, each on its own thread; 0 counts as 1.
    pub threads: usize,
    /// The time after which no further seed is begun; `None` for no limit.
    pub until: Option<Instant>,
    /// Whether to run further seeds after one has failed.
    pub keep_going: bool,
}

/// Runs seeds and adds up their results. The number of threads does not change the totals, unless [`Plan::until`] or
/// a failing seed ends the run early.
#[must_use]
pub fn run_seeds(plan: Plan) -> Totals {
    let next = AtomicU64::new(plan.from);
    let stop = AtomicBool::new(false);
    let end = plan.from.saturating_add(plan.seeds);
    let all = Mutex::new(Totals::default());
    std::thread::scope(|scope| {
        for _ in 0..plan.threads.max(1) {
            scope.spawn(|| {
                let mut own = Totals::default();
                while !stop.load(Ordering::Relaxed)
                    && plan.until.is_none_or(|until| Instant::now() < until)
                {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        break;
                    }
                    let outcome = run(seed, Options::default());
                    own.take(&outcome);
                    own.next = own.next.max(seed + 1);
                    if !outcome.breaches.is_empty() {
                        own.failed.push(shortest(&outcome));
                        stop.fetch_or(!plan.keep_going, Ordering::Relaxed);
                    }
                }
                all.lock().unwrap_or_else(PoisonError::into_inner).add(own);
            });
        }
    });
    all.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a failed seed again with only its first faults, and finds the smallest number of faults with which it still
/// fails. Up to 500 faults the result is exact; above that it comes from a binary search, which may miss a smaller
/// number.
///
/// # Panics
/// If the outcome has no breach.
#[must_use]
pub fn shortest(outcome: &WorldResult) -> Failed {
    let failing = |faults: u64| {
        let options = Options {
            faults: Some(faults),
            ..Options::default()
        };
        run(outcome.seed, options).breaches.into_iter().next()
    };
    let all = outcome.faults;
    let mut found = (all, outcome.breaches[0].clone());
    if all <= ONE_BY_ONE {
        let first = (0..all).find_map(|n| failing(n).map(|b| (n, b)));
        found = first.unwrap_or(found);
    } else {
        // A binary search: with more faults a run almost always, but not always, still fails.
        let (mut low, mut high) = (0, all);
        while low < high {
            let middle = low + (high - low) / 2;
            match failing(middle) {
                Some(breach) => {
                    found = (middle, breach);
                    high = middle;
                }
                None => low = middle + 1,
            }
        }
    }
    let (faults, breach) = found;
    Failed {
        seed: outcome.seed,
        invariant: breach.invariant.to_owned(),
        seen: breach.seen,
        faults,
    }
}
