//! Decodes one record of an event from its JSON.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Map, Value};
use triad_runtime::record::InputRecord;

use super::{MalformedCause, MalformedRecord, ParsedRecord};

/// Offset of a malformed record without one, until its list gives it one.
pub(super) const UNPLACED: i64 = i64::MIN;

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The topic and partition of a list of records.
pub(super) struct TopicPartition<'a> {
    topic: &'a str,
    partition: i32,
}

impl<'a> TopicPartition<'a> {
    /// Parses `topic-N`; the topic may contain dashes.
    pub(super) fn parse(name: &'a str) -> Option<Self> {
        let (topic, number) = name.rsplit_once('-')?;
        let partition = number.parse().ok()?;
        (!topic.is_empty() && partition >= 0).then_some(Self { topic, partition })
    }
}

/// Decodes one record. A malformed one keeps a usable offset, else it is [`UNPLACED`].
pub(super) fn decode(listed: &TopicPartition<'_>, raw: &str) -> ParsedRecord {
    let malformed = |offset, cause| {
        ParsedRecord::Malformed(MalformedRecord {
            topic: listed.topic.to_owned(),
            partition: listed.partition,
            offset,
            cause,
            raw: raw.to_owned(),
        })
    };
    let fields: Map<String, Value> = match serde_json::from_str(raw) {
        Ok(fields) => fields,
        Err(error) => {
            return malformed(UNPLACED, MalformedCause::NotAnObject(error.to_string()));
        }
    };
    let offset = fields.get("offset").and_then(Value::as_i64);
    let Some(offset) = offset.filter(|offset| *offset >= 0) else {
        return malformed(UNPLACED, MalformedCause::Offset);
    };
    match content(listed, &fields) {
        Ok(content) => ParsedRecord::Record(InputRecord { offset, ..content }),
        Err(cause) => malformed(offset, cause),
    }
}

/// Decodes a record except for its offset.
fn content(
    listed: &TopicPartition<'_>,
    fields: &Map<String, Value>,
) -> Result<InputRecord, MalformedCause> {
    check_place(listed, fields)?;
    // A timestamp that is not a number is dropped; -1 means none in Kafka.
    let timestamp_ms = fields
        .get("timestamp")
        .and_then(Value::as_i64)
        .unwrap_or(-1);
    Ok(InputRecord {
        topic: listed.topic.to_owned(),
        partition: listed.partition,
        offset: UNPLACED,
        timestamp_ms,
        key: base64_field(fields, "key")?,
        value: base64_field(fields, "value")?,
        headers: headers(fields.get("headers"))?,
    })
}

/// Compares the record's topic and partition with its list's, which are reported back to Lambda.
fn check_place(
    listed: &TopicPartition<'_>,
    fields: &Map<String, Value>,
) -> Result<(), MalformedCause> {
    let agrees = |name: &str, same: fn(&TopicPartition<'_>, &Value) -> bool| {
        fields
            .get(name)
            .is_none_or(|field| field.is_null() || same(listed, field))
    };
    let topic = agrees("topic", |listed, topic| topic == listed.topic);
    let partition = agrees("partition", |listed, partition| {
        *partition == listed.partition
    });
    if topic && partition {
        return Ok(());
    }
    let shown = |name: &str| fields.get(name).unwrap_or(&Value::Null).to_string();
    Err(MalformedCause::Place {
        found: format!("topic {} partition {}", shown("topic"), shown("partition")),
        listed: format!("{}-{}", listed.topic, listed.partition),
    })
}

fn base64_field(
    fields: &Map<String, Value>,
    field: &'static str,
) -> Result<Option<Vec<u8>>, MalformedCause> {
    let bad = |what: String| MalformedCause::Base64 { field, what };
    match fields.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => BASE64
            .decode(text)
            .map(Some)
            .map_err(|error| bad(error.to_string())),
        Some(_) => Err(bad("not a text".to_owned())),
    }
}

type Headers = Vec<(String, Option<Vec<u8>>)>;

/// A list of objects, each with one name (or several, in the order of the JSON parser's map).
fn headers(headers: Option<&Value>) -> Result<Headers, MalformedCause> {
    let list = match headers {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(list)) => list,
        Some(_) => {
            return Err(MalformedCause::Header {
                place: 0,
                what: "the headers are not a list".to_owned(),
            });
        }
    };
    let mut decoded = Vec::with_capacity(list.len());
    for (place, header) in list.iter().enumerate() {
        let bad = |what: String| MalformedCause::Header { place, what };
        match header {
            Value::Null => {}
            Value::Object(named) => {
                for (name, value) in named {
                    let bytes = header_bytes(value).map_err(bad)?;
                    decoded.push((name.clone(), bytes));
                }
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                return Err(bad("not an object".to_owned()));
            }
        }
    }
    Ok(decoded)
}

/// Accepts signed bytes (-128 to 127, as Java writes them) and unsigned ones (0 to 255).
fn header_bytes(value: &Value) -> Result<Option<Vec<u8>>, String> {
    let numbers = match value {
        Value::Null => return Ok(None),
        Value::Array(numbers) => numbers,
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            return Err("the value is not a list of bytes".to_owned());
        }
    };
    let byte = |number: &Value| match number.as_i64() {
        Some(number @ -128..=255) => Ok((number & 0xff) as u8),
        _ => Err(format!("{number} is not a byte")),
    };
    numbers.iter().map(byte).collect::<Result<_, _>>().map(Some)
}
