//! Decoding of Triad's own messages, by the same rule for every topic.

use serde::de::DeserializeOwned;
use triad_core::Timestamp;
use triad_core::message::SOURCE;
use triad_workflow::Millis;

use crate::dead_letter::Cause;
use crate::record::InputRecord;

/// Largest message of Triad's own, in bytes: a submission and its envelope.
pub(crate) const MAX_MESSAGE_BYTES: usize = 512 * 1024;

/// How long a message waits that this process cannot read but a newer version of Triad may; it blocks its partition
/// meanwhile. During a rolling deployment a process that can read it takes the partition over within that time.
/// Afterwards it becomes a dead letter, and its order continues from the due index.
pub(crate) const NEWER_WAITS: Millis = Millis(60_000);

/// Why a record's value is not a message that can be handled.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoMessage {
    /// The value never becomes a message: the record is dead-lettered with this cause.
    Never(Cause),
    /// Triad has sent it, and this process does not know all of it: its sender may have a newer version.
    Newer(String),
}

impl From<Cause> for NoMessage {
    fn from(cause: Cause) -> Self {
        Self::Never(cause)
    }
}

/// Decodes a record's value; `not_one` is the cause code of a value of another kind.
///
/// The parser refuses nesting deeper than 128.
pub(crate) fn message<T: DeserializeOwned>(
    record: &InputRecord,
    not_one: &'static str,
    now: Timestamp,
) -> Result<T, NoMessage> {
    let bytes = record
        .value
        .as_deref()
        .ok_or_else(|| Cause::new("tombstone", "the record has no value (a tombstone)"))?;
    if bytes.len() > MAX_MESSAGE_BYTES {
        let text = format!(
            "the message has {} bytes; {MAX_MESSAGE_BYTES} are allowed",
            bytes.len()
        );
        return Err(Cause::new("too-large", text).into());
    }
    serde_json::from_slice(bytes).map_err(|e| {
        let sent_at = u64::try_from(record.timestamp_ms).map(Timestamp);
        let is_recent = sent_at.is_ok_and(|at| at.is_near(now, NEWER_WAITS));
        match e.is_data() && is_recent && is_ours(record) {
            true => NoMessage::Newer(e.to_string()),
            false => Cause::new(not_one, e.to_string()).into(),
        }
    })
}

/// Whether the record's headers say that Triad sent it.
fn is_ours(record: &InputRecord) -> bool {
    let mut headers = record.headers.iter();
    let source = headers.find(|(name, _)| name == "ce_source");
    source.is_some_and(|(_, value)| value.as_deref() == Some(SOURCE.as_bytes()))
}
