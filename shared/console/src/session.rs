//! Who a browser is: a cookie that only this server can read, and a word in every form that only a page of
//! this server can have.
//!
//! The cookie is a random number. It stands for a token once somebody has logged in with one; which token is
//! known by its digest alone, and asked for with each request: one that is taken out of the file lets nobody
//! in any more. The word of the forms is a keyed hash of the cookie, so nothing is kept for it.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderMap, HeaderValue};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq;

use crate::caller::{Caller, Digest, Keys, Role};
use crate::problem::Problem;
use crate::settings::{SESSION_FOR, SESSIONS, Settings};

/// The name of the cookie.
const NAME: &str = "triad-console";
/// Random bytes of a cookie.
const BYTES: usize = 32;

/// The system gives no random numbers, without which nobody can be told from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the system gives no random numbers")]
pub struct NoRandom;

/// Sessions of browsers.
pub(crate) struct Sessions {
    key: hmac::Key,
    /// Those who are logged in, the one who logged in first in front.
    known: Mutex<VecDeque<Session>>,
}

struct Session {
    /// SHA-256 of the cookie.
    cookie: Digest,
    token: Digest,
    until: Instant,
}

/// A cookie that was sent, or is to be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cookie(String);

impl Sessions {
    pub(crate) fn new() -> Result<Self, NoRandom> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new());
        Ok(Self {
            key: key.map_err(|_| NoRandom)?,
            known: Mutex::default(),
        })
    }

    /// Whose token a session was begun with; `None`: it is over, or never was.
    fn token(&self, cookie: &Cookie) -> Option<Digest> {
        let cookie = digest(cookie.0.as_bytes());
        let now = Instant::now();
        let known = self.known();
        let found = known
            .iter()
            .find(|s| bool::from(s.cookie.ct_eq(&cookie)) && s.until > now);
        found.map(|session| session.token)
    }

    /// Begins a session, under a new cookie.
    pub(crate) fn begin(&self, token: Digest) -> Result<Cookie, Problem> {
        let cookie = Cookie::new()?;
        let mut known = self.known();
        let now = Instant::now();
        known.retain(|session| session.until > now);
        if known.len() >= SESSIONS {
            known.pop_front();
        }
        known.push_back(Session {
            cookie: digest(cookie.0.as_bytes()),
            token,
            until: now + SESSION_FOR,
        });
        Ok(cookie)
    }

    /// Ends a session.
    pub(crate) fn end(&self, cookie: &Cookie) {
        let cookie = digest(cookie.0.as_bytes());
        self.known().retain(|session| session.cookie != cookie);
    }

    fn known(&self) -> MutexGuard<'_, VecDeque<Session>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The word that the forms of a browser with this cookie have.
    pub(crate) fn word(&self, cookie: &Cookie) -> String {
        let tag = hmac::sign(&self.key, cookie.0.as_bytes());
        URL_SAFE_NO_PAD.encode(tag.as_ref())
    }

    /// Whether a form has the word of the browser that sends it.
    pub(crate) fn is_word(&self, cookie: Option<&Cookie>, word: Option<&str>) -> bool {
        let (Some(cookie), Some(word)) = (cookie, word) else {
            return false;
        };
        let Ok(tag) = URL_SAFE_NO_PAD.decode(word) else {
            return false;
        };
        hmac::verify(&self.key, cookie.0.as_bytes(), &tag).is_ok()
    }

    /// Who asks; `None`: nobody who is known. `by_cookie` says whether a session counts.
    pub(crate) fn caller(
        &self,
        headers: &HeaderMap,
        keys: &dyn Keys,
        settings: &Settings,
        by_cookie: bool,
    ) -> Option<Caller> {
        if let Some(told) = headers.get(AUTHORIZATION) {
            return keys.of(&digest(bearer(told.as_bytes())?));
        }
        let cookie = Cookie::of(headers).filter(|_| by_cookie);
        if let Some(token) = cookie.and_then(|cookie| self.token(&cookie)) {
            return keys.of(&token);
        }
        if let Some(header) = &settings.user_header {
            let name = headers.get(header).and_then(|name| name.to_str().ok())?;
            let name = Some(name.trim()).filter(|name| !name.is_empty())?;
            return Some(Caller {
                name: Some(name.to_owned()),
                role: Role::Operate,
            });
        }
        keys.is_open().then_some(Caller {
            name: None,
            role: Role::Operate,
        })
    }
}

impl Cookie {
    /// A new one.
    pub(crate) fn new() -> Result<Self, Problem> {
        let mut bytes = [0; BYTES];
        let filled = SystemRandom::new().fill(&mut bytes);
        filled.map_err(|_| Problem::internal(NoRandom.to_string()))?;
        Ok(Self(URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// The one that a browser has sent.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let sent = headers.get_all(COOKIE).iter();
        let sent = sent.filter_map(|value| value.to_str().ok());
        let mut pairs = sent.flat_map(|value| value.split(';'));
        let found = pairs.find_map(|pair| pair.trim().strip_prefix(NAME)?.strip_prefix('='));
        let is_one = |text: &&str| URL_SAFE_NO_PAD.decode(text).is_ok_and(|b| b.len() == BYTES);
        found.filter(is_one).map(|text| Self(text.to_owned()))
    }

    /// What sets it. `SameSite=Lax` keeps it from what other sites have a browser send, and not from a link that
    /// somebody follows, as from an alert: without it they would be a stranger, and get another cookie. To look
    /// changes nothing, and a form needs its word.
    pub(crate) fn set(&self, settings: &Settings) -> Option<HeaderValue> {
        let secure = if settings.secure { "; Secure" } else { "" };
        let text = format!("{NAME}={}; Path=/; HttpOnly; SameSite=Lax{secure}", self.0);
        HeaderValue::try_from(text).ok()
    }
}

/// The digest of a token or a cookie. Both are random numbers, so that a plain hash is enough.
pub(crate) fn digest(token: &[u8]) -> Digest {
    Sha256::digest(token).into()
}

/// The token of a header; the scheme's case is free (RFC 9110, section 11.1).
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    scheme
        .eq_ignore_ascii_case(b"bearer ")
        .then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct One(Option<Digest>);

    impl Keys for One {
        fn is_open(&self) -> bool {
            self.0.is_none()
        }
        fn of(&self, digest: &Digest) -> Option<Caller> {
            (self.0.as_ref() == Some(digest)).then(|| Caller {
                name: Some("ann".into()),
                role: Role::Read,
            })
        }
    }

    fn with(name: &'static str, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(
            http::HeaderName::from_static(name),
            HeaderValue::try_from(value).unwrap(),
        )])
    }

    #[test]
    fn a_session_lasts_as_long_as_its_token_and_no_longer_than_it_was_ended() {
        let sessions = Sessions::new().unwrap();
        let cookie = sessions.begin(digest(b"t")).unwrap();
        let headers = with("cookie", &format!("a=b; {NAME}={}", cookie.0));
        let who = |keys: &One, by_cookie| {
            let found = sessions.caller(&headers, keys, &Settings::default(), by_cookie);
            found.and_then(|caller| caller.name)
        };
        let keys = One(Some(digest(b"t")));
        assert_eq!(who(&keys, true).as_deref(), Some("ann"));
        assert_eq!(who(&keys, false), None, "where sessions do not count");
        let others = One(Some(digest(b"other")));
        assert_eq!(who(&others, true), None, "the token was taken out");
        sessions.end(&cookie);
        assert_eq!(who(&keys, true), None);
    }

    #[test]
    fn the_oldest_of_too_many_sessions_ends() {
        let sessions = Sessions::new().unwrap();
        let first = sessions.begin(digest(b"t")).unwrap();
        for _ in 1..SESSIONS {
            sessions.begin(digest(b"t")).unwrap();
        }
        assert!(sessions.token(&first).is_some());
        sessions.begin(digest(b"t")).unwrap();
        assert!(sessions.token(&first).is_none());
        assert_eq!(sessions.known().len(), SESSIONS);
    }

    #[test]
    fn a_form_needs_the_word_of_its_own_browser() {
        let sessions = Sessions::new().unwrap();
        let (one, other) = (Cookie::new().unwrap(), Cookie::new().unwrap());
        let word = sessions.word(&one);
        assert!(sessions.is_word(Some(&one), Some(&word)));
        assert!(!sessions.is_word(Some(&other), Some(&word)));
        assert!(!sessions.is_word(None, Some(&word)));
        assert!(!sessions.is_word(Some(&one), None) && !sessions.is_word(Some(&one), Some("%")));
        let another = Sessions::new().unwrap();
        assert!(!another.is_word(Some(&one), Some(&word)));
    }

    #[test]
    fn a_header_of_a_proxy_is_believed_where_it_is_named_alone() {
        let sessions = Sessions::new().unwrap();
        let headers = with("x-user", " bob ");
        let named = Settings {
            user_header: Some(http::HeaderName::from_static("x-user")),
            ..Settings::default()
        };
        let who = |headers: &HeaderMap, settings: &Settings| {
            sessions.caller(headers, &One(None), settings, true)
        };
        assert_eq!(who(&headers, &named).unwrap().name.as_deref(), Some("bob"));
        assert_eq!(who(&headers, &Settings::default()).unwrap().name, None);
        assert_eq!(who(&HeaderMap::new(), &named), None, "not past the proxy");
        let basic = with("authorization", "Basic abc");
        assert_eq!(who(&basic, &Settings::default()), None);
    }
}
