//! What a consumer tells its loop of the partitions that come and go.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A partition: the name of its topic, and its number, from 0.
pub type Partition = (String, i32);

/// What a consumer tells its loop after a rebalance: which partitions have gone.
///
/// Bound: a few entries for each partition of one topic.
#[derive(Debug, Default)]
pub struct Assignment(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Partitions that have gone and of which the loop does not know yet.
    revoked: Vec<Partition>,
    /// How often partitions have gone.
    revocations: u64,
}

impl Assignment {
    /// Tells the loop that these partitions are no longer its consumer's.
    pub fn revoke(&self, partitions: impl IntoIterator<Item = Partition>) {
        let mut state = self.lock();
        state.revocations += 1;
        state.revoked.extend(partitions);
    }

    /// How often [`revoke`](Self::revoke) was called. What a consumer has found out about a partition before
    /// the last time says nothing of where it reads that partition now.
    pub fn revocations(&self) -> u64 {
        self.lock().revocations
    }

    /// What has gone since the last call.
    pub(crate) fn take_revoked(&self) -> Vec<Partition> {
        std::mem::take(&mut self.lock().revoked)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
