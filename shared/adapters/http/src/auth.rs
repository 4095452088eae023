//! Who the agent is to its service: credentials by reference, read anew when they change.
//!
//! A secret is named, never written down: an environment variable, or a file, which is read again when it has changed.
//! No secret is in an error, a log or the output of `Debug`.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use reqwest::{Client, Method, Url};
use serde::Deserialize;
use serde_json::Value;
use triad_runtime::system::SystemClock;
use triad_runtime::{Clock as _, Fault};

use super::answer::receive;
use super::evidence::Evidence;
use super::{HttpSettingsError, transient};

/// Largest secret, in bytes, inclusive: 64 KiB.
const MAX_SECRET_BYTES: u64 = 64 * 1024;
/// How long before its end a token is replaced, at least; a tenth of its life if that is more.
const AHEAD: u64 = 60_000;
/// Life of a token whose answer does not say it, in milliseconds.
const DEFAULT_LIFE: u64 = 300_000;
/// Longest wait of a call for a token. Half of the call's time may end it sooner: the call then ends as one that was
/// not made, and not as one in doubt.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(10);
/// How long other calls get the failure of a request for a token before the issuer is asked again, in milliseconds.
const FAILURE_LASTS: u64 = 1_000;

/// Where a secret is: in exactly one of these.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum SecretRef {
    /// The environment variable with this name, read at the start.
    Env(String),
    /// This file, without blanks and line ends around its text. It is read again when it has changed.
    File(PathBuf),
}

/// How an agent shows its service who it is.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Auth {
    /// `Authorization: Bearer <token>`.
    Bearer(SecretRef),
    /// `Authorization: Basic …` (RFC 7617).
    Basic {
        /// The user.
        user: String,
        /// The password.
        password: SecretRef,
    },
    /// A header of the service's own, such as `X-Api-Key`.
    Header {
        /// Name of the header.
        name: String,
        /// Its value.
        value: SecretRef,
    },
    /// A bearer token by client credentials (RFC 6749, section 4.4), replaced ahead of its end.
    Oauth2 {
        /// Where tokens are issued: an absolute `http` or `https` URL.
        token_url: String,
        /// Id of this client.
        client_id: String,
        /// Its secret.
        client_secret: SecretRef,
        /// The scopes to ask for, separated by blanks. Absent: none is named.
        #[serde(default)]
        scope: Option<String>,
        /// The audience to ask for, which some issuers need. Absent: none is named.
        #[serde(default)]
        audience: Option<String>,
    },
}

/// The credentials of one agent. Clones share the token.
#[derive(Clone)]
pub(crate) struct Credentials(Arc<Kind>);

enum Kind {
    Header {
        name: HeaderName,
        /// Text before the secret, such as `Bearer `.
        prefix: &'static str,
        /// For basic authentication: the user.
        user: Option<String>,
        secret: Secret,
    },
    Oauth2 {
        token_url: Url,
        client_id: String,
        secret: Secret,
        more: Vec<(&'static str, String)>,
        /// Held while a token is asked for, so that one call asks and the others wait.
        token: Box<tokio::sync::Mutex<Known>>,
    },
}

/// What is known of the issuer.
#[derive(Default)]
struct Known {
    token: Option<Token>,
    /// The last request's failure, and until when it is given to other calls, in milliseconds since 1970.
    failed: Option<(u64, Fault)>,
}

/// A secret, and the file that it comes from.
struct Secret {
    file: Option<PathBuf>,
    /// The text, and when its file was changed last.
    read: Mutex<(String, Option<SystemTime>)>,
}

struct Token {
    value: String,
    /// From when on another one is asked for, in milliseconds since 1970.
    replace_at: u64,
    /// Until when it is good.
    ends_at: u64,
}

/// The header of one call, and the secrets in it.
pub(crate) struct Shown {
    pub name: HeaderName,
    pub value: HeaderValue,
    pub secrets: Vec<String>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}

impl Secret {
    fn new(reference: &SecretRef) -> Result<Self, HttpSettingsError> {
        let bad = |what: String| HttpSettingsError::Secret(what);
        let (file, text) = match reference {
            SecretRef::Env(name) => {
                #[expect(
                    clippy::disallowed_methods,
                    reason = "read once, when agents are made at the start"
                )]
                let text = std::env::var(name)
                    .map_err(|_| bad(format!("the environment variable {name} is not set")))?;
                (None, text.trim().to_owned())
            }
            SecretRef::File(file) => {
                let text = read(file).map_err(bad)?;
                (Some(file.clone()), text)
            }
        };
        if text.is_empty() {
            return Err(bad(match reference {
                SecretRef::Env(name) => format!("the environment variable {name} is empty"),
                SecretRef::File(file) => format!("{} is empty", file.display()),
            }));
        }
        let changed = file.as_ref().and_then(changed);
        Ok(Self {
            file,
            read: Mutex::new((text, changed)),
        })
    }

    /// The secret as it is now. While its file cannot be read, as in the moment of a rotation, the last one counts.
    fn now(&self) -> String {
        let mut known = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = &self.file {
            let changed = changed(file);
            if changed.is_some() && changed != known.1 {
                match read(file) {
                    Ok(text) if !text.is_empty() => *known = (text, changed),
                    Ok(_) => tracing::warn!(file = %file.display(), "a secret's file is empty"),
                    Err(why) => tracing::warn!(why, "a secret cannot be read again"),
                }
            }
        }
        known.0.clone()
    }
}

fn changed(file: &PathBuf) -> Option<SystemTime> {
    std::fs::metadata(file).ok()?.modified().ok()
}

fn read(file: &PathBuf) -> Result<String, String> {
    use std::io::Read as _;
    let why = |e: std::io::Error| format!("{}: {e}", file.display());
    let open = std::fs::File::open(file).map_err(why)?;
    let mut text = String::new();
    let read = open.take(MAX_SECRET_BYTES + 1).read_to_string(&mut text);
    match read.map_err(why)? as u64 > MAX_SECRET_BYTES {
        true => Err(format!(
            "{} has more than {MAX_SECRET_BYTES} bytes",
            file.display()
        )),
        false => Ok(text.trim().to_owned()),
    }
}

impl Credentials {
    /// Reads the secrets.
    ///
    /// # Errors
    /// [`HttpSettingsError::Secret`] if one cannot be read, with where it should be; [`HttpSettingsError::Header`] and
    /// [`HttpSettingsError::TokenUrl`] if these are none.
    pub(crate) fn new(auth: &Auth) -> Result<Self, HttpSettingsError> {
        let header = |name, prefix, user, secret: &SecretRef| {
            Ok::<_, HttpSettingsError>(Kind::Header {
                name,
                prefix,
                user,
                secret: Secret::new(secret)?,
            })
        };
        let kind = match auth {
            Auth::Bearer(token) => header(AUTHORIZATION, "Bearer ", None, token)?,
            Auth::Basic { user, password } => {
                header(AUTHORIZATION, "Basic ", Some(user.clone()), password)?
            }
            Auth::Header { name, value } => {
                let bad = |_| HttpSettingsError::Header(name.clone());
                header(HeaderName::try_from(name).map_err(bad)?, "", None, value)?
            }
            Auth::Oauth2 {
                token_url,
                client_id,
                client_secret,
                scope,
                audience,
            } => {
                let url = Url::parse(token_url).ok();
                let url = url.filter(|url| matches!(url.scheme(), "http" | "https"));
                let more = [("scope", scope), ("audience", audience)].into_iter();
                let more = more.filter_map(|(name, value)| Some((name, value.clone()?)));
                Kind::Oauth2 {
                    token_url: url.ok_or(HttpSettingsError::TokenUrl)?,
                    client_id: client_id.clone(),
                    secret: Secret::new(client_secret)?,
                    more: more.collect(),
                    token: Box::default(),
                }
            }
        };
        Ok(Self(Arc::new(kind)))
    }

    /// The header of a call that may take `time_left`.
    ///
    /// # Errors
    /// The fault of a call that was not made because there is no token: it had no effect.
    pub(crate) async fn show(&self, client: &Client, time_left: Duration) -> Result<Shown, Fault> {
        match &*self.0 {
            Kind::Header {
                name,
                prefix,
                user,
                secret,
            } => {
                let secret = secret.now();
                let mut secrets = vec![secret.clone()];
                let text = match user {
                    None => format!("{prefix}{secret}"),
                    Some(user) => {
                        let encoded = base64(format!("{user}:{secret}").as_bytes());
                        secrets.push(encoded.clone());
                        format!("{prefix}{encoded}")
                    }
                };
                shown(name.clone(), &text, secrets)
            }
            Kind::Oauth2 {
                secret, token_url, ..
            } => {
                let most = TOKEN_TIMEOUT.min(time_left / 2);
                let token = tokio::time::timeout(most, self.token(client)).await;
                let token = token.unwrap_or_else(|_| {
                    let text = format!("{} has issued no token in time", host(token_url));
                    Err(transient("no-token", text, None, false))
                })?;
                let text = format!("Bearer {token}");
                shown(AUTHORIZATION, &text, vec![token, secret.now()])
            }
        }
    }

    /// Forgets a token that the service did not accept, so that the next call asks for another one.
    pub(crate) async fn refused(&self) {
        if let Kind::Oauth2 { token, .. } = &*self.0 {
            token.lock().await.token = None;
        }
    }

    async fn token(&self, client: &Client) -> Result<String, Fault> {
        let Kind::Oauth2 {
            token_url,
            client_id,
            secret,
            more,
            token,
        } = &*self.0
        else {
            return Ok(String::new());
        };
        let mut known = token.lock().await;
        let now = SystemClock.now().0;
        if let Some(token) = known.token.as_ref().filter(|token| now < token.replace_at) {
            return Ok(token.value.clone());
        }
        let good = known.token.as_ref().filter(|token| now < token.ends_at);
        if let Some((until, fault)) = &known.failed
            && now < *until
        {
            return good.map_or_else(|| Err(fault.clone()), |token| Ok(token.value.clone()));
        }
        let secret = secret.now();
        let evidence = Evidence::of(Method::POST, token_url, std::slice::from_ref(&secret));
        let form = form_urlencoded::Serializer::new(String::new())
            .append_pair("grant_type", "client_credentials")
            .append_pair("client_id", client_id)
            .append_pair("client_secret", &secret)
            .extend_pairs(more)
            .finish();
        let asked = client
            .post(token_url.clone())
            .timeout(TOKEN_TIMEOUT)
            .header("content-type", "application/x-www-form-urlencoded")
            .header("accept", "application/json")
            .body(form);
        let answer = match asked.send().await {
            Ok(response) => issued(receive(response).await.json(), now, &evidence),
            Err(error) => Err(evidence.unanswered(error)),
        };
        match answer {
            Ok(token) => {
                let value = token.value.clone();
                *known = Known {
                    token: Some(token),
                    failed: None,
                };
                Ok(value)
            }
            Err(fault) => {
                let fault = match fault {
                    Fault::Transient { message, .. } => transient("no-token", message, None, false),
                    other => other,
                };
                let value = good.map(|token| token.value.clone());
                known.failed = Some((now.saturating_add(FAILURE_LASTS), fault.clone()));
                // While the issuer is away a token that is still good is shown.
                value.ok_or(fault)
            }
        }
    }
}

fn host(url: &Url) -> &str {
    url.host_str().unwrap_or_default()
}

/// The token of an issuer's answer.
fn issued((status, body): (u16, Value), now: u64, evidence: &Evidence) -> Result<Token, Fault> {
    let said = |text: &str| format!("{} answered {status}: {text}", evidence.call());
    let value = body["access_token"]
        .as_str()
        .filter(|token| !token.is_empty());
    if let (200..=299, Some(value)) = (status, value) {
        let life = body["expires_in"].as_u64().map(|s| s.saturating_mul(1_000));
        let life = life.unwrap_or(DEFAULT_LIFE);
        return Ok(Token {
            value: value.to_owned(),
            replace_at: now.saturating_add(life.saturating_sub(AHEAD.max(life / 10))),
            ends_at: now.saturating_add(life),
        });
    }
    let why = body["error"].as_str().unwrap_or("no token");
    match status {
        400..=499 if status != 429 && status != 408 => Err(Fault::CallerRefused {
            code: "no-token".to_owned(),
            message: said(why),
            maybe_applied: false,
        }),
        _ => Err(transient("no-token", said(why), None, false)),
    }
}

fn shown(name: HeaderName, text: &str, secrets: Vec<String>) -> Result<Shown, Fault> {
    let mut value = HeaderValue::try_from(text).map_err(|_| Fault::CallerRefused {
        code: "bad-secret".to_owned(),
        message: "the agent's secret has characters that no header can have".to_owned(),
        maybe_applied: false,
    })?;
    value.set_sensitive(true);
    Ok(Shown {
        name,
        value,
        secrets,
    })
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
