//! A failure, classified once by the actor that observed it.

use std::fmt;

use serde::{Deserialize, Serialize};
use triad_workflow::StepId;

/// Longest message of a failure, in bytes, inclusive; [`Failure::new`] cuts longer ones.
pub const MAX_MESSAGE_BYTES: usize = 768;
/// Separator in a message between the agent's text and the beginning of the service's answer. A reader that hides
/// payloads must hide everything after it.
pub const ANSWERED: &str = "; the answer begins: ";
/// Longest code of a failure, in bytes, inclusive; of a longer one [`code`] keeps the beginning.
pub const MAX_CODE_BYTES: usize = 64;

/// Class of a failure. It decides whether an attempt is made again; the text of a failure never does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// The time of an attempt or a call is over: no agent took the request, no reply came before complete-by, or the
    /// service did not answer the call.
    TimedOut,
    /// A transient fault, such as an overloaded service, an open circuit breaker, a reached limit, or an unreadable
    /// answer to a probe. An agent reports an attempt as failed with it once the calls, or the time for another call,
    /// are used up.
    Transient,
    /// The service refused the request; the same request again would be refused too.
    Permanent,
    /// An expression of the workflow's definition has no value for this order. Another attempt
    /// would fail in the same way.
    Definition,
    /// In doubt: it is not known whether an effect happened, and the effect may not be repeated.
    Ambiguous,
    /// An operator cancelled the order, or paused the step or the downstream.
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

/// One failure: its class, its step, its code and its text for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The failure's class.
    pub kind: FailureKind,
    /// The step in which it happened; `None` if it belongs to no step or is not yet placed in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepId>,
    /// Short and stable, fit for grouping, such as `out-of-stock` or `http-503`; [`Failure::new`]
    /// makes it one of the characters and the length that [`code()`] gives.
    pub code: String,
    /// Text for a person; no code compares it. May be empty. [`Failure::new`] keeps at most
    /// [`MAX_MESSAGE_BYTES`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl Failure {
    /// A failure without a step. [`code()`] normalizes its code; a message above [`MAX_MESSAGE_BYTES`] is cut at a
    /// character boundary.
    #[must_use]
    pub fn new(kind: FailureKind, code: &str, message: &str) -> Self {
        Self {
            kind,
            step: None,
            code: self::code(code),
            message: cut(message, MAX_MESSAGE_BYTES),
        }
    }

    /// Bounds code and message as [`Failure::new`] does, of a failure that came in a message.
    pub fn bound(&mut self) {
        self.code = code(&self.code);
        self.message = cut(&self.message, MAX_MESSAGE_BYTES);
    }

    /// The failure of a step that may make no further call because its declared total is used up:
    /// transient, with code `budget`.
    #[must_use]
    pub fn calls_used_up() -> Self {
        let text = "the declared total of calls is used up";
        Self::new(FailureKind::Transient, "budget", text)
    }

    /// The same failure, placed in this step.
    #[must_use]
    pub fn in_step(mut self, step: &StepId) -> Self {
        self.step = Some(step.clone());
        self
    }

    /// Group of equal failures of different orders: `<class>/<step>/<code>`, or `<class>/<code>` if it is in no step.
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

/// The stored code of a text, which may be a service's: ASCII letters, digits and `- _ . : /`, a `-` in place of
/// every other character, at most [`MAX_CODE_BYTES`]. So a code is one word in a command, a pattern, a label or a
/// line of a log, without special characters.
///
/// # Example
/// ```
/// assert_eq!(triad_core::failure::code("Out of stock; $(reboot)"), "Out-of-stock----reboot-");
/// ```
#[must_use]
pub fn code(text: &str) -> String {
    let is_fit = |c: char| c.is_ascii_alphanumeric() || "-_.:/".contains(c);
    let kept = text.chars().take(MAX_CODE_BYTES);
    kept.map(|c| if is_fit(c) { c } else { '-' }).collect()
}

/// The longest prefix of a text that has at most `limit` bytes and ends at a character boundary.
#[must_use]
pub fn cut(text: &str, limit: usize) -> String {
    let mut end = text.len().min(limit);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}
