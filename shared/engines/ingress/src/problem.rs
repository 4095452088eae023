//! Errors of requests as problem details (RFC 9457), with a stable code and the next step.

use std::borrow::Cow;

use http::StatusCode;
use serde::Serialize;
use triad_core::submission::SubmissionRefusal;
use triad_runtime::{BusError, Redelivery, StoreError};

use crate::queue::Unanswered;

/// A problem: a code for programs and texts for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    pub(crate) detail: Cow<'static, str>,
    pub(crate) next: &'static str,
    /// Seconds after which the client may repeat the request.
    pub(crate) retry_after: Option<u32>,
    /// An additional header, such as `Allow`.
    pub(crate) header: Option<(http::HeaderName, &'static str)>,
}

/// JSON form of a problem: the members of RFC 9457, and three of Triad's.
#[derive(Serialize)]
pub(crate) struct Body<'a> {
    title: &'static str,
    status: u16,
    code: &'static str,
    detail: &'a str,
    next: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<u32>,
}

/// Next step if the client may repeat the same request.
const AGAIN: &str =
    "Send the same request again after the time in Retry-After: an order is taken once.";
/// Next step if the request is wrong.
const MEND: &str = "Correct the request; /v1/openapi.json says what it has to be.";

impl Problem {
    /// A problem with the usual next step: correct the request.
    pub(crate) fn new(
        status: StatusCode,
        code: &'static str,
        detail: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            status,
            code,
            detail: detail.into(),
            next: MEND,
            retry_after: None,
            header: None,
        }
    }

    /// A transient problem: the client may repeat the request after some seconds.
    pub(crate) fn again(
        status: StatusCode,
        code: &'static str,
        detail: impl Into<Cow<'static, str>>,
        after_s: u32,
    ) -> Self {
        Self {
            next: AGAIN,
            retry_after: Some(after_s),
            ..Self::new(status, code, detail)
        }
    }

    /// Replaces a body problem of an unknown caller by 401 where the body is too large: it must log in first.
    pub(crate) fn of_stranger(self) -> Self {
        match self.status {
            StatusCode::PAYLOAD_TOO_LARGE => {
                let text = "the caller is not logged in, so its body is not read";
                Self::new(StatusCode::UNAUTHORIZED, "token", text)
                    .next("Send the header `Authorization: Bearer TOKEN`, or log in at /console/.")
                    .header(http::header::WWW_AUTHENTICATE, "Bearer realm=\"triad\"")
            }
            _ => self,
        }
    }

    pub(crate) fn next(self, next: &'static str) -> Self {
        Self { next, ..self }
    }

    pub(crate) fn header(self, name: http::HeaderName, value: &'static str) -> Self {
        Self {
            header: Some((name, value)),
            ..self
        }
    }

    /// A bad request.
    pub(crate) fn bad(code: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, detail)
    }

    /// A fault of the server, which the client cannot correct.
    pub(crate) fn internal(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
            .next("Tell an operator; the log of the server says more.")
    }

    pub(crate) fn body(&self) -> Body<'_> {
        Body {
            title: self.status.canonical_reason().unwrap_or("Problem"),
            status: self.status.as_u16(),
            code: self.code,
            detail: &self.detail,
            next: self.next,
            retry_after: self.retry_after,
        }
    }
}

/// An order that can never be accepted as it is: the code and the text of the dead letter that a topic's record would
/// get.
impl From<&SubmissionRefusal> for Problem {
    fn from(refusal: &SubmissionRefusal) -> Self {
        use SubmissionRefusal as Why;
        let status = match refusal {
            Why::Tombstone | Why::NotUtf8(_) | Why::NotJson(_) | Why::NotAnOrder(_) => {
                StatusCode::BAD_REQUEST
            }
            Why::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Why::Conflict(_) => StatusCode::CONFLICT,
            Why::UnknownField(_)
            | Why::MissingField(_)
            | Why::WrongField(_)
            | Why::Number(_)
            | Why::Details { .. }
            | Why::OrderId(_)
            | Why::OrderTimeout(_)
            | Why::UnknownWorkflow(_)
            | Why::ReplyTopic(_)
            | Why::Unstorable(_) => StatusCode::UNPROCESSABLE_ENTITY,
        };
        let next = match refusal {
            Why::Conflict(_) => "Choose another order_id, or send what was sent under this one.",
            Why::UnknownWorkflow(_) => {
                "Publish the workflow, or name one that `triad workflows` lists."
            }
            Why::ReplyTopic(_) => "Leave reply_topic out, or have an operator allow the topic.",
            _ => "Correct the order and send it again.",
        };
        Self::new(status, refusal.code(), refusal.to_string()).next(next)
    }
}

/// An order that was not accepted now.
impl From<&Redelivery> for Problem {
    fn from(why: &Redelivery) -> Self {
        let unavailable = StatusCode::SERVICE_UNAVAILABLE;
        let text = why.to_string();
        match why {
            Redelivery::Store(e) => e.into(),
            Redelivery::Unsent(e) => e.into(),
            Redelivery::NoRoom(_) => Self::again(StatusCode::TOO_MANY_REQUESTS, "no-room", text, 2),
            Redelivery::Outside(_)
            | Redelivery::Raced
            | Redelivery::Behind
            | Redelivery::Newer(_)
            | Redelivery::OutOfTime => Self::again(unavailable, "not-now", text, 1),
        }
    }
}

impl From<&StoreError> for Problem {
    fn from(e: &StoreError) -> Self {
        let unavailable = StatusCode::SERVICE_UNAVAILABLE;
        let text = e.to_string();
        match e {
            StoreError::Transient(_) => Self::again(unavailable, "store-unavailable", text, 1),
            StoreError::Configuration(_) => Self::again(unavailable, "store-unavailable", text, 30),
            StoreError::Item(_) => Self::internal(text),
        }
    }
}

impl From<&BusError> for Problem {
    fn from(e: &BusError) -> Self {
        let after_s = match e {
            BusError::Transient(_) | BusError::Late(_) => 1,
            BusError::Permanent(_) | BusError::TooLarge(_) => 30,
        };
        let unavailable = StatusCode::SERVICE_UNAVAILABLE;
        Self::again(unavailable, "bus-unavailable", e.to_string(), after_s)
    }
}

impl From<Unanswered> for Problem {
    fn from(why: Unanswered) -> Self {
        let text = why.to_string();
        match why {
            Unanswered::Full => Self::again(StatusCode::TOO_MANY_REQUESTS, "queue-full", text, 1),
            Unanswered::Late => Self::again(
                StatusCode::SERVICE_UNAVAILABLE,
                "store-unavailable",
                text,
                1,
            ),
            Unanswered::Failed => Self::internal(text),
        }
    }
}
