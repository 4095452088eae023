//! Changes of a consumer's partitions, as reported to its loop.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A partition: the name of its topic, and its number, from 0.
pub type Partition = (String, i32);

/// Reports of a consumer to its loop after a rebalance: the revoked partitions.
///
/// Bound: a few entries for each partition of one topic.
#[derive(Debug, Default)]
pub struct Assignment(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Revoked partitions that the loop has not taken yet.
    revoked: Vec<Partition>,
    /// Number of revocations.
    revocations: u64,
}

impl Assignment {
    /// Reports that these partitions are no longer the consumer's.
    pub fn revoke(&self, partitions: impl IntoIterator<Item = Partition>) {
        let mut state = self.lock();
        state.revocations += 1;
        state.revoked.extend(partitions);
    }

    /// How often [`revoke`](Self::revoke) was called. A consumer's position in a partition from before the last
    /// revocation is no longer valid.
    pub fn revocations(&self) -> u64 {
        self.lock().revocations
    }

    /// The partitions revoked since the last call.
    pub(crate) fn take_revoked(&self) -> Vec<Partition> {
        std::mem::take(&mut self.lock().revoked)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
