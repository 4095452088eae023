//! Attempts under way in this process: of two deliveries of one attempt, the second waits for the first.
//!
//! An order that is announced twice has its requests sent twice. Without this wait the second delivery would find the
//! attempt taken in the call ledger, not see by which process, and have to reply that an earlier delivery may have
//! made its calls.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::lock::{Mutex as AsyncMutex, OwnedMutexGuard};

use super::AttemptKey;

/// The attempts under way. At most one entry per request that this process handles.
#[derive(Debug, Default)]
pub(super) struct InHand(Mutex<HashMap<AttemptKey, Arc<AsyncMutex<()>>>>);

/// An attempt under way, until this is dropped.
pub(super) struct Holding<'a> {
    all: &'a InHand,
    key: AttemptKey,
    held: Option<OwnedMutexGuard<()>>,
}

impl InHand {
    /// Begins an attempt as soon as no other delivery of it is under way.
    pub(super) async fn take(&self, key: &AttemptKey) -> Holding<'_> {
        let turn = self.lock().entry(key.clone()).or_default().clone();
        // Made before the wait, so that a delivery that is dropped while it waits leaves no entry.
        let mut holding = Holding {
            all: self,
            key: key.clone(),
            held: None,
        };
        holding.held = Some(turn.lock_owned().await);
        holding
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<AttemptKey, Arc<AsyncMutex<()>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Holding<'_> {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        self.held = None;
        // No other delivery waits for this attempt: those that wait have cloned the entry under the same lock.
        if all
            .get(&self.key)
            .is_some_and(|turn| Arc::strong_count(turn) == 1)
        {
            all.remove(&self.key);
        }
    }
}
