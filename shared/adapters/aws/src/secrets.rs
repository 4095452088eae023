//! Texts of secrets in Secrets Manager.

use aws_sdk_secretsmanager::Client;
use aws_sdk_secretsmanager::error::{DisplayErrorContext, ProvideErrorMetadata as _, SdkError};

use crate::Account;

/// Why a secret cannot be read. The content of a secret is never in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct SecretError {
    /// The reason, in the client's words.
    pub reason: String,
    /// Whether Secrets Manager refused, so that another try without a change of rights or settings is useless: a right
    /// is missing, there is no such secret, or it has no text.
    pub is_refusal: bool,
}

/// Reads secrets from Secrets Manager.
#[derive(Debug, Clone)]
pub struct Secrets(Client);

impl Secrets {
    /// A client for this account's secrets, with the time limits of [`Account::load`]. Nothing is
    /// read yet.
    pub async fn connect(account: &Account) -> Self {
        Self(Client::new(&account.load().await))
    }

    /// The text of a secret, at most 64 KiB. `id` is its ARN or name.
    ///
    /// # Errors
    /// [`SecretError`] if Secrets Manager does not return it, or it has no text.
    pub async fn text(&self, id: &str) -> Result<String, SecretError> {
        let answer = self.0.get_secret_value().secret_id(id).send().await;
        let value = answer.map_err(|error| match &error {
            SdkError::ServiceError(service) => {
                let (code, said) = (service.err().code(), service.err().message());
                let code = code.unwrap_or("an error without a code");
                // Throttling is a 400, too.
                let passes = code.contains("Throttl") || code.contains("TooMany");
                SecretError {
                    reason: said.map_or_else(|| code.to_owned(), |said| format!("{code}: {said}")),
                    is_refusal: service.raw().status().is_client_error() && !passes,
                }
            }
            _ => SecretError {
                reason: DisplayErrorContext(&error).to_string(),
                is_refusal: false,
            },
        })?;
        value.secret_string.ok_or_else(|| SecretError {
            reason: "it has no text".to_owned(),
            is_refusal: true,
        })
    }
}
