//! What a run reached: faults, states of orders and of steps. A generator that does not reach
//! a thing does not test it.

use std::collections::BTreeMap;

use triad_core::Order;

/// Counts by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Coverage(BTreeMap<&'static str, u64>);

/// Everything that the runs of CI together must reach.
pub const WANTED: [&str; 52] = [
    "fault: store throttled",
    "fault: write lost its answer",
    "fault: write retried by the client",
    "fault: write landed late",
    "fault: index row missing",
    "fault: index page empty",
    "fault: index late",
    "fault: send failed",
    "fault: send not acknowledged",
    "fault: send landed late",
    "fault: message stored twice",
    "fault: offset commit lost",
    "fault: port call stalled",
    "fault: died before an effect",
    "fault: died after an effect",
    "fault: killed",
    "fault: partition moved from a live instance",
    "fault: sink down",
    "fault: service down",
    "fault: remote failed",
    "fault: remote lost its answer",
    "fault: remote call landed late",
    "fault: remote not reached",
    "fault: remote declined",
    "fault: undo declined",
    "input: repeated submission",
    "input: conflicting submission",
    "input: poison order",
    "input: poison scheduler message",
    "input: poison request",
    "input: high lane",
    "saw: tombstone before its forward call",
    "saw: forward call refused after its undo",
    "order: Pending",
    "order: Processing",
    "order: Compensating",
    "order: Processed",
    "order: Compensated",
    "order: Error",
    "order: CompensationFailed",
    "step: waiting",
    "step: skipped",
    "step: running",
    "step: failed",
    "step: retry-due",
    "step: completed",
    "step: refused",
    "step: ambiguous",
    "step: undo-due",
    "step: undoing",
    "step: undo-failed",
    "step: undone",
];

impl Coverage {
    /// Counts one more.
    pub fn reach(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }

    /// Counts the states of a record.
    pub(crate) fn reach_states(&mut self, order: &Order) {
        for name in WANTED {
            if name.strip_prefix("order: ") == Some(order.state.name()) {
                self.reach(name);
            }
            let step = name.strip_prefix("step: ");
            if order.steps.iter().any(|s| step == Some(s.state.name())) {
                self.reach(name);
            }
        }
    }

    /// Takes over another run's counts.
    pub fn add(&mut self, other: &Self) {
        for (what, n) in &other.0 {
            *self.0.entry(what).or_default() += n;
        }
    }

    /// How often a thing was reached.
    #[must_use]
    pub fn count(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }

    /// What was wanted and not reached.
    #[must_use]
    pub fn missing(&self) -> Vec<&'static str> {
        WANTED
            .into_iter()
            .filter(|what| self.count(what) == 0)
            .collect()
    }

    /// Every count, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().map(|(what, n)| (*what, *n))
    }
}
