//! One process's share of a downstream's rate limit.

use std::sync::{Mutex, PoisonError};

use triad_core::Timestamp;
use triad_core::rate::{self, Granted};
use triad_workflow::{AgentName, Millis};

use crate::control::{ControlStore, ControlWrite};
use crate::ports::{Clock, Entropy, StoreError, Written};

/// Tries to take a chunk before a short wait.
const MAX_TRIES: usize = 4;
/// Bound of that wait.
const LITTLE: Millis = Millis(50);

/// Calls that this process may still make in a second.
#[derive(Debug, Clone, Copy, Default)]
struct OwnShare {
    second: u64,
    calls: u32,
}

/// A rate limit, shared by all instances through the control store.
pub(super) struct Rate {
    key: String,
    per_second: u32,
    own: Mutex<OwnShare>,
    /// One task takes a chunk; the others wait for its result.
    taking: tokio::sync::Mutex<()>,
}

impl Rate {
    pub(super) fn new(agent: &AgentName, per_second: u32) -> Self {
        Self {
            key: rate::key(agent),
            per_second: per_second.max(1),
            own: Mutex::default(),
            taking: tokio::sync::Mutex::new(()),
        }
    }

    /// Takes permission for one call, waiting for at most `patience`; otherwise returns when to come back.
    pub(super) async fn take<S: ControlStore, C: Clock, E: Entropy>(
        &self,
        control: &S,
        clock: &C,
        entropy: &E,
        patience: Millis,
    ) -> Result<(), Timestamp> {
        let ends = clock.now().plus(patience);
        // The loop ends: each iteration takes a call, or waits, within the patience.
        loop {
            if self.take_own(clock.now()) {
                return Ok(());
            }
            let next = {
                let _turn = self.taking.lock().await;
                if self.take_own(clock.now()) {
                    return Ok(());
                }
                match self.take_chunk(control, clock, entropy).await {
                    Ok(None) => continue,
                    Ok(Some(next)) => next,
                    Err(e) => {
                        // Without the store the calls of other processes are unknown: continue slowly.
                        tracing::warn!(key = self.key, error = %e, "the rate limit's record could not be used");
                        clock.now().plus(LITTLE)
                    }
                }
            };
            if next > ends {
                return Err(next);
            }
            clock.sleep(next.since(clock.now()).max(Millis(1))).await;
        }
    }

    fn take_own(&self, now: Timestamp) -> bool {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = own.second >= now.0 / 1_000 && own.calls > 0;
        if fits {
            own.calls -= 1;
        }
        fits
    }

    /// Takes a chunk of the present second; otherwise returns when to ask again.
    async fn take_chunk<S: ControlStore, C: Clock, E: Entropy>(
        &self,
        control: &S,
        clock: &C,
        entropy: &E,
    ) -> Result<Option<Timestamp>, StoreError> {
        for _ in 0..MAX_TRIES {
            let found = control.read(self.key.clone(), true).await?;
            let expected = found.as_ref().map(|f| f.version);
            let granted: Granted = found
                .and_then(|f| serde_json::from_value(f.value).ok())
                .unwrap_or_default();
            let grant = match granted.grant(self.per_second, clock.now()) {
                Ok(grant) => grant,
                Err(next) => return Ok(Some(next)),
            };
            let value =
                serde_json::to_value(grant.record).map_err(|e| StoreError::Item(e.to_string()))?;
            let write = ControlWrite {
                key: self.key.clone(),
                value,
                expected,
                expires: None,
                token: entropy.next_u64(),
            };
            if control.write(write).await? == Written::Written {
                let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
                *own = OwnShare {
                    second: grant.record.second,
                    calls: grant.calls,
                };
                return Ok(None);
            }
        }
        Ok(Some(
            clock.now().plus(Millis(1 + entropy.next_u64() % LITTLE.0)),
        ))
    }
}
