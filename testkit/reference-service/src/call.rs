//! The words of a call: who asks for what, what it does, what it is answered.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::hash;

/// Whether a call asks for an effect or for the reversal of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// The effect itself.
    Forward,
    /// The reversal of the effect of another key.
    Undo,
}

/// What identifies a call; all of it is written to the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallHead {
    /// Service called; keys of different services are different keys.
    pub service: String,
    /// Action of the service.
    pub action: String,
    /// Order on whose behalf the call is made; empty when the caller did not say.
    pub order: String,
    /// Step of the order; empty when the caller did not say.
    pub step: String,
    /// Forward or undo.
    pub direction: Direction,
    /// The caller's attempt number; 0 when the caller did not say.
    pub attempt: u32,
    /// The idempotency key.
    pub key: String,
    /// The forward key that an undo reverses; none on a forward call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<String>,
}

/// One call with its input.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// What identifies it.
    pub head: CallHead,
    /// The JSON input.
    pub input: Value,
}

impl Call {
    /// Fingerprint of the request: two calls with the same key must have the same one. The order
    /// of the fields of a JSON object, the attempt and the tracing headers are not part of it.
    pub fn fingerprint(&self) -> u64 {
        let head = &self.head;
        let seed = hash::bytes(head.direction as u64, head.action.as_bytes());
        let undoes = head.undoes.as_deref().unwrap_or_default();
        hash::mix(hash::bytes(seed, undoes.as_bytes()) ^ hash::json(&self.input))
    }
}

/// What a call did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A forward call took effect.
    Applied,
    /// The effect, or its reversal, had been there already.
    Replayed,
    /// An undo reversed an effect.
    Undone,
    /// An undo came before its forward call, which from now on is refused.
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
    /// The key is one of those that the fault settings decline.
    Declined,
    /// The key was used before with another request.
    KeyReused,
    /// The forward key has been undone, or tombstoned.
    Undone,
    /// The key to undo is the key of an undo.
    NotForward,
    /// The service was down.
    Down,
    /// A transient answer before any effect.
    Transient,
    /// A transient answer after the effect.
    LostAnswer,
    /// An answer that is not JSON.
    Garbage,
    /// The answer was held back.
    Stall,
}

/// What the caller is told.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// 200 with the output.
    Output(Value),
    /// 200 with a body that is not JSON.
    Garbage,
    /// An error status with a JSON error.
    Error {
        /// 4xx is permanent but for 429; 429 and 5xx are transient.
        status: u16,
        /// A word for programs.
        code: &'static str,
        /// A sentence for people.
        message: &'static str,
        /// `Retry-After`, in seconds.
        retry_after_s: Option<u32>,
    },
}

/// Where a key stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Never seen, or seen without any effect.
    New,
    /// A forward key whose effect is in place.
    Applied {
        /// Fingerprint of the request that took effect.
        fingerprint: u64,
    },
    /// A forward key whose effect was reversed.
    Undone,
    /// A forward key whose undo came first.
    Tombstoned,
    /// The key of an undo that has been carried out.
    UndoDone {
        /// Fingerprint of the undo.
        fingerprint: u64,
    },
}
