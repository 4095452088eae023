//! What could not be taken, by cause, and the newest letters.

use std::collections::BTreeMap;

use serde::Serialize;
use triad_core::Timestamp;
use triad_runtime::dead_letter::index::{Group, Index};
use triad_runtime::dead_letter::letter::Content;
use triad_runtime::dead_letter::{Entry, Letter, LetterId};

use super::{Bytes, LetterError, LetterFilter, LetterTopic, Letters};

/// Dead letters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// How many there are of each cause, most letters first.
    pub causes: Vec<Group>,
    /// The newest, oldest first.
    pub letters: Vec<Listed>,
    /// Whether there are older ones.
    pub more: bool,
    /// Records of the topic that are neither letters nor markers: Triad has not written them.
    pub unreadable: u64,
}

/// A letter without its value and headers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// Which record it is about, as text.
    #[serde(serialize_with = "super::show::as_text")]
    pub id: LetterId,
    /// Topic of the record.
    pub topic: String,
    /// Partition of the record.
    pub partition: i32,
    /// Offset of the record.
    pub offset: i64,
    /// When the letter was written.
    pub at: Timestamp,
    /// Short and stable, fit for grouping.
    pub cause: String,
    /// The cause for a person.
    pub message: String,
    /// The record's key.
    pub key: Option<Bytes>,
    /// Bytes that are kept of the record's value.
    pub bytes: usize,
    /// Bytes of the value, if not all are kept.
    pub cut_from: Option<usize>,
    /// Whether the record had no value.
    pub tombstone: bool,
    /// When it was replayed last.
    pub replayed_at: Option<Timestamp>,
}

impl Listed {
    fn of(letter: Letter) -> Self {
        Self {
            topic: letter.id.topic.clone(),
            partition: letter.id.partition,
            offset: letter.id.offset,
            id: letter.id,
            at: letter.at,
            bytes: letter.value.bytes().len(),
            cut_from: match letter.value {
                Content::Cut { of, .. } => Some(of),
                Content::Whole(_) | Content::Tombstone => None,
            },
            tombstone: letter.value == Content::Tombstone,
            cause: letter.cause,
            message: letter.message,
            key: letter.key.map(Bytes),
            replayed_at: None,
        }
    }
}

/// Counts the letters that fit by cause, and lists the newest `limit` of them.
///
/// In memory are at most `limit` letters without their values, and an index of at most
/// [`MAX_KNOWN`](triad_runtime::dead_letter::index::MAX_KNOWN) ids.
///
/// # Errors
/// [`LetterError`]; it is full where a later `since` helps.
pub async fn list<T: LetterTopic>(
    topic: &T,
    filter: &LetterFilter,
    limit: usize,
) -> Result<Listing, LetterError<T::Error>> {
    let opened = Letters::open(topic, filter.since).await;
    let mut letters = opened.map_err(LetterError::Topic)?;
    let mut index = Index::default();
    let mut newest: BTreeMap<(Timestamp, LetterId), Listed> = BTreeMap::new();
    let mut more = false;
    while let Some(entry) = letters.next().await.map_err(LetterError::Topic)? {
        if matches!(&entry, Entry::Letter(letter) if !filter.fits(letter)) {
            continue;
        }
        let is_new = index.note(&entry)?;
        if let Entry::Letter(letter) = entry
            && is_new
        {
            newest.insert((letter.at, letter.id.clone()), Listed::of(letter));
            if newest.len() > limit {
                newest.pop_first();
                more = true;
            }
        }
    }
    let with_replay = |letter: Listed| Listed {
        replayed_at: index.replayed(&letter.id),
        ..letter
    };
    Ok(Listing {
        causes: index.groups(),
        letters: newest.into_values().map(with_replay).collect(),
        more,
        unreadable: letters.unreadable,
    })
}
