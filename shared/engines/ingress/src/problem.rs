//! Problems of orders: what refusals of Submission, the store and the bus are over HTTP, and the next step of the
//! client.

use triad_core::submission::SubmissionRefusal;
use triad_operator::operations::Problem;
use triad_runtime::{BusError, Redelivery};

use crate::queue::Unanswered;

/// A problem with what to do about it: the usual step, unless it names another one.
pub(crate) fn with_next(problem: Problem) -> Problem {
    let usual = match (problem.retry_after, problem.status) {
        (Some(_), _) => {
            "Send the same request again after the time in Retry-After: an order is taken once."
        }
        (None, 500) => "Tell an operator; the log of the server says more.",
        _ => "Correct the request; /v1/openapi.json says what it has to be.",
    };
    match problem.next {
        Some(_) => problem,
        None => problem.next(usual),
    }
}

/// An order that can never be accepted as it is: the code and the text of the dead letter that a topic's record would
/// get.
pub(crate) fn refused(refusal: &SubmissionRefusal) -> Problem {
    use SubmissionRefusal as Why;
    let status = match refusal {
        Why::Tombstone | Why::NotUtf8(_) | Why::NotJson(_) | Why::NotAnOrder(_) => 400,
        Why::TooLarge(_) => 413,
        Why::Conflict(_) => 409,
        Why::UnknownField(_)
        | Why::MissingField(_)
        | Why::WrongField(_)
        | Why::Number(_)
        | Why::Details { .. }
        | Why::OrderId(_)
        | Why::OrderTimeout(_)
        | Why::StartAt(_)
        | Why::UnknownWorkflow(_)
        | Why::ReplyTopic(_)
        | Why::Unstorable(_) => 422,
    };
    let next = match refusal {
        Why::Conflict(_) => "Choose another order_id, or send what was sent under this one.",
        Why::UnknownWorkflow(_) => {
            "Publish the workflow, or name one that `triad workflows` lists."
        }
        Why::ReplyTopic(_) => "Leave reply_topic out, or have an operator allow the topic.",
        _ => "Correct the order and send it again.",
    };
    Problem::new(status, refusal.code(), refusal.to_string()).next(next)
}

/// An order that was not accepted now.
pub(crate) fn later(why: &Redelivery) -> Problem {
    let text = why.to_string();
    match why {
        Redelivery::Store(e) => e.clone().into(),
        Redelivery::Unsent(e) => unsent(e),
        Redelivery::NoRoom(_) => Problem::busy("no-room", text, 2),
        Redelivery::Outside(_)
        | Redelivery::Raced
        | Redelivery::Behind
        | Redelivery::Newer(_)
        | Redelivery::OutOfTime => Problem::later("not-now", text, 1),
    }
}

fn unsent(e: &BusError) -> Problem {
    let after_s = match e {
        BusError::Transient(_) | BusError::Late(_) => 1,
        BusError::Permanent(_) | BusError::TooLarge(_) => 30,
    };
    Problem::later("bus-unavailable", e.to_string(), after_s)
}

impl From<Unanswered> for Problem {
    fn from(why: Unanswered) -> Self {
        let text = why.to_string();
        match why {
            Unanswered::Full => Self::busy("queue-full", text, 1),
            Unanswered::Late => Self::later("store-unavailable", text, 1),
            Unanswered::Failed => Self::internal(text),
        }
    }
}
