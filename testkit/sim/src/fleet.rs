//! Many seeds on several threads, one world a thread, and what came of them together.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::kernel::coverage::Coverage;
use crate::run::{Options, Outcome, run};

/// Faults up to which the shortest failing prefix is searched one by one.
const ONE_BY_ONE: u64 = 500;
/// Failures that are kept.
const MAX_FAILURES: usize = 100;

/// A seed that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// The seed.
    pub seed: u64,
    /// What did not hold first.
    pub invariant: String,
    /// What was seen.
    pub seen: String,
    /// Fewest faults with which it fails.
    pub faults: u64,
}

/// What came of many seeds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Seeds that were run.
    pub seeds: u64,
    /// The seed after the last one.
    pub next: u64,
    /// Orders that were accepted.
    pub orders: u64,
    /// Faults that happened.
    pub faults: u64,
    /// Effects of the instances.
    pub effects: u64,
    /// Virtual milliseconds that passed.
    pub virtual_ms: u64,
    /// What was reached, and how often.
    pub reached: BTreeMap<String, u64>,
    /// Seeds that failed, lowest first.
    pub failed: Vec<Failed>,
}

impl Totals {
    fn take(&mut self, outcome: &Outcome) {
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

    /// Takes over the totals of other seeds.
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

    /// What was wanted and not reached.
    #[must_use]
    pub fn missing(&self) -> Vec<&'static str> {
        let mut coverage = Coverage::default();
        for (what, n) in &self.reached {
            coverage.add_named(what, *n);
        }
        coverage.missing()
    }

    /// The totals, fit to be read.
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

/// How seeds are run.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// The first seed.
    pub from: u64,
    /// How many.
    pub seeds: u64,
    /// Worlds at once.
    pub threads: usize,
    /// No seed is begun after this.
    pub until: Option<Instant>,
    /// Go on after a failing seed.
    pub keep_going: bool,
}

/// Runs seeds. Whatever the number of threads, the totals of the same seeds are the same.
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

/// Finds the fewest faults with which a seed fails: its events after the last of them are what
/// they lead to.
#[must_use]
pub fn shortest(outcome: &Outcome) -> Failed {
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
        // Which faults matter is not a question of more or fewer alone, but nearly.
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
