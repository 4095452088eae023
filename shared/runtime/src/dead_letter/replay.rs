//! Replaying a dead letter: what is sent again, and the marker that says so.
//!
//! A replay is sent first and marked when it is acknowledged. Whoever dies between the two leaves
//! a letter that looks open and may be replayed again: what it leads to is the same as that of
//! any redelivered record.

use triad_core::message::SOURCE;
use triad_core::{Envelope, Timestamp, topics};

use super::letter::{Content, Letter, LetterId};
use super::names;

/// Most bytes of a name in [`ReplayAct::by`].
pub const MAX_BY_BYTES: usize = 128;
/// Most bytes of a reason in [`ReplayAct::why`].
pub const MAX_WHY_BYTES: usize = 1024;

/// Who replays, why and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayAct {
    /// Who.
    pub by: String,
    /// Why.
    pub why: String,
    /// When.
    pub at: Timestamp,
}

/// An act that says too little or too much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{what} has {bytes} bytes; from 1 to {limit} are allowed")]
pub struct InvalidAct {
    /// What: who or why.
    pub what: &'static str,
    /// What it has.
    pub bytes: usize,
    /// What it may have.
    pub limit: usize,
}

impl ReplayAct {
    /// An act; blanks around who and why are left out.
    ///
    /// # Errors
    /// [`InvalidAct`] if one of them is empty or too long.
    pub fn new(by: &str, why: &str, at: Timestamp) -> Result<Self, InvalidAct> {
        let checked = |what, text: &str, limit| match text.trim() {
            text if (1..=limit).contains(&text.len()) => Ok(text.to_owned()),
            text => Err(InvalidAct {
                what,
                bytes: text.len(),
                limit,
            }),
        };
        Ok(Self {
            by: checked("who", by, MAX_BY_BYTES)?,
            why: checked("why", why, MAX_WHY_BYTES)?,
            at,
        })
    }
}

/// A letter that cannot be replayed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayRefusal {
    /// Not all of its value is there.
    #[error("only {kept} of its {of} bytes were kept; give the whole value")]
    Cut {
        /// Bytes that are kept.
        kept: usize,
        /// Bytes of the record's value.
        of: usize,
    },
    /// There is nothing to send.
    #[error("the record had no value (a tombstone); give one")]
    Tombstone,
    /// What is kept is not the record but the event that it came in.
    #[error(
        "the record came in an event that could not be read, and is not kept itself; give its value"
    )]
    OfAnEvent,
    /// It stands for a whole batch, of which nothing is kept.
    #[error(
        "the letter is about a batch that could not be read, and no record of it is kept; give one's value"
    )]
    OfABatch,
    /// It is from elsewhere: a replay would write where Triad takes no input.
    #[error("{0:?} is no topic from which Triad takes its input")]
    Elsewhere(String),
}

/// Code of letters that hold the event in which a record came, not the record.
pub const MALFORMED_EVENT_RECORD: &str = "malformed-event-record";

/// Code of letters about batches that could not be read: they hold nothing of them.
pub const UNREADABLE_BATCH: &str = "unreadable-batch";

/// The message that a replay sends: the record as it came, to the topic that it came from, with
/// another value if one is given. The letter's own headers are left out.
///
/// # Errors
/// [`ReplayRefusal`] if there is nothing sound to send.
///
/// # Example
/// ```
/// use triad_core::Timestamp;
/// use triad_runtime::InputRecord;
/// use triad_runtime::dead_letter::{Cause, Entry, dead_letter, replay};
///
/// let record = InputRecord {
///     topic: "orders".into(),
///     value: Some(b"{".to_vec()),
///     ..InputRecord::default()
/// };
/// let [sent, _] = dead_letter(&record, &Cause::new("not-an-order", "EOF"), Timestamp(0));
/// let kept = InputRecord {
///     topic: sent.topic,
///     key: sent.key,
///     value: Some(sent.value),
///     headers: sent.headers,
///     ..InputRecord::default()
/// };
/// let Ok(Entry::Letter(letter)) = Entry::read(kept) else {
///     panic!("it is a letter")
/// };
/// let again = replay::replay(&letter, Some(b"{}".to_vec())).unwrap();
/// assert_eq!((again.topic.as_str(), again.value), ("orders", b"{}".to_vec()));
/// ```
pub fn replay(letter: &Letter, corrected: Option<Vec<u8>>) -> Result<Envelope, ReplayRefusal> {
    if !topics::is_input(&letter.id.topic) {
        return Err(ReplayRefusal::Elsewhere(letter.id.topic.clone()));
    }
    let value = match (corrected, &letter.value) {
        (Some(corrected), _) => corrected,
        (None, Content::Cut { beginning, of }) => {
            return Err(ReplayRefusal::Cut {
                kept: beginning.len(),
                of: *of,
            });
        }
        (None, _) if letter.cause == UNREADABLE_BATCH => return Err(ReplayRefusal::OfABatch),
        (None, Content::Tombstone) => return Err(ReplayRefusal::Tombstone),
        (None, Content::Whole(_)) if letter.cause == MALFORMED_EVENT_RECORD => {
            return Err(ReplayRefusal::OfAnEvent);
        }
        (None, Content::Whole(value)) => value.clone(),
    };
    Ok(Envelope {
        topic: letter.id.topic.clone(),
        key: letter.key.clone(),
        value,
        headers: letter.headers.clone(),
        trace: None,
    })
}

/// The marker that a letter was replayed, for the topic `dead-letter`. Its value is the corrected
/// one, if there was one; its key is the letter's id.
#[must_use]
pub fn marker(of: &LetterId, act: &ReplayAct, corrected: Option<Vec<u8>>) -> Envelope {
    let header = |name: &str, value: String| (name.to_owned(), Some(value.into_bytes()));
    let mut headers = vec![
        header(names::CE_SPECVERSION, "1.0".into()),
        header(names::CE_TYPE, names::REPLAYED.into()),
        header(names::CE_SOURCE, SOURCE.into()),
        header(names::CE_ID, format!("{of}/replayed/{}", act.at.0)),
        header(names::REPLAY_OF, of.to_string()),
        header(names::BY, act.by.clone()),
        header(names::WHY, act.why.clone()),
        header(names::AT, act.at.0.to_string()),
    ];
    if corrected.is_some() {
        headers.push(header(names::CORRECTED, "true".into()));
    }
    Envelope {
        topic: topics::DEAD_LETTER.to_owned(),
        key: Some(of.to_string().into_bytes()),
        value: corrected.unwrap_or_default(),
        headers,
        trace: None,
    }
}
