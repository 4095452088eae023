//! Runs seeds until an invariant is broken, which is how a mutant is caught.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::run::{Options, run};

/// The first seed in which an invariant did not hold.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Breached {
    /// How many seeds there are up to this one, itself included: the seed plus 1.
    pub seeds: u64,
    /// Name of the invariant; `it panics` if the run panicked.
    pub invariant: String,
}

/// Runs seeds from 0 to `seeds` - 1 on `threads` threads (0 counting as 1), until an invariant does
/// not hold in one. The result is the lowest such seed; `None` if there is none. A panic counts as
/// an invariant that does not hold.
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
                    // Seeds below the lowest found one are still running on other threads.
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
