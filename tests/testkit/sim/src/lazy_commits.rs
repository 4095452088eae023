//! Commits of offsets on one machine, which become durable a little after they are made.

use std::collections::VecDeque;

/// How long a commit may be lost, in milliseconds; then it is durable.
const DURABLE_WITHIN_MS: u64 = 1_000;

/// A commit that may be lost.
#[derive(Debug)]
pub(crate) struct LazyCommit {
    at: u64,
    pub topic: String,
    pub partition: usize,
    /// The committed offset before it.
    pub before: usize,
}

/// Commits that are not durable yet, oldest first.
#[derive(Debug, Default)]
pub(crate) struct LazyCommits(VecDeque<LazyCommit>);

impl LazyCommits {
    /// Adds a commit made at `now`; `before` is the committed offset before it.
    pub(crate) fn add(&mut self, now: u64, topic: &str, partition: usize, before: usize) {
        self.forget_durable(now);
        self.0.push_back(LazyCommit {
            at: now,
            topic: topic.to_owned(),
            partition,
            before,
        });
    }

    /// Number of commits that may be lost at `now`.
    pub(crate) fn len(&mut self, now: u64) -> usize {
        self.forget_durable(now);
        self.0.len()
    }

    /// Takes all commits after the first `kept`, the last one first. Afterwards none is left.
    pub(crate) fn lose(&mut self, kept: usize) -> impl Iterator<Item = LazyCommit> {
        let lost = self.0.split_off(kept.min(self.0.len()));
        self.0.clear();
        lost.into_iter().rev()
    }

    fn forget_durable(&mut self, now: u64) {
        while self
            .0
            .front()
            .is_some_and(|commit| commit.at + DURABLE_WITHIN_MS < now)
        {
            self.0.pop_front();
        }
    }
}
