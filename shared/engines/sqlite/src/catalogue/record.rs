//! Records of topics.

use triad_core::Envelope;
use triad_runtime::system::SystemClock;
use triad_runtime::{Clock, InputRecord};

/// Bytes that a record takes beside its key, value and headers, for all bounds on memory and disk.
const OVERHEAD: usize = 64;
/// Bytes that a header takes beside its name and value: their lengths.
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
        OVERHEAD + HEADER_OVERHEAD * self.headers.len() + self.content_bytes()
    }

    /// Bytes of key, value and headers alone, for the bound of a topic.
    pub(crate) fn content_bytes(&self) -> usize {
        let bytes = |part: Option<&Vec<u8>>| part.map_or(0, Vec::len);
        let headers = self.headers.iter();
        let headers = headers.map(|(name, value)| name.len() + bytes(value.as_ref()));
        bytes(self.key.as_ref()) + bytes(self.value.as_ref()) + headers.sum::<usize>()
    }

    /// The record at an offset.
    #[must_use]
    pub fn at(self, offset: i64) -> StoredRecord {
        let mut content = Vec::with_capacity(self.bytes() - OVERHEAD);
        let key = put(&mut content, self.key.as_deref());
        let value = put(&mut content, self.value.as_deref());
        for (name, value) in &self.headers {
            let name = name.as_bytes();
            content.extend_from_slice(&length(Some(name)).to_le_bytes());
            content.extend_from_slice(&length(value.as_deref()).to_le_bytes());
            put(&mut content, Some(name));
            put(&mut content, value.as_deref());
        }
        StoredRecord {
            offset,
            timestamp_ms: self.timestamp_ms,
            key,
            value,
            content: content.into(),
        }
    }
}

/// Adds bytes, if there are any; returns their [`length`].
fn put(out: &mut Vec<u8>, bytes: Option<&[u8]>) -> i32 {
    out.extend_from_slice(bytes.unwrap_or_default());
    length(bytes)
}

/// How many bytes there are; -1: none, which is not the same as no byte.
fn length(bytes: Option<&[u8]>) -> i32 {
    bytes.map_or(-1, |bytes| i32::try_from(bytes.len()).unwrap_or(i32::MAX))
}

/// A record of a partition. Many of them may wait in memory, so its parts are in one piece of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRecord {
    /// The record's offset in its partition, from 0.
    pub offset: i64,
    /// The record's time, in milliseconds since the Unix epoch; -1: it has none.
    pub timestamp_ms: i64,
    /// Lengths of key and value.
    key: i32,
    value: i32,
    /// Key, value, and for each header the lengths of its name and its value, its name and its value.
    content: Box<[u8]>,
}

impl StoredRecord {
    /// The record's size in bytes, as all bounds count it.
    #[must_use]
    pub fn bytes(&self) -> usize {
        OVERHEAD + self.content.len()
    }

    /// The key; `None`: no key.
    #[must_use]
    pub fn key(&self) -> Option<&[u8]> {
        Parts(&self.content).take(self.key)
    }

    /// The value; `None`: a tombstone.
    #[must_use]
    pub fn value(&self) -> Option<&[u8]> {
        let mut parts = Parts(&self.content);
        parts.take(self.key);
        parts.take(self.value)
    }

    /// The headers in their order, names and values; a name may repeat. A value of `None` is a null.
    pub fn headers(&self) -> impl Iterator<Item = (&str, Option<&[u8]>)> {
        let mut parts = Parts(&self.content);
        parts.take(self.key);
        parts.take(self.value);
        std::iter::from_fn(move || {
            let (name, value) = (parts.length()?, parts.length()?);
            let name = parts.take(name).unwrap_or_default();
            Some((str::from_utf8(name).unwrap_or_default(), parts.take(value)))
        })
    }

    /// The record as a handler gets it.
    pub(crate) fn input(&self, topic: &str, partition: i32) -> InputRecord {
        let header =
            |(name, value): (&str, Option<&[u8]>)| (name.to_owned(), value.map(<[u8]>::to_vec));
        InputRecord {
            topic: topic.to_owned(),
            partition,
            offset: self.offset,
            timestamp_ms: self.timestamp_ms,
            key: self.key().map(<[u8]>::to_vec),
            value: self.value().map(<[u8]>::to_vec),
            headers: self.headers().map(header).collect(),
        }
    }
}

/// The rest of a record's content.
struct Parts<'a>(&'a [u8]);

impl<'a> Parts<'a> {
    /// The next bytes; `None` if their length is negative.
    fn take(&mut self, length: i32) -> Option<&'a [u8]> {
        let length = usize::try_from(length).ok()?;
        let (part, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(part)
    }

    /// The next length; `None` at the end.
    fn length(&mut self) -> Option<i32> {
        let (length, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(i32::from_le_bytes(*length))
    }
}

/// The present time of this machine, in milliseconds since the Unix epoch.
pub(crate) fn now_ms() -> i64 {
    i64::try_from(SystemClock.now().0).unwrap_or(i64::MAX)
}
