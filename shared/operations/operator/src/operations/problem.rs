//! Why an operation is refused or fails, with a stable code: the problem details of RFC 9457.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use triad_runtime::StoreError;

use crate::campaign::commands::CampaignError;
use crate::definition::DefinitionError;
use crate::downstreams::DownstreamError;
use crate::pages::PageError;

/// A problem: a code for programs and a text for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("{detail}")]
pub struct Problem {
    /// The HTTP status that fits: 400 for a wrong request, 403 for what the caller may not do, 404 for what does not
    /// exist, 409 for what does not fit the present state, 429 for too much at once, 500 for a fault of Triad, 503 for
    /// what may work later.
    pub status: u16,
    /// What is wrong, in a stable word for programs, such as `bad-filter`.
    pub code: Cow<'static, str>,
    /// What is wrong, for people; it says what to do, too, where there is no `next`.
    pub detail: Cow<'static, str>,
    /// What to do about it, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Cow<'static, str>>,
    /// Seconds after which the same request may succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u32>,
}

impl Problem {
    /// A problem with this status and code.
    pub fn new(status: u16, code: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self {
            status,
            code: code.into(),
            detail: detail.into(),
            next: None,
            retry_after: None,
        }
    }

    /// The same problem, with what to do about it.
    #[must_use]
    pub fn next(self, next: &'static str) -> Self {
        Self {
            next: Some(next.into()),
            ..self
        }
    }

    /// The request is wrong; the caller must change it.
    pub fn bad(code: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(400, code, detail)
    }

    /// The caller may not do this.
    pub fn forbidden(code: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(403, code, detail)
    }

    /// The thing that the request names does not exist.
    pub fn missing(code: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(404, code, detail)
    }

    /// A transient problem: the caller may repeat the request after some seconds.
    pub fn later(code: &'static str, detail: impl Into<Cow<'static, str>>, after_s: u32) -> Self {
        Self {
            retry_after: Some(after_s),
            ..Self::new(503, code, detail)
        }
    }

    /// Too much is asked at once: the caller may repeat the request after some seconds.
    pub fn busy(code: &'static str, detail: impl Into<Cow<'static, str>>, after_s: u32) -> Self {
        Self {
            status: 429,
            ..Self::later(code, detail, after_s)
        }
    }

    /// A topic, such as that of dead letters, cannot be read now.
    pub(crate) fn unread(topic: &str, error: &impl std::fmt::Display) -> Self {
        let text = format!("the topic of {topic} cannot be read: {error}");
        Self::later("bus-unavailable", text, 5)
    }

    /// A fault of Triad.
    pub fn internal(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(500, "internal", detail)
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

impl From<serde_json::Error> for Problem {
    fn from(e: serde_json::Error) -> Self {
        Self::internal(format!("the answer has no form: {e}"))
    }
}

impl From<DownstreamError> for Problem {
    fn from(e: DownstreamError) -> Self {
        match e {
            DownstreamError::Store(e) => e.into(),
            DownstreamError::NoSuchAgent { .. } | DownstreamError::NoSuchStep(_) => {
                Self::missing("no-such-downstream", e.to_string())
            }
        }
    }
}

impl From<CampaignError> for Problem {
    fn from(e: CampaignError) -> Self {
        let text = e.to_string();
        match e {
            CampaignError::Store(e) => e.into(),
            CampaignError::NotFound(_) => Self::missing("no-such-campaign", text),
            CampaignError::Contended(_) => Self::later("contended", text, 1),
            CampaignError::EmptyFilter | CampaignError::NoIndex => Self::bad("bad-filter", text),
            CampaignError::StopShare(_) => Self::bad("bad-stop-share", text),
            CampaignError::TooMany | CampaignError::Same(_) | CampaignError::Already { .. } => {
                Self::new(409, "campaign", text)
            }
        }
    }
}

impl From<DefinitionError> for Problem {
    fn from(e: DefinitionError) -> Self {
        match e {
            DefinitionError::Missing(_) => Self::missing("no-such-version", e.to_string()),
            DefinitionError::Unreadable(_) => Self::internal(e.to_string()),
            DefinitionError::Store(e) => e.into(),
        }
    }
}
