//! A window: how many orders may be under way that still need a downstream.
//!
//! Started orders form a queue in front of each downstream that they need. A window bounds that queue and learns its
//! bound from the replies: how long each request waited before an agent took it. While waits are short the window
//! grows; when they are long, it shrinks to three quarters; while the downstream must not be called at all, it is
//! shut, and then begins again with one order (additive increase, multiplicative decrease with slow start: Jacobson,
//! "Congestion Avoidance and Control"; the wait as the signal: Nichols and Jacobson, "Controlling Queue Delay"). An
//! order without room is not started, and waits where waiting costs nothing.
//!
//! Instances share nothing: several windows in front of one downstream share it as connections share a link, each by
//! the waits that it measures. A wrong window costs waiting, never an attempt: an agent gives a request the step's
//! whole attempt timeout from when it takes it.

use triad_workflow::Millis;

use crate::ids::Timestamp;
use crate::message::Pace;

/// How many orders a new window lets through at once, before it has learnt anything.
pub const FIRST: u32 = 16;
/// Most orders that a window ever lets through at once. For each of its two lanes a Scheduler keeps
/// copies of as many records by default, so that a reply needs no read.
pub const MOST: u32 = 1_024;
/// Fewest orders that a window lets through at once: 2. After it was shut it lets through 1.
pub const FEWEST: u32 = 2;
/// A wait of at most this long (100 ms) is never taken for a queue: on a busy machine a message can take
/// that long without one.
pub const SHORT_WAIT: Millis = Millis(100);
/// A wait of more than this (2 s) is always taken for a queue, however slow the service is.
pub const LONG_WAIT: Millis = Millis(2_000);
/// Longest time for which a window is shut, 60 s. Then one order tries the downstream again.
pub const SHUT_AT_MOST: Millis = Millis(60_000);

/// Longer spans in a reply are ignored as measurements.
const LONGEST: Millis = Millis(24 * 3_600_000);
const MINUTE: Millis = Millis(60_000);
/// One order, in the unit of the bound (thousandths).
const ONE: u64 = 1_000;
/// Orders by which a full window grows while each of its orders is answered once.
const GROWTH: u64 = 8;

/// How many orders that still need a downstream may be under way. Each Scheduler process keeps its
/// own windows, in memory. The default is a bound of [`FIRST`] orders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// The bound, in thousandths.
    bound: u64,
    /// Whether the bound has never shrunk since the window began, so that it grows by one for each answer.
    slow_start: bool,
    /// Requests made before this do not shrink the bound again.
    shrunk_at: Timestamp,
    /// No order is started before this.
    shut_until: Timestamp,
    /// Smoothed time of an answer, in milliseconds.
    took_ms: u64,
    /// Smoothed wait, in milliseconds: for operators.
    waited_ms: u64,
    /// The shortest wait of the present minute, and of the one before.
    least_ms: [u64; 2],
    minute_began: Timestamp,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            bound: u64::from(FIRST) * ONE,
            slow_start: true,
            shrunk_at: Timestamp(0),
            shut_until: Timestamp(0),
            took_ms: 0,
            waited_ms: 0,
            least_ms: [u64::MAX; 2],
            minute_began: Timestamp(0),
        }
    }
}

impl Window {
    /// Whether one more order may be started.
    #[must_use]
    pub fn has_room(&self, under_way: u32, now: Timestamp) -> bool {
        !self.shut_until.is_awaited(now, SHUT_AT_MOST) && under_way < self.bound()
    }

    /// Most orders that may be under way now. It is 1 when the window was shut, and grows from there;
    /// otherwise it never shrinks below [`FEWEST`], and it never grows above [`MOST`].
    #[must_use]
    pub fn bound(&self) -> u32 {
        u32::try_from(self.bound / ONE).unwrap_or(MOST)
    }

    /// The moment before which no order is started, the Unix epoch if the window was never shut; if it has
    /// come, the window is open.
    #[must_use]
    pub fn shut_until(&self) -> Timestamp {
        self.shut_until
    }

    /// How long requests waited lately before an agent took them, as a smoothed mean in milliseconds, without
    /// what is taken for the difference of the clocks; for operators. Zero if none was answered yet.
    #[must_use]
    pub fn waited(&self) -> Millis {
        Millis(self.waited_ms)
    }

    /// The longest wait that is not taken for a queue: half of the smoothed time from when an agent takes a
    /// request until its reply, but not less than [`SHORT_WAIT`] and not more than [`LONG_WAIT`].
    #[must_use]
    pub fn target(&self) -> Millis {
        Millis((self.took_ms / 2).clamp(SHORT_WAIT.0, LONG_WAIT.0))
    }

    /// Learns from the reply to a request, which came while `under_way` orders were under way. The window
    /// shrinks to three quarters if the request waited longer than [`target`](Self::target), unless it was
    /// made before the window last shrank. If it did not wait for so long, the window grows, provided that at
    /// least three quarters of it are in use.
    ///
    /// A wait is measured with two clocks, which differ by at most `skew`. The shortest wait of the present
    /// minute and the one before, but not more than `skew`, is taken for that difference and subtracted.
    /// Spans above 24 hours count as 24 hours.
    pub fn answered(&mut self, pace: Pace, under_way: u32, skew: Millis, now: Timestamp) {
        let pace = Pace {
            waited_ms: pace.waited_ms.min(LONGEST.0),
            took_ms: pace.took_ms.min(LONGEST.0),
        };
        let waited_ms = pace.waited_ms - self.apart(pace.waited_ms, skew, now);
        self.took_ms = smooth(self.took_ms, pace.took_ms);
        self.waited_ms = smooth(self.waited_ms, waited_ms);
        if waited_ms > self.target().0 {
            let made = now.minus(Millis(pace.waited_ms.saturating_add(pace.took_ms)));
            self.shrink(made, now);
        } else if u64::from(under_way) * 4 >= u64::from(self.bound()) * 3 {
            // Only a full window has shown that it may be larger. A fraction of an order admits none: a bound of 2.8
            // is full with two.
            let grown = match self.slow_start {
                true => ONE,
                false => GROWTH * ONE * ONE / self.bound.max(ONE),
            };
            self.bound = (self.bound + grown).min(u64::from(MOST) * ONE);
        }
    }

    /// Part of every wait that may be the difference of the two clocks: the shortest wait of the last one to two
    /// minutes, at most the skew. So a queue that never empties hides at most the skew.
    fn apart(&mut self, waited_ms: u64, skew: Millis, now: Timestamp) -> u64 {
        if !self.minute_began.is_near(now, MINUTE) {
            self.least_ms = [u64::MAX, self.least_ms[0]];
            self.minute_began = now;
        }
        self.least_ms[0] = self.least_ms[0].min(waited_ms);
        self.least_ms[0].min(self.least_ms[1]).min(skew.0)
    }

    /// Shrinks the bound: a request made at `made` reached a limit of the downstream.
    pub fn shrink(&mut self, made: Timestamp, now: Timestamp) {
        // If `shrunk_at` is ahead of this clock, it says nothing about this request.
        if made < self.shrunk_at && self.shrunk_at <= now {
            return;
        }
        self.slow_start = false;
        self.shrunk_at = now;
        let smaller = (self.bound * 3 / 4).max(u64::from(FEWEST) * ONE);
        // A window that was shut admits one order, and a limit does not open it further.
        self.bound = smaller.min(self.bound);
    }

    /// Shuts the window: no order is started before `until`, or before [`SHUT_AT_MOST`] from `now`
    /// if that is earlier. After that a single order is let through, to try the downstream.
    pub fn shut(&mut self, until: Timestamp, now: Timestamp) {
        self.shut_until = until.min(now.plus(SHUT_AT_MOST));
        self.bound = ONE;
        self.slow_start = true;
    }
}

fn smooth(before: u64, new: u64) -> u64 {
    match before {
        0 => new,
        before => (before * 7 + new) / 8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Millis = Millis(0);
    const SOON: Pace = Pace {
        waited_ms: 5,
        took_ms: 20,
    };

    /// Answers `times` requests while the window is full.
    fn answers(w: &mut Window, times: u64, pace: Pace, skew: Millis, from: u64, every: u64) {
        for n in 0..times {
            w.answered(pace, w.bound(), skew, at(from + n * every));
        }
    }

    fn late(waited_ms: u64) -> Pace {
        Pace {
            waited_ms,
            took_ms: 20,
        }
    }

    fn at(ms: u64) -> Timestamp {
        Timestamp(1_000_000 + ms)
    }

    #[test]
    fn a_clock_that_is_set_back_neither_keeps_it_shut_nor_from_shrinking() {
        let mut w = Window::default();
        w.shut(at(90_000_000), at(80_000_000));
        assert!(!w.has_room(0, at(80_000_000)) && w.has_room(0, at(0)));
        let mut w = Window::default();
        answers(&mut w, 64, SOON, NONE, 80_000_000, 0);
        w.shrink(at(80_000_000), at(80_000_000));
        let before = w.bound();
        w.shrink(at(0), at(1));
        assert!(w.bound() < before, "{} of {before}", w.bound());
    }

    #[test]
    fn it_doubles_with_each_turn_until_requests_wait() {
        let mut w = Window::default();
        answers(&mut w, 16, SOON, NONE, 0, 0);
        assert_eq!(w.bound(), 32);
        answers(&mut w, 32, SOON, NONE, 0, 0);
        assert_eq!(w.bound(), 64);
        w.answered(late(101), 64, NONE, at(10));
        assert_eq!(w.bound(), 48);
        answers(&mut w, 48, SOON, NONE, 300, 0);
        assert_eq!(w.bound(), 55, "then by a few with each turn");
    }

    #[test]
    fn it_shrinks_once_for_requests_that_were_made_before_it_shrank() {
        let mut w = Window::default();
        answers(&mut w, 16, SOON, NONE, 0, 0);
        w.answered(late(500), 32, NONE, at(1_000));
        assert_eq!(w.bound(), 24);
        w.answered(late(900), 24, NONE, at(1_500));
        assert_eq!(w.bound(), 24, "made at 580");
        w.answered(late(400), 24, NONE, at(1_500));
        assert_eq!(w.bound(), 18, "made at 1080");
    }

    #[test]
    fn it_does_not_grow_while_it_is_not_in_use() {
        let mut w = Window::default();
        (0..100).for_each(|_| w.answered(SOON, 11, NONE, at(0)));
        assert_eq!(w.bound(), FIRST);
        w.answered(SOON, 12, NONE, at(0));
        assert_eq!(w.bound(), FIRST + 1, "three quarters are use");
    }

    #[test]
    fn a_full_window_grows_whatever_part_of_an_order_its_bound_has() {
        let mut w = Window::default();
        // 12, 9, 6.75, 5.06, 3.80, 2.85.
        for n in 0..6 {
            w.answered(late(200), w.bound(), NONE, at(n * 1_000));
        }
        assert_eq!(w.bound(), 2);
        w.answered(SOON, 2, NONE, at(7_000));
        assert_eq!(
            w.bound(),
            5,
            "by eight in the time in which each is answered"
        );
    }

    #[test]
    fn it_stays_within_its_bounds() {
        let mut w = Window::default();
        answers(&mut w, 5_000, SOON, NONE, 0, 0);
        assert_eq!(w.bound(), MOST);
        answers(&mut w, 100, late(200), NONE, 1_000, 1_000);
        assert_eq!(w.bound(), FEWEST);
        assert!(w.has_room(FEWEST - 1, at(0)) && !w.has_room(FEWEST, at(0)));
    }

    #[test]
    fn a_slow_service_may_have_a_longer_queue() {
        let mut w = Window::default();
        let slow = |waited_ms| Pace {
            waited_ms,
            took_ms: 2_000,
        };
        w.answered(slow(0), 16, NONE, at(0));
        assert_eq!(w.target(), Millis(1_000));
        w.answered(slow(900), 17, NONE, at(0));
        assert_eq!(w.bound(), FIRST + 2);
    }

    #[test]
    fn shut_it_starts_nothing_and_then_one_to_try() {
        let mut w = Window::default();
        w.shut(at(5_000), at(0));
        assert!(!w.has_room(0, at(4_999)));
        assert!(w.has_room(0, at(5_000)) && !w.has_room(1, at(5_000)));
        w.answered(SOON, 1, NONE, at(5_100));
        w.answered(SOON, 2, NONE, at(5_200));
        assert_eq!(w.bound(), 3);
    }

    #[test]
    fn a_limit_does_not_open_what_was_shut() {
        let mut w = Window::default();
        w.shut(at(5_000), at(0));
        w.shrink(at(4_000), at(5_100));
        assert_eq!(w.bound(), 1);
    }

    #[test]
    fn it_is_not_shut_for_longer_than_its_bound() {
        let mut w = Window::default();
        w.shut(at(10_000_000), at(0));
        assert!(w.has_room(0, at(SHUT_AT_MOST.0)));
    }

    #[test]
    fn clocks_that_differ_by_no_more_than_the_skew_are_no_queue() {
        let skew = Millis(500);
        let mut w = Window::default();
        answers(&mut w, 16, late(500), skew, 0, 1);
        assert_eq!(w.bound(), 32);
        answers(&mut w, 600, late(700), skew, 1_000, 1_000);
        assert_eq!(
            w.bound(),
            FEWEST,
            "a queue that never empties hides behind the skew alone"
        );
    }

    #[test]
    fn a_span_that_is_no_measurement_does_no_harm() {
        let mut w = Window::default();
        let wild = Pace {
            waited_ms: u64::MAX,
            took_ms: u64::MAX,
        };
        answers(&mut w, 3, wild, NONE, 0, 1);
        assert!(w.bound() >= FEWEST && w.target() == LONG_WAIT);
    }
}
