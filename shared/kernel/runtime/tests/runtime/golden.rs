//! Golden file of a dead letter and of its alert.

use std::path::PathBuf;

use serde_json::{Value, json};
use triad_core::message::Alert;
use triad_core::{Envelope, Timestamp};
use triad_runtime::InputRecord;
use triad_runtime::dead_letter::{Cause, MAX_VALUE_BYTES, dead_letter};

fn record() -> InputRecord {
    InputRecord {
        topic: "orders".into(),
        partition: 3,
        offset: 42,
        timestamp_ms: -1,
        key: Some(b"k".to_vec()),
        value: Some(b"{oops".to_vec()),
        headers: vec![("app".into(), Some(vec![0xff])), ("none".into(), None)],
    }
}

fn readable(message: &Envelope) -> Value {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let headers: Vec<_> = message
        .headers
        .iter()
        .map(|(name, value)| json!([name, value.as_deref().map(text)]))
        .collect();
    json!({"topic": message.topic, "key": message.key.as_deref().map(text),
        "value": text(&message.value), "headers": headers})
}

fn letter() -> Value {
    let cause = Cause::new("not-an-order", "key must be a string");
    let [letter, alert] = dead_letter(&record(), &cause, Timestamp(1_000_000));
    json!({"letter": readable(&letter), "alert": readable(&alert)})
}

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/dead-letter.json")
}

#[test]
fn a_dead_letter_is_as_the_golden_file_has_it() {
    let text = std::fs::read_to_string(path()).unwrap_or_default();
    let golden: Value = serde_json::from_str(&text).unwrap_or_default();
    assert_eq!(letter(), golden, "run with `-- --ignored` if this is meant");
}

#[test]
#[ignore = "writes the golden file of a new form"]
fn write_golden_files() {
    let text = serde_json::to_string_pretty(&letter()).unwrap() + "\n";
    match std::fs::read_to_string(path()) {
        Ok(there) => assert_eq!(there, text, "it is an earlier form: name the new one"),
        Err(_) => std::fs::write(path(), text).unwrap(),
    }
}

#[test]
fn the_stored_alert_of_a_dead_letter_still_decodes() {
    let text = std::fs::read_to_string(path()).unwrap();
    let golden: Value = serde_json::from_str(&text).unwrap();
    let body = golden["alert"]["value"].as_str().unwrap();
    let alert: Alert = serde_json::from_str(body).unwrap();
    assert_eq!(alert.alert_id, "dead-letter/orders/3/42");
}

#[test]
fn key_and_value_stay_byte_for_byte() {
    let mut odd = record();
    odd.value = Some(vec![0, 0xff, 0xfe]);
    odd.key = None;
    let [letter, _] = dead_letter(&odd, &Cause::new("not-utf8", "x"), Timestamp(0));
    assert_eq!((letter.key, letter.value), (None, vec![0, 0xff, 0xfe]));
}

#[test]
fn a_tombstone_and_an_oversized_value_are_marked() {
    let mut odd = record();
    odd.value = None;
    let name = |m: &Envelope, n: &str| m.headers.iter().any(|(name, _)| name == n);
    let [letter, _] = dead_letter(&odd, &Cause::new("tombstone", "x"), Timestamp(0));
    assert!(name(&letter, "triad-tombstone"));
    odd.value = Some(vec![b'x'; MAX_VALUE_BYTES + 1]);
    let [letter, _] = dead_letter(&odd, &Cause::new("too-large", "x"), Timestamp(0));
    assert!(name(&letter, "triad-truncated-from"));
    assert_eq!(letter.value.len(), MAX_VALUE_BYTES);
}
