//! The rights of one role in one run: allowed, used and denied permissions.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::policy::{Permission, Policy};

/// The rights of one role in one run. Clones share the notes.
#[derive(Debug, Clone)]
pub struct Rights {
    policy: Arc<Policy>,
    noted: Arc<Mutex<UsedRights>>,
}

/// Permissions noted in a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UsedRights {
    /// Requested and allowed.
    pub used: BTreeSet<Permission>,
    /// Requested and denied.
    pub denied: BTreeSet<Permission>,
    /// Requests with unknown permissions, and answers that fit no policy.
    pub strange: BTreeSet<String>,
}

impl Rights {
    /// The rights of a policy, without notes.
    #[must_use]
    pub fn of(policy: &Policy) -> Self {
        Self {
            policy: Arc::new(policy.clone()),
            noted: Arc::default(),
        }
    }

    /// Whether something is allowed; it is noted either way.
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

    /// Whether something is allowed, without a note.
    #[must_use]
    pub fn allow(&self, wanted: &Permission) -> bool {
        self.policy.allows(wanted)
    }

    /// Notes an event that must not happen in a run.
    pub fn note_strange(&self, what: impl Into<String>) {
        self.lock().strange.insert(what.into());
    }

    /// The rights that have been used so far.
    #[must_use]
    pub fn noted(&self) -> UsedRights {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, UsedRights> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
