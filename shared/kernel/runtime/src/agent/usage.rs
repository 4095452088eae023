//! An agent's use of its concurrency limit, and the outcomes of its calls: counted for each downstream in each
//! process, since its start.

use std::sync::{Mutex, MutexGuard, PoisonError};

use triad_workflow::Millis;

/// Upper bounds, inclusive, of the histogram classes of call times, in milliseconds. One more class has the calls
/// that took longer.
pub const CLASSES_MS: [u64; 12] = [
    5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000,
];

/// An agent's use of its concurrency limit, and the counts and times of its calls. All are of one process since its
/// start. They only grow, except [`room`](Self::room), which is fixed, and [`under_way`](Self::under_way).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    /// Most calls that the process makes at once for this agent: the agent's own limit, or else that of
    /// all agents together; at least 1.
    pub room: u32,
    /// Calls that are being made now.
    pub under_way: u32,
    /// Calls that were answered with success.
    pub succeeded: u64,
    /// Calls that the service refused for good.
    pub refused: u64,
    /// Calls whose failure may pass: another call may succeed.
    pub failed: u64,
    /// Calls that had no answer within the time that they had.
    pub unanswered: u64,
    /// Requests that were deferred: the service may not be called, or a limit is reached.
    pub deferred: u64,
    /// Total time of all calls that have ended, in milliseconds.
    pub busy_ms: u64,
    /// Number of calls by time: one count for each class of [`CLASSES_MS`], then that of the calls that took longer.
    pub took: [u64; CLASSES_MS.len() + 1],
}

impl Usage {
    fn of(room: usize) -> Self {
        Self {
            room: u32::try_from(room.max(1)).unwrap_or(u32::MAX),
            ..Self::default()
        }
    }

    /// How many calls have ended, with any outcome.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.succeeded + self.refused + self.failed + self.unanswered
    }

    /// What was counted since `earlier`, which must be of the same agent and process. `room` and `under_way`
    /// are those of `self`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut took = self.took;
        for (now, before) in took.iter_mut().zip(earlier.took) {
            *now = now.saturating_sub(before);
        }
        Self {
            room: self.room,
            under_way: self.under_way,
            succeeded: self.succeeded.saturating_sub(earlier.succeeded),
            refused: self.refused.saturating_sub(earlier.refused),
            failed: self.failed.saturating_sub(earlier.failed),
            unanswered: self.unanswered.saturating_sub(earlier.unanswered),
            deferred: self.deferred.saturating_sub(earlier.deferred),
            busy_ms: self.busy_ms.saturating_sub(earlier.busy_ms),
            took,
        }
    }

    /// The share of its room that was in use, from 0 to 1, where `self` has the counts of a time of `span`
    /// milliseconds (see [`since`](Self::since)); a `span` of 0 counts as 1. A call counts with its whole
    /// time in the span in which it ends.
    #[must_use]
    pub fn utilisation(&self, span: Millis) -> f64 {
        let room = f64::from(self.room) * span.0.max(1) as f64;
        (self.busy_ms as f64 / room).min(1.0)
    }

    /// The time within which at least this `share` of the calls ended, from 0 to 1 (values outside are taken
    /// as 0 or 1). It is the upper bound of a class of [`CLASSES_MS`], so the true time may be shorter.
    /// `None` if there was no call, or if the time is above the largest bound.
    #[must_use]
    pub fn took_at_most(&self, share: f64) -> Option<Millis> {
        let all: u64 = self.took.iter().sum();
        let rank = (share.clamp(0.0, 1.0) * all as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (count, bound) in self.took.iter().zip(CLASSES_MS) {
            seen += count;
            if seen >= rank {
                return Some(Millis(bound));
            }
        }
        None
    }
}

/// Outcome of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallOutcome {
    Succeeded,
    Refused,
    Failed,
    Unanswered,
}

impl CallOutcome {
    /// The outcome's name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Unanswered => "unanswered",
        }
    }
}

/// The counts of one agent.
#[derive(Debug)]
pub(super) struct Counted(Mutex<Usage>);

impl Counted {
    /// Counts for an agent with this concurrency limit.
    pub fn with_room(room: usize) -> Self {
        Self(Mutex::new(Usage::of(room)))
    }

    /// Notes the start of a call. A call that is dropped before its end is not counted.
    pub fn begins(&self) -> Running<'_> {
        self.lock().under_way += 1;
        Running(self)
    }

    /// Notes that a request was deferred.
    pub fn defers(&self) {
        self.lock().deferred += 1;
    }

    pub fn now(&self) -> Usage {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Usage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call under way.
#[derive(Debug)]
pub(super) struct Running<'a>(&'a Counted);

impl Running<'_> {
    /// Counts the call as ended, `after` its beginning, with this outcome.
    pub fn ends(self, came: CallOutcome, after: Millis) {
        let mut usage = self.0.lock();
        usage.busy_ms = usage.busy_ms.saturating_add(after.0);
        let class = CLASSES_MS.iter().position(|bound| after.0 <= *bound);
        usage.took[class.unwrap_or(CLASSES_MS.len())] += 1;
        *match came {
            CallOutcome::Succeeded => &mut usage.succeeded,
            CallOutcome::Refused => &mut usage.refused,
            CallOutcome::Failed => &mut usage.failed,
            CallOutcome::Unanswered => &mut usage.unanswered,
        } += 1;
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut usage = self.0.lock();
        usage.under_way = usage.under_way.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_in_the_class_up_to_whose_bound_it_took() {
        let counted = Counted::with_room(2);
        for took in [0, 5, 6, 30_000, 30_001] {
            counted.begins().ends(CallOutcome::Succeeded, Millis(took));
        }
        let usage = counted.now();
        assert_eq!((usage.took[0], usage.took[1]), (2, 1));
        assert_eq!((usage.took[11], usage.took[12]), (1, 1));
        assert_eq!(usage.took_at_most(0.4), Some(Millis(5)));
        assert_eq!(usage.took_at_most(0.6), Some(Millis(10)));
        assert_eq!(usage.took_at_most(1.0), None, "longer than any class");
        assert_eq!(usage.since(&usage).took_at_most(0.5), None, "no calls");
    }

    #[test]
    fn utilisation_is_the_part_of_the_room_that_calls_took() {
        let counted = Counted::with_room(4);
        counted.begins().ends(CallOutcome::Failed, Millis(30_000));
        drop(counted.begins());
        let usage = counted.now();
        assert_eq!((usage.under_way, usage.calls()), (0, 1), "one was dropped");
        assert!((usage.utilisation(Millis(60_000)) - 0.125).abs() < 1e-9);
        assert!((usage.utilisation(Millis(1)) - 1.0).abs() < 1e-9);
    }
}
