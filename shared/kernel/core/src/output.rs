//! Outputs of actions, in the record or beside it.
//!
//! Each write of a record pays for all of it, so an output above [`MAX_INLINE_BYTES`] lies beside the record: the
//! record has its digest, and the store has its text under the order's id and that digest. The text is written before
//! the record that names it, or with it. It never changes, so a write that is repeated or lost leaves nothing wrong.

use std::fmt::Write as _;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Largest output that lies in the record, in bytes of compact JSON, inclusive: 1 KiB.
pub const MAX_INLINE_BYTES: usize = 1024;
/// Bytes of a digest. Its text has twice as many characters.
const DIGEST_BYTES: usize = 16;

/// The output of an action.
///
/// Two outputs are equal if they have the same content, whether or not it has been read.
#[derive(Debug, Clone)]
pub struct Output(Place);

#[derive(Debug, Clone)]
enum Place {
    /// In the record.
    Inline(Value),
    /// Beside the record.
    Beside {
        digest: OutputDigest,
        content: Content,
    },
}

/// What a copy of a record has of an output beside it.
#[derive(Debug, Clone)]
pub(crate) enum Content {
    /// Nothing: it has not been read.
    Unread,
    /// The output, which is stored.
    Stored(Arc<Value>),
    /// The output, which is to be stored with the next write of the record.
    New(Arc<Value>),
}

/// The first half of the SHA-256 digest of an output's compact JSON, as 32 hexadecimal digits. It names the output
/// among those of its order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OutputDigest(pub String);

impl OutputDigest {
    fn of(json: &str) -> Self {
        let mut digest = String::with_capacity(2 * DIGEST_BYTES);
        for byte in &Sha256::digest(json.as_bytes())[..DIGEST_BYTES] {
            let _ = write!(digest, "{byte:02x}");
        }
        Self(digest)
    }

    /// Parses the stored text of an output.
    ///
    /// # Errors
    /// Why it is not the output that this digest names, for a person.
    pub fn read(&self, json: &str) -> Result<Value, String> {
        if Self::of(json) != *self {
            return Err(format!(
                "a stored output does not fit its digest {}",
                self.0
            ));
        }
        serde_json::from_str(json).map_err(|e| format!("a stored output cannot be read: {e}"))
    }
}

impl Output {
    /// An output that an agent has just brought.
    #[must_use]
    pub fn new(value: Value) -> Self {
        Self::within(value, MAX_INLINE_BYTES)
    }

    /// As [`new`](Self::new), with another bound on what lies in the record.
    pub(crate) fn within(value: Value, max_inline: usize) -> Self {
        let json = value.to_string();
        if json.len() <= max_inline {
            return Self(Place::Inline(value));
        }
        Self(Place::Beside {
            digest: OutputDigest::of(&json),
            content: Content::New(Arc::new(value)),
        })
    }

    /// An output in the record, whatever its size: one that was read from there, or one from an operator. An operator's
    /// role may be without the right to write outputs beside the record.
    pub(crate) fn inline(value: Value) -> Self {
        Self(Place::Inline(value))
    }

    /// An output beside the record, which has not been read.
    pub(crate) fn unread(digest: OutputDigest) -> Self {
        Self(Place::Beside {
            digest,
            content: Content::Unread,
        })
    }

    /// The output; `None` if it lies beside the record and has not been read.
    #[must_use]
    pub fn value(&self) -> Option<&Value> {
        match &self.0 {
            Place::Inline(value) => Some(value),
            Place::Beside { content, .. } => content.value().map(|value| &**value),
        }
    }

    /// Its digest if it lies beside the record.
    #[must_use]
    pub fn digest(&self) -> Option<&OutputDigest> {
        self.beside().map(|(digest, _)| digest)
    }

    /// Whether it is null: there is no output.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(&self.0, Place::Inline(Value::Null))
    }

    /// Its digest and its content if it lies beside the record.
    pub(crate) fn beside(&self) -> Option<(&OutputDigest, &Content)> {
        match &self.0 {
            Place::Inline(_) => None,
            Place::Beside { digest, content } => Some((digest, content)),
        }
    }

    /// As [`beside`](Self::beside), for a caller that changes the content.
    pub(crate) fn beside_mut(&mut self) -> Option<(&OutputDigest, &mut Content)> {
        match &mut self.0 {
            Place::Inline(_) => None,
            Place::Beside { digest, content } => Some((digest, content)),
        }
    }

    /// How it is stored in the record: its value, or its digest.
    pub(crate) fn stored(self) -> (Option<Value>, Option<OutputDigest>) {
        match self.0 {
            Place::Inline(value) => (Some(value), None),
            Place::Beside { digest, .. } => (None, Some(digest)),
        }
    }
}

impl Content {
    pub(crate) fn value(&self) -> Option<&Arc<Value>> {
        match self {
            Self::Unread => None,
            Self::Stored(value) | Self::New(value) => Some(value),
        }
    }
}

impl From<Value> for Output {
    fn from(value: Value) -> Self {
        Self::new(value)
    }
}

impl PartialEq for Output {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Place::Inline(one), Place::Inline(two)) => one == two,
            (Place::Beside { digest: one, .. }, Place::Beside { digest: two, .. }) => one == two,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_lies_beside_the_record_above_its_bound() {
        // A text has two quotation marks in JSON.
        let fits = Output::new("x".repeat(MAX_INLINE_BYTES - 2).into());
        let larger = Output::new("x".repeat(MAX_INLINE_BYTES - 1).into());
        assert_eq!(fits.digest(), None);
        let digest = larger.digest().expect("it is beside").clone();
        assert_eq!(digest.0.len(), 2 * DIGEST_BYTES);
        assert!(larger.value().is_some());
        let read = Output::unread(digest);
        assert_eq!(read.value(), None);
        assert_eq!(read, larger);
        assert_ne!(read, Output::new("y".repeat(MAX_INLINE_BYTES).into()));
    }
}
