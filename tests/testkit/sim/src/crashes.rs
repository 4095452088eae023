//! Tries a crash at every point of a reference workload, and at every pair of points.
//!
//! Every write, send, call and offset commit of an instance is an effect with a number. The instance is killed just
//! before or just after effect `n` and restarted; then the guarantees must hold. For a pair, the run that follows the
//! first crash is repeated with a second crash at each of its later effects.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::kernel::Crash;
use crate::run::{WorldResult, run_plain};
use crate::scenario::{self, NewOrder};
use crate::setup::Setup;

/// Names under which crashes are counted.
const CRASHES: [&str; 2] = [
    "fault: died before an effect",
    "fault: died after an effect",
];

/// A small workload in which a crash is tried at every possible point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    /// One order of three steps in a line.
    Line,
    /// One order with steps in parallel.
    Fork,
    /// One order that is compensated, because the input of its last step has no value.
    Compensated,
    /// One order with a step that declares calls per run, and after it a step whose effect may not be repeated.
    Once,
    /// One order of three steps in a line, on one machine, all of which dies at each crash.
    OneMachine,
    /// One order that waits for a time and then for an event, which comes twice: before it is waited for, and after.
    Waiting,
    /// One order whose event does not come, on one machine.
    Unpaid,
    /// One order whose services finish their work later: one is asked, and both may call back.
    Later,
    /// One order of which a step runs three child orders, two at once.
    Children,
    /// One order of which a step does its work in two ways at once, and lets one of them go.
    Race,
}

impl Workload {
    /// All workloads.
    pub const ALL: [Self; 10] = [
        Self::Line,
        Self::Fork,
        Self::Compensated,
        Self::Once,
        Self::OneMachine,
        Self::Waiting,
        Self::Unpaid,
        Self::Later,
        Self::Children,
        Self::Race,
    ];

    fn orders(self) -> Vec<NewOrder> {
        match self {
            Self::Line | Self::OneMachine => vec![scenario::plain_order(0, "line")],
            Self::Fork => vec![scenario::plain_order(0, "fork")],
            Self::Compensated => vec![scenario::failing_order(0)],
            Self::Once => vec![scenario::plain_order(0, "letter")],
            Self::Waiting => vec![scenario::paid_order(0, &[1_000, 6_000])],
            Self::Unpaid => vec![scenario::paid_order(0, &[])],
            Self::Later => vec![scenario::plain_order(0, "freight")],
            Self::Children => vec![scenario::plain_order(0, "batch")],
            Self::Race => vec![scenario::plain_order(0, "bid")],
        }
    }
}

/// The results of all crashes in one workload.
#[derive(Debug, Default)]
pub struct Crashes {
    /// Number of effects of all instances without a crash: writes, sends, calls and offset commits.
    pub effects: u64,
    /// Number of runs with one crash.
    pub singles: u64,
    /// Number of runs with two crashes.
    pub pairs: u64,
    /// Number of crashes in all runs: less than requested if one did not occur.
    pub crashed: u64,
    /// For each run in which an invariant was violated: its crashes, and the first violated invariant with a
    /// description.
    pub failures: Vec<(Vec<Crash>, String)>,
}

impl Crashes {
    /// Whether the enumeration is complete: the workload has effects, a crash was tried before and after each of
    /// them, and every requested crash has occurred. If `pairs` is true, pairs must have been tried, too; if it is
    /// false, none may have been.
    #[must_use]
    pub fn is_whole(&self, pairs: bool) -> bool {
        self.effects > 0
            && self.singles == 2 * self.effects
            && (self.pairs > 0) == pairs
            && self.crashed == self.singles + 2 * self.pairs
    }
}

/// Runs a workload once with these crashes. With `trace`, the result contains a readable list of events.
#[must_use]
pub fn run_with(workload: Workload, crashes: &[Crash], trace: bool) -> WorldResult {
    let setup = match workload {
        Workload::OneMachine | Workload::Unpaid => Setup::plain().on_one_machine(),
        _ => Setup::plain(),
    };
    run_plain(setup, 0, workload.orders(), 0, crashes.to_vec(), trace)
}

/// Runs a workload once for each single crash and, with `pairs`, once for each pair of crashes. Up to `threads` runs
/// are made at once; 0 counts as 1.
#[must_use]
pub fn all(workload: Workload, pairs: bool, threads: usize) -> Crashes {
    let calm = run_with(workload, &[], false);
    let firsts = calm.passed.clone();
    let found = Mutex::new(Crashes {
        effects: calm.effects,
        ..Crashes::default()
    });
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while let Some(first) = firsts.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let own = from_first(workload, *first, pairs);
                    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                    found.singles += own.singles;
                    found.pairs += own.pairs;
                    found.crashed += own.crashed;
                    found.failures.extend(own.failures);
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.failures.sort();
    found
}

fn from_first(workload: Workload, first: Crash, pairs: bool) -> Crashes {
    let mut found = Crashes::default();
    let mut run = |crashes: Vec<Crash>| {
        let outcome = run_with(workload, &crashes, false);
        let came = CRASHES.iter().map(|what| outcome.coverage.count(what));
        let came: u64 = came.sum();
        if let Some(breach) = outcome.breaches.first() {
            let what = format!("{}: {}", breach.invariant, breach.seen);
            found.failures.push((crashes, what));
        }
        found.crashed += came;
        outcome.passed
    };
    let seconds = run(vec![first]);
    let mut count = 0;
    if pairs {
        for second in seconds {
            run(vec![first, second]);
            count += 1;
        }
    }
    found.singles = 1;
    found.pairs = count;
    found
}
