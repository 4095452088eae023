//! The HTTP client of an agent. Another one is made when the certificates that it presents or trusts have changed.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::{Client, ClientBuilder, redirect};
use serde::Deserialize;
use triad_runtime::system::SystemClock;
use triad_runtime::{Clock as _, Fault};

use super::aws::AwsAccount;
use super::secret::{Secret, SecretRef};
use super::tls::{client_builder, client_builder_with};
use super::{HttpSettingsError, within_the_origin};

/// Idle connections that are kept open to one host.
const IDLE_CONNECTIONS: usize = 64;
/// Least time between two checks for changed certificates, in milliseconds: 10 s.
const LOOK_EVERY: u64 = 10_000;

/// The certificates of an agent's connections, in PEM. At least one of `certificate` and `ca` is there.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The certificate that the agent presents (mutual TLS), followed by those of its issuers without the root. Absent:
    /// it presents none.
    #[serde(default)]
    pub certificate: Option<SecretRef>,
    /// The private key of `certificate`, without a password.
    #[serde(default)]
    pub key: Option<SecretRef>,
    /// The root certificates that the agent trusts for the service and for an issuer of tokens. Absent: those of the
    /// system.
    #[serde(default)]
    pub ca: Option<SecretRef>,
}

/// The client of an agent. Clones share it.
#[derive(Clone)]
pub(crate) enum Clients {
    /// One client that is never replaced.
    One(Client),
    /// A client that is replaced when its certificates change.
    Renewed(Arc<Renewed>),
}

pub(crate) struct Renewed {
    headers: HeaderMap,
    /// Certificate and key.
    identity: Option<(Secret, Secret)>,
    ca: Option<Secret>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    made: Option<Made>,
    /// The last certificates that could not be used. They are reported once.
    bad: Option<Texts>,
}

/// The certificate, the key and the root certificates that a client is made with.
type Texts = [Option<String>; 3];

struct Made {
    client: Client,
    texts: Texts,
    /// When the certificates were last checked for a change, in milliseconds since 1970.
    looked_at: u64,
}

impl Clients {
    /// A client with these headers in each request. Certificates of the environment and of files are read; those of
    /// Secrets Manager are read for the first call.
    ///
    /// # Errors
    /// [`HttpSettingsError::Tls`] if the certificates cannot be used, [`HttpSettingsError::Secret`] if one cannot be
    /// read, [`HttpSettingsError::NoAws`] if there is no account of AWS and they need one,
    /// [`HttpSettingsError::Client`] if no client can be made.
    pub(crate) fn new(
        headers: HeaderMap,
        tls: Option<&Tls>,
        aws: &AwsAccount,
    ) -> Result<Self, HttpSettingsError> {
        let Some(tls) = tls else {
            let client = finished(client_builder(), headers);
            return client.map(Self::One).map_err(HttpSettingsError::Client);
        };
        let secret = |reference| Secret::new(reference, aws);
        let identity = match (&tls.certificate, &tls.key) {
            (Some(certificate), Some(key)) => Some((secret(certificate)?, secret(key)?)),
            (None, None) if tls.ca.is_some() => None,
            _ => {
                let why = "needs a certificate and its key, or a ca, or all three";
                return Err(HttpSettingsError::Tls(why.to_owned()));
            }
        };
        let renewed = Renewed {
            headers,
            identity,
            ca: tls.ca.as_ref().map(secret).transpose()?,
            known: Mutex::default(),
        };
        let texts = renewed.secrets().map(|of| of.map(Secret::at_hand));
        // If one of them is in Secrets Manager, the first call makes the client.
        if !texts.iter().any(|text| matches!(text, Some(None))) {
            let made = renewed.made(texts.map(Option::flatten), SystemClock.now().0);
            made.map_err(HttpSettingsError::Tls)?;
        }
        Ok(Self::Renewed(Arc::new(renewed)))
    }

    /// The client for a call, which waits for Secrets Manager at most `within`. It checks at most every 10 s whether
    /// the certificates have changed. While they cannot be used, as in the middle of a rotation, the last client is
    /// used.
    ///
    /// # Errors
    /// The fault of a call that was not made because no certificates could be read or used so far.
    pub(crate) async fn now(&self, within: Duration) -> Result<Client, Fault> {
        let renewed = match self {
            Self::One(client) => return Ok(client.clone()),
            Self::Renewed(renewed) => renewed,
        };
        let now = SystemClock.now().0;
        if let Some(client) = renewed.last(|made| now < made.looked_at.saturating_add(LOOK_EVERY)) {
            return Ok(client);
        }
        let mut texts = Texts::default();
        for (text, secret) in texts.iter_mut().zip(renewed.secrets()) {
            if let Some(secret) = secret {
                *text = Some(secret.now(within / 3).await?);
            }
        }
        renewed.made(texts, now).or_else(|why| {
            let last = renewed.last(|_| true);
            last.ok_or_else(|| Fault::CallerRefused {
                code: "bad-certificate".to_owned(),
                message: format!("tls: {why}"),
                maybe_applied: false,
            })
        })
    }
}

impl Renewed {
    fn secrets(&self) -> [Option<&Secret>; 3] {
        let identity = self.identity.as_ref();
        let (certificate, key) = identity
            .map(|(certificate, key)| (certificate, key))
            .unzip();
        [certificate, key, self.ca.as_ref()]
    }

    /// The client that was made last, if `is_good` accepts it.
    fn last(&self, is_good: impl Fn(&Made) -> bool) -> Option<Client> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known
            .made
            .as_ref()
            .filter(|made| is_good(made))
            .map(|made| made.client.clone())
    }

    /// The client for these texts: the last one if its texts were the same, else a new one.
    fn made(&self, texts: Texts, now: u64) -> Result<Client, String> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = known.made.as_mut() {
            made.looked_at = now;
            if made.texts == texts {
                return Ok(made.client.clone());
            }
        }
        let [certificate, key, ca] = texts.each_ref().map(Option::as_deref);
        let builder = client_builder_with(certificate.zip(key), ca);
        let client = builder.and_then(|builder| finished(builder, self.headers.clone()));
        let client = client.inspect_err(|why| {
            if known.bad.as_ref() != Some(&texts) {
                tracing::warn!(why, "the certificates of an agent cannot be used");
                known.bad = Some(texts.clone());
            }
        })?;
        known.made = Some(Made {
            client: client.clone(),
            texts,
            looked_at: now,
        });
        Ok(client)
    }
}

fn finished(builder: ClientBuilder, headers: HeaderMap) -> Result<Client, String> {
    builder
        .redirect(redirect::Policy::custom(within_the_origin))
        .connect_timeout(Duration::from_secs(2))
        .pool_max_idle_per_host(IDLE_CONNECTIONS)
        .default_headers(headers)
        .build()
        .map_err(|e| e.to_string())
}
