//! The rights of one role in one run: what it may do, what it asked for and what it was denied.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::policy::{Permission, Policy};

/// The rights of one role in one run. Clones share what is noted.
#[derive(Debug, Clone)]
pub struct Rights {
    policy: Arc<Policy>,
    noted: Arc<Mutex<UsedRights>>,
}

/// What is noted of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UsedRights {
    /// What was asked for and allowed.
    pub used: BTreeSet<Permission>,
    /// What was asked for and denied.
    pub denied: BTreeSet<Permission>,
    /// What nobody knows the permissions of, and answers that fit no policy.
    pub strange: BTreeSet<String>,
}

impl Rights {
    /// Those of a policy; nothing was asked for yet.
    #[must_use]
    pub fn of(policy: &Policy) -> Self {
        Self {
            policy: Arc::new(policy.clone()),
            noted: Arc::default(),
        }
    }

    /// Whether something may be done; it is noted either way.
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

    /// Whether something may be done; it is not asked for.
    #[must_use]
    pub fn allow(&self, wanted: &Permission) -> bool {
        self.policy.allows(wanted)
    }

    /// Notes what must not happen in a run.
    pub fn note_strange(&self, what: impl Into<String>) {
        self.lock().strange.insert(what.into());
    }

    /// What was noted so far.
    #[must_use]
    pub fn noted(&self) -> UsedRights {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, UsedRights> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
