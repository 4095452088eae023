//! Dead letters: listed, shown, replayed and dismissed.
//!
//! [`triad_runtime::dead_letter`] defines letters and what a replay sends. The topic is read as a whole, or from a
//! moment on: a log has no other index.

mod list;
mod replay;
mod show;

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use triad_core::Timestamp;
use triad_runtime::dead_letter::index::IndexFull;
use triad_runtime::dead_letter::{Letter, LetterEntry};

use crate::topic::{Extent, LogTopic, TopicReader, TopicRecords};

pub use list::{Listed, Listing, list};
pub use replay::{Chosen, Deed, Replay, ReplayError, ReplayOutcome, Tally, replay};
pub(crate) use show::as_text;
pub use show::{LetterMark, LetterView, show};

/// Why dead letters cannot be listed. `E` is the error of the [`TopicReader`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LetterError<E> {
    /// The topic cannot be read; this is the error of the [`TopicReader`].
    #[error("the topic of dead letters cannot be read")]
    Topic(E),
    /// The topic has more letters than one index takes: see
    /// [`MAX_KNOWN`](triad_runtime::dead_letter::index::MAX_KNOWN).
    #[error(transparent)]
    Full(#[from] IndexFull),
}

/// A filter for dead letters. A letter fits if it fits every field that is set. The default has no field
/// set: every letter fits that was not dismissed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LetterFilter {
    /// Only letters with exactly this cause code; `None`: any.
    pub cause: Option<String>,
    /// Only letters about records of exactly this topic; `None`: any.
    pub topic: Option<String>,
    /// Only letters that were written at this moment or later; the topic is read from this moment on.
    /// `None`: all.
    pub since: Option<Timestamp>,
    /// If true, only letters that were never replayed fit.
    pub not_replayed: bool,
    /// If true, letters that were dismissed fit, too; if false, they are left out.
    pub dismissed: bool,
}

impl LetterFilter {
    /// Whether a letter fits the fields `not_replayed` and `dismissed`. The arguments are when the letter
    /// was last replayed and last dismissed; `None`: never.
    #[must_use]
    pub fn fits_marks(&self, replayed: Option<Timestamp>, dismissed: Option<Timestamp>) -> bool {
        (self.dismissed || dismissed.is_none()) && !(self.not_replayed && replayed.is_some())
    }

    /// Whether a letter fits the fields `cause`, `topic` and `since`, which are about the letter itself.
    #[must_use]
    pub fn fits(&self, letter: &Letter) -> bool {
        let is = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|w| w == is);
        is(&self.cause, &letter.cause)
            && is(&self.topic, &letter.id.topic)
            && self.since.is_none_or(|since| letter.at >= since)
    }
}

/// Bytes of a record. As JSON a text if they are UTF-8, else `{"hex": "..."}` with two digits for
/// each byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Text(String),
            Hex { hex: String },
        }
        let bytes = match Form::deserialize(from)? {
            Form::Text(text) => Some(text.into_bytes()),
            Form::Hex { hex } => {
                let two = |at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
                (0..hex.len()).step_by(2).map(two).collect()
            }
        };
        bytes
            .map(Self)
            .ok_or_else(|| D::Error::custom("it has no pairs of hex digits"))
    }
}

impl JsonSchema for Bytes {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Bytes".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "A text, or `hex` with two digits for each byte if it is not UTF-8.",
            "type": ["string", "object"],
        })
    }

    fn inline_schema() -> bool {
        true
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Hex {
            hex: String,
        }
        match std::str::from_utf8(&self.0) {
            Ok(text) => to.serialize_str(text),
            Err(_) => {
                let digits = self.0.iter().map(|byte| format!("{byte:02x}"));
                let hex = digits.collect();
                Hex { hex }.serialize(to)
            }
        }
    }
}

/// Letters and markers of one reading; other records are counted.
struct Letters<R> {
    records: R,
    unreadable: u64,
}

impl<R: TopicRecords> Letters<R> {
    async fn open<T>(topic: &T, since: Option<Timestamp>) -> Result<Self, T::Error>
    where
        T: TopicReader<Records = R, Error = R::Error>,
    {
        let extent = Extent { since, last: None };
        Ok(Self {
            records: topic.open(LogTopic::DeadLetters, extent).await?,
            unreadable: 0,
        })
    }

    async fn next(&mut self) -> Result<Option<LetterEntry>, R::Error> {
        while let Some(record) = self.records.next().await? {
            match LetterEntry::read(record) {
                Ok(entry) => return Ok(Some(entry)),
                Err(_) => self.unreadable += 1,
            }
        }
        Ok(None)
    }
}
