//! Work that a service takes now and finishes later: what the record keeps of it, and how its service calls back.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use triad_workflow::StepId;

use crate::ids::{OrderId, Timestamp};

/// Largest answer with which a service takes work, as JSON, in bytes, inclusive: 4 KiB. The record keeps it until the
/// work is finished.
pub const MAX_TAKEN_BYTES: usize = 4 * 1024;
/// Longest location that a service may name to be asked at, in bytes, inclusive.
pub const MAX_LOCATION_BYTES: usize = 1024;

/// Header of a call whose service may take the work now and finish it later, and of its callback: the token.
pub const CALLBACK_TOKEN: &str = "triad-callback-token";

/// Work that a service has taken and not finished, as far as is known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InProgress {
    /// When the service took it.
    pub since: Timestamp,
    /// By when it has to be finished.
    pub until: Timestamp,
    /// When the service last gave a sign of life.
    pub heard: Timestamp,
    /// How often the service has been asked and has not finished it.
    #[serde(default)]
    pub asked: u32,
    /// What the service answered when it took the work.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub output: Value,
    /// Where the service wants to be asked, as path and query; `None` if it named nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
}

/// The secret by which a service proves that it has been asked for a step's effect: 32 hexadecimal digits. It belongs
/// to one order, one step and one effect, as the idempotency key does: attempts at the same effect have the same.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallbackToken(String);

impl fmt::Debug for CallbackToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallbackToken(…)")
    }
}

impl CallbackToken {
    /// The token as it is sent to the service.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a text is this token. How long that takes says nothing about the token.
    #[must_use]
    pub fn is(&self, text: &str) -> bool {
        self.0.as_bytes().ct_eq(text.as_bytes()).into()
    }
}

/// 128 random bits of one claim, of which the tokens are made of the steps that need one.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct CallbackSecret(pub [u64; 2]);

impl fmt::Debug for CallbackSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallbackSecret(…)")
    }
}

impl CallbackSecret {
    /// The token of a step.
    #[must_use]
    pub fn token(self, step: &StepId) -> CallbackToken {
        let [a, b] = self.0;
        let digest = Sha256::digest(format!("{a:016x}{b:016x}/{step}"));
        CallbackToken(digest[..16].iter().map(|b| format!("{b:02x}")).collect())
    }
}

/// What a service says of work that it has taken.
#[derive(Debug, Clone, PartialEq)]
pub struct Callback {
    /// The order.
    pub order_id: OrderId,
    /// The step.
    pub step: String,
    /// The token that the service was given.
    pub token: String,
    /// The identity of this message, at most [`MAX_EVENT_ID_BYTES`](crate::received::MAX_EVENT_ID_BYTES).
    pub id: String,
    /// What is said.
    pub says: Says,
}

/// What a callback says.
#[derive(Debug, Clone, PartialEq)]
pub enum Says {
    /// The work is still going on.
    Alive,
    /// The work has ended, with this result; at most [`MAX_DATA_BYTES`](crate::received::MAX_DATA_BYTES).
    Ended(Value),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_of_one_secret_and_one_step_and_is_in_no_log() {
        let step = |name| StepId::new(name).expect("a name");
        let secret = CallbackSecret([1, 2]);
        let token = secret.token(&step("book"));
        assert_eq!(token.as_str().len(), 32);
        assert!(token.is(secret.token(&step("book")).as_str()));
        assert!(!token.is(secret.token(&step("pay")).as_str()));
        assert!(!token.is(CallbackSecret([1, 3]).token(&step("book")).as_str()));
        assert!(!token.is(""));
        let logged = format!("{token:?}{secret:?}");
        assert!(!logged.contains(token.as_str()) && !logged.contains('1'));
    }
}
