//! The queue between handlers and the export: bounded, and never waited for.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use triad_runtime::traces::TraceSpan;

/// Bound: spans that wait to be sent, of at most about a kilobyte each.
pub(crate) const MAX_WAITING: usize = 8_192;

/// Spans that wait, oldest first, and a count of those for which there was no room.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: Mutex<VecDeque<TraceSpan>>,
    dropped: AtomicU64,
}

impl Queue {
    /// Puts a span in; how many wait then. One that has no room is counted as dropped.
    pub(crate) fn push(&self, span: TraceSpan) -> usize {
        let mut waiting = self.lock();
        if waiting.len() >= MAX_WAITING {
            drop(waiting);
            self.drops(1);
            return MAX_WAITING;
        }
        waiting.push_back(span);
        waiting.len()
    }

    /// Takes the oldest, at most so many.
    pub(crate) fn take(&self, most: usize) -> Vec<TraceSpan> {
        let mut waiting = self.lock();
        let count = waiting.len().min(most);
        waiting.drain(..count).collect()
    }

    /// Counts spans that nobody will send any more.
    pub(crate) fn drops(&self, count: usize) {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        self.dropped.fetch_add(count, Ordering::Relaxed);
    }

    /// How many were dropped in all.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<TraceSpan>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
