//! What the checks of a whole world have looked at and found.

use std::collections::BTreeMap;

use crate::kernel::Kernel;

/// What was looked at, and what was not so.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// How often each invariant was looked at, by its name.
    looked: BTreeMap<&'static str, u64>,
    /// Names of those that did not hold, and what was seen.
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

    /// Writes into the kernel what was looked at and what was not so.
    pub(crate) fn report_to(self, kernel: &mut Kernel) {
        for (invariant, times) in self.looked {
            kernel.coverage.reach_times(invariant, times);
        }
        for (invariant, seen) in self.breaches {
            kernel.breach(invariant, seen);
        }
    }
}
