//! The checker is checked: a bug is planted in the production code, and seeds are run until an
//! invariant does not hold.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

pub use triad_core::planted::Bug;
use triad_core::planted::plant;

use crate::run::{Options, run};

/// How a bug was caught.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Caught {
    /// Seeds until then, from 0 on.
    pub seeds: u64,
    /// What did not hold.
    pub invariant: String,
}

/// Plants a bug and runs seeds from 0 on until one fails. A panic catches it too.
///
/// The bug is planted in the whole process: one at a time.
#[must_use]
pub fn catch(bug: Bug, seeds: u64, threads: usize) -> Option<Caught> {
    plant(Some(bug));
    let next = AtomicU64::new(0);
    let least = Mutex::new(None::<Caught>);
    let lock = || least.lock().unwrap_or_else(PoisonError::into_inner);
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    // Seeds below the least that was caught are still under way elsewhere.
                    let caught_before = lock().as_ref().is_some_and(|c| c.seeds <= seed + 1);
                    if seed >= seeds || caught_before {
                        return;
                    }
                    let found = std::panic::catch_unwind(|| {
                        let outcome = run(seed, Options::default());
                        let first = outcome.breaches.first();
                        first.map(|b| b.invariant.to_owned())
                    });
                    let invariant = found.unwrap_or_else(|_| Some("it panics".to_owned()));
                    if let Some(invariant) = invariant {
                        let caught = Caught {
                            seeds: seed + 1,
                            invariant,
                        };
                        let mut least = lock();
                        if least.as_ref().is_none_or(|l| caught.seeds < l.seeds) {
                            *least = Some(caught);
                        }
                    }
                }
            });
        }
    });
    plant(None);
    least.into_inner().unwrap_or_else(PoisonError::into_inner)
}
