//! Limits the rate of acts.

use std::num::NonZeroU32;

use triad_runtime::Clock;
use triad_workflow::Millis;

/// Most lost time that a pacer makes up for, in microseconds.
const CATCHES_UP_US: u64 = 100_000;

/// How many acts may begin in a second: from 1 to [`Rate::MAX`], both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate(NonZeroU32);

/// The error for a number that cannot be a [`Rate`]: 0, or more than [`Rate::MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not a rate from 1 to {max} a second", max = Rate::MAX)]
pub struct InvalidRate(pub u32);

impl Rate {
    /// The highest rate that is allowed, in acts a second, inclusive.
    pub const MAX: u32 = 10_000;

    /// The rate of `per_second` acts in a second.
    ///
    /// # Errors
    /// [`InvalidRate`] for 0 and for more than [`Rate::MAX`].
    pub fn new(per_second: u32) -> Result<Self, InvalidRate> {
        NonZeroU32::new(per_second)
            .filter(|n| n.get() <= Self::MAX)
            .map(Self)
            .ok_or(InvalidRate(per_second))
    }

    /// How many acts may begin in a second.
    #[must_use]
    pub fn per_second(self) -> u32 {
        self.0.get()
    }

    /// Time between two acts, in microseconds.
    fn period_us(self) -> u64 {
        1_000_000 / u64::from(self.0.get())
    }
}

/// Starts acts no faster than a rate.
#[derive(Debug)]
pub(crate) struct Pacer {
    period_us: u64,
    /// When the next act may begin, in microseconds since the Unix epoch; `None` before the first.
    next_us: Option<u64>,
}

impl Pacer {
    pub(crate) fn new(rate: Rate) -> Self {
        Self {
            period_us: rate.period_us(),
            next_us: None,
        }
    }

    /// Reserves the next act: returns the wait before it begins.
    pub(crate) fn turn(&mut self, clock: &impl Clock) -> Millis {
        let now = clock.now().0.saturating_mul(1_000);
        let wanted = self.next_us.unwrap_or(now);
        // The clock may have been set: never wait longer than one period for that.
        let begins = wanted
            .max(now.saturating_sub(CATCHES_UP_US))
            .min(now + self.period_us);
        self.next_us = Some(begins + self.period_us);
        Millis(begins.saturating_sub(now).div_ceil(1_000))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use triad_core::Timestamp;

    struct Hand(AtomicU64);

    impl Clock for Hand {
        fn now(&self) -> Timestamp {
            Timestamp(self.0.load(Ordering::Relaxed))
        }

        async fn sleep(&self, _span: Millis) {}
    }

    #[test]
    fn acts_are_a_period_apart_and_lost_time_is_caught_up_a_little() {
        let clock = Hand(AtomicU64::new(50_000));
        let mut pacer = Pacer::new(Rate::new(50).unwrap());
        assert_eq!(pacer.turn(&clock), Millis(0), "the first begins at once");
        assert_eq!(pacer.turn(&clock), Millis(20));
        clock.0.fetch_add(25, Ordering::Relaxed);
        assert_eq!(pacer.turn(&clock), Millis(15), "5 ms are caught up");
        clock.0.fetch_add(3_600_000, Ordering::Relaxed);
        let at_once = (0..100).take_while(|_| pacer.turn(&clock) == Millis(0));
        assert_eq!(at_once.count(), 6, "an hour is not");
        clock.0.store(1, Ordering::Relaxed);
        assert_eq!(pacer.turn(&clock), Millis(20), "a clock set back");
    }

    #[test]
    fn a_rate_has_bounds() {
        assert_eq!(Rate::new(0), Err(InvalidRate(0)));
        assert_eq!(Rate::new(10_001), Err(InvalidRate(10_001)));
        let mut pacer = Pacer::new(Rate::new(Rate::MAX).unwrap());
        let clock = Hand(AtomicU64::new(7));
        let waits: Vec<u64> = (0..12).map(|_| pacer.turn(&clock).0).collect();
        assert_eq!(waits, [0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
    }
}
