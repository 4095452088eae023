//! One record of a topic as a shell hands it to a handler: unchanged and not decoded.

use triad_core::TraceContext;
use triad_core::message::TRACEPARENT;

/// One input record of a topic, exactly as the broker delivered it.
///
/// Nothing is checked yet: key, value and headers may be absent, hold any bytes, or have any size that the broker
/// accepts. The handler decodes the record, and dead-letters what cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InputRecord {
    /// Topic that the record was read from.
    pub topic: String,
    /// Partition within the topic, counted from 0.
    pub partition: i32,
    /// Offset within the partition, counted from 0.
    pub offset: i64,
    /// Broker timestamp in milliseconds since the Unix epoch; `-1` when the record has none.
    pub timestamp_ms: i64,
    /// The key's bytes; `None` if the record has no key.
    pub key: Option<Vec<u8>>,
    /// The value's bytes; `None` if the record has no value (a tombstone).
    pub value: Option<Vec<u8>>,
    /// Headers in their order, names and values; a name may repeat. A value of `None` is a null.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

impl InputRecord {
    /// The trace context in the record's first header `traceparent` (any case), read as the W3C
    /// Trace Context recommendation has it. `None` if there is no such header, or it does not
    /// follow the recommendation.
    #[must_use]
    pub fn trace(&self) -> Option<TraceContext> {
        let mut headers = self.headers.iter();
        let (_, value) = headers.find(|(name, _)| name.eq_ignore_ascii_case(TRACEPARENT))?;
        TraceContext::parse(std::str::from_utf8(value.as_deref()?).ok()?)
    }
}
