//! The results of checks of a whole world.

use std::collections::BTreeMap;

use crate::kernel::Kernel;

/// The invariants that were checked, and the breaches found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// How often each invariant was checked, by its name.
    looked: BTreeMap<&'static str, u64>,
    /// The violated invariants, each with a description.
    breaches: Vec<(&'static str, String)>,
}

impl Findings {
    pub(super) fn check(
        &mut self,
        invariant: &'static str,
        holds: bool,
        seen: impl FnOnce() -> String,
    ) {
        self.looked_at(invariant, 1);
        if !holds {
            self.breaches.push((invariant, seen()));
        }
    }

    pub(super) fn looked_at(&mut self, invariant: &'static str, times: usize) {
        if times > 0 {
            *self.looked.entry(invariant).or_default() += times as u64;
        }
    }

    /// Reports the checks and the breaches to the kernel.
    pub(crate) fn report_to(self, kernel: &mut Kernel) {
        for (invariant, times) in self.looked {
            kernel.coverage.reach_times(invariant, times);
        }
        for (invariant, seen) in self.breaches {
            kernel.breach(invariant, seen);
        }
    }
}
