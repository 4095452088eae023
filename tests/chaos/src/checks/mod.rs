//! Checks of the guarantees against the evidence of a run. Each check counts what it examines, because a check that
//! examines nothing proves nothing.

pub mod alerts;
pub mod budgets;
pub mod claims;
pub mod effects;
pub mod letters;
pub mod order;
pub mod records;
#[cfg(test)]
pub(super) mod sample_history;
pub mod statuses;

use clap::ValueEnum;
use serde::Serialize;

use super::evidence::Evidence;

/// The guarantees, numbered as in the design.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, ValueEnum)]
#[expect(missing_docs, reason = "they are explained where they are promised")]
pub enum Guarantee {
    G1,
    G2,
    G3,
    G4,
    G5,
    G6,
    G7,
    G8,
    G9,
    G10,
    G11,
}

/// Result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The guarantee.
    pub guarantee: Guarantee,
    /// The requirement, in words.
    pub what: &'static str,
    /// Number of things examined.
    pub checked: usize,
    /// The violations.
    pub breaches: Vec<String>,
}

impl Verdict {
    /// Checks each of `items`; `wrong` returns a violation, if there is one.
    pub fn each<T>(
        guarantee: Guarantee,
        what: &'static str,
        items: impl IntoIterator<Item = T>,
        mut wrong: impl FnMut(T) -> Option<String>,
    ) -> Self {
        let (mut checked, mut breaches) = (0, Vec::new());
        for item in items {
            checked += 1;
            breaches.extend(wrong(item));
        }
        Self {
            guarantee,
            what,
            checked,
            breaches,
        }
    }
}

impl Verdict {
    /// Adds a violation if nothing was examined.
    #[must_use]
    pub fn or_nothing(mut self) -> Self {
        if self.checked == 0 {
            self.breaches.push("nothing was looked at".into());
        }
        self
    }
}

/// All verdicts, by guarantee.
#[must_use]
pub fn all(evidence: &Evidence) -> Vec<Verdict> {
    let mut verdicts = records::verdicts(evidence);
    verdicts.extend(effects::verdicts(evidence));
    verdicts.extend(order::verdicts(evidence));
    verdicts.extend(claims::verdicts(evidence));
    verdicts.extend(budgets::verdicts(evidence));
    verdicts.extend(alerts::verdicts(evidence));
    verdicts.extend(letters::verdicts(evidence));
    verdicts.extend(statuses::verdicts(evidence));
    verdicts.sort_by_key(|v| v.guarantee);
    verdicts
}
