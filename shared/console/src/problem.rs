//! What somebody is told whose request cannot be answered as they wished: RFC 9457, with a stable code.

use std::borrow::Cow;

use http::StatusCode;
use serde::Serialize;
use triad_operator::pages::PageError;
use triad_runtime::StoreError;

use crate::random::NoRandom;

/// A problem. Its code is for programs, its text is for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    pub(crate) detail: Cow<'static, str>,
    /// Seconds after which the same request may be made again.
    pub(crate) retry_after: Option<u32>,
    /// The methods of the path, where the request has another one.
    pub(crate) allow: Option<&'static str>,
}

/// A problem's form as JSON.
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

    /// What the caller has to say otherwise.
    pub(crate) fn bad(code: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, detail)
    }

    /// What is not there.
    pub(crate) fn missing(code: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, detail)
    }

    /// What passes: the same request again after so many seconds.
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

    /// A topic that cannot be read now, such as that of dead letters.
    pub(crate) fn unread(topic: &str, error: &impl std::fmt::Display) -> Self {
        let text = format!("the topic of {topic} cannot be read: {error}");
        Self::later("bus-unavailable", text, 5)
    }

    /// What is wrong on this side.
    pub(crate) fn internal(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
    }

    /// There is nothing of this path.
    pub(crate) fn no_path() -> Self {
        Self::missing("no-such-path", "there is nothing of this path")
    }

    /// The path has these methods alone.
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
            // A page that the store does not know came from the cursor.
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
