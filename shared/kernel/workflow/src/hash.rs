//! The hash that identifies the content of a definition.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::model::Definition;

/// The first 16 hex digits of SHA-256 over a definition's stored bytes: its canonical JSON, as it was published.
///
/// Canonical JSON is the model serialized with sorted keys and without absent fields. So comments, the order
/// of keys and the spelling of durations do not change the hash, and every change of meaning does. A stored
/// version is never serialized again to know it: another version of a library may write other bytes. 64 bits
/// suffice, because hashes are compared among the versions of one workflow name only. To read a text that is
/// not 16 lower-case hex digits is an error that says so.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DefinitionHash(Arc<str>);

const DIGITS: usize = 16;

impl DefinitionHash {
    /// The hash of a definition that is not published yet.
    #[must_use]
    pub fn of(definition: &Definition) -> Self {
        Self::of_stored(&canonical_json(definition))
    }

    /// The hash of a definition with this stored text.
    #[must_use]
    pub fn of_stored(json: &str) -> Self {
        let digest = Sha256::digest(json.as_bytes());
        let hex: String = digest.iter().map(|b| format!("{b:02x}")).collect();
        Self(hex[..DIGITS].into())
    }

    /// The 16 lower-case hex digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The canonical JSON of a definition, on one line: its published, stored and hashed form. Keys are sorted and absent
/// fields are left out.
#[must_use]
pub fn canonical_json(definition: &Definition) -> String {
    // `serde_json::Value` keeps its keys sorted (the `preserve_order` feature is off), and going
    // through it sorts the struct's fields as well.
    serde_json::to_value(definition)
        .map(|v| v.to_string())
        .expect("a definition holds only JSON values and strings as keys")
}

/// The error of reading a [`DefinitionHash`]: the text, given here, is not 16 lower-case hex digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a definition hash of {DIGITS} hex digits")]
pub struct InvalidHash(pub String);

impl FromStr for DefinitionHash {
    type Err = InvalidHash;
    fn from_str(text: &str) -> Result<Self, InvalidHash> {
        if text.len() == DIGITS
            && text
                .bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        {
            Ok(Self(text.into()))
        } else {
            Err(InvalidHash(text.to_owned()))
        }
    }
}

impl TryFrom<String> for DefinitionHash {
    type Error = InvalidHash;
    fn try_from(text: String) -> Result<Self, InvalidHash> {
        text.parse()
    }
}

impl From<DefinitionHash> for String {
    fn from(hash: DefinitionHash) -> String {
        hash.0.as_ref().to_owned()
    }
}

impl fmt::Display for DefinitionHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
