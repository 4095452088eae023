//! The rights of one role in one run: which permissions are allowed, and which were used or denied.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::policy::{Permission, Policy};

/// The rights of one role in one run. Clones share the records.
#[derive(Debug, Clone)]
pub struct Rights {
    policy: Arc<Policy>,
    noted: Arc<Mutex<UsedRights>>,
}

/// The permissions that a run has requested.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UsedRights {
    /// Requested and allowed.
    pub used: BTreeSet<Permission>,
    /// Requested and denied.
    pub denied: BTreeSet<Permission>,
    /// Requests whose permissions are unknown, and answers that contradict the policy.
    pub strange: BTreeSet<String>,
}

impl Rights {
    /// The rights that a policy gives; nothing is recorded yet.
    #[must_use]
    pub fn of(policy: &Policy) -> Self {
        Self {
            policy: Arc::new(policy.clone()),
            noted: Arc::default(),
        }
    }

    /// Whether a permission is allowed; the request is recorded.
    #[must_use]
    pub fn ask(&self, wanted: &Permission) -> bool {
        let is_allowed = self.policy.allows(wanted);
        let mut noted = self.lock();
        let place = match is_allowed {
            true => &mut noted.used,
            false => &mut noted.denied,
        };
        place.insert(wanted.clone());
        is_allowed
    }

    /// Whether a permission is allowed, without a record.
    #[must_use]
    pub fn allow(&self, wanted: &Permission) -> bool {
        self.policy.allows(wanted)
    }

    /// Records an event that must not happen in a run.
    pub fn note_strange(&self, what: impl Into<String>) {
        self.lock().strange.insert(what.into());
    }

    /// What has been recorded so far.
    #[must_use]
    pub fn noted(&self) -> UsedRights {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, UsedRights> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
