//! Checked invariants and breaches of a whole world.

use std::collections::BTreeMap;

use crate::kernel::Kernel;

/// Checked invariants, and breaches.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// How often each invariant was checked, by its name.
    looked: BTreeMap<&'static str, u64>,
    /// Names of the broken invariants, and what was seen.
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
