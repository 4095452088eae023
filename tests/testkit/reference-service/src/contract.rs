//! The contract that a downstream service must honour, as one function.
//!
//! [`judge`] decides what a call does and how it is answered, from the book's state of its keys. Architecture
//! invariant: no IO, no clock and no change of state here; only [`Book::apply`](crate::book::Book::apply) changes
//! state, for a live call and for a reloaded ledger line alike.

use serde_json::{Map, Value};

use crate::book::Book;
use crate::call::Status;
pub use crate::call::{Answer, Call, CallHead, Cause, Direction, Kind};
use crate::faults::{Decision, Mishap};
use crate::hash;

/// The result of a call, and its answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// The result.
    pub kind: Kind,
    /// Why the call is refused, fails, or gets another answer than normally; `None` otherwise.
    pub cause: Option<Cause>,
    /// The answer.
    pub answer: Answer,
}

/// Determines the result of `call` and its answer, by the contract and the fault `decision`, which comes from
/// [`Faults::decide`](crate::Faults::decide). Changes nothing.
///
/// A key that has had its effect is never refused later, even if changed settings would refuse it. The same request
/// with this key is a replay: it gets the output of the first request, unless the fault replaces the answer. Another
/// request with this key is refused ([`Cause::KeyReused`]), and so is a forward call whose effect was compensated
/// ([`Cause::Compensated`]).
pub fn judge(book: &Book, call: &Call, decision: &Decision) -> Judgement {
    let failed = |cause, answer| Judgement {
        kind: Kind::Fault,
        cause: Some(cause),
        answer,
    };
    match decision.mishap {
        Mishap::Down => return failed(Cause::Down, down(decision.retry_after_s)),
        Mishap::CallerRefused => return failed(Cause::CallerRefused, caller_refused()),
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
    let resolved = resolve(book, call, decision.permanent);
    if resolved.kind == Kind::Refused {
        return resolved;
    }
    let (cause, answer) = match decision.mishap {
        Mishap::Transient { status, .. } => (Some(Cause::LostAnswer), transient(status, decision)),
        Mishap::Garbage { .. } => (Some(Cause::Garbage), Answer::Garbage),
        Mishap::Stall { .. } => (Some(Cause::Stall), resolved.answer),
        Mishap::None | Mishap::Down | Mishap::CallerRefused => (resolved.cause, resolved.answer),
    };
    Judgement {
        kind: resolved.kind,
        cause,
        answer,
    }
}

/// The answer to a probe: whether the effect under the key of an action is in place, and if so its output. It is not
/// in place if it was compensated, or if its compensation came first.
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

/// The contract without faults.
fn resolve(book: &Book, call: &Call, declined: bool) -> Judgement {
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
        (Direction::Forward, Status::Compensated | Status::Tombstoned) => {
            refused(Cause::Compensated)
        }
        (Direction::Compensate, Status::CompensationDone { fingerprint })
            if same_request(fingerprint) =>
        {
            let reversed = matches!(compensated(book, head), Status::Compensated);
            done(Kind::Replayed, compensation_output(call, reversed))
        }
        (Direction::Forward, Status::Applied { .. } | Status::CompensationDone { .. })
        | (
            Direction::Compensate,
            Status::Applied { .. }
            | Status::Compensated
            | Status::Tombstoned
            | Status::CompensationDone { .. },
        ) => refused(Cause::KeyReused),
        (_, Status::New) if declined => refused(Cause::Declined),
        (Direction::Forward, Status::New) => done(Kind::Applied, forward_output(call)),
        (Direction::Compensate, Status::New) => match compensated(book, head) {
            Status::Applied { .. } => done(Kind::Compensated, compensation_output(call, true)),
            Status::New => done(Kind::Tombstoned, compensation_output(call, false)),
            Status::Compensated => done(Kind::Replayed, compensation_output(call, true)),
            Status::Tombstoned => done(Kind::Replayed, compensation_output(call, false)),
            Status::CompensationDone { .. } => refused(Cause::NotForward),
        },
    }
}

fn compensated(book: &Book, head: &CallHead) -> Status {
    let target = head.compensates.as_deref().unwrap_or_default();
    book.status(&head.service, target)
}

fn refused(cause: Cause) -> Judgement {
    let (status, code, message) = match cause {
        Cause::Compensated => (
            409,
            "compensated",
            "the effect of this key has been compensated",
        ),
        Cause::KeyReused => (422, "key_reused", "this key was used with another request"),
        Cause::NotForward => (
            422,
            "not_forward",
            "the key to compensate is the key of a compensation",
        ),
        Cause::Declined
        | Cause::Down
        | Cause::CallerRefused
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

/// The answer of an unavailable service.
pub(crate) fn down(retry_after_s: Option<u32>) -> Answer {
    Answer::Error {
        status: 503,
        code: "down",
        message: "the service is down",
        retry_after_s: Some(retry_after_s.unwrap_or(1)),
    }
}

/// The answer to a caller whose token has expired.
fn caller_refused() -> Answer {
    Answer::Error {
        status: 401,
        code: "unauthorised",
        message: "the token has expired",
        retry_after_s: None,
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

/// Most fields of the input that the output contains.
const ECHOED_FIELDS: usize = 8;
/// Longest text of the input that the output contains, in bytes.
const ECHOED_TEXT: usize = 64;

/// The output of an action, computed from the request alone, so that a replay gets the same output without storing
/// it.
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

fn compensation_output(call: &Call, reversed: bool) -> Value {
    let mut output = Map::new();
    output.insert("reference".to_owned(), reference(call).into());
    output.insert("action".to_owned(), call.head.action.clone().into());
    output.insert(
        "compensates".to_owned(),
        call.head.compensates.clone().into(),
    );
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
