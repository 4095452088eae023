//! Errors of requests as problem details (RFC 9457), with a stable code.

use std::borrow::Cow;

use http::StatusCode;
use serde::Serialize;
use triad_operator::pages::PageError;
use triad_runtime::StoreError;

use crate::random::NoRandom;

/// A problem: a code for programs and a text for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    pub(crate) detail: Cow<'static, str>,
    /// Seconds after which the caller may repeat the request.
    pub(crate) retry_after: Option<u32>,
    /// The methods that the path allows, if the request has another one.
    pub(crate) allow: Option<&'static str>,
}

/// JSON form of a problem.
#[derive(Serialize)]
pub(crate) struct Body<'a> {
    title: &'static str,
    status: u16,
    code: &'static str,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<u32>,
}

impl Problem {
    pub(crate) fn new(
        status: StatusCode,
        code: &'static str,
        detail: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            status,
            code,
            detail: detail.into(),
            retry_after: None,
            allow: None,
        }
    }

    /// The request is wrong; the caller must change it.
    pub(crate) fn bad(code: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, detail)
    }

    /// The thing that the request names does not exist.
    pub(crate) fn missing(code: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, detail)
    }

    /// A transient problem: the caller may repeat the request after some seconds.
    pub(crate) fn later(
        code: &'static str,
        detail: impl Into<Cow<'static, str>>,
        after_s: u32,
    ) -> Self {
        Self {
            retry_after: Some(after_s),
            ..Self::new(StatusCode::SERVICE_UNAVAILABLE, code, detail)
        }
    }

    /// A topic, such as that of dead letters, cannot be read now.
    pub(crate) fn unread(topic: &str, error: &impl std::fmt::Display) -> Self {
        let text = format!("the topic of {topic} cannot be read: {error}");
        Self::later("bus-unavailable", text, 5)
    }

    /// A fault of the server.
    pub(crate) fn internal(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
    }

    /// The path does not exist.
    pub(crate) fn no_path() -> Self {
        Self::missing("no-such-path", "this path does not exist")
    }

    /// The path allows only these methods.
    pub(crate) fn method(allow: &'static str) -> Self {
        let text = format!("this path has {allow}");
        Self {
            allow: Some(allow),
            ..Self::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", text)
        }
    }

    pub(crate) fn title(&self) -> &'static str {
        self.status.canonical_reason().unwrap_or("Problem")
    }

    pub(crate) fn body(&self) -> Body<'_> {
        Body {
            title: self.title(),
            status: self.status.as_u16(),
            code: self.code,
            detail: &self.detail,
            retry_after: self.retry_after,
        }
    }
}

impl From<StoreError> for Problem {
    fn from(e: StoreError) -> Self {
        let text = e.to_string();
        match e {
            StoreError::Transient(_) => Self::later("store-unavailable", text, 1),
            StoreError::Configuration(_) => Self::later("store-unavailable", text, 30),
            StoreError::Item(_) => Self::internal(text),
        }
    }
}

impl From<PageError> for Problem {
    fn from(e: PageError) -> Self {
        match e {
            // The store refuses a page only if the cursor is wrong.
            PageError::Store(StoreError::Item(_)) | PageError::Cursor => {
                Self::bad("bad-cursor", "the cursor is not one of this question")
            }
            PageError::Store(other) => other.into(),
        }
    }
}

impl From<NoRandom> for Problem {
    fn from(e: NoRandom) -> Self {
        Self::internal(e.to_string())
    }
}

impl From<serde_json::Error> for Problem {
    fn from(e: serde_json::Error) -> Self {
        Self::internal(format!("the answer has no form: {e}"))
    }
}
