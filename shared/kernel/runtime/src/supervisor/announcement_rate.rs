//! Rate limit of repeated announcements of orders that wait for a Scheduler.
//!
//! Each announcement is a read, a write and a message. A Scheduler keeps a bounded number of orders without room, and
//! further ones are announced to it repeatedly until there is room. With a fixed interval that work would grow with
//! the number of waiting orders, finally beyond the store's capacity, and orders with room would not proceed either.
//! So announcements are a fixed time apart, and each order's interval grows with the number of orders.

use std::sync::{Mutex, MutexGuard, PoisonError};

use triad_core::Timestamp;
use triad_workflow::Millis;

/// Longest interval of an order's announcements: ten minutes, or the time that a Scheduler has to claim an order, if
/// that is longer. If more orders wait than fit into it, announcements come closer together.
pub(crate) const REST_AT_MOST: Millis = Millis(600_000);

/// Next announcements of one Supervisor.
#[derive(Debug)]
pub(super) struct Rests {
    apart: Millis,
    /// The first free slot.
    free: Mutex<Timestamp>,
}

impl Rests {
    pub(super) fn new(apart: Millis) -> Self {
        Self {
            apart,
            free: Mutex::new(Timestamp(0)),
        }
    }

    /// The intervals offered to further orders, one after the other: `within` for the first if no order waits, and at
    /// most [`REST_AT_MOST`] or `within`. Nothing is taken yet.
    pub(super) fn offer(&self, within: Millis, now: Timestamp) -> impl Iterator<Item = Millis> {
        let latest = now.plus(within.max(REST_AT_MOST));
        // After the clock was set back the slot may be too far ahead.
        let first = self.free().clamp(now.plus(within), latest);
        let apart = self.apart;
        let next = move |at: &Timestamp| Some(at.plus(apart).min(latest));
        std::iter::successors(Some(first), next).map(move |at| at.since(now))
    }

    /// Takes an offered interval for an order.
    pub(super) fn take(&self, rest: Millis, now: Timestamp) {
        *self.free() = now.plus(rest).plus(self.apart);
    }

    fn free(&self) -> MutexGuard<'_, Timestamp> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITHIN: Millis = Millis(10_000);
    const NOW: Timestamp = Timestamp(1_000_000);

    fn taken(rests: &Rests, count: usize, now: Timestamp) -> Vec<u64> {
        let offered: Vec<Millis> = rests.offer(WITHIN, now).take(count).collect();
        offered.iter().for_each(|rest| rests.take(*rest, now));
        offered.iter().map(|rest| rest.0).collect()
    }

    #[test]
    fn the_rest_grows_with_the_number_of_orders() {
        let rests = Rests::new(Millis(2));
        assert_eq!(taken(&rests, 3, NOW), [10_000, 10_002, 10_004]);
        let later = NOW.plus(Millis(5_000));
        let many = taken(&rests, 10_000, later);
        assert_eq!(many[0], 10_000, "the line is shorter than that");
        assert_eq!(many[9_999], 10_000 + 2 * 9_999);
        let then = NOW.plus(Millis(10_000));
        let behind = 5_000 + 10_000 + 2 * 10_000 - 10_000;
        assert_eq!(
            taken(&rests, 1, then),
            [behind],
            "behind those of the sweep before"
        );
        let at_last = NOW.plus(Millis(60_000));
        assert_eq!(taken(&rests, 1, at_last), [10_000], "the line has gone by");
    }

    #[test]
    fn what_is_not_taken_makes_nobody_wait() {
        let rests = Rests::new(Millis(2));
        assert_eq!(rests.offer(WITHIN, NOW).nth(5_000), Some(Millis(20_000)));
        assert_eq!(taken(&rests, 2, NOW), [10_000, 10_002]);
    }

    #[test]
    fn the_rest_is_bounded_whatever_waits_and_whatever_a_clock_says() {
        let rests = Rests::new(Millis(200_000));
        let (longest, rest) = (REST_AT_MOST.0, taken(&rests, 6, NOW));
        assert_eq!(rest, [10_000, 210_000, 410_000, longest, longest, longest]);
        let before = Timestamp(500_000);
        assert_eq!(taken(&rests, 1, before), [longest]);
        let patient = Millis(700_000);
        let first = rests.offer(patient, NOW).next();
        assert_eq!(first, Some(patient), "who is given longer rests longer");
    }

    #[test]
    fn the_longest_rest_is_ten_minutes() {
        assert_eq!(REST_AT_MOST, Millis(600_000));
    }
}
