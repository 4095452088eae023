//! One letter with its replays and its dismissal.

use std::collections::VecDeque;
use std::fmt::Display;

use serde::{Serialize, Serializer};
use triad_core::Timestamp;
use triad_runtime::dead_letter::letter::{Content, Marker};
use triad_runtime::dead_letter::{Letter, LetterEntry, LetterId};
use triad_workflow::Millis;

use super::{Bytes, Letters};
use crate::topic::TopicReader;

/// Most replays of one letter that are shown, inclusive: those that come last in the topic.
pub const MAX_REPLAYS: usize = 100;

/// A letter with its replays and its last dismissal. As JSON one object with the parts of the letter by name,
/// `replays` and `dismissed`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LetterView {
    /// The letter: the first one about its record, if there are several.
    pub letter: Letter,
    /// The markers of its replays, oldest first: at most 100, those that come last in the topic. Empty if it
    /// was never replayed.
    pub replays: Vec<Marker>,
    /// The letter's last dismissal; `None` if it was never dismissed.
    pub dismissed: Option<Marker>,
}

pub(crate) fn as_text<S: Serializer>(what: &impl Display, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(what)
}

#[derive(Serialize)]
struct ReplayForm<'a> {
    at: Timestamp,
    by: &'a str,
    why: &'a str,
    corrected: Option<Bytes>,
}

#[derive(Serialize)]
struct Form<'a> {
    id: String,
    topic: &'a str,
    partition: i32,
    offset: i64,
    at: Timestamp,
    cause: &'a str,
    message: &'a str,
    key: Option<Bytes>,
    key_of: Option<usize>,
    headers: Vec<(&'a str, Option<Bytes>)>,
    headers_of: Option<usize>,
    tombstone: bool,
    bytes: usize,
    cut_from: Option<usize>,
    value: Bytes,
    replays: Vec<ReplayForm<'a>>,
    dismissed: Option<DismissalForm<'a>>,
}

#[derive(Serialize)]
struct DismissalForm<'a> {
    at: Timestamp,
    by: &'a str,
    why: &'a str,
}

impl Serialize for LetterView {
    /// The letter's parts by name, and its replays.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let letter = &self.letter;
        Form {
            id: letter.id.to_string(),
            topic: &letter.id.topic,
            partition: letter.id.partition,
            offset: letter.id.offset,
            at: letter.at,
            cause: &letter.cause,
            message: &letter.message,
            key: letter.key.clone().map(Bytes),
            key_of: letter.key_of,
            headers: letter
                .headers
                .iter()
                .map(|(name, value)| (name.as_str(), value.clone().map(Bytes)))
                .collect(),
            headers_of: letter.headers_of,
            tombstone: letter.value == Content::Tombstone,
            bytes: letter.value.bytes().len(),
            cut_from: match letter.value {
                Content::Cut { of, .. } => Some(of),
                Content::Whole(_) | Content::Tombstone => None,
            },
            value: Bytes(letter.value.bytes().to_vec()),
            replays: self
                .replays
                .iter()
                .map(|marker| ReplayForm {
                    at: marker.act.at,
                    by: &marker.act.by,
                    why: &marker.act.why,
                    corrected: marker.corrected.clone().map(Bytes),
                })
                .collect(),
            dismissed: self.dismissed.as_ref().map(|marker| DismissalForm {
                at: marker.act.at,
                by: &marker.act.by,
                why: &marker.act.why,
            }),
        }
        .serialize(to)
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
    Ok(found.map(|letter| LetterView {
        letter,
        replays,
        dismissed,
    }))
}
