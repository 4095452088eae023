//! Sealed session cookies, for processes that share only a key.
//!
//! A sealed cookie holds the digest of its token and its expiry under a keyed hash (HMAC), so only a holder of the
//! key can make one. Every process with the key accepts every session, and no session is stored. The content is not
//! secret: it has the token's digest, as the file of tokens has.

use ring::hmac;
use triad_core::Timestamp;

use crate::caller::Digest;
use crate::random::{NoRandom, random};

/// Shortest secret of a [`SessionKey`], in bytes, inclusive.
pub const MIN_SECRET_BYTES: usize = 32;

/// Random bytes of a sealed cookie, so that no two are equal.
const NONCE: usize = 16;
/// Bytes under the seal: the nonce, the token's digest, and the expiry in milliseconds since the Unix epoch.
const SAID: usize = NONCE + 32 + 8;
/// Bytes of a sealed cookie.
pub(crate) const BYTES: usize = SAID + 32;

/// The key for sessions in cookies, which all processes of a console must share. A holder of the key can log in as
/// the owner of any token whose digest is known. `Debug` does not show it.
#[derive(Clone)]
pub struct SessionKey(hmac::Key);

/// The error for a secret of fewer than [`MIN_SECRET_BYTES`] bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a secret of at least {MIN_SECRET_BYTES} bytes is needed")]
pub struct ShortSecret;

impl std::fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionKey").finish_non_exhaustive()
    }
}

impl SessionKey {
    /// Makes the key from a secret. The secret should be random; only its length is checked.
    ///
    /// # Errors
    /// [`ShortSecret`] if it has fewer than [`MIN_SECRET_BYTES`] bytes.
    ///
    /// # Example
    /// ```
    /// use triad_console::SessionKey;
    /// assert!(SessionKey::of("a text that is random and long enough").is_ok());
    /// assert!(SessionKey::of("too short").is_err());
    /// ```
    pub fn of(secret: &str) -> Result<Self, ShortSecret> {
        match secret.len() >= MIN_SECRET_BYTES {
            true => Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()))),
            false => Err(ShortSecret),
        }
    }

    /// Derives the key for one purpose; it reveals nothing about the keys for other purposes.
    pub(crate) fn for_purpose(&self, purpose: &str) -> hmac::Key {
        let derived = hmac::sign(&self.0, purpose.as_bytes());
        hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref())
    }
}

/// Makes and verifies sealed cookies.
pub(crate) struct Seal(hmac::Key);

impl Seal {
    pub(crate) fn of(key: &SessionKey) -> Self {
        Self(key.for_purpose("triad console: sessions"))
    }

    /// A cookie that stands for a token until an expiry.
    pub(crate) fn cookie(&self, token: Digest, until: Timestamp) -> Result<Vec<u8>, NoRandom> {
        let mut cookie = Vec::with_capacity(BYTES);
        cookie.extend(random::<NONCE>()?);
        cookie.extend(token);
        cookie.extend(until.0.to_be_bytes());
        let seal = hmac::sign(&self.0, &cookie);
        cookie.extend(seal.as_ref());
        Ok(cookie)
    }

    /// The token that a cookie stands for; `None` if the cookie has expired or was made with another key.
    pub(crate) fn token(&self, cookie: &[u8], now: Timestamp) -> Option<Digest> {
        let (said, seal) = cookie.split_at_checked(SAID)?;
        hmac::verify(&self.0, said, seal).ok()?;
        let (token, until) = said.get(NONCE..)?.split_first_chunk::<32>()?;
        let until = u64::from_be_bytes(until.try_into().ok()?);
        (now < Timestamp(until)).then_some(*token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNTIL: Timestamp = Timestamp(1_000);
    const BEFORE: Timestamp = Timestamp(999);
    const TOKEN: Digest = [7; 32];

    fn seal(secret: &str) -> Seal {
        Seal::of(&SessionKey::of(&secret.repeat(MIN_SECRET_BYTES)).unwrap())
    }

    #[test]
    fn every_process_with_the_key_knows_a_session_until_it_ends_and_none_with_another_does() {
        let (one, other, stranger) = (seal("k"), seal("k"), seal("x"));
        let cookie = one.cookie(TOKEN, UNTIL).unwrap();
        assert_eq!(cookie.len(), BYTES);
        assert_eq!(other.token(&cookie, BEFORE), Some(TOKEN));
        assert_eq!(stranger.token(&cookie, BEFORE), None);
        assert_eq!(other.token(&cookie, UNTIL), None);
        assert_ne!(cookie, one.cookie(TOKEN, UNTIL).unwrap());
    }

    #[test]
    fn a_cookie_that_was_changed_anywhere_is_none() {
        let seal = seal("k");
        let cookie = seal.cookie(TOKEN, UNTIL).unwrap();
        for at in 0..BYTES {
            let mut changed = cookie.clone();
            changed[at] ^= 1;
            assert_eq!(seal.token(&changed, BEFORE), None, "byte {at}");
        }
        for length in [0, NONCE, SAID, BYTES - 1] {
            assert_eq!(seal.token(&cookie[..length], BEFORE), None);
        }
    }

    #[test]
    fn a_key_is_not_shown_and_not_short() {
        let key = SessionKey::of(&"hidden".repeat(9)).unwrap();
        assert_eq!(format!("{key:?}"), "SessionKey { .. }");
        let short = SessionKey::of(&"k".repeat(MIN_SECRET_BYTES - 1));
        assert_eq!(short.err(), Some(ShortSecret));
    }
}
