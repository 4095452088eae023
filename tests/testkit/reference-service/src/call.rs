//! The parts of a call: identity, effect and answer.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::hash;

/// Whether a call asks for an effect or for the reversal of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// The effect itself.
    Forward,
    /// A compensation: the reversal of the effect of another key. Its name on the wire is `compensate`.
    #[serde(rename = "compensate")]
    Compensate,
}

/// What identifies a call; all of it is written to the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallHead {
    /// Service called; keys of different services are different keys.
    pub service: String,
    /// Name of the action that the service is asked for.
    pub action: String,
    /// Order on whose behalf the call is made; empty when the caller did not say.
    pub order: String,
    /// Step of the order; empty when the caller did not say.
    pub step: String,
    /// Whether the call asks for an effect or for the reversal of one.
    pub direction: Direction,
    /// The caller's attempt number; 0 when the caller did not say.
    pub attempt: u32,
    /// The idempotency key, as the caller sent it.
    pub key: String,
    /// The forward key whose effect a compensation reverses; `None` for a forward call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compensates: Option<String>,
}

/// One call with its input.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// What identifies the call.
    pub head: CallHead,
    /// The input of the action, as JSON.
    pub input: Value,
}

impl Call {
    /// Fingerprint of the request: two calls with the same key must have the same one. The order
    /// of the fields of a JSON object, the attempt and the tracing headers are not part of it.
    pub fn fingerprint(&self) -> u64 {
        let head = &self.head;
        let seed = hash::bytes(head.direction as u64, head.action.as_bytes());
        let compensates = head.compensates.as_deref().unwrap_or_default();
        hash::mix(hash::bytes(seed, compensates.as_bytes()) ^ hash::json(&self.input))
    }
}

/// What a call did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A forward call whose effect was applied.
    Applied,
    /// A call whose effect, or whose reversal, was there already: it changed nothing.
    Replayed,
    /// A compensation that reversed an effect.
    #[serde(rename = "compensated")]
    Compensated,
    /// A compensation that came before its forward call. The forward call is refused from now on.
    Tombstoned,
    /// The call was refused for good, without effect.
    Refused,
    /// The call failed before any effect.
    Fault,
}

/// Why a call was refused, failed, or was not answered as it should have been.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The fault settings decline this key for good.
    Declined,
    /// The key was used before with another request, and had its effect then.
    KeyReused,
    /// The effect under this forward key was compensated, or its compensation came first.
    #[serde(rename = "compensated")]
    Compensated,
    /// The key that a compensation names is itself the key of a compensation.
    NotForward,
    /// The fault settings say that the service is down.
    Down,
    /// The fault settings say that the service does not accept the caller.
    CallerRefused,
    /// The call was answered with a status that says "try again", before any effect.
    Transient,
    /// The call was answered with a status that says "try again", although its effect was applied.
    LostAnswer,
    /// The call was answered with a body that is not JSON.
    Garbage,
    /// The answer was held back, as the fault settings say.
    Stall,
}

/// How a call is answered.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Status 200 with this output as JSON.
    Output(Value),
    /// Status 200 with a body that is not JSON.
    Garbage,
    /// An error status with a body `{"error": {"code", "message"}}`.
    Error {
        /// The HTTP status. 429 and 5xx say that another try may succeed; any other 4xx is a
        /// refusal for good.
        status: u16,
        /// A short, stable word for programs.
        code: &'static str,
        /// A sentence for people.
        message: &'static str,
        /// The header `Retry-After`, in seconds; `None`: no such header.
        retry_after_s: Option<u32>,
    },
}

/// State of the effect under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The key was never used, or no call of it has had an effect.
    New,
    /// A forward key whose effect was applied and not reversed.
    Applied {
        /// Fingerprint of the request that had the effect: see [`Call::fingerprint`].
        fingerprint: u64,
    },
    /// A forward key whose effect was applied and then reversed.
    Compensated,
    /// A forward key whose compensation came first: its effect can never be applied.
    Tombstoned,
    /// The key of a compensation that has been carried out.
    CompensationDone {
        /// Fingerprint of the request to compensate: see [`Call::fingerprint`].
        fingerprint: u64,
    },
}
