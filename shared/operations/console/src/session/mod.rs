//! Sessions of browsers: a cookie that identifies the session, and a CSRF token in every form.
//!
//! After a log-in the cookie stands for a token, stored as its digest. Each request looks the digest up, so a token
//! that is removed from the file is refused at once. [`SessionForm`] says whether a session is in the memory of a
//! process or in the cookie. The CSRF token is a keyed hash of the cookie and is not stored.

mod memory_store;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderMap, HeaderValue};
use ring::hmac;
use sha2::{Digest as _, Sha256};
use triad_core::Timestamp;

use self::memory_store::SessionStore;
use triad_operator::operations::{Caller, Problem, Role};

use crate::caller::{Digest, Keys};
use crate::random::{NoRandom, random};
use crate::request::bearer;
use crate::seal::{self, Seal};
use crate::settings::{SESSION_FOR, SessionForm, Settings};

/// The name of the cookie.
const NAME: &str = "triad-console";
/// Random bytes of a cookie without a session.
const BYTES: usize = 32;

/// Sessions of browsers.
pub(crate) struct Sessions {
    /// Key of the CSRF tokens.
    key: hmac::Key,
    place: SessionPlacement,
}

enum SessionPlacement {
    Here(SessionStore),
    InCookies(Seal),
}

/// A cookie that a browser sent, or that an answer sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cookie(String);

impl Sessions {
    pub(crate) fn new(form: &SessionForm) -> Result<Self, NoRandom> {
        Ok(match form {
            SessionForm::InMemory => {
                let key = random::<32>()?;
                Self {
                    key: hmac::Key::new(hmac::HMAC_SHA256, &key),
                    place: SessionPlacement::Here(SessionStore::default()),
                }
            }
            SessionForm::Sealed(key) => Self {
                key: key.for_purpose("triad console: words of forms"),
                place: SessionPlacement::InCookies(Seal::of(key)),
            },
        })
    }

    /// The token with which a session began; `None` if there is no live session.
    fn token(&self, cookie: &Cookie, now: Timestamp) -> Option<Digest> {
        match &self.place {
            SessionPlacement::Here(kept) => kept.token(cookie),
            SessionPlacement::InCookies(seal) => seal.token(&cookie.bytes()?, now),
        }
    }

    /// Begins a session, under a new cookie.
    pub(crate) fn begin(&self, token: Digest, now: Timestamp) -> Result<Cookie, Problem> {
        match &self.place {
            SessionPlacement::Here(kept) => {
                let cookie = Cookie::new()?;
                kept.begin(&cookie, token);
                Ok(cookie)
            }
            SessionPlacement::InCookies(seal) => Ok(Cookie::of_bytes(
                &seal.cookie(token, now.plus(SESSION_FOR))?,
            )),
        }
    }

    /// Ends a session in this process. The browser must drop its cookie, too ([`Cookie::forget`]).
    pub(crate) fn end(&self, cookie: &Cookie) {
        match &self.place {
            SessionPlacement::Here(kept) => kept.end(cookie),
            SessionPlacement::InCookies(_) => {}
        }
    }

    /// The CSRF token for the forms of a browser with this cookie.
    pub(crate) fn csrf_token(&self, cookie: &Cookie) -> String {
        let tag = hmac::sign(&self.key, cookie.0.as_bytes());
        URL_SAFE_NO_PAD.encode(tag.as_ref())
    }

    /// Whether a form has the CSRF token of the browser that sends it.
    pub(crate) fn is_word(&self, cookie: Option<&Cookie>, word: Option<&str>) -> bool {
        let (Some(cookie), Some(word)) = (cookie, word) else {
            return false;
        };
        let Ok(tag) = URL_SAFE_NO_PAD.decode(word) else {
            return false;
        };
        hmac::verify(&self.key, cookie.0.as_bytes(), &tag).is_ok()
    }

    /// The caller; `None` if unknown. `by_cookie`: whether a session counts.
    pub(crate) fn caller(
        &self,
        headers: &HeaderMap,
        keys: &dyn Keys,
        settings: &Settings,
        by_cookie: bool,
        now: Timestamp,
    ) -> Option<Caller> {
        if headers.contains_key(AUTHORIZATION) {
            return keys.of(&digest(bearer(headers)?));
        }
        let cookie = Cookie::of(headers).filter(|_| by_cookie);
        if let Some(token) = cookie.and_then(|cookie| self.token(&cookie, now)) {
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
    /// A new cookie without a session.
    pub(crate) fn new() -> Result<Self, NoRandom> {
        Ok(Self::of_bytes(&random::<BYTES>()?))
    }

    fn of_bytes(bytes: &[u8]) -> Self {
        Self(URL_SAFE_NO_PAD.encode(bytes))
    }

    fn bytes(&self) -> Option<Vec<u8>> {
        URL_SAFE_NO_PAD.decode(&self.0).ok()
    }

    /// The cookie that a browser sent.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let sent = headers.get_all(COOKIE).iter();
        let sent = sent.filter_map(|value| value.to_str().ok());
        let mut pairs = sent.flat_map(|value| value.split(';'));
        let found = pairs.find_map(|pair| pair.trim().strip_prefix(NAME)?.strip_prefix('='));
        let cookie = Self(found?.to_owned());
        let length = cookie.bytes()?.len();
        [BYTES, seal::BYTES].contains(&length).then_some(cookie)
    }

    /// `Set-Cookie` header. `SameSite=Lax`: the browser sends the cookie with a link that a person follows, as from
    /// an alert, and not with requests that other sites start. Without the cookie, following a link would replace the
    /// session. A link only reads; a form needs its CSRF token.
    pub(crate) fn set(&self, settings: &Settings) -> Option<HeaderValue> {
        HeaderValue::try_from(format!("{NAME}={}{}", self.0, attributes(settings))).ok()
    }

    /// `Set-Cookie` header that makes the browser drop the cookie.
    pub(crate) fn forget(settings: &Settings) -> Option<HeaderValue> {
        HeaderValue::try_from(format!("{NAME}=; Max-Age=0{}", attributes(settings))).ok()
    }
}

fn attributes(settings: &Settings) -> String {
    let secure = if settings.secure { "; Secure" } else { "" };
    format!("; Path=/; HttpOnly; SameSite=Lax{secure}")
}

/// The digest of a token or a cookie. Both are random numbers, so that a plain hash is enough.
pub(crate) fn digest(token: &[u8]) -> Digest {
    Sha256::digest(token).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seal::SessionKey;

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

    const NOW: Timestamp = Timestamp(7);

    fn in_memory() -> Sessions {
        Sessions::new(&SessionForm::InMemory).unwrap()
    }

    fn sealed() -> Sessions {
        let key = SessionKey::of(&"k".repeat(seal::MIN_SECRET_BYTES)).unwrap();
        Sessions::new(&SessionForm::Sealed(key)).unwrap()
    }

    fn sent(cookie: &Cookie) -> HeaderMap {
        with("cookie", &format!("a=b; {NAME}={}", cookie.0))
    }

    #[test]
    fn a_session_lasts_as_long_as_its_token_and_no_longer_than_it_was_ended() {
        for sessions in [in_memory(), sealed()] {
            let cookie = sessions.begin(digest(b"t"), NOW).unwrap();
            let headers = sent(&cookie);
            let who = |keys: &One, by_cookie| {
                let settings = Settings::default();
                let found = sessions.caller(&headers, keys, &settings, by_cookie, NOW);
                found.and_then(|caller| caller.name)
            };
            let keys = One(Some(digest(b"t")));
            assert_eq!(who(&keys, true).as_deref(), Some("ann"));
            assert_eq!(who(&keys, false), None, "where sessions do not count");
            let others = One(Some(digest(b"other")));
            assert_eq!(who(&others, true), None, "the token was taken out");
            sessions.end(&cookie);
            if let SessionPlacement::Here(_) = sessions.place {
                assert_eq!(who(&keys, true), None);
            }
        }
    }

    #[test]
    fn what_one_process_has_sealed_another_with_its_key_takes() {
        let (one, other) = (sealed(), sealed());
        let cookie = one.begin(digest(b"t"), NOW).unwrap();
        let (keys, settings) = (One(Some(digest(b"t"))), Settings::default());
        let who =
            |sessions: &Sessions| sessions.caller(&sent(&cookie), &keys, &settings, true, NOW);
        assert!(who(&one).is_some() && who(&other) == who(&one));
        assert!(who(&in_memory()).is_none());
        let word = one.csrf_token(&cookie);
        assert!(other.is_word(Some(&cookie), Some(&word)));
        assert!(!in_memory().is_word(Some(&cookie), Some(&word)));
    }

    #[test]
    fn a_browser_forgets_the_cookie_that_it_was_sent() {
        let settings = Settings {
            secure: true,
            ..Settings::default()
        };
        let forget = Cookie::forget(&settings).unwrap();
        let text = "triad-console=; Max-Age=0; Path=/; HttpOnly; SameSite=Lax; Secure";
        assert_eq!(forget, text);
        assert_eq!(Cookie::of(&with("cookie", "triad-console=")), None);
    }

    #[test]
    fn a_form_needs_the_word_of_its_own_browser() {
        let sessions = in_memory();
        let (one, other) = (Cookie::new().unwrap(), Cookie::new().unwrap());
        let word = sessions.csrf_token(&one);
        assert!(sessions.is_word(Some(&one), Some(&word)));
        assert!(!sessions.is_word(Some(&other), Some(&word)));
        assert!(!sessions.is_word(None, Some(&word)));
        assert!(!sessions.is_word(Some(&one), None) && !sessions.is_word(Some(&one), Some("%")));
        let another = in_memory();
        assert!(!another.is_word(Some(&one), Some(&word)));
    }

    #[test]
    fn a_header_of_a_proxy_is_believed_where_it_is_named_alone() {
        let sessions = in_memory();
        let headers = with("x-user", " bob ");
        let named = Settings {
            user_header: Some(http::HeaderName::from_static("x-user")),
            ..Settings::default()
        };
        let who = |headers: &HeaderMap, settings: &Settings| {
            sessions.caller(headers, &One(None), settings, true, NOW)
        };
        assert_eq!(who(&headers, &named).unwrap().name.as_deref(), Some("bob"));
        assert_eq!(who(&headers, &Settings::default()).unwrap().name, None);
        assert_eq!(who(&HeaderMap::new(), &named), None, "not past the proxy");
        let basic = with("authorization", "Basic abc");
        assert_eq!(who(&basic, &Settings::default()), None);
    }
}
