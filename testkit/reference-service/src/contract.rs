//! The contract that a downstream service must honour, as one function.
//!
//! Owns the vocabulary of a call and [`judge`], which says what a call does and what it is
//! answered, given what the book knows of its keys. Architecture invariant: no IO, no clock and
//! no change of state here; [`Book::apply`](crate::book::Book::apply) alone changes state, for a
//! live call and for a reloaded ledger line alike.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::book::{Book, Status};
use crate::faults::{Decision, Mishap};
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

/// What a call does and what it is answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// What it does.
    pub kind: Kind,
    /// Why it did not go as it should have, if it did not.
    pub cause: Option<Cause>,
    /// What the caller is told.
    pub answer: Answer,
}

/// Judges `call` by the contract and by the fault that was decided for it.
///
/// Never both declines a key and lets it take effect: a key that took effect is replayed even
/// when the settings, changed meanwhile, would decline it.
pub fn judge(book: &Book, call: &Call, decision: &Decision) -> Judgement {
    let failed = |cause, answer| Judgement {
        kind: Kind::Fault,
        cause: Some(cause),
        answer,
    };
    match decision.mishap {
        Mishap::Down => return failed(Cause::Down, down(decision.retry_after_s)),
        Mishap::Transient {
            status,
            after_effect: false,
        } => {
            return failed(Cause::Transient, transient(status, decision));
        }
        Mishap::Garbage {
            after_effect: false,
        } => return failed(Cause::Garbage, Answer::Garbage),
        Mishap::Transient { .. } | Mishap::Garbage { .. } | Mishap::Stall { .. } | Mishap::None => {
        }
    }
    let settled = settle(book, call, decision.permanent);
    if settled.kind == Kind::Refused {
        return settled;
    }
    let (cause, answer) = match decision.mishap {
        Mishap::Transient { status, .. } => (Some(Cause::LostAnswer), transient(status, decision)),
        Mishap::Garbage { .. } => (Some(Cause::Garbage), Answer::Garbage),
        Mishap::Stall { .. } => (Some(Cause::Stall), settled.answer),
        Mishap::None | Mishap::Down => (settled.cause, settled.answer),
    };
    Judgement {
        kind: settled.kind,
        cause,
        answer,
    }
}

/// Answers the question whether the effect under a forward key is in place. An effect that was
/// undone, or that never can be because its undo came first, is not.
#[must_use]
pub fn probe(book: &Book, service: &str, key: &str) -> Answer {
    let applied = matches!(book.status(service, key), Status::Applied { .. });
    let mut answer = Map::new();
    answer.insert("applied".to_owned(), applied.into());
    if applied {
        let mut output = Map::new();
        output.insert("reference".to_owned(), reference_of(service, key).into());
        answer.insert("output".to_owned(), output.into());
    }
    Answer::Output(Value::Object(answer))
}

/// The contract itself, all faults aside.
fn settle(book: &Book, call: &Call, declined: bool) -> Judgement {
    let head = &call.head;
    let same_request = |fingerprint: u64| fingerprint == call.fingerprint();
    let done = |kind, output| Judgement {
        kind,
        cause: None,
        answer: Answer::Output(output),
    };
    match (head.direction, book.status(&head.service, &head.key)) {
        (Direction::Forward, Status::Applied { fingerprint }) if same_request(fingerprint) => {
            done(Kind::Replayed, forward_output(call))
        }
        (Direction::Forward, Status::Undone | Status::Tombstoned) => refused(Cause::Undone),
        (Direction::Undo, Status::UndoDone { fingerprint }) if same_request(fingerprint) => {
            let reversed = matches!(undo_target(book, head), Status::Undone);
            done(Kind::Replayed, undo_output(call, reversed))
        }
        (Direction::Forward, Status::Applied { .. } | Status::UndoDone { .. })
        | (
            Direction::Undo,
            Status::Applied { .. } | Status::Undone | Status::Tombstoned | Status::UndoDone { .. },
        ) => refused(Cause::KeyReused),
        (_, Status::New) if declined => refused(Cause::Declined),
        (Direction::Forward, Status::New) => done(Kind::Applied, forward_output(call)),
        (Direction::Undo, Status::New) => match undo_target(book, head) {
            Status::Applied { .. } => done(Kind::Undone, undo_output(call, true)),
            Status::New => done(Kind::Tombstoned, undo_output(call, false)),
            Status::Undone => done(Kind::Replayed, undo_output(call, true)),
            Status::Tombstoned => done(Kind::Replayed, undo_output(call, false)),
            Status::UndoDone { .. } => refused(Cause::NotForward),
        },
    }
}

fn undo_target(book: &Book, head: &CallHead) -> Status {
    let target = head.undoes.as_deref().unwrap_or_default();
    book.status(&head.service, target)
}

fn refused(cause: Cause) -> Judgement {
    let (status, code, message) = match cause {
        Cause::Undone => (409, "undone", "the effect of this key has been undone"),
        Cause::KeyReused => (422, "key_reused", "this key was used with another request"),
        Cause::NotForward => (422, "not_forward", "the key to undo is the key of an undo"),
        Cause::Declined
        | Cause::Down
        | Cause::Transient
        | Cause::LostAnswer
        | Cause::Garbage
        | Cause::Stall => (
            422,
            "declined",
            "the service declines this request for good",
        ),
    };
    Judgement {
        kind: Kind::Refused,
        cause: Some(cause),
        answer: Answer::Error {
            status,
            code,
            message,
            retry_after_s: None,
        },
    }
}

/// What a service that is down answers.
pub(crate) fn down(retry_after_s: Option<u32>) -> Answer {
    Answer::Error {
        status: 503,
        code: "down",
        message: "the service is down",
        retry_after_s: Some(retry_after_s.unwrap_or(1)),
    }
}

fn transient(status: u16, decision: &Decision) -> Answer {
    let (code, message) = match status {
        429 => ("too_many_requests", "too many requests, try again later"),
        500 => ("internal", "something went wrong, try again"),
        _ => ("unavailable", "not available for the moment, try again"),
    };
    Answer::Error {
        status,
        code,
        message,
        retry_after_s: decision.retry_after_s,
    }
}

/// Most fields of an input that the output repeats.
const ECHOED_FIELDS: usize = 8;
/// Longest text, in bytes, that the output repeats.
const ECHOED_TEXT: usize = 64;

/// The output of a forward call: a pure function of the request, so that deriving it again for
/// a replay is the same as having stored it.
fn forward_output(call: &Call) -> Value {
    let mut output = Map::new();
    output.insert("reference".to_owned(), reference(call).into());
    output.insert("action".to_owned(), call.head.action.clone().into());
    let fields = call.input.as_object().into_iter().flatten();
    let scalars = fields.filter(|(name, field)| {
        !output_field(name)
            && match field {
                Value::String(text) => text.len() <= ECHOED_TEXT,
                Value::Number(_) | Value::Bool(_) => true,
                Value::Null | Value::Array(_) | Value::Object(_) => false,
            }
    });
    for (name, field) in scalars.take(ECHOED_FIELDS) {
        output.insert(name.clone(), field.clone());
    }
    Value::Object(output)
}

fn output_field(name: &str) -> bool {
    matches!(name, "reference" | "action")
}

fn undo_output(call: &Call, reversed: bool) -> Value {
    let mut output = Map::new();
    output.insert("reference".to_owned(), reference(call).into());
    output.insert("action".to_owned(), call.head.action.clone().into());
    output.insert("undoes".to_owned(), call.head.undoes.clone().into());
    output.insert("reversed".to_owned(), reversed.into());
    Value::Object(output)
}

fn reference(call: &Call) -> String {
    reference_of(&call.head.service, &call.head.key)
}

fn reference_of(service: &str, key: &str) -> String {
    let hash = hash::bytes(0, key.as_bytes());
    format!("{service}-{:010x}", hash >> 24)
}
