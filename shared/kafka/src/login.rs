//! Logging in to Kafka: the settings of librdkafka for each way, and tokens that are renewed.
//!
//! A token is asked for by librdkafka's own timer, once a second, when four fifths of its life are
//! over on the wall clock. A sandbox that was frozen meanwhile wakes up with a token that is dead:
//! what is to be sent then waits until the timer has had a new one ([`Tokens::fresh`]), instead of
//! opening connections that the brokers refuse.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use rdkafka::client::OAuthToken;
use rdkafka::consumer::{Consumer, StreamConsumer};
use rdkafka::error::{KafkaError as RdError, RDKafkaErrorCode};
use rdkafka::{ClientConfig, ClientContext};
use tokio::sync::watch;
use triad_core::Timestamp;
use triad_runtime::Clock;
use triad_runtime::system::SystemClock;

/// Longest wait for a new token before something is sent with the old one.
const TOKEN_WITHIN: Duration = Duration::from_secs(5);
/// A token that has less left than this counts as dead: the brokers' clocks differ from ours.
const TOKEN_MARGIN_MS: u64 = 10_000;

/// How to log in to the brokers.
#[derive(Clone, Default)]
pub struct Login {
    /// With what.
    pub credentials: Credentials,
    /// Certificates (PEM) that the brokers' must descend from. `None`: the system's.
    pub ca: Option<String>,
}

/// With what to log in.
#[derive(Clone, Default)]
pub enum Credentials {
    /// Without encryption and credentials.
    #[default]
    Plaintext,
    /// Encrypted, without credentials.
    Tls,
    /// User name and password, by SCRAM over TLS; SHA-512 unless the settings say otherwise.
    Scram {
        /// User name.
        username: String,
        /// Password.
        password: String,
    },
    /// A client certificate.
    Mtls {
        /// The certificate and those between it and its root, in PEM.
        certificate: String,
        /// Its key, in PEM.
        private_key: String,
        /// The key's password, if it is encrypted.
        private_key_password: Option<String>,
    },
    /// Tokens (`OAUTHBEARER`) over TLS.
    Tokens(Arc<dyn TokenSource>),
}

/// Where tokens come from.
pub trait TokenSource: Send + Sync {
    /// Makes a token. Called from a thread of librdkafka's client, or from one of an async
    /// runtime: it may take a while, and must not need a runtime of its caller's.
    ///
    /// # Errors
    /// Why there is none; it is asked for again after ten seconds.
    fn token(&self) -> Result<Token, String>;
}

/// A token.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// As the brokers take it.
    pub value: String,
    /// Whose it is, for the logs of librdkafka.
    pub principal: String,
    /// When it ends.
    pub expires: Timestamp,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = match &self.credentials {
            Credentials::Plaintext => "plaintext",
            Credentials::Tls => "tls",
            Credentials::Scram { .. } => "scram",
            Credentials::Mtls { .. } => "mtls",
            Credentials::Tokens(_) => "tokens",
        };
        // Never the credentials: configurations end up in logs.
        f.debug_tuple("Login").field(&way).finish()
    }
}

impl Login {
    /// Sets what librdkafka must know.
    pub(crate) fn apply(&self, config: &mut ClientConfig) {
        let protocol = match &self.credentials {
            Credentials::Plaintext => return,
            Credentials::Tls | Credentials::Mtls { .. } => "ssl",
            Credentials::Scram { .. } | Credentials::Tokens(_) => "sasl_ssl",
        };
        config.set("security.protocol", protocol);
        match &self.ca {
            Some(pem) => config.set("ssl.ca.pem", pem),
            None => config.set("ssl.ca.location", crate::roots::location()),
        };
        match &self.credentials {
            Credentials::Plaintext | Credentials::Tls => {}
            Credentials::Scram { username, password } => {
                config.set("sasl.mechanisms", "SCRAM-SHA-512");
                config.set("sasl.username", username);
                config.set("sasl.password", password);
            }
            Credentials::Mtls {
                certificate,
                private_key,
                private_key_password,
            } => {
                config.set("ssl.certificate.pem", certificate);
                config.set("ssl.key.pem", private_key);
                if let Some(password) = private_key_password {
                    config.set("ssl.key.password", password);
                }
            }
            Credentials::Tokens(_) => {
                config.set("sasl.mechanisms", "OAUTHBEARER");
            }
        }
    }

    /// What a client needs besides the settings.
    pub(crate) fn context(&self) -> Context {
        let tokens = match &self.credentials {
            Credentials::Tokens(source) => Some(Arc::new(Tokens::new(source.clone()))),
            _ => None,
        };
        Context { tokens }
    }
}

/// Tokens of one client.
pub(crate) struct Tokens {
    source: Arc<dyn TokenSource>,
    /// When the present one ends; 0 before there is one.
    expires: watch::Sender<u64>,
}

impl Tokens {
    fn new(source: Arc<dyn TokenSource>) -> Self {
        Self {
            source,
            expires: watch::Sender::new(0),
        }
    }

    fn renew(&self) -> Result<Token, String> {
        let token = self.source.token()?;
        self.expires.send_replace(token.expires.0);
        Ok(token)
    }

    /// Waits until there is a token that is alive on the wall clock, for a bounded time.
    pub(crate) async fn fresh(&self) {
        let mut expires = self.expires.subscribe();
        let alive = |ends: &u64| *ends > SystemClock.now().0 + TOKEN_MARGIN_MS;
        let waited = tokio::time::timeout(TOKEN_WITHIN, expires.wait_for(alive)).await;
        if waited.is_err() {
            tracing::warn!("no new token for Kafka; it is tried with the old one");
        }
    }
}

/// What every client of ours is made with.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) tokens: Option<Arc<Tokens>>,
}

impl ClientContext for Context {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn generate_oauth_token(
        &self,
        _config: Option<&str>,
    ) -> Result<OAuthToken, Box<dyn std::error::Error>> {
        let tokens = self.tokens.as_ref().ok_or("no tokens are configured")?;
        let token = tokens.renew().inspect_err(|error| {
            tracing::warn!(error, "no token for Kafka");
        })?;
        Ok(OAuthToken {
            token: token.value,
            principal_name: token.principal,
            lifetime_ms: i64::try_from(token.expires.0)?,
        })
    }

    fn error(&self, error: RdError, reason: &str) {
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::PartitionEOF) {
            return; // No fault: who asked to be told of a partition's end.
        }
        // librdkafka connects again by itself; people are told where it tries.
        tracing::warn!(%error, reason, "Kafka");
    }
}

/// Polls a consumer until it has had its first token: what is asked of a consumer that nobody
/// polls waits for it in vain. Returns at once where there are no tokens.
pub(crate) fn await_token(consumer: &StreamConsumer<Context>) {
    let Some(tokens) = consumer.context().tokens.clone() else {
        return;
    };
    let began = Instant::now();
    while *tokens.expires.borrow() == 0 && began.elapsed() < TOKEN_WITHIN {
        // Nothing is assigned to it yet, so nothing is lost.
        let _ = consumer.recv().now_or_never();
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KafkaConfig;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn settings(credentials: Credentials, ca: Option<&str>) -> ClientConfig {
        let mut config = KafkaConfig::new("b:9092");
        config.login = Login {
            credentials,
            ca: ca.map(str::to_owned),
        };
        config.client(&[])
    }

    fn scram() -> Credentials {
        Credentials::Scram {
            username: "u".into(),
            password: "secret".into(),
        }
    }

    #[test]
    fn each_way_to_log_in_has_its_settings_and_no_other() {
        let mtls = Credentials::Mtls {
            certificate: "CERT".into(),
            private_key: "KEY".into(),
            private_key_password: Some("secret".into()),
        };
        let tokens = Credentials::Tokens(Arc::new(Dying::default()));
        type Expected = &'static [(&'static str, &'static str)];
        let cases: [(Credentials, Expected); 5] = [
            (Credentials::Plaintext, &[]),
            (Credentials::Tls, &[("security.protocol", "ssl")]),
            (
                scram(),
                &[
                    ("security.protocol", "sasl_ssl"),
                    ("sasl.mechanisms", "SCRAM-SHA-512"),
                    ("sasl.username", "u"),
                    ("sasl.password", "secret"),
                ],
            ),
            (
                mtls,
                &[
                    ("security.protocol", "ssl"),
                    ("ssl.certificate.pem", "CERT"),
                    ("ssl.key.pem", "KEY"),
                    ("ssl.key.password", "secret"),
                ],
            ),
            (
                tokens,
                &[
                    ("security.protocol", "sasl_ssl"),
                    ("sasl.mechanisms", "OAUTHBEARER"),
                ],
            ),
        ];
        for (credentials, expected) in cases {
            let config = settings(credentials, None);
            let security = |name: &str| {
                ["security.", "sasl.", "ssl."]
                    .iter()
                    .any(|p| name.starts_with(p))
                    && name != "ssl.ca.location"
            };
            // The map hides secrets; `get` does not.
            let names = config.config_map().into_keys().filter(|n| security(n));
            let mut found: Vec<_> = names
                .map(|n| (n, config.get(n).unwrap_or_default()))
                .collect();
            let mut expected = expected.to_vec();
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_private_ca_takes_the_place_of_the_system_s() {
        let config = settings(Credentials::Tls, Some("CA"));
        assert_eq!(config.get("ssl.ca.pem"), Some("CA"));
        assert_eq!(config.get("ssl.ca.location"), None);
        let config = settings(Credentials::Tls, None);
        assert_eq!(
            config.get("ssl.ca.location"),
            Some(crate::roots::location())
        );
    }

    #[test]
    fn the_user_s_settings_win_over_the_mechanism() {
        let mut config = KafkaConfig::new("b:9092");
        config.login.credentials = scram();
        config.extra = vec![("sasl.mechanisms".into(), "SCRAM-SHA-256".into())];
        let client = config.client(&[]);
        assert_eq!(client.get("sasl.mechanisms"), Some("SCRAM-SHA-256"));
    }

    #[test]
    fn no_credential_is_shown() {
        let mut config = KafkaConfig::new("b:9092");
        config.login.credentials = scram();
        let shown = format!("{config:?}");
        assert!(!shown.contains("secret"), "{shown}");
    }

    /// The first token is dead, every later one lives for an hour.
    #[derive(Default)]
    struct Dying(AtomicU64);

    impl TokenSource for Dying {
        fn token(&self) -> Result<Token, String> {
            let hours = self.0.fetch_add(1, Ordering::Relaxed);
            Ok(Token {
                value: "t".into(),
                principal: "p".into(),
                expires: Timestamp(SystemClock.now().0 + hours * 3_600_000),
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_to_be_sent_waits_for_a_token_that_is_alive() {
        let tokens = Tokens::new(Arc::new(Dying::default()));
        // No token, then a dead one: waited for in vain, and for a bounded time.
        for _ in 0..2 {
            let began = tokio::time::Instant::now();
            tokens.fresh().await;
            assert_eq!(began.elapsed(), TOKEN_WITHIN);
            tokens.renew().unwrap();
        }
        let began = tokio::time::Instant::now();
        tokens.fresh().await;
        assert!(began.elapsed().is_zero());
    }
}
