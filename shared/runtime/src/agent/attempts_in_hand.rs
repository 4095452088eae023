//! Attempts that this process has in hand: of two deliveries of one, the second waits for the first.
//!
//! An order that is announced twice has its requests sent twice. The second one would find the
//! attempt taken in the call ledger, by whom it could not tell, and would have to answer that an
//! earlier delivery may have made its calls.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::lock::{Mutex as AsyncMutex, OwnedMutexGuard};

use super::AttemptKey;

/// The attempts in hand. Bound: one entry for each request that is under way in this process.
#[derive(Debug, Default)]
pub(super) struct InHand(Mutex<HashMap<AttemptKey, Arc<AsyncMutex<()>>>>);

/// An attempt in hand; let go when dropped.
pub(super) struct Holding<'a> {
    all: &'a InHand,
    key: AttemptKey,
    held: Option<OwnedMutexGuard<()>>,
}

impl InHand {
    /// Takes an attempt in hand, once no other delivery of it is.
    pub(super) async fn take(&self, key: &AttemptKey) -> Holding<'_> {
        let turn = self.lock().entry(key.clone()).or_default().clone();
        // Made before the wait: a delivery that is dropped while it waits leaves nothing behind.
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
        // Nobody else waits for it: those who do have taken theirs under the same lock.
        if all
            .get(&self.key)
            .is_some_and(|turn| Arc::strong_count(turn) == 1)
        {
            all.remove(&self.key);
        }
    }
}
