//! Reading the messages that Triad sends itself: one rule for every topic.

use serde::de::DeserializeOwned;

use crate::dead_letter::Cause;
use crate::record::InputRecord;

/// Largest message of Triad's own, in bytes: a submission and what surrounds it.
pub(crate) const MAX_MESSAGE_BYTES: usize = 512 * 1024;

/// Reads a record's value; `not_one` is the code of a value that is something else.
///
/// The parser refuses nesting deeper than 128 by itself.
pub(crate) fn message<T: DeserializeOwned>(
    record: &InputRecord,
    not_one: &'static str,
) -> Result<T, Cause> {
    let bytes = record
        .value
        .as_deref()
        .ok_or_else(|| Cause::new("tombstone", "the record has no value (a tombstone)"))?;
    if bytes.len() > MAX_MESSAGE_BYTES {
        let text = format!(
            "the message has {} bytes; {MAX_MESSAGE_BYTES} are allowed",
            bytes.len()
        );
        return Err(Cause::new("too-large", text));
    }
    serde_json::from_slice(bytes).map_err(|e| Cause::new(not_one, e.to_string()))
}
