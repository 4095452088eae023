//! How the installation logs in to Kafka, and where its credentials are.

#[cfg(feature = "aws")]
use triad_aws::Account;
#[cfg(feature = "aws")]
use triad_kafka::Login;

/// The way in which an installation logs in to Kafka. Parsing one fails with a text that lists the five names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Way {
    /// `none`: neither encryption nor credentials.
    #[default]
    None,
    /// `tls`: encryption, and no credentials.
    Tls,
    /// `scram`: user name and password (SASL/SCRAM) over TLS.
    Scram,
    /// `mtls`: a client certificate over TLS.
    Mtls,
    /// `msk-iam`: tokens of MSK's access control over TLS.
    MskIam,
}

/// The error of reading a [`Way`]: the text, given here, is none of their names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not one of none, tls, scram, mtls, msk-iam")]
pub struct UnknownWay(pub String);

impl std::str::FromStr for Way {
    type Err = UnknownWay;

    fn from_str(text: &str) -> Result<Self, UnknownWay> {
        Ok(match text {
            "none" => Self::None,
            "tls" => Self::Tls,
            "scram" => Self::Scram,
            "mtls" => Self::Mtls,
            "msk-iam" => Self::MskIam,
            other => return Err(UnknownWay(other.to_owned())),
        })
    }
}

/// The error of reading the credentials for Kafka: the reason, for people.
#[cfg(feature = "aws")]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LoginError(String);

/// The way of the login to Kafka, and its secrets in Secrets Manager.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuthConfig {
    /// The way of the login (`TRIAD_KAFKA_AUTH`; absent: `none`).
    pub way: Way,
    /// ARN or name of the secret with the credentials (`TRIAD_KAFKA_SECRET`): needed for `scram`
    /// and `mtls`, and `None` for the others.
    pub secret: Option<String>,
    /// ARN or name of the secret with the brokers' root certificates (`TRIAD_KAFKA_CA_SECRET`).
    /// `None`: those of the system.
    pub ca_secret: Option<String>,
}

impl AuthConfig {
    /// The problems of the settings: one line for each, which begins with the setting's name. Empty if the settings
    /// are valid.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let needs_secret = matches!(self.way, Way::Scram | Way::Mtls);
        if needs_secret && self.secret.is_none() {
            problems.push("TRIAD_KAFKA_SECRET: is missing; scram and mtls read their credentials from a secret".to_owned());
        }
        if !needs_secret && self.secret.is_some() {
            problems.push(
                "TRIAD_KAFKA_SECRET: is read with TRIAD_KAFKA_AUTH scram or mtls only".to_owned(),
            );
        }
        if self.way == Way::None && self.ca_secret.is_some() {
            problems.push(
                "TRIAD_KAFKA_CA_SECRET: there is no TLS with TRIAD_KAFKA_AUTH none".to_owned(),
            );
        }
        if self.way != Way::None && !cfg!(feature = "kafka-auth") {
            problems.push("TRIAD_KAFKA_AUTH: this program was built without TLS; build it with --features kafka-auth".to_owned());
        }
        problems
    }

    /// Reads the credentials: the secrets, with this account. For `msk-iam` each token is signed with the account's
    /// credentials later.
    ///
    /// # Errors
    /// [`LoginError`]: a secret cannot be read or has another form, or `scram` or `mtls` has no secret.
    #[cfg(feature = "kafka-auth")]
    pub async fn log_in(&self, account: &Account) -> Result<Login, LoginError> {
        use std::sync::Arc;
        use triad_kafka::Credentials;
        use triad_kafka_auth::{MskTokens, SecretError, Secrets};

        let failed = |e: SecretError| LoginError(e.to_string());
        let secrets = match (&self.secret, &self.ca_secret) {
            (None, None) => None,
            _ => Some(Secrets::connect(account).await),
        };
        let ca = match (&secrets, &self.ca_secret) {
            (Some(secrets), Some(id)) => Some(secrets.ca(id).await.map_err(failed)?),
            _ => None,
        };
        let credentials = match (self.way, &secrets, &self.secret) {
            (Way::None, ..) => Credentials::Plaintext,
            (Way::Tls, ..) => Credentials::Tls,
            (Way::MskIam, ..) => Credentials::Tokens(Arc::new(MskTokens::new(account.clone()))),
            (Way::Scram, Some(secrets), Some(id)) => secrets.scram(id).await.map_err(failed)?,
            (Way::Mtls, Some(secrets), Some(id)) => secrets.mtls(id).await.map_err(failed)?,
            (Way::Scram | Way::Mtls, ..) => return Err(LoginError(self.problems().join("; "))),
        };
        Ok(Login { credentials, ca })
    }

    /// Without the feature `kafka-auth` only [`Way::None`] can be used.
    ///
    /// # Errors
    /// [`LoginError`] with the text of [`Self::problems`], for any other way.
    #[cfg(all(feature = "aws", not(feature = "kafka-auth")))]
    pub async fn log_in(&self, _account: &Account) -> Result<Login, LoginError> {
        match self.way {
            Way::None => Ok(Login::default()),
            _ => Err(LoginError(self.problems().join("; "))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(way: &str, secret: bool, ca: bool) -> AuthConfig {
        AuthConfig {
            way: way.parse().unwrap(),
            secret: secret.then(|| "arn:s".to_owned()),
            ca_secret: ca.then(|| "arn:ca".to_owned()),
        }
    }

    #[test]
    fn secrets_are_wanted_where_they_are_read_and_nowhere_else() {
        let named =
            |config: &AuthConfig, name: &str| config.problems().iter().any(|p| p.starts_with(name));
        for way in ["none", "tls", "msk-iam"] {
            assert!(
                named(&config(way, true, false), "TRIAD_KAFKA_SECRET"),
                "{way}"
            );
            assert!(
                !named(&config(way, false, false), "TRIAD_KAFKA_SECRET"),
                "{way}"
            );
        }
        for way in ["scram", "mtls"] {
            assert!(
                named(&config(way, false, true), "TRIAD_KAFKA_SECRET"),
                "{way}"
            );
            assert!(
                !named(&config(way, true, true), "TRIAD_KAFKA_SECRET"),
                "{way}"
            );
        }
        assert!(named(&config("none", false, true), "TRIAD_KAFKA_CA_SECRET"));
        assert!("kerberos".parse::<Way>().is_err());
    }

    #[test]
    fn a_program_without_tls_says_so() {
        let said = config("tls", false, false).problems();
        assert_eq!(said.is_empty(), cfg!(feature = "kafka-auth"), "{said:?}");
    }
}
