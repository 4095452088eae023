//! Records of topics.

use triad_core::Envelope;
use triad_runtime::system::SystemClock;
use triad_runtime::{Clock, InputRecord};

/// Bytes that a record takes beside its key, value and headers, for all bounds on memory and disk.
const OVERHEAD: usize = 64;
/// Bytes that a header takes beside its name and value.
const HEADER_OVERHEAD: usize = 8;

/// Headers in their order, names and values; a name may repeat. A value of `None` is a null.
pub type Headers = Vec<(String, Option<Vec<u8>>)>;

/// A record that is to be appended to a partition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NewRecord {
    /// The record's time, in milliseconds since the Unix epoch; -1: it has none.
    pub timestamp_ms: i64,
    /// The key; `None`: no key.
    pub key: Option<Vec<u8>>,
    /// The value; `None`: a tombstone.
    pub value: Option<Vec<u8>>,
    /// The headers.
    pub headers: Headers,
}

impl NewRecord {
    /// A message, with its trace context as a header.
    pub(crate) fn of(message: Envelope, timestamp_ms: i64) -> Self {
        let mut headers = message.headers;
        if let Some(trace) = message.trace {
            let name = triad_core::message::TRACEPARENT.to_owned();
            headers.push((name, Some(trace.to_string().into_bytes())));
        }
        Self {
            timestamp_ms,
            key: message.key,
            value: Some(message.value),
            headers,
        }
    }

    /// The record's size in bytes, as all bounds count it.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size(self.key.as_deref(), self.value.as_deref(), &self.headers)
    }

    /// Bytes of key, value and headers alone, for the bound of a topic.
    pub(crate) fn content_bytes(&self) -> usize {
        self.bytes() - OVERHEAD - HEADER_OVERHEAD * self.headers.len()
    }

    pub(crate) fn at(self, offset: i64) -> StoredRecord {
        StoredRecord {
            offset,
            timestamp_ms: self.timestamp_ms,
            key: self.key,
            value: self.value,
            headers: self.headers,
        }
    }
}

/// A record of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRecord {
    /// The record's offset in its partition, from 0.
    pub offset: i64,
    /// The record's time, in milliseconds since the Unix epoch; -1: it has none.
    pub timestamp_ms: i64,
    /// The key; `None`: no key.
    pub key: Option<Vec<u8>>,
    /// The value; `None`: a tombstone.
    pub value: Option<Vec<u8>>,
    /// The headers.
    pub headers: Headers,
}

impl StoredRecord {
    /// The record's size in bytes, as all bounds count it.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size(self.key.as_deref(), self.value.as_deref(), &self.headers)
    }

    /// The record as a handler gets it.
    pub(crate) fn input(&self, topic: &str, partition: i32) -> InputRecord {
        InputRecord {
            topic: topic.to_owned(),
            partition,
            offset: self.offset,
            timestamp_ms: self.timestamp_ms,
            key: self.key.clone(),
            value: self.value.clone(),
            headers: self.headers.clone(),
        }
    }
}

fn size(key: Option<&[u8]>, value: Option<&[u8]>, headers: &Headers) -> usize {
    let bytes = |part: Option<&[u8]>| part.map_or(0, <[u8]>::len);
    let headers = headers
        .iter()
        .map(|(name, value)| name.len() + bytes(value.as_deref()) + HEADER_OVERHEAD);
    OVERHEAD + bytes(key) + bytes(value) + headers.sum::<usize>()
}

/// The present time of this machine, in milliseconds since the Unix epoch.
pub(crate) fn now_ms() -> i64 {
    i64::try_from(SystemClock.now().0).unwrap_or(i64::MAX)
}
