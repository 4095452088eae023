//! Golden files: an event as Lambda sends it, and the records that the adapter reads from it.

use serde_json::{Value, json};
use triad_lambda::{BatchResponse, ParsedRecord, RecordId, parse_event};

fn text(bytes: &Option<Vec<u8>>) -> Value {
    let text = |bytes: &Vec<u8>| match std::str::from_utf8(bytes) {
        Ok(text) => json!(text),
        Err(_) => json!(bytes),
    };
    bytes.as_ref().map_or(Value::Null, text)
}

fn shown(record: &ParsedRecord) -> Value {
    match record {
        ParsedRecord::Record(record) => json!({
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp_ms": record.timestamp_ms,
            "key": text(&record.key),
            "value": text(&record.value),
            "headers": record.headers,
        }),
        ParsedRecord::Malformed(record) => {
            let raw: Value = serde_json::from_str(&record.raw).unwrap();
            json!({
                "topic": record.topic,
                "partition": record.partition,
                "offset": record.offset,
                "cause": record.cause.to_string(),
                "raw": raw,
            })
        }
    }
}

fn check(event: &[u8], expected: &str) {
    let records: Vec<Value> = parse_event(event).unwrap().iter().map(shown).collect();
    let expected: Vec<Value> = serde_json::from_str(expected).unwrap();
    let found = serde_json::to_string_pretty(&records).unwrap();
    assert_eq!(records, expected, "found:\n{found}");
}

#[test]
fn an_event_of_msk_comes_out_in_order_of_partition_and_offset() {
    let event = include_bytes!("../golden/msk.event.json");
    check(event, include_str!("../golden/msk.records.json"));
}

#[test]
fn an_event_of_a_self_managed_cluster_is_understood() {
    let event = include_bytes!("../golden/self-managed.event.json");
    check(event, include_str!("../golden/self-managed.records.json"));
}

#[test]
fn odd_but_legal_records_are_records() {
    let event = include_bytes!("../golden/odd.event.json");
    check(event, include_str!("../golden/odd.records.json"));
}

#[test]
fn a_malformed_record_keeps_its_place_and_fails_no_other() {
    let event = include_bytes!("../golden/malformed.event.json");
    check(event, include_str!("../golden/malformed.records.json"));
}

#[test]
fn the_responses_are_those_that_lambda_documents() {
    let ids = |event: &[u8]| -> Vec<RecordId> {
        let records = parse_event(event).unwrap();
        records.iter().map(ParsedRecord::id).collect()
    };
    let batch = ids(include_bytes!("../golden/msk.event.json"));
    for (failed, expected) in [
        (&batch[..0], include_str!("../golden/success.response.json")),
        (&batch[..1], include_str!("../golden/partial.response.json")),
    ] {
        let found = serde_json::to_value(BatchResponse::of(&batch, failed)).unwrap();
        let expected: Value = serde_json::from_str(expected).unwrap();
        assert_eq!(found, expected);
    }
}

#[test]
fn what_is_no_kafka_event_is_an_error_as_a_whole() {
    for event in [
        "",
        "null",
        "[]",
        "{}",
        r#"{"records":null}"#,
        r#"{"records":[]}"#,
        r#"{"records":{"orders-0":{}}}"#,
        r#"{"records":{"orders":[{"offset":1}]}}"#,
        r#"{"eventSource":"aws:sqs","records":{}}"#,
        r#"{"eventSource":"aws:kafka","records":{"orders-0":[{"offset":1}]}"#,
    ] {
        assert!(parse_event(event.as_bytes()).is_err(), "{event}");
    }
    assert!(parse_event(b"{\"records\":{\"o-0\":[\"\xff\"]}}").is_err());
    assert_eq!(parse_event(br#"{"records":{}}"#), Ok(Vec::new()));
}

#[test]
fn a_list_that_comes_twice_and_a_deeply_nested_record_lose_nothing() {
    let deep = "[".repeat(5_000) + &"]".repeat(5_000);
    let event = format!(
        r#"{{"records":{{"o-0":[{{"offset":2}}],"o-0":[{{"offset":1}},{{"offset":3,"key":{deep}}}]}}}}"#
    );
    let records = parse_event(event.as_bytes()).unwrap();
    let offsets: Vec<i64> = records.iter().map(|record| record.id().offset).collect();
    assert_eq!(offsets, [1, 2, 2]);
    let malformed = records
        .iter()
        .filter(|r| matches!(r, ParsedRecord::Malformed(_)));
    assert_eq!(malformed.count(), 1);
}
