//! The deadline and the progress of an invocation.
//!
//! Lambda gives its deadline on the wall clock; timers use the monotonic one. The wall clock is read once an
//! invocation, to convert it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// A moment before Lambda's own deadline, on the wall clock and on the clock that timers run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    epoch_ms: u64,
    instant: Instant,
}

impl Deadline {
    /// The deadline that is `margin` before the moment `lambda_ms` (milliseconds since the Unix epoch) at
    /// which Lambda ends the invocation. If the deadline has passed, no time remains.
    /// [`instant`](Self::instant) is at most a day ahead.
    pub fn before(lambda_ms: u64, margin: Duration) -> Self {
        let margin_ms = u64::try_from(margin.as_millis()).unwrap_or(u64::MAX);
        let epoch_ms = lambda_ms.saturating_sub(margin_ms);
        let remaining = Duration::from_millis(epoch_ms.saturating_sub(wall_ms()));
        // Lambda's limit is 15 minutes; a day keeps the sum below within the clock's range.
        let bounded = remaining.min(Duration::from_secs(86_400));
        Self {
            epoch_ms,
            instant: Instant::now() + bounded,
        }
    }

    /// The deadline that is earlier than this one by `by`. [`instant`](Self::instant) is never before now.
    #[must_use]
    pub fn earlier(&self, by: Duration) -> Self {
        let by_ms = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        let left = self.remaining().saturating_sub(by);
        Self {
            epoch_ms: self.epoch_ms.saturating_sub(by_ms),
            instant: Instant::now() + left,
        }
    }

    /// The deadline on the wall clock: milliseconds since the Unix epoch.
    pub fn epoch_ms(&self) -> u64 {
        self.epoch_ms
    }

    /// The deadline on the clock that timers run on.
    pub fn instant(&self) -> Instant {
        self.instant
    }

    /// Remaining time until the deadline; zero once it has passed. Every time-out inside a handler must be shorter.
    pub fn remaining(&self) -> Duration {
        self.instant.saturating_duration_since(Instant::now())
    }
}

/// A handler's view of its invocation: its id, its deadline, and the notes of finished records.
#[derive(Debug, Clone)]
pub struct Invocation {
    /// Lambda's id of the invocation, for the logs.
    pub request_id: String,
    /// When the handler must have answered. A handler that has not is dropped
    /// [`RunConfig::time_to_answer`](crate::RunConfig::time_to_answer) later.
    pub deadline: Deadline,
    /// Where the handler notes the records that are done.
    pub progress: Progress,
}

/// Which records of a batch are done, by their index. Clones share the notes.
///
/// Notes are optional: if a handler notes nothing and runs out of time, all its records are retried.
#[derive(Debug, Clone)]
pub struct Progress {
    done: Arc<Mutex<Vec<bool>>>,
}

impl Progress {
    /// The notes for a batch of `records` records, of which none is done yet.
    pub fn new(records: usize) -> Self {
        Self {
            done: Arc::new(Mutex::new(vec![false; records])),
        }
    }

    /// Notes that the record at `place` (from 0) is done: its effects are stored, and the brokers have acknowledged
    /// every message. An index outside the batch is ignored.
    pub fn done(&self, place: usize) {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(record) = done.get_mut(place) {
            *record = true;
        }
    }

    /// Whether each record is done, in the order of the batch.
    pub fn snapshot(&self) -> Vec<bool> {
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.clone()
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "Lambda's deadline is a wall-clock time; this shell is where it becomes a duration"
)]
fn wall_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_margin_is_taken_off_and_the_past_leaves_nothing() {
        let margin = Duration::from_secs(2);
        let ahead = Deadline::before(wall_ms() + 10_000, margin);
        assert!(ahead.remaining() <= Duration::from_secs(8));
        assert!(ahead.remaining() > Duration::from_secs(4));
        assert_eq!(Deadline::before(0, margin).remaining(), Duration::ZERO);
        assert_eq!(
            Deadline::before(wall_ms(), margin).remaining(),
            Duration::ZERO
        );
        assert!(Deadline::before(u64::MAX, Duration::ZERO).remaining() > margin);
    }

    #[test]
    fn progress_ignores_places_outside_the_batch() {
        let progress = Progress::new(2);
        progress.done(1);
        progress.done(9);
        assert_eq!(progress.snapshot(), [false, true]);
    }
}
