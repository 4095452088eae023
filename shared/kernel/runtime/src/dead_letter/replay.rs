//! Replay of a dead letter: its message, and its marker.
//!
//! A replay is sent first and marked after its acknowledgement. If the process dies in between, the letter looks open
//! and may be replayed again, which is as safe as any redelivery.

use triad_core::message::SOURCE;
use triad_core::{Envelope, topics};

pub use super::act::{InvalidAct, MAX_BY_BYTES, MAX_WHY_BYTES, ReplayAct};
use super::letter::{Content, Letter, LetterId};
use super::names;

/// Why a letter cannot be replayed. For every reason except [`Elsewhere`](Self::Elsewhere) the letter can be
/// replayed if the caller gives a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayRefusal {
    /// The letter has only the beginning of the value, and no other value is given.
    #[error("only {kept} of its {of} bytes were kept; give the whole value")]
    Cut {
        /// Bytes that the letter keeps.
        kept: usize,
        /// Bytes that the whole value had.
        of: usize,
    },
    /// The record had no value, and none is given.
    #[error("the record had no value (a tombstone); give one")]
    Tombstone,
    /// The letter holds the Lambda event in which the record came, not the record: cause
    /// [`MALFORMED_EVENT_RECORD`].
    #[error(
        "the letter holds the Lambda event that could not be read, and not the record; give the record's value"
    )]
    OfAnEvent,
    /// The letter stands for a whole batch and holds nothing of it: cause [`UNREADABLE_BATCH`].
    #[error(
        "the letter is about a batch that could not be read, and holds no record of it; give the value to send"
    )]
    OfABatch,
    /// The record came from this topic, from which Triad takes no input, so no corrected value can be replayed.
    #[error("Triad reads no topic {0:?}, so nothing can be replayed to it")]
    Elsewhere(String),
}

/// Cause code of letters that hold the entry of a Lambda event in which a record came, because the
/// record itself could not be read from it.
pub const MALFORMED_EVENT_RECORD: &str = "malformed-event-record";

/// Cause code of letters about whole batches that could not be read. Such a letter holds nothing of
/// its batch.
pub const UNREADABLE_BATCH: &str = "unreadable-batch";

/// The message that a replay sends: the record as it came, to the topic that it came from. With
/// `corrected` that value takes the place of the record's; `None` keeps it. The headers that only
/// the letter has are left out.
///
/// # Errors
/// [`ReplayRefusal::Elsewhere`] if the record is from a topic from which Triad takes no input. If no value is
/// given and the letter does not have the record's whole value: [`ReplayRefusal::Cut`],
/// [`ReplayRefusal::OfABatch`], [`ReplayRefusal::Tombstone`] or [`ReplayRefusal::OfAnEvent`].
///
/// # Example
/// ```
/// use triad_core::Timestamp;
/// use triad_runtime::InputRecord;
/// use triad_runtime::dead_letter::{Cause, LetterEntry, dead_letter, replay};
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
/// let Ok(LetterEntry::Letter(letter)) = LetterEntry::read(kept) else {
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

/// The marker that letter `of` was replayed, for the topic `dead-letter`. Its key is the letter's id as text, and its
/// value the corrected value, or empty without one.
#[must_use]
pub fn marker(of: &LetterId, act: &ReplayAct, corrected: Option<Vec<u8>>) -> Envelope {
    mark(of, act, corrected, names::REPLAYED, "replayed")
}

/// The marker that letter `of` was dismissed, for the topic `dead-letter`: the letter needs no further action. Its
/// key is the letter's id as text, and its value is empty.
#[must_use]
pub fn dismissal(of: &LetterId, act: &ReplayAct) -> Envelope {
    mark(of, act, None, names::DISMISSED, "dismissed")
}

fn mark(
    of: &LetterId,
    act: &ReplayAct,
    corrected: Option<Vec<u8>>,
    kind: &str,
    done: &str,
) -> Envelope {
    let header = |name: &str, value: String| (name.to_owned(), Some(value.into_bytes()));
    let mut headers = vec![
        header(names::CE_SPECVERSION, "1.0".into()),
        header(names::CE_TYPE, kind.into()),
        header(names::CE_SOURCE, SOURCE.into()),
        header(names::CE_ID, format!("{of}/{done}/{}", act.at.0)),
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
