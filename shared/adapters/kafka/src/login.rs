//! Logging in to Kafka: the settings of librdkafka for each way.

use std::fmt;
use std::sync::Arc;

use rdkafka::ClientConfig;

use crate::context::Context;
use crate::tokens::{TokenSource, Tokens};

/// How to log in to the brokers. `Debug` shows the way, and never the credentials.
#[derive(Clone, Default)]
pub struct Login {
    /// The credentials, and with them whether the connection is encrypted.
    pub credentials: Credentials,
    /// Root certificates (PEM) that must have issued the brokers' certificates. `None`: the root certificates of the
    /// system. Not used without encryption.
    pub ca: Option<String>,
}

/// The credentials for the login, and whether the connection is encrypted. The default is
/// [`Plaintext`](Self::Plaintext).
#[derive(Clone, Default)]
pub enum Credentials {
    /// No encryption and no credentials.
    #[default]
    Plaintext,
    /// TLS, without credentials.
    Tls,
    /// User name and password, by SCRAM over TLS. The mechanism is SCRAM-SHA-512, unless
    /// [`KafkaConfig::extra`](crate::KafkaConfig::extra) sets `sasl.mechanisms`.
    Scram {
        /// The user's name.
        username: String,
        /// The user's password. A secret.
        password: String,
    },
    /// A client certificate, over TLS.
    Mtls {
        /// The certificate, and those between it and its root, in PEM.
        certificate: String,
        /// The certificate's private key, in PEM. A secret.
        private_key: String,
        /// The password of the private key; `None` if the key is not encrypted. A secret.
        private_key_password: Option<String>,
    },
    /// Tokens (SASL `OAUTHBEARER`) over TLS, from this source.
    Tokens(Arc<dyn TokenSource>),
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
        // Without the credentials: configurations end up in logs.
        f.debug_tuple("Login").field(&way).finish()
    }
}

impl Login {
    /// Sets librdkafka's settings for the login.
    pub(crate) fn apply(&self, config: &mut ClientConfig) {
        let protocol = match &self.credentials {
            Credentials::Plaintext => return,
            Credentials::Tls | Credentials::Mtls { .. } => "ssl",
            Credentials::Scram { .. } | Credentials::Tokens(_) => "sasl_ssl",
        };
        config.set("security.protocol", protocol);
        match &self.ca {
            Some(pem) => config.set("ssl.ca.pem", pem),
            None => config.set("ssl.ca.location", crate::root_certificates::location()),
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

    /// The context of a client with this login.
    pub(crate) fn context(&self, prefix: &str) -> Context {
        let tokens = match &self.credentials {
            Credentials::Tokens(source) => Some(Arc::new(Tokens::new(source.clone()))),
            _ => None,
        };
        Context::new(tokens, prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KafkaConfig, Token, TokenError};

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
        let tokens = Credentials::Tokens(Arc::new(NoTokens));
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
            Some(crate::root_certificates::location())
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

    struct NoTokens;

    impl TokenSource for NoTokens {
        fn token(&self) -> Result<Token, TokenError> {
            Err(TokenError("there are none".into()))
        }
    }
}
