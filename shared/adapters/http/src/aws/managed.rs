//! A secret of AWS Secrets Manager, kept for 5 minutes.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use triad_aws::{Account, SecretError, Secrets};
use triad_runtime::system::SystemClock;
use triad_runtime::{Clock as _, Fault};

use super::{AwsAccount, region_of};
use crate::{HttpSettingsError, transient};

/// How long a secret is used before it is read again, in milliseconds: 5 minutes.
const KEPT: u64 = 300_000;
/// Least time between two reads of a secret that was never read, or that the service refuses, in milliseconds.
const READ_AGAIN: u64 = 1_000;
/// Least time between two failing reads of a secret that was read before, in milliseconds.
const KNOWN_READ_AGAIN: u64 = 30_000;
/// Longest reason in a fault or a log line, in characters; the rest is cut off.
const REASON: usize = 300;

/// A secret of Secrets Manager. While one call reads it, the others use the text that was read last.
pub(crate) struct ManagedSecret {
    account: Account,
    /// ARN or name.
    id: String,
    field: Option<String>,
    /// What was read last.
    text: Mutex<Option<String>>,
    looks: tokio::sync::Mutex<Looks>,
}

/// When the secret was read last, and when it is read next, in milliseconds since 1970.
#[derive(Default)]
struct Looks {
    client: Option<Secrets>,
    last: u64,
    next: u64,
    /// Why the last read failed.
    failed: Option<Fault>,
}

impl ManagedSecret {
    /// A secret of this account, in the region of its ARN: the `field` of its JSON, or its whole text. Nothing is read
    /// yet.
    ///
    /// # Errors
    /// [`HttpSettingsError::NoAws`] if there is no account.
    pub(crate) fn new(
        aws: &AwsAccount,
        id: &str,
        field: Option<&str>,
    ) -> Result<Self, HttpSettingsError> {
        let account = aws.needed(&format!("the secret {id}"))?;
        Ok(Self {
            account: account.in_region(region_of(id)),
            id: id.to_owned(),
            field: field.map(str::to_owned),
            text: Mutex::default(),
            looks: tokio::sync::Mutex::default(),
        })
    }

    /// The text that was read last; `None` if none was read yet.
    pub(crate) fn text(&self) -> Option<String> {
        let text = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        text.clone()
    }

    /// The secret. It is read if that never succeeded, or if the last read was 5 minutes ago; this waits at most
    /// `within`. While it cannot be read, the text that was read last is used.
    ///
    /// # Errors
    /// The fault of a call that was not made because the secret was never read.
    pub(crate) async fn now(&self, within: Duration) -> Result<String, Fault> {
        if let (Some(text), Err(_)) = (self.text(), self.looks.try_lock()) {
            // Another call is reading it.
            return Ok(text);
        }
        let failed = tokio::time::timeout(within, self.look()).await;
        let failed =
            failed.unwrap_or_else(|_| Some(self.away("Secrets Manager did not answer in time")));
        let none = || failed.unwrap_or_else(|| self.away("it was not read"));
        self.text().ok_or_else(none)
    }

    /// Reads the secret if the next read is due. Returns the fault of the last read, if it failed.
    async fn look(&self) -> Option<Fault> {
        let mut looks = self.looks.lock().await;
        let now = SystemClock.now().0;
        if now < looks.next {
            return looks.failed.clone();
        }
        // Set before the read, so that it also counts if this call is dropped before the answer comes.
        looks.last = now;
        looks.next = now.saturating_add(match self.text() {
            Some(_) => KNOWN_READ_AGAIN,
            None => READ_AGAIN,
        });
        let client = match &looks.client {
            Some(client) => client.clone(),
            None => Secrets::connect(&self.account).await,
        };
        looks.client = Some(client.clone());
        let read = client.text(&self.id).await;
        match read.and_then(|text| self.part(&text)) {
            Ok(part) => {
                *self.text.lock().unwrap_or_else(PoisonError::into_inner) = Some(part);
                looks.next = now.saturating_add(KEPT);
                looks.failed = None;
            }
            Err(error) => {
                let why = self.said(&error.reason);
                tracing::warn!(why, "a secret of an agent cannot be read");
                looks.failed = Some(match error.is_refusal {
                    true => Fault::CallerRefused {
                        code: "no-secret".to_owned(),
                        message: why,
                        maybe_applied: false,
                    },
                    false => self.away(&error.reason),
                });
            }
        }
        looks.failed.clone()
    }

    /// Notes that the service did not accept the secret: the next call reads it again, but not within a second of the
    /// last read.
    pub(crate) fn refused(&self) {
        // If the lock is held, another call is reading it already.
        if let Ok(mut looks) = self.looks.try_lock() {
            looks.next = looks.next.min(looks.last.saturating_add(READ_AGAIN));
        }
    }

    /// The field of a secret's text, or the whole text.
    fn part(&self, text: &str) -> Result<String, SecretError> {
        let (part, lacks) = match &self.field {
            None => (text.trim().to_owned(), "it is empty".to_owned()),
            Some(field) => {
                // serde's own message may quote the text.
                let value: Value = serde_json::from_str(text).unwrap_or_default();
                let part = match &value[field.as_str()] {
                    Value::String(part) => part.trim().to_owned(),
                    Value::Number(part) => part.to_string(),
                    _ => String::new(),
                };
                (part, format!("its JSON has no text {field:?}"))
            }
        };
        match part.is_empty() {
            true => Err(SecretError {
                reason: lacks,
                is_refusal: true,
            }),
            false => Ok(part),
        }
    }

    fn said(&self, why: &str) -> String {
        let why: String = why.chars().take(REASON).collect();
        format!("the secret {} cannot be read: {why}", self.id)
    }

    fn away(&self, why: &str) -> Fault {
        transient("no-secret", self.said(why), None, false)
    }
}
