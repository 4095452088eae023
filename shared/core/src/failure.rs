//! What went wrong, classified once where it was seen.

use std::fmt;

use serde::{Deserialize, Serialize};
use triad_workflow::StepId;

/// Longest message of a failure, in bytes; longer ones are cut.
pub const MAX_MESSAGE_BYTES: usize = 512;
/// Longest code of a failure, in bytes; longer ones are cut.
pub const MAX_CODE_BYTES: usize = 64;

/// Class of a failure: retry code matches on this, never on text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// Nothing was heard before complete-by.
    TimedOut,
    /// The service failed in a way that may pass, and the allowance is used up.
    Transient,
    /// The service refused; trying again is no use.
    Permanent,
    /// An expression of the definition has no value for this order.
    Definition,
    /// It is not known whether an effect happened that may not be repeated.
    Ambiguous,
    /// An operator asked for it.
    Operator,
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TimedOut => "timed-out",
            Self::Transient => "transient",
            Self::Permanent => "permanent",
            Self::Definition => "definition",
            Self::Ambiguous => "ambiguous",
            Self::Operator => "operator",
        })
    }
}

/// One failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Its class.
    pub kind: FailureKind,
    /// The step it happened in, if in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepId>,
    /// Short and stable, fit for grouping: `out-of-stock`, `http-503`.
    pub code: String,
    /// For a person.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl Failure {
    /// A failure; over-long texts are cut at a character boundary.
    #[must_use]
    pub fn new(kind: FailureKind, code: &str, message: &str) -> Self {
        Self {
            kind,
            step: None,
            code: cut(code, MAX_CODE_BYTES),
            message: cut(message, MAX_MESSAGE_BYTES),
        }
    }

    /// No attempt may be made any more: the declared total of calls is used up.
    #[must_use]
    pub fn calls_used_up() -> Self {
        let text = "the declared total of calls is used up";
        Self::new(FailureKind::Transient, "budget", text)
    }

    /// The same failure, placed in a step.
    #[must_use]
    pub fn in_step(mut self, step: &StepId) -> Self {
        self.step = Some(step.clone());
        self
    }

    /// What equal failures of different orders have in common: class, step and code.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        match &self.step {
            Some(step) => format!("{}/{step}/{}", self.kind, self.code),
            None => format!("{}/{}", self.kind, self.code),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.fingerprint())?;
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        Ok(())
    }
}

/// The longest prefix of at most `limit` bytes that ends at a character.
#[must_use]
pub fn cut(text: &str, limit: usize) -> String {
    let mut end = text.len().min(limit);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}
