//! A retry budget: the share of calls to a downstream that may repeat earlier ones.
//!
//! An allowance bounds the calls of one attempt; when every request needs its whole allowance, the
//! load on a struggling service is a multiple of what it was. The budget bounds that share for all
//! requests of one agent instance together: first calls pay into it, repeated ones are paid from
//! it (Google, "Site Reliability Engineering", "Handling Overload"; Finagle's retry budgets). What
//! cannot be paid for is deferred, not failed.

use serde::{Deserialize, Serialize};

use triad_workflow::Millis;

use crate::ids::Timestamp;

/// One call, in the budget's unit.
const CALL: u64 = 1_000;
/// How far calls that are made at once may come out of order.
const SECOND: Millis = Millis(1_000);

/// How many calls to a downstream may repeat earlier ones. In JSON a field that is absent has its
/// default, and an unknown field is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct RetryBudgetSettings {
    /// How many repeated calls are allowed for each 100 calls that repeat none. Default 20.
    pub percent: u32,
    /// How many further repeated calls are allowed in each second. Default 10.
    pub per_second: u32,
    /// Most allowed repeated calls that can be saved up, and so be made at once; 0 counts as 1. Default 100.
    pub saved: u32,
}

impl Default for RetryBudgetSettings {
    fn default() -> Self {
        Self {
            percent: 20,
            per_second: 10,
            saved: 100,
        }
    }
}

/// How many repeated calls one agent instance may still make to one downstream. The default has all
/// of [`RetryBudgetSettings::saved`] left.
#[derive(Debug, Clone, Copy, Default)]
pub struct RetryBudget {
    spent: u64,
    paid_at: Timestamp,
}

impl RetryBudget {
    /// Takes note of a call that repeats none: it adds [`RetryBudgetSettings::percent`] hundredths
    /// of a repeated call to the budget, up to [`RetryBudgetSettings::saved`].
    pub fn first(&mut self, settings: &RetryBudgetSettings) {
        let paid = u64::from(settings.percent) * CALL / 100;
        self.spent = self.spent.saturating_sub(paid);
    }

    /// Whether a call that repeats an earlier one may be made at `now`. If true, it is taken from
    /// the budget. If false, the budget stays as it is, and the caller should defer the work.
    pub fn repeat(&mut self, settings: &RetryBudgetSettings, now: Timestamp) -> bool {
        let paid = now
            .since(self.paid_at)
            .0
            .saturating_mul(u64::from(settings.per_second));
        // A second has 1,000 milliseconds, and a call costs 1,000 units.
        self.spent = self.spent.saturating_sub(paid);
        // Concurrent calls may arrive here slightly out of order; a clock that was set back starts anew.
        self.paid_at = match self.paid_at.is_near(now, SECOND) {
            true => self.paid_at.max(now),
            false => now,
        };
        let affords = self.spent + CALL <= u64::from(settings.saved.max(1)) * CALL;
        if affords {
            self.spent += CALL;
            return true;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: RetryBudgetSettings = RetryBudgetSettings {
        percent: 20,
        per_second: 10,
        saved: 5,
    };

    fn repeats(budget: &mut RetryBudget, at: u64) -> usize {
        (0..100)
            .take_while(|_| budget.repeat(&S, Timestamp(at)))
            .count()
    }

    #[test]
    fn what_is_saved_is_spent_and_no_more() {
        let mut budget = RetryBudget::default();
        assert_eq!(repeats(&mut budget, 1_000_000), 5);
    }

    #[test]
    fn five_first_calls_pay_for_one_repeated_one() {
        let mut budget = RetryBudget::default();
        repeats(&mut budget, 1_000_000);
        (0..4).for_each(|_| budget.first(&S));
        assert_eq!(repeats(&mut budget, 1_000_000), 0);
        budget.first(&S);
        assert_eq!(repeats(&mut budget, 1_000_000), 1);
    }

    #[test]
    fn a_clock_that_is_set_back_pays_again_from_then_on() {
        let mut budget = RetryBudget::default();
        assert_eq!(repeats(&mut budget, 10_000_000), 5);
        assert_eq!(repeats(&mut budget, 1_000_000), 0);
        assert_eq!(repeats(&mut budget, 1_000_500), 5);
    }

    #[test]
    fn time_pays_for_a_few() {
        let mut budget = RetryBudget::default();
        repeats(&mut budget, 1_000_000);
        assert_eq!(repeats(&mut budget, 1_000_099), 0);
        assert_eq!(repeats(&mut budget, 1_000_100), 1);
        assert_eq!(
            repeats(&mut budget, 9_000_000),
            5,
            "never more than is saved"
        );
    }

    #[test]
    fn calls_that_come_out_of_order_pay_nothing_twice() {
        let mut budget = RetryBudget::default();
        repeats(&mut budget, 1_000_000);
        assert_eq!(repeats(&mut budget, 999_001), 0);
        assert_eq!(repeats(&mut budget, 1_000_000), 0);
    }
}
