//! What an examination finds.

use serde::{Deserialize, Serialize};

/// Result for one part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Kind of the part, such as `topic` or `function`.
    pub part: String,
    /// Its name.
    pub name: String,
    /// Whether something is wrong.
    pub found: State,
    /// One sentence for people; if something is wrong, with the next step.
    pub text: String,
}

/// State of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Nothing is wrong.
    Ok,
    /// Something is wrong.
    Wrong,
}

impl Finding {
    pub(crate) fn ok(part: &'static str, name: impl Into<String>, text: impl Into<String>) -> Self {
        Self::new(part, name, State::Ok, text)
    }

    pub(crate) fn wrong(
        part: &'static str,
        name: impl Into<String>,
        text: impl Into<String>,
    ) -> Self {
        Self::new(part, name, State::Wrong, text)
    }

    fn new(
        part: &'static str,
        name: impl Into<String>,
        found: State,
        text: impl Into<String>,
    ) -> Self {
        Self {
            part: part.to_owned(),
            name: name.into(),
            found,
            text: text.into(),
        }
    }
}

/// Whether nothing is wrong.
#[must_use]
pub fn is_fine(findings: &[Finding]) -> bool {
    findings.iter().all(|finding| finding.found == State::Ok)
}

/// An error with its causes, each once, for people.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let mut said = error.to_string();
    let mut next = error.source();
    // Ends with the first cause.
    while let Some(cause) = next {
        let text = cause.to_string();
        if !said.ends_with(&text) {
            said = format!("{said}: {text}");
        }
        next = cause.source();
    }
    said
}
