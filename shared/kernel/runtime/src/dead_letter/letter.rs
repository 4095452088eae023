//! Reading the topic `dead-letter`: letters, and markers of replays.

use std::fmt;
use std::str::FromStr;

use triad_core::Timestamp;

use super::act::ReplayAct;
use super::names;
use crate::record::InputRecord;

/// Which record a letter is about: the place that the record was read from. As text: `orders/3/42` (topic,
/// partition, offset). A text is read only if the topic is not empty and both numbers are whole and at
/// least 0.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LetterId {
    /// Topic that the record was read from.
    pub topic: String,
    /// Partition within the topic, counted from 0.
    pub partition: i32,
    /// Offset within the partition, counted from 0.
    pub offset: i64,
}

/// The error of reading a [`LetterId`]: the text, given here, is not TOPIC/PARTITION/OFFSET with a topic and
/// two whole numbers, neither of them negative.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the id of a dead letter: write TOPIC/PARTITION/OFFSET, such as orders/3/42")]
pub struct InvalidLetterId(pub String);

impl LetterId {
    /// The id of the letter about this record: its topic, partition and offset.
    #[must_use]
    pub fn of(record: &InputRecord) -> Self {
        Self {
            topic: record.topic.clone(),
            partition: record.partition,
            offset: record.offset,
        }
    }
}

impl fmt::Display for LetterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.topic, self.partition, self.offset)
    }
}

impl FromStr for LetterId {
    type Err = InvalidLetterId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (rest, offset) = text.rsplit_once('/')?;
            let (topic, partition) = rest.rsplit_once('/')?;
            let id = Self {
                topic: topic.to_owned(),
                partition: partition.parse().ok()?,
                offset: offset.parse().ok()?,
            };
            let is_place = !topic.is_empty() && id.partition >= 0 && id.offset >= 0;
            is_place.then_some(id)
        };
        parse().ok_or_else(|| InvalidLetterId(text.to_owned()))
    }
}

/// A dead letter: a record that could not be handled, as far as it is kept, and why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letter {
    /// Place of the record that the letter is about.
    pub id: LetterId,
    /// The cause's code: short and stable, fit for grouping.
    pub cause: String,
    /// The cause in words, for people; at most 1,024 bytes.
    pub message: String,
    /// When the letter was written, by the writer's clock.
    pub at: Timestamp,
    /// The record's key, byte for byte, as far as it is kept; `None` if it had none.
    pub key: Option<Vec<u8>>,
    /// How many bytes the record's key had, if more than are kept; `None` if all are kept.
    pub key_of: Option<usize>,
    /// The record's value, as far as it is kept.
    pub value: Content,
    /// The record's own headers, names and values, in their order, as far as they are kept. A value of `None`
    /// is a null.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// How many headers the record had, if more than are kept; `None` if all are kept.
    pub headers_of: Option<usize>,
}

/// The value of a dead-lettered record, as far as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// The whole value. In a letter with the cause
    /// [`MALFORMED_EVENT_RECORD`](super::replay::MALFORMED_EVENT_RECORD) it is not the record's value but the
    /// JSON text of the record's entry in the Lambda event.
    Whole(Vec<u8>),
    /// The beginning of a value that is larger than [`MAX_VALUE_BYTES`](super::MAX_VALUE_BYTES), or than the
    /// topic of dead letters takes.
    Cut {
        /// The bytes that are kept, from the first on.
        beginning: Vec<u8>,
        /// Length of the whole value, in bytes.
        of: usize,
    },
    /// There is no value: the record's value was null, or the letter is about a whole batch that could not be
    /// read ([`UNREADABLE_BATCH`](super::replay::UNREADABLE_BATCH)).
    Tombstone,
}

impl Content {
    /// The bytes that are kept; empty for [`Self::Tombstone`].
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Whole(bytes)
            | Self::Cut {
                beginning: bytes, ..
            } => bytes,
            Self::Tombstone => &[],
        }
    }
}

/// A note in the topic `dead-letter` that a letter was replayed, or dismissed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker {
    /// The letter that was replayed or dismissed.
    pub of: LetterId,
    /// The operator, the reason and the time.
    pub act: ReplayAct,
    /// The value that was sent in place of the letter's own; `None` if the letter's own was sent, and for a
    /// dismissal.
    pub corrected: Option<Vec<u8>>,
}

/// A record of the topic `dead-letter`, read: a letter, or a marker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LetterEntry {
    /// A dead letter about one record or batch.
    Letter(Letter),
    /// A note that a letter was replayed.
    Replayed(Marker),
    /// A note that a letter was dismissed: it needs no further action.
    Dismissed(Marker),
}

/// The error of a record that is neither a letter nor a marker, because Triad has not written it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the record is neither a dead letter nor a marker: {0}")]
pub struct Unreadable(
    /// Name of the header that is missing or wrong.
    pub &'static str,
);

impl LetterEntry {
    /// Reads a record of the topic `dead-letter`.
    ///
    /// # Errors
    /// [`Unreadable`], with the name of the header that is missing or wrong, if the record is
    /// neither a letter nor a marker.
    pub fn read(record: InputRecord) -> Result<Self, Unreadable> {
        let own = FirstHeaders(&record.headers);
        match own.text(names::CE_TYPE) {
            Some(names::LETTER) => letter(record).map(Self::Letter),
            Some(names::REPLAYED) => marker(&record).map(Self::Replayed),
            Some(names::DISMISSED) => marker(&record).map(Self::Dismissed),
            _ => Err(Unreadable("its ce_type")),
        }
    }
}

/// Headers; the first of each name counts.
struct FirstHeaders<'a>(&'a [(String, Option<Vec<u8>>)]);

impl<'a> FirstHeaders<'a> {
    fn text(&self, name: &str) -> Option<&'a str> {
        let (_, value) = self.0.iter().find(|(n, _)| n == name)?;
        std::str::from_utf8(value.as_deref()?).ok()
    }

    fn number<T: FromStr>(&self, name: &str) -> Option<T> {
        self.text(name)?.parse().ok()
    }

    fn wanted(&self, name: &'static str) -> Result<String, Unreadable> {
        let text = self.text(name).ok_or(Unreadable(name))?;
        Ok(text.to_owned())
    }
}

/// Number of a letter's own headers: they come first, each once, and `triad-headers` is the last of them. The
/// record's headers follow, with any names.
fn own_headers(all: &[(String, Option<Vec<u8>>)]) -> usize {
    for (at, (name, _)) in all.iter().enumerate() {
        let known = names::OF_A_LETTER.contains(&name.as_str());
        if !known || all[..at].iter().any(|(earlier, _)| earlier == name) {
            return at;
        }
        if name == names::HEADERS {
            return at + 1;
        }
    }
    all.len()
}

fn letter(record: InputRecord) -> Result<Letter, Unreadable> {
    let mut all = record.headers;
    let headers = all.split_off(own_headers(&all));
    let own = FirstHeaders(&all);
    let bytes = record.value.unwrap_or_default();
    let value = if own.text(names::TOMBSTONE).is_some() {
        Content::Tombstone
    } else if let Some(of) = own.number(names::TRUNCATED_FROM) {
        Content::Cut {
            beginning: bytes,
            of,
        }
    } else {
        Content::Whole(bytes)
    };
    let had: Option<usize> = own
        .text(names::HEADERS)
        .and_then(|text| text.split_once('/')?.1.parse().ok());
    Ok(Letter {
        id: LetterId {
            topic: own.wanted(names::TOPIC)?,
            partition: own
                .number(names::PARTITION)
                .ok_or(Unreadable(names::PARTITION))?,
            offset: own.number(names::OFFSET).ok_or(Unreadable(names::OFFSET))?,
        },
        cause: own.wanted(names::CAUSE)?,
        message: own.wanted(names::CAUSE_MESSAGE)?,
        at: Timestamp(own.number(names::AT).ok_or(Unreadable(names::AT))?),
        key_of: own.number(names::KEY_TRUNCATED_FROM),
        key: record.key,
        value,
        headers_of: had.filter(|had| *had > headers.len()),
        headers,
    })
}

fn marker(record: &InputRecord) -> Result<Marker, Unreadable> {
    let own = FirstHeaders(&record.headers);
    let of = own.number(names::REPLAY_OF);
    let corrected = own.text(names::CORRECTED).is_some();
    Ok(Marker {
        of: of.ok_or(Unreadable(names::REPLAY_OF))?,
        act: ReplayAct {
            by: own.wanted(names::BY)?,
            why: own.wanted(names::WHY)?,
            at: Timestamp(own.number(names::AT).ok_or(Unreadable(names::AT))?),
        },
        corrected: corrected.then(|| record.value.clone().unwrap_or_default()),
    })
}
