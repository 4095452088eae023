//! One letter with its replays and its dismissal.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use triad_core::Timestamp;
use triad_runtime::dead_letter::letter::{Content, Marker};
use triad_runtime::dead_letter::{Letter, LetterEntry, LetterId};
use triad_workflow::Millis;

use super::{Bytes, Letters};
use crate::topic::TopicReader;

/// Most replays of one letter that are shown, inclusive: those that come last in the topic.
pub const MAX_REPLAYS: usize = 100;

/// A letter with its replays and its last dismissal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LetterView {
    /// The place of the record that the letter is about: that of the first letter about it, if there are several. As
    /// JSON a text, such as `orders/3/42`.
    #[serde(with = "as_text")]
    #[schemars(with = "String")]
    pub id: LetterId,
    /// Topic that the record was read from.
    pub topic: String,
    /// Partition that the record was read from.
    pub partition: i32,
    /// Offset of the record in its partition.
    pub offset: i64,
    /// When the letter was written, by the writer's clock.
    #[schemars(with = "crate::schema::Moment")]
    pub at: Timestamp,
    /// The cause's code: short and stable, fit for grouping.
    pub cause: String,
    /// The cause in words, for people.
    pub message: String,
    /// The record's key; `None` if it had none.
    pub key: Option<Bytes>,
    /// How many bytes the key had, if the letter keeps only its beginning; `None` if it keeps all.
    pub key_of: Option<usize>,
    /// The record's headers, each with its value; `None` if it had no value.
    pub headers: Vec<(String, Option<Bytes>)>,
    /// How many headers the record had, if the letter keeps only the first ones; `None` if it keeps all.
    pub headers_of: Option<usize>,
    /// Whether there is no value ([`Content::Tombstone`]).
    pub tombstone: bool,
    /// How many bytes of the value the letter keeps.
    pub bytes: usize,
    /// How many bytes the value had, if the letter keeps only its beginning; `None` if it keeps all.
    pub cut_from: Option<usize>,
    /// The value; empty if there is none.
    pub value: Bytes,
    /// Its replays, oldest first: at most 100, those that come last in the topic.
    pub replays: Vec<LetterMark>,
    /// Its last dismissal; `None` if it was never dismissed.
    pub dismissed: Option<LetterMark>,
}

/// An operator's act on a letter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LetterMark {
    /// When it was done.
    #[schemars(with = "crate::schema::Moment")]
    pub at: Timestamp,
    /// Who did it.
    pub by: String,
    /// Why.
    pub why: String,
    /// The value that was sent in place of the letter's own; `None` if its own was.
    pub corrected: Option<Bytes>,
}

impl From<Marker> for LetterMark {
    fn from(marker: Marker) -> Self {
        Self {
            at: marker.act.at,
            by: marker.act.by,
            why: marker.act.why,
            corrected: marker.corrected.map(Bytes),
        }
    }
}

impl LetterView {
    fn of(letter: Letter, replays: Vec<Marker>, dismissed: Option<Marker>) -> Self {
        let headers = letter.headers.into_iter();
        Self {
            topic: letter.id.topic.clone(),
            partition: letter.id.partition,
            offset: letter.id.offset,
            id: letter.id,
            at: letter.at,
            cause: letter.cause,
            message: letter.message,
            key: letter.key.map(Bytes),
            key_of: letter.key_of,
            headers: headers
                .map(|(name, value)| (name, value.map(Bytes)))
                .collect(),
            headers_of: letter.headers_of,
            tombstone: letter.value == Content::Tombstone,
            bytes: letter.value.bytes().len(),
            cut_from: match letter.value {
                Content::Cut { of, .. } => Some(of),
                Content::Whole(_) | Content::Tombstone => None,
            },
            value: Bytes(letter.value.bytes().to_vec()),
            replays: replays.into_iter().map(LetterMark::from).collect(),
            dismissed: dismissed.map(LetterMark::from),
        }
    }
}

/// The id of a letter as text.
pub(crate) mod as_text {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};
    use triad_runtime::dead_letter::LetterId;

    pub(crate) fn serialize<S: Serializer>(id: &LetterId, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(id)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<LetterId, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

/// Largest lag of the clock that timed a record of the topic behind the clock of its letter's writer.
const SKEW: Millis = Millis(60_000);

/// Finds one letter with its last replays and its last dismissal; `None` if there is no such letter. The topic
/// is read from a minute before `written`, which is when the letter was written; if that is not known, or
/// the letter is not found from there on, the whole of it. In memory are the letter and at most 101 markers.
///
/// # Errors
/// The error of the [`TopicReader`] if the topic cannot be read.
pub async fn show<T: TopicReader>(
    topic: &T,
    id: &LetterId,
    written: Option<Timestamp>,
) -> Result<Option<LetterView>, T::Error> {
    if let Some(written) = written {
        let found = find_letter(topic, id, Some(written.minus(SKEW))).await?;
        if found.is_some() {
            return Ok(found);
        }
    }
    find_letter(topic, id, None).await
}

async fn find_letter<T: TopicReader>(
    topic: &T,
    id: &LetterId,
    since: Option<Timestamp>,
) -> Result<Option<LetterView>, T::Error> {
    let mut letters = Letters::open(topic, since).await?;
    let mut found: Option<Letter> = None;
    let mut replays: VecDeque<Marker> = VecDeque::new();
    let mut dismissed: Option<Marker> = None;
    while let Some(entry) = letters.next().await? {
        match entry {
            // A redelivered record writes the same letter again.
            LetterEntry::Letter(letter) if letter.id == *id => {
                found.get_or_insert(letter);
            }
            LetterEntry::Replayed(marker) if marker.of == *id => {
                if replays.len() == MAX_REPLAYS {
                    replays.pop_front();
                }
                replays.push_back(marker);
            }
            LetterEntry::Dismissed(marker) if marker.of == *id => {
                let is_later = dismissed.as_ref().is_none_or(|d| d.act.at <= marker.act.at);
                if is_later {
                    dismissed = Some(marker);
                }
            }
            LetterEntry::Letter(_) | LetterEntry::Replayed(_) | LetterEntry::Dismissed(_) => {}
        }
    }
    let mut replays: Vec<Marker> = replays.into();
    replays.sort_by_key(|marker| marker.act.at);
    Ok(found.map(|letter| LetterView::of(letter, replays, dismissed)))
}
