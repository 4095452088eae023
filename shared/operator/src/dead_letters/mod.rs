//! Dead letters: listed, shown and replayed.
//!
//! What a letter is, and what a replay sends, is [`triad_runtime::dead_letter`]'s. The topic is read
//! as a whole, or from a moment on: a log has no other index. How a topic is read is the bus's
//! affair and behind [`LetterTopic`], which whoever uses this implements over the bus's client.

mod list;
mod replay;
mod show;

use std::future::Future;

use serde::{Serialize, Serializer};
use triad_core::Timestamp;
use triad_runtime::InputRecord;
use triad_runtime::dead_letter::index::Full;
use triad_runtime::dead_letter::{Entry, Letter};

pub use list::{Listed, Listing, list};
pub use replay::{Chosen, Outcome, Replay, ReplayError, Tally, replay};
pub use show::{Shown, show};

/// The topic of dead letters.
pub trait LetterTopic: Send + Sync {
    /// Why it cannot be read.
    type Error: Send;
    /// One reading of it.
    type Records: LetterRecords<Error = Self::Error>;

    /// Opens it, from its beginning or from the first record that is not older than `since`. What
    /// it holds at this moment is read, and nothing that comes later has to be.
    fn open(
        &self,
        since: Option<Timestamp>,
    ) -> impl Future<Output = Result<Self::Records, Self::Error>> + Send;
}

/// One reading of the topic of dead letters.
pub trait LetterRecords: Send {
    /// Why it cannot be read.
    type Error: Send;

    /// The next record, in the order of its partition; `None` at the end.
    fn next(&mut self) -> impl Future<Output = Result<Option<InputRecord>, Self::Error>> + Send;
}

/// Why dead letters cannot be listed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LetterError<E> {
    /// The topic cannot be read.
    #[error("the topic of dead letters cannot be read")]
    Topic(E),
    /// There are more letters than are kept in mind.
    #[error(transparent)]
    Full(#[from] Full),
}

/// Which letters. Everything that it says must fit; one that says nothing fits every letter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LetterFilter {
    /// Letters with this cause.
    pub cause: Option<String>,
    /// Letters of records of this topic.
    pub topic: Option<String>,
    /// Letters that are not older; the topic is read from there on.
    pub since: Option<Timestamp>,
}

impl LetterFilter {
    /// Whether a letter is meant.
    #[must_use]
    pub fn fits(&self, letter: &Letter) -> bool {
        let is = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|w| w == is);
        is(&self.cause, &letter.cause)
            && is(&self.topic, &letter.id.topic)
            && self.since.is_none_or(|since| letter.at >= since)
    }
}

/// Bytes of a record. As JSON: a text if they are UTF-8, else an object with their hex digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

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

impl<R: LetterRecords> Letters<R> {
    async fn open<T>(topic: &T, since: Option<Timestamp>) -> Result<Self, T::Error>
    where
        T: LetterTopic<Records = R, Error = R::Error>,
    {
        Ok(Self {
            records: topic.open(since).await?,
            unreadable: 0,
        })
    }

    async fn next(&mut self) -> Result<Option<Entry>, R::Error> {
        while let Some(record) = self.records.next().await? {
            match Entry::read(record) {
                Ok(entry) => return Ok(Some(entry)),
                Err(_) => self.unreadable += 1,
            }
        }
        Ok(None)
    }
}
