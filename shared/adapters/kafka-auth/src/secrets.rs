//! Secrets with Kafka credentials.
//!
//! Source of the forms: AWS Lambda Developer Guide, "Configuring cluster authentication": the same
//! secret serves the mapping and the function.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use triad_aws::Account;
use triad_kafka::Credentials;

/// Why a secret cannot be used. The content of a secret is never in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// Secrets Manager does not return the secret, or the secret has no text.
    #[error("the secret {id} cannot be read: {reason}")]
    Unreadable {
        /// The ARN or name that was asked for.
        id: String,
        /// Why it cannot be read, in the client's words.
        reason: String,
    },
    /// The secret's text is not JSON of the form that this use needs.
    #[error("the secret {id} is not JSON of the form {form}")]
    Form {
        /// The ARN or name that was asked for.
        id: String,
        /// The form that the text must have, for people.
        form: &'static str,
    },
}

/// Reads secrets with Kafka credentials from Secrets Manager. The forms are those of Lambda's event
/// source mappings (AWS Lambda Developer Guide, "Configuring cluster authentication").
pub struct Secrets(triad_aws::Secrets);

#[derive(Deserialize)]
struct User {
    username: String,
    password: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClientCertificate {
    certificate: String,
    private_key: String,
    #[serde(default)]
    private_key_password: Option<String>,
}

#[derive(Deserialize)]
struct Ca {
    certificate: String,
}

impl Secrets {
    /// A client for this account's secrets, with the time limits of [`Account::load`]. Nothing is
    /// read yet.
    pub async fn connect(account: &Account) -> Self {
        Self(triad_aws::Secrets::connect(account).await)
    }

    /// Reads a user name and password for SCRAM. The secret is `{"username", "password"}`; other
    /// fields are ignored. `id` is its ARN or name.
    ///
    /// # Errors
    /// [`SecretError::Unreadable`] if Secrets Manager does not return it or it has no text,
    /// [`SecretError::Form`] if its text has another form.
    pub async fn scram(&self, id: &str) -> Result<Credentials, SecretError> {
        scram(id, &self.read(id).await?)
    }

    /// Reads a client certificate with its private key, in PEM. The secret is `{"certificate",
    /// "privateKey", "privateKeyPassword"}`, the last only if the key is encrypted. `id` is its ARN
    /// or name.
    ///
    /// # Errors
    /// [`SecretError::Unreadable`] if Secrets Manager does not return it or it has no text,
    /// [`SecretError::Form`] if its text has another form.
    pub async fn mtls(&self, id: &str) -> Result<Credentials, SecretError> {
        mtls(id, &self.read(id).await?)
    }

    /// Reads the root certificates (PEM) from which the brokers' certificates must descend. The
    /// secret is `{"certificate"}`. `id` is its ARN or name.
    ///
    /// # Errors
    /// [`SecretError::Unreadable`] if Secrets Manager does not return it or it has no text,
    /// [`SecretError::Form`] if its text has another form.
    pub async fn ca(&self, id: &str) -> Result<String, SecretError> {
        ca(id, &self.read(id).await?)
    }

    async fn read(&self, id: &str) -> Result<String, SecretError> {
        let read = self.0.text(id).await;
        read.map_err(|error| SecretError::Unreadable {
            id: id.to_owned(),
            reason: error.reason,
        })
    }
}

fn scram(id: &str, text: &str) -> Result<Credentials, SecretError> {
    let user: User = parse(id, text, r#"{"username", "password"}"#)?;
    Ok(Credentials::Scram {
        username: user.username,
        password: user.password,
    })
}

fn mtls(id: &str, text: &str) -> Result<Credentials, SecretError> {
    let form = r#"{"certificate", "privateKey", "privateKeyPassword"}, the last only if the key is encrypted"#;
    let client: ClientCertificate = parse(id, text, form)?;
    Ok(Credentials::Mtls {
        certificate: client.certificate,
        private_key: client.private_key,
        private_key_password: client.private_key_password,
    })
}

fn ca(id: &str, text: &str) -> Result<String, SecretError> {
    parse(id, text, r#"{"certificate"}"#).map(|ca: Ca| ca.certificate)
}

/// serde's own message may quote what it has found: it is left out.
fn parse<T: DeserializeOwned>(id: &str, text: &str, form: &'static str) -> Result<T, SecretError> {
    serde_json::from_str(text).map_err(|_| SecretError::Form {
        id: id.to_owned(),
        form,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_are_those_of_lambda_s_mappings() {
        // MSK's secrets may have more in them.
        let user = scram("s", r#"{"username": "u", "password": "p", "host": "h"}"#).unwrap();
        assert!(
            matches!(user, Credentials::Scram { username, password } if username == "u" && password == "p")
        );
        for (text, expected) in [
            (r#"{"certificate": "C", "privateKey": "K"}"#, None),
            (
                r#"{"certificate": "C", "privateKey": "K", "privateKeyPassword": "P"}"#,
                Some("P"),
            ),
        ] {
            let found = mtls("s", text).unwrap();
            assert!(matches!(found, Credentials::Mtls {
                certificate, private_key, private_key_password
            } if certificate == "C" && private_key == "K"
                && private_key_password.as_deref() == expected));
        }
        assert_eq!(ca("s", r#"{"certificate": "C"}"#).unwrap(), "C");
    }

    #[test]
    fn a_bad_secret_is_named_and_not_shown() {
        for text in [
            "hidden",
            r#"{"username": "hidden"}"#,
            r#"{"username": 7, "password": "hidden"}"#,
        ] {
            let error = scram("the-secret", text).err().expect(text).to_string();
            assert!(
                error.contains("the-secret") && error.contains("password"),
                "{error}"
            );
            assert!(!error.contains("hidden"), "{error}");
        }
    }
}
