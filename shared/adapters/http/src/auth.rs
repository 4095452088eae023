//! The credentials that an agent sends to its service. Settings name them by reference; they are read again when they
//! change.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use reqwest::{Client, Method, Request, Url};
use serde::Deserialize;
use serde_json::Value;
use triad_runtime::system::SystemClock;
use triad_runtime::{Clock as _, Fault};

use super::answer::receive;
use super::aws::{AwsAccount, Keys, Signer};
use super::evidence::Evidence;
use super::secret::{Secret, SecretRef};
use super::{HttpSettingsError, base64, transient};

/// How long before its end a token is replaced, at least; a tenth of its life if that is more.
const AHEAD: u64 = 60_000;
/// Life of a token whose answer does not say it, in milliseconds.
const DEFAULT_LIFE: u64 = 300_000;
/// Longest wait of a call for a token or a secret. It also ends after half of the call's time, so that the call ends as
/// not made. A call whose whole time has passed would be in doubt.
pub(crate) const TOKEN_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the failure of a request for a token counts for other calls, in milliseconds. Then the issuer is asked
/// again.
const FAILURE_LASTS: u64 = 1_000;

/// The credentials of an agent, in the form that its service takes.
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
    /// A bearer token by client credentials (RFC 6749, section 4.4), replaced before its end.
    Oauth2 {
        /// URL of the issuer of tokens: an absolute `http` or `https` URL.
        token_url: String,
        /// Id of this client.
        client_id: String,
        /// Its secret.
        client_secret: SecretRef,
        /// The scopes to ask for, separated by blanks. Absent: the request names none.
        #[serde(default)]
        scope: Option<String>,
        /// The audience to ask for, which some issuers need. Absent: the request names none.
        #[serde(default)]
        audience: Option<String>,
    },
    /// A signature of the request with the credentials of the program's role (AWS Signature Version 4), for APIs that
    /// use the access control of AWS.
    Sigv4 {
        /// Name of the service in signatures, such as `execute-api` or `lambda`.
        service: String,
        /// The region. Absent: that of the program.
        #[serde(default)]
        region: Option<String>,
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
        /// Locked during a request for a token, so that one call sends it and the others wait.
        token: Box<tokio::sync::Mutex<Known>>,
    },
    Sigv4(Box<Signer>),
}

/// The results of requests to the issuer so far.
#[derive(Default)]
struct Known {
    token: Option<Token>,
    /// The last request's failure, and until when it counts for other calls, in milliseconds since 1970.
    failed: Option<(u64, Fault)>,
}

struct Token {
    value: String,
    /// When to ask for another token, in milliseconds since 1970.
    replace_at: u64,
    /// When the token ends, in milliseconds since 1970.
    ends_at: u64,
}

/// The credentials of one call.
pub(crate) enum Shown {
    /// A header, and the secrets in it.
    Header {
        name: HeaderName,
        value: HeaderValue,
        secrets: Vec<String>,
    },
    /// A signature.
    Signature(Box<Keys>),
}

impl Shown {
    /// The secrets in the call.
    pub(crate) fn secrets(&self) -> Vec<String> {
        match self {
            Self::Header { secrets, .. } => secrets.clone(),
            Self::Signature(keys) => keys.secrets(),
        }
    }

    /// Adds the header, or a signature of the request. After a signature the request must not change.
    ///
    /// # Errors
    /// The fault of a call that was not made because its request cannot be signed.
    pub(crate) fn add(self, request: &mut Request) -> Result<(), Fault> {
        match self {
            Self::Header { name, value, .. } => {
                request.headers_mut().append(name, value);
                Ok(())
            }
            Self::Signature(keys) => keys.sign(request),
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}

impl Credentials {
    /// Reads the secrets of the environment and of files.
    ///
    /// # Errors
    /// [`HttpSettingsError::Secret`] if a secret cannot be read; its text says where it should be.
    /// [`HttpSettingsError::Header`] or [`HttpSettingsError::TokenUrl`] if the header's name or the URL is not valid.
    /// [`HttpSettingsError::NoAws`] if the credentials need an account of AWS and there is none.
    pub(crate) fn new(auth: &Auth, aws: &AwsAccount) -> Result<Self, HttpSettingsError> {
        let header = |name, prefix, user, secret: &SecretRef| {
            Ok::<_, HttpSettingsError>(Kind::Header {
                name,
                prefix,
                user,
                secret: Secret::new(secret, aws)?,
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
                    secret: Secret::new(client_secret, aws)?,
                    more: more.collect(),
                    token: Box::default(),
                }
            }
            Auth::Sigv4 { service, region } => {
                let signer = Signer::new(aws, "auth: sigv4", service, region.clone())?;
                Kind::Sigv4(Box::new(signer))
            }
        };
        Ok(Self(Arc::new(kind)))
    }

    /// The credentials of a call that may take `time_left`.
    ///
    /// # Errors
    /// The fault of a call that was not made because there is no token or no secret: it had no effect.
    pub(crate) async fn show(&self, client: &Client, time_left: Duration) -> Result<Shown, Fault> {
        let most = TOKEN_TIMEOUT.min(time_left / 2);
        match &*self.0 {
            Kind::Header {
                name,
                prefix,
                user,
                secret,
            } => {
                let secret = secret.now(most).await?;
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
                let token = tokio::time::timeout(most, self.token(client)).await;
                let token = token.unwrap_or_else(|_| {
                    let text = format!("{} has issued no token in time", host(token_url));
                    Err(transient("no-token", text, None, false))
                })?;
                let text = format!("Bearer {token}");
                let secrets = std::iter::once(token).chain(secret.at_hand());
                shown(AUTHORIZATION, &text, secrets.collect())
            }
            Kind::Sigv4(signer) => Ok(Shown::Signature(Box::new(signer.keys(most).await?))),
        }
    }

    /// Notes that the service refused the caller that sent these secrets, with this status. After `401` the next call reads a secret of Secrets
    /// Manager again, or asks for another token. With signatures the next call asks for the role's credentials again
    /// after any status, because AWS refuses callers with several.
    pub(crate) fn refused(&self, status: u16, sent: &[String]) {
        match &*self.0 {
            Kind::Header { secret, .. } if status == 401 => secret.refused(),
            Kind::Oauth2 { token, .. } if status == 401 => {
                // If the lock is held, another call is asking for a token already.
                if let Ok(mut known) = token.try_lock() {
                    let was_sent = |token: &mut Token| sent.contains(&token.value);
                    known.token.take_if(was_sent);
                }
            }
            Kind::Sigv4(signer) => signer.refused(),
            _ => {}
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
        let from = secret;
        let secret = match (from.now(TOKEN_TIMEOUT).await, good) {
            (Ok(secret), _) => secret,
            (Err(_), Some(token)) => return Ok(token.value.clone()),
            (Err(fault), None) => return Err(fault),
        };
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
                if matches!(fault, Fault::CallerRefused { .. }) {
                    from.refused();
                }
                let fault = match fault {
                    Fault::Transient { message, .. } => transient("no-token", message, None, false),
                    other => other,
                };
                let value = good.map(|token| token.value.clone());
                known.failed = Some((now.saturating_add(FAILURE_LASTS), fault.clone()));
                // While the issuer gives no new token, the old one is used until its end.
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
        message: "the agent's secret has characters that a header cannot have: remove line ends and control characters from it"
            .to_owned(),
        maybe_applied: false,
    })?;
    value.set_sensitive(true);
    Ok(Shown::Header {
        name,
        value,
        secrets,
    })
}
