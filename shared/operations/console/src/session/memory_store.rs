//! Sessions in the memory of one process: a log-out ends one, the end of the process ends all.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use subtle::ConstantTimeEq;

use super::{Cookie, digest};
use crate::caller::Digest;
use crate::settings::{SESSION_FOR, SESSIONS};

/// The live sessions, the oldest first.
#[derive(Default)]
pub(super) struct SessionStore(Mutex<VecDeque<Session>>);

struct Session {
    /// SHA-256 of the cookie.
    cookie: Digest,
    token: Digest,
    until: Instant,
}

impl SessionStore {
    /// The token with which the cookie's session began; `None` if there is no live session.
    pub(super) fn token(&self, cookie: &Cookie) -> Option<Digest> {
        let cookie = digest(cookie.0.as_bytes());
        let now = Instant::now();
        let known = self.known();
        let found = known
            .iter()
            .find(|s| bool::from(s.cookie.ct_eq(&cookie)) && s.until > now);
        found.map(|session| session.token)
    }

    /// Begins a session under a cookie.
    pub(super) fn begin(&self, cookie: &Cookie, token: Digest) {
        let mut known = self.known();
        let now = Instant::now();
        known.retain(|session| session.until > now);
        if known.len() >= SESSIONS {
            known.pop_front();
        }
        known.push_back(Session {
            cookie: digest(cookie.0.as_bytes()),
            token,
            until: now + SESSION_FOR.as_duration(),
        });
    }

    /// Ends a session.
    pub(super) fn end(&self, cookie: &Cookie) {
        let cookie = digest(cookie.0.as_bytes());
        self.known().retain(|session| session.cookie != cookie);
    }

    fn known(&self) -> MutexGuard<'_, VecDeque<Session>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_of_too_many_sessions_ends() {
        let kept = SessionStore::default();
        let begin = || {
            let cookie = Cookie::new().unwrap();
            kept.begin(&cookie, digest(b"t"));
            cookie
        };
        let first = begin();
        for _ in 1..SESSIONS {
            begin();
        }
        assert!(kept.token(&first).is_some());
        begin();
        assert!(kept.token(&first).is_none());
        assert_eq!(kept.known().len(), SESSIONS);
    }
}
