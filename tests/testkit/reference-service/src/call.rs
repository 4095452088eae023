//! The parts of a call: identity, effect and answer.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::hash;

/// Whether a call carries out an action or compensates one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// An action.
    Forward,
    /// A compensation, which reverses the effect of another key. Its name in requests is `compensate`.
    #[serde(rename = "compensate")]
    Compensate,
}

/// What identifies a call; the ledger contains all of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallHead {
    /// Service called; keys of different services are different keys.
    pub service: String,
    /// Name of the action that the service is asked for.
    pub action: String,
    /// The order for which the call is made; empty if the caller did not name it.
    pub order: String,
    /// The step of the order; empty if the caller did not name it.
    pub step: String,
    /// Whether the call carries out an action or compensates one.
    pub direction: Direction,
    /// The caller's attempt number; 0 if the caller did not give it.
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
    /// A hash of the request, which must be equal for all calls with the same key. It does not depend on the order of
    /// JSON fields, the attempt, or the tracing headers.
    pub fn fingerprint(&self) -> u64 {
        let head = &self.head;
        let seed = hash::bytes(head.direction as u64, head.action.as_bytes());
        let compensates = head.compensates.as_deref().unwrap_or_default();
        hash::mix(hash::bytes(seed, compensates.as_bytes()) ^ hash::json(&self.input))
    }
}

/// The result of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A forward call whose effect was applied.
    Applied,
    /// A call whose effect, or whose compensation, had already been carried out: it changed nothing.
    Replayed,
    /// A compensation that reversed an effect.
    #[serde(rename = "compensated")]
    Compensated,
    /// A compensation that came before its action. The action is refused from then on.
    Tombstoned,
    /// A call that was refused for good, without effect.
    Refused,
    /// A call that failed before any effect.
    Fault,
}

/// Why a call was refused, failed, or got another answer than normally.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The fault settings refuse this key for good.
    Declined,
    /// The key has had its effect with another request.
    KeyReused,
    /// The effect under this key was compensated, or its compensation came first.
    #[serde(rename = "compensated")]
    Compensated,
    /// The key that a compensation names is the key of a compensation.
    NotForward,
    /// The fault settings make the service unavailable.
    Down,
    /// The fault settings make the service refuse the caller's credentials.
    CallerRefused,
    /// The call was answered with a status that allows a retry, before any effect.
    Transient,
    /// The call was answered with a status that allows a retry, although its effect was applied.
    LostAnswer,
    /// The call was answered 200 with a body that breaks off.
    Garbage,
    /// The answer was delayed, as the fault settings say.
    Stall,
}

/// How a call is answered.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Status 200 with this output as JSON.
    Output(Value),
    /// Status 200 with a body that breaks off.
    Garbage,
    /// An error status with a body `{"error": {"code", "message"}}`.
    Error {
        /// The HTTP status. 429 and 5xx mean that a retry may succeed; any other 4xx refuses for good.
        status: u16,
        /// A short, stable code for programs.
        code: &'static str,
        /// A message for users.
        message: &'static str,
        /// The header `Retry-After`, in seconds; `None` for no such header.
        retry_after_s: Option<u32>,
    },
}

/// The state of the effect under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The key was never used, or none of its calls has had an effect.
    New,
    /// The key of an action whose effect was applied and not compensated.
    Applied {
        /// Hash of the request that had the effect: see [`Call::fingerprint`].
        fingerprint: u64,
    },
    /// The key of an action whose effect was applied and then compensated.
    Compensated,
    /// The key of an action whose compensation came first: its effect can never be applied.
    Tombstoned,
    /// The key of a compensation that has been carried out.
    CompensationDone {
        /// Hash of the compensation's request: see [`Call::fingerprint`].
        fingerprint: u64,
    },
}
