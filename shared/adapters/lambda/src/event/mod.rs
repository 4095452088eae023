//! The event of a Kafka event source mapping (Amazon MSK and self-managed).
//!
//! Source of the shape: AWS Lambda Developer Guide, "Example event" of both services. Parsed
//! leniently and record by record: header bytes are signed in the events of Lambda (Java bytes)
//! and unsigned in those of some emulators; headers, keys and values may be null or missing; a
//! timestamp may be -1. A record that cannot be understood comes out as malformed, with its place
//! and its JSON, and never fails the others.
//!
//! Only an event that is no Kafka event at all is an error, and then the whole batch is retried.
//! Memory is bounded by Lambda's own limit of 6 MB a payload.

use std::fmt;

use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;
use triad_runtime::record::InputRecord;

use crate::event::decode::{TopicPartition, UNPLACED, decode};
use crate::response::RecordId;

mod decode;

/// One record of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParsedRecord {
    /// A record as the broker delivered it. Its key, value and headers are decoded from the event,
    /// and not checked.
    Record(InputRecord),
    /// A record that cannot be read from the event; the caller can dead-letter it.
    Malformed(MalformedRecord),
}

impl ParsedRecord {
    /// The place that the record was read from. For a malformed record without an offset, the
    /// offset is the one in [`MalformedRecord::offset`].
    pub fn id(&self) -> RecordId {
        let (topic, partition, offset) = match self {
            Self::Record(record) => (&record.topic, record.partition, record.offset),
            Self::Malformed(record) => (&record.topic, record.partition, record.offset),
        };
        RecordId {
            topic: topic.clone(),
            partition,
            offset,
        }
    }
}

/// A record of an event that could not be understood: its place, what is wrong, and its JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MalformedRecord {
    /// Topic that the record was read from.
    pub topic: String,
    /// Number of the partition within the topic, from 0.
    pub partition: i32,
    /// Offset within the partition, from 0. Where the event has none ([`MalformedCause::Offset`],
    /// [`MalformedCause::NotAnObject`]), the lowest that it can be, judged by the offsets of the records
    /// around it. If no record of its list has an offset, it is the record's place in the list, from 0.
    pub offset: i64,
    /// Why the record was not understood.
    pub cause: MalformedCause,
    /// The record's JSON text, exactly as in the event.
    pub raw: String,
}

/// Why a record of an event was not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MalformedCause {
    /// The record is not a JSON object, or is nested too deeply for the parser.
    #[error("the record is not a JSON object: {0}")]
    NotAnObject(String),
    /// The record has no offset, or one that is not a whole number from 0.
    #[error("the record has no usable offset")]
    Offset,
    /// The record names another topic or partition than the list that it is in.
    #[error("the record names {found}, but is listed under {listed}")]
    Place {
        /// Topic or partition that the record names.
        found: String,
        /// Topic or partition of its list.
        listed: String,
    },
    /// The record's key or value is neither null nor a text in base64.
    #[error("the {field} is not base64: {what}")]
    Base64 {
        /// Which of the two is wrong: `key` or `value`.
        field: &'static str,
        /// What is wrong with it, for people.
        what: String,
    },
    /// The record's headers are not a list of names with bytes.
    #[error("header {place}: {what}")]
    Header {
        /// The header's place in the list, from 0.
        place: usize,
        /// What is wrong with it, for people.
        what: String,
    },
}

/// Why an event as a whole is not understood. The texts are for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// The payload is not JSON of the documented shape.
    #[error("not a Kafka event: {0}")]
    Shape(String),
    /// The field `eventSource` names another kind of source: this one.
    #[error("not a Kafka event: its source is {0:?}")]
    Source(String),
    /// The event has no field `records`, or it is null.
    #[error("not a Kafka event: it has no records")]
    NoRecords,
    /// A list of records has this name, which is not of the form `topic-N`, so that no failure in
    /// it could be reported to Lambda.
    #[error("not a Kafka event: {0:?} is not of the form topic-N")]
    Partition(String),
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "eventSource", default)]
    source: Option<String>,
    #[serde(borrow, default)]
    records: Option<Lists<'a>>,
}

/// The lists of records with their names. A duplicate name is kept: a map would drop the first list silently.
struct Lists<'a>(Vec<(String, Vec<&'a RawValue>)>);

impl<'de: 'a, 'a> Deserialize<'de> for Lists<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListsVisitor;
        impl<'de> Visitor<'de> for ListsVisitor {
            type Value = Lists<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("lists of records by topic and partition")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut lists = Vec::new();
                while let Some(list) = map.next_entry::<String, Option<Vec<&'de RawValue>>>()? {
                    lists.push((list.0, list.1.unwrap_or_default()));
                }
                Ok(Lists(lists))
            }
        }
        deserializer.deserialize_map(ListsVisitor)
    }
}

/// Reads the payload that an event source mapping of Kafka sends. The records come sorted by topic, partition
/// and offset. An `eventSource` that is missing is accepted, and any other than `aws:kafka`,
/// `SelfManagedKafka` and `aws:SelfManagedKafka` is not. A list that is null counts as empty.
///
/// # Errors
/// [`EventError::Shape`] if the payload is not JSON of the documented shape, [`EventError::Source`] if it
/// comes from another kind of source, [`EventError::NoRecords`] if the field `records` is missing or null,
/// [`EventError::Partition`] if a list of records has a name of another form. A single record never causes an
/// error: it comes out as [`ParsedRecord::Malformed`].
///
/// ```
/// let event = br#"{"eventSource":"aws:kafka","records":{"orders-0":[
///     {"topic":"orders","partition":0,"offset":7,"value":"e30="}]}}"#;
/// let records = triad_lambda::parse_event(event).unwrap();
/// assert_eq!(records[0].id().offset, 7);
/// ```
pub fn parse_event(payload: &[u8]) -> Result<Vec<ParsedRecord>, EventError> {
    let event: Event<'_> =
        serde_json::from_slice(payload).map_err(|error| EventError::Shape(error.to_string()))?;
    match event.source.as_deref() {
        None | Some("aws:kafka" | "SelfManagedKafka" | "aws:SelfManagedKafka") => {}
        Some(other) => return Err(EventError::Source(other.to_owned())),
    }
    let lists = event.records.ok_or(EventError::NoRecords)?;
    let mut records = Vec::new();
    for (name, list) in &lists.0 {
        let listed =
            TopicPartition::parse(name).ok_or_else(|| EventError::Partition(name.clone()))?;
        parse_list(&listed, list, &mut records);
    }
    // Stable, so that records of equal offset keep their order.
    records.sort_by_cached_key(ParsedRecord::id);
    Ok(records)
}

/// Decodes one list. A record without an offset gets the lowest that it can have, so that a retry from there cannot
/// skip the record.
fn parse_list(listed: &TopicPartition<'_>, list: &[&RawValue], records: &mut Vec<ParsedRecord>) {
    let first = records.len();
    records.extend(list.iter().map(|raw| decode(listed, raw.get())));
    let list = &mut records[first..];
    let placed = |record: &ParsedRecord| record.id().offset != UNPLACED;
    let mut lowest = match list.iter().position(placed) {
        Some(at) => list[at].id().offset.saturating_sub(at as i64),
        None => 0,
    };
    for record in list {
        if let ParsedRecord::Malformed(bad) = record
            && bad.offset == UNPLACED
        {
            bad.offset = lowest;
        }
        lowest = record.id().offset.saturating_add(1);
    }
}
