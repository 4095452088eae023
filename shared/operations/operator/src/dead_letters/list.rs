//! The list of dead letters: the number of each cause, and the newest letters.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use triad_core::Timestamp;
use triad_runtime::dead_letter::index::{Group, Index};
use triad_runtime::dead_letter::letter::Content;
use triad_runtime::dead_letter::{Letter, LetterEntry, LetterId};

use super::{Bytes, LetterError, LetterFilter, Letters};
use crate::topic::TopicReader;

/// The dead letters that fit a filter: all of them counted, and the newest ones listed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// How many letters there are of each cause, the cause with the most letters first.
    pub causes: Vec<Group>,
    /// The newest letters, at most as many as were asked for, oldest first.
    pub letters: Vec<Listed>,
    /// Whether letters that fit were left out of `letters`, because they are older.
    pub more: bool,
    /// Records of the topic that are neither letters nor markers, because Triad has not written
    /// them. They are counted nowhere else.
    pub unreadable: u64,
}

/// A letter without its value and headers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Listed {
    /// The place of the record that the letter is about. As JSON a text, such as `orders/3/42`.
    #[serde(with = "super::show::as_text")]
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
    /// How many bytes of the record's value the letter keeps; 0 if there is no value.
    pub bytes: usize,
    /// How many bytes the value had, if the letter keeps only the beginning; `None` if it keeps
    /// all.
    pub cut_from: Option<usize>,
    /// Whether there is no value ([`Content::Tombstone`]).
    pub tombstone: bool,
    /// When the letter was replayed last; `None` if it never was.
    #[schemars(with = "Option<crate::schema::Moment>")]
    pub replayed_at: Option<Timestamp>,
    /// When the letter was dismissed last; `None` if it never was.
    #[schemars(with = "Option<crate::schema::Moment>")]
    pub dismissed_at: Option<Timestamp>,
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
            dismissed_at: None,
        }
    }
}

/// Reads the topic, counts the letters that fit the filter by cause, and lists the newest `limit` of them.
/// If the filter leaves letters out because they were replayed or dismissed, the topic is read a second
/// time: only after the first reading it is known which letters these are.
///
/// In memory are at most `limit` letters and one more, without their values, and an index of at
/// most [`MAX_KNOWN`](triad_runtime::dead_letter::index::MAX_KNOWN) ids.
///
/// # Errors
/// [`LetterError::Topic`] if the topic cannot be read; [`LetterError::Full`] if it holds more
/// letters than the index takes: a later [`LetterFilter::since`] helps.
pub async fn list<T: TopicReader>(
    topic: &T,
    filter: &LetterFilter,
    limit: usize,
) -> Result<Listing, LetterError<T::Error>> {
    let opened = Letters::open(topic, filter.since).await;
    let mut letters = opened.map_err(LetterError::Topic)?;
    let mut index = Index::default();
    let mut newest = Newest::of(limit);
    while let Some(entry) = letters.next().await.map_err(LetterError::Topic)? {
        if matches!(&entry, LetterEntry::Letter(letter) if !filter.fits(letter)) {
            continue;
        }
        let is_new = index.note(&entry)?;
        if let LetterEntry::Letter(letter) = entry
            && is_new
        {
            newest.add(letter);
        }
    }
    let fits = |id: &LetterId| filter.fits_marks(index.replayed(id), index.dismissed(id));
    let groups = index.groups_of(|replayed, dismissed| filter.fits_marks(replayed, dismissed));
    let left_out = index.letters() > groups.iter().map(|group| group.letters).sum();
    if left_out {
        newest = Newest::of(limit);
        let opened = Letters::open(topic, filter.since).await;
        let mut again = opened.map_err(LetterError::Topic)?;
        while let Some(entry) = again.next().await.map_err(LetterError::Topic)? {
            if let LetterEntry::Letter(letter) = entry
                && filter.fits(&letter)
                && index.holds(&letter.id)
                && fits(&letter.id)
            {
                newest.add(letter);
            }
        }
    }
    let with_marks = |letter: Listed| Listed {
        replayed_at: index.replayed(&letter.id),
        dismissed_at: index.dismissed(&letter.id),
        ..letter
    };
    Ok(Listing {
        causes: groups.into_iter().filter(|g| g.letters > 0).collect(),
        letters: newest.letters.into_values().map(with_marks).collect(),
        more: newest.more,
        unreadable: letters.unreadable,
    })
}

/// The newest letters found, each once.
struct Newest {
    letters: BTreeMap<(Timestamp, LetterId), Listed>,
    limit: usize,
    /// Whether older letters were left out.
    more: bool,
}

impl Newest {
    fn of(limit: usize) -> Self {
        Self {
            letters: BTreeMap::new(),
            limit,
            more: false,
        }
    }

    fn add(&mut self, letter: Letter) {
        self.letters
            .insert((letter.at, letter.id.clone()), Listed::of(letter));
        if self.letters.len() > self.limit {
            self.letters.pop_first();
            self.more = true;
        }
    }
}
