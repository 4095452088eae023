//! Schedule of commits of stored offsets.

use std::time::{Duration, Instant};

use crate::broker::Consumer;

/// How often stored offsets are committed, unless a consumer sets a shorter time: 250 ms.
pub const COMMIT_EVERY: Duration = Duration::from_millis(250);

/// How often offsets are committed even if nothing was stored since: a commit may have failed, and a client need not
/// report the failure of an asynchronous commit. If there is nothing to commit, no request is sent.
const COMMIT_AGAIN_EVERY: Duration = Duration::from_secs(5);

/// Longest wait for the answer to a commit, in the calls that wait for it: 5 s.
pub const COMMIT_WITHIN: Duration = Duration::from_secs(5);

/// Schedule of a consumer's asynchronous commits.
#[derive(Debug, Default)]
pub(crate) struct Commits {
    has_stored: bool,
    last: Option<Instant>,
}

impl Commits {
    /// Notes that an offset was stored.
    pub(crate) fn stored(&mut self) {
        self.has_stored = true;
    }

    /// Commits if an offset was stored since the last commit, or if that was long ago.
    pub(crate) fn commit(&mut self, consumer: &impl Consumer) {
        if self.is_due(Instant::now()) {
            consumer.commit();
        }
    }

    fn is_due(&mut self, now: Instant) -> bool {
        let is_long_ago = self.last.is_none_or(|at| now - at >= COMMIT_AGAIN_EVERY);
        let is_due = std::mem::take(&mut self.has_stored) || is_long_ago;
        if is_due {
            self.last = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_committed_and_once_more_in_case_that_failed() {
        let mut commits = Commits::default();
        let began = Instant::now();
        let mut at = |ms| commits.is_due(began + Duration::from_millis(ms));
        assert!(at(0));
        assert!(!at(250));
        assert!(!at(4_999));
        assert!(at(5_000));
        assert!(!at(9_999));
        commits.stored();
        assert!(commits.is_due(began + Duration::from_millis(9_999)));
        assert!(!commits.is_due(began + Duration::from_millis(14_998)));
    }
}
