//! The event as the service documents it: values and keys in base64, header bytes signed.
//!
//! Source: AWS Lambda Developer Guide, "Example event" of Amazon MSK and of self-managed Apache
//! Kafka.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use triad_runtime::InputRecord;

/// Largest payload of an invocation, in bytes, inclusive: 6 MiB (6,291,456 bytes). AWS calls it 6 MB ("Lambda
/// quotas" in the AWS Lambda Developer Guide).
pub const MAX_PAYLOAD: usize = 6 * 1024 * 1024;

/// A generous bound on the bytes that the names, offsets and punctuation of a record take in the event.
const RECORD_OVERHEAD: usize = 400;

/// The event with which Lambda would pass these records to a function, as JSON text.
#[must_use]
pub fn event(records: &[InputRecord]) -> String {
    let mut by_partition: Map<String, Value> = Map::new();
    for record in records {
        let partition = format!("{}-{}", record.topic, record.partition);
        let list = by_partition.entry(partition).or_insert_with(|| json!([]));
        if let Value::Array(list) = list {
            list.push(record_json(record));
        }
    }
    json!({
        "eventSource": "SelfManagedKafka",
        "bootstrapServers": "127.0.0.1",
        "records": by_partition,
    })
    .to_string()
}

fn record_json(record: &InputRecord) -> Value {
    let encoded = |bytes: &Option<Vec<u8>>| bytes.as_ref().map(|b| STANDARD.encode(b));
    let header = |(name, value): &(String, Option<Vec<u8>>)| {
        let bytes = value.as_ref().map(|value| {
            let signed = value.iter().map(|b| b.cast_signed());
            signed.collect::<Vec<i8>>()
        });
        json!({ name: bytes })
    };
    let headers: Vec<Value> = record.headers.iter().map(header).collect();
    json!({
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "timestampType": "CREATE_TIME",
        "key": encoded(&record.key),
        "value": encoded(&record.value),
        "headers": headers,
    })
}

/// Upper bound of a record's bytes in the event.
pub(crate) fn weight(record: &InputRecord) -> usize {
    let encoded = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, |b| b.len().div_ceil(3) * 4);
    let headers = record.headers.iter();
    // A header's byte takes at most five characters (`-128,`), and a byte of a name at most six (an escape).
    let headers: usize = headers
        .map(|(name, value)| name.len() * 6 + value.as_ref().map_or(0, |v| v.len() * 5) + 12)
        .sum();
    RECORD_OVERHEAD + encoded(&record.key) + encoded(&record.value) + headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_event_is_larger_than_its_records_are_weighed() {
        let records: Vec<InputRecord> = (0..50)
            .map(|n| InputRecord {
                topic: "orders".into(),
                partition: n % 3,
                offset: i64::MAX - i64::from(n),
                timestamp_ms: i64::MAX,
                key: Some(vec![0xff; 7]),
                value: Some(vec![0; 100 + n as usize]),
                headers: vec![
                    ("\u{1}\"".repeat(9), Some(vec![0x80; 40])),
                    ("n".into(), None),
                ],
            })
            .collect();
        let weighed: usize = records.iter().map(weight).sum();
        assert!(event(&records).len() <= weighed);
    }
}
