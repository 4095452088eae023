//! Records that cannot be handled: stored unchanged with their cause, and an alert; read by operators, and replayed
//! to their topic.
//!
//! The topic `dead-letter` holds letters, made here, and markers of replays and dismissals. [`letter`] reads both,
//! [`replay`] makes the messages of a replay, [`index`] lists the letters of a topic and their replays.

mod act;
pub mod index;
pub mod letter;
mod names;
pub mod replay;
mod send;

use std::sync::atomic::{AtomicU64, Ordering};

use triad_core::message::{Alert, AlertKind, SOURCE};
use triad_core::{Envelope, Timestamp, topics};

use crate::metric;
use crate::record::InputRecord;

pub use letter::{Letter, LetterEntry, LetterId};
pub use send::send;
pub(crate) use send::shortened;

/// Largest value, in bytes, inclusive, that a letter keeps whole: 900 KiB. Of a larger value only this many
/// bytes from its beginning are kept; headers of the letter give the value's size and the place of the
/// record.
pub const MAX_VALUE_BYTES: usize = 900 * 1024;
/// Largest key, in bytes, inclusive, that a letter keeps whole: 32 KiB. Of a larger key only this many bytes
/// from its beginning are kept; a header of the letter gives the key's size. A replay sends these bytes as the
/// key.
///
/// With the largest value, the most headers and its own fields, a letter stays below the 1,000,000 bytes that a Kafka
/// producer sends as one message, whatever the record was.
pub const MAX_KEY_BYTES: usize = 32 * 1024;
/// Most of the record's own headers that a letter keeps: the first ones. Further ones are dropped,
/// and the letter says how many there were.
pub const MAX_HEADERS: usize = 64;
/// Most bytes of the record's headers, names and values together, that a letter keeps, inclusive: 16 KiB. The
/// first header that does not fit is dropped, and all those after it.
pub const MAX_HEADER_BYTES: usize = 16 * 1024;

/// Why a record is dead-lettered: a code for programs and a text for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// Short and stable, fit for grouping, such as `too-large`.
    pub code: &'static str,
    /// The cause in words, for people. A letter keeps at most 1,024 bytes of it.
    pub message: String,
}

impl Cause {
    /// A cause with this code (short and stable) and this text (for people).
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

/// Dead letters made by this process.
static MADE: AtomicU64 = AtomicU64::new(0);

/// How many dead letters this process has made since it started, for its log. A letter that is made again counts
/// again. Other processes of the installation are not counted.
#[must_use]
pub fn made() -> u64 {
    MADE.load(Ordering::Relaxed)
}

/// Makes the dead letter of a record and its alert, in this order, and notes the letter in the log and the
/// metrics. Neither message is sent: [`send()`] does that.
///
/// Key and value are the record's own, byte for byte, up to [`MAX_KEY_BYTES`] and [`MAX_VALUE_BYTES`], so
/// that the record can be replayed after a fix. Cause and place of the record are in headers. Both
/// messages have an id made of topic, partition and offset: a redelivered record leads to the same
/// ids again.
#[must_use]
pub fn dead_letter(record: &InputRecord, cause: &Cause, now: Timestamp) -> [Envelope; 2] {
    MADE.fetch_add(1, Ordering::Relaxed);
    metric::dead_lettered(&record.topic, cause.code);
    tracing::warn!(
        topic = record.topic,
        partition = record.partition,
        offset = record.offset,
        code = cause.code,
        cause = cause.message,
        "record dead-lettered"
    );
    let id = LetterId::of(record).to_string();
    let message = triad_core::failure::cut(&cause.message, 1024);
    let header = |name: &str, value: String| (name.to_owned(), Some(value.into_bytes()));
    let value = record.value.as_deref().unwrap_or_default();
    let kept = &value[..value.len().min(MAX_VALUE_BYTES)];
    let key = record.key.as_deref();
    let kept_key = key.map(|key| &key[..key.len().min(MAX_KEY_BYTES)]);
    let mut headers = vec![
        header(names::CE_SPECVERSION, "1.0".into()),
        header(names::CE_TYPE, names::LETTER.into()),
        header(names::CE_SOURCE, SOURCE.into()),
        header(names::CE_ID, id.clone()),
        header(names::CAUSE, cause.code.into()),
        header(names::CAUSE_MESSAGE, message.clone()),
        header(names::TOPIC, record.topic.clone()),
        header(names::PARTITION, record.partition.to_string()),
        header(names::OFFSET, record.offset.to_string()),
        header(names::AT, now.0.to_string()),
    ];
    if record.value.is_none() {
        headers.push(header(names::TOMBSTONE, "true".into()));
    }
    if kept.len() < value.len() {
        headers.push(header(names::TRUNCATED_FROM, value.len().to_string()));
    }
    if let Some(key) = key.filter(|key| key.len() > MAX_KEY_BYTES) {
        headers.push(header(names::KEY_TRUNCATED_FROM, key.len().to_string()));
    }
    let originals = headers_kept(&record.headers);
    // The last header of the letter itself: the record's headers follow, with any names.
    let of = format!("{}/{}", originals.len(), record.headers.len());
    headers.push(header(names::HEADERS, of));
    headers.extend_from_slice(originals);
    let letter = Envelope {
        topic: topics::DEAD_LETTER.to_owned(),
        key: kept_key.map(<[u8]>::to_vec),
        value: kept.to_vec(),
        headers,
        trace: None,
    };
    let alert = alert(&id, cause.code, &message, now);
    [letter, alert]
}

/// The headers of a record that are within the bounds.
fn headers_kept(all: &[(String, Option<Vec<u8>>)]) -> &[(String, Option<Vec<u8>>)] {
    let mut room = MAX_HEADER_BYTES;
    let fits = |(name, value): &&(String, Option<Vec<u8>>)| {
        let size = name.len() + value.as_ref().map_or(0, Vec::len);
        let fits = size <= room;
        room = room.saturating_sub(size);
        fits
    };
    let kept = all.iter().take(MAX_HEADERS).take_while(fits).count();
    &all[..kept]
}

fn alert(id: &str, code: &str, message: &str, now: Timestamp) -> Envelope {
    let alert = Alert {
        alert_id: format!("dead-letter/{id}"),
        kind: AlertKind::DeadLetter,
        order_id: None,
        cause: format!("{code}: {message} (from {id})"),
        at: now,
    };
    alert.message(id, None)
}
