//! Runs seeds until an invariant is violated. A mutant is caught in this way.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::run::{Options, run};

/// The first seed in which an invariant was violated.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Breached {
    /// Number of seeds up to and including this one: the seed plus 1.
    pub seeds: u64,
    /// Name of the invariant; `it panics` if the run panicked.
    pub invariant: String,
}

/// Runs the seeds from 0 to `seeds` - 1 on `threads` threads (0 counts as 1), until one violates an invariant.
/// Returns the lowest such seed, or `None`. A panic counts as a violation.
#[must_use]
pub fn first_breach(seeds: u64, threads: usize) -> Option<Breached> {
    let next = AtomicU64::new(0);
    let least = Mutex::new(None::<Breached>);
    let lock = || least.lock().unwrap_or_else(PoisonError::into_inner);
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    // Other threads may still run seeds below the lowest one found.
                    let found_before = lock().as_ref().is_some_and(|c| c.seeds <= seed + 1);
                    if seed >= seeds || found_before {
                        return;
                    }
                    let found = std::panic::catch_unwind(|| {
                        let outcome = run(seed, Options::default());
                        let first = outcome.breaches.first();
                        first.map(|b| b.invariant.to_owned())
                    });
                    let invariant = found.unwrap_or_else(|_| Some("it panics".to_owned()));
                    if let Some(invariant) = invariant {
                        let breached = Breached {
                            seeds: seed + 1,
                            invariant,
                        };
                        let mut least = lock();
                        if least.as_ref().is_none_or(|l| breached.seeds < l.seeds) {
                            *least = Some(breached);
                        }
                    }
                }
            });
        }
    });
    least.into_inner().unwrap_or_else(PoisonError::into_inner)
}
