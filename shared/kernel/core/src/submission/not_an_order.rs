//! Why a value is not an order, for the application that submitted it: its envelope, or all that is wrong with its
//! fields.

use std::fmt;

use serde_json::{Map, Value};
use triad_workflow::moment::{Tz, moment};
use triad_workflow::{Millis, WorkflowName};

use super::SubmissionRefusal;
use crate::ids::OrderId;

/// The fields of an order: name and expected type.
const FIELDS: [(&str, &str); 6] = [
    ("order_id", "a text"),
    ("workflow", "the name of a workflow, a text"),
    ("details", "an object"),
    ("reply_topic", "a text"),
    (
        "start_at",
        "a moment such as \"2026-12-24T08:00:00Z\", a text",
    ),
    ("order_timeout", "a duration such as \"30m\", a text"),
];

/// Why a value that a schema registry's serializer wrote is no order: it begins with the byte 0 and the number of a
/// schema, four bytes (the wire format of Confluent's serializers).
pub(super) fn registered(bytes: &[u8]) -> Option<String> {
    let [0, schema @ ..] = bytes else { return None };
    let (schema, _) = schema.split_first_chunk::<4>()?;
    let number = u32::from_be_bytes(*schema);
    Some(format!(
        "it begins with a schema registry's magic byte, schema {number}: send JSON without a registry's serializer"
    ))
}

/// What an object is that has an order inside it, and what its producer has to change; `None` if it is no envelope
/// that producers are known to write.
fn envelope(fields: &Map<String, Value>) -> Option<&'static str> {
    let has = |name: &str| fields.contains_key(name);
    if has("specversion") && has("type") {
        return Some(
            "a CloudEvent in structured mode; send it in binary mode, so that the record's value is the order alone",
        );
    }
    if (has("before") || has("after")) && (has("op") || has("source")) {
        return Some(
            "a change event of Debezium; unwrap it, with the transform ExtractNewRecordState or the outbox event router",
        );
    }
    if has("payload") && has("schema") {
        return Some(
            "an envelope of Kafka Connect with schema and payload; set value.converter.schemas.enable=false, and unwrap a change event of Debezium",
        );
    }
    None
}

/// All errors of a text that is not an order, for the submitting application.
pub(super) fn why_not(text: &str, error: &dyn fmt::Display) -> SubmissionRefusal {
    let value: Value = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(e) => {
            let error = e.to_string();
            let half = match error.contains("surrogate") || error.contains("hex escape") {
                true => ": a \\u escape is half of a character, whose other half was cut off",
                false => "",
            };
            return SubmissionRefusal::NotJson(format!("{error}{half}"));
        }
    };
    let Some(fields) = value.as_object() else {
        let is = match value {
            Value::Array(_) => "a list; send each order as a record of its own",
            Value::String(text) if text.trim_start().starts_with('{') => {
                "JSON within a text: it was encoded twice; send the object itself, as with Kafka Connect's StringConverter"
            }
            Value::String(_) => "a text; send the object itself and not its text",
            _ => "no object",
        };
        return SubmissionRefusal::NotAnOrder(format!("it is {is}"));
    };
    if let Some(is) = envelope(fields) {
        return SubmissionRefusal::NotAnOrder(format!("it is {is}"));
    }
    let mut unknown = Vec::new();
    let mut missing = Vec::new();
    let mut wrong = Vec::new();
    for name in fields.keys().filter(|n| FIELDS.iter().all(|(f, _)| f != n)) {
        let shown: String = name.chars().take(64).collect();
        unknown.push(match suggested_field(name) {
            Some(near) => format!("unknown field {shown:?}, did you mean {near:?}?"),
            None => format!(
                "unknown field {shown:?}: orders have {}; what is yours belongs into \"details\"",
                FIELDS.map(|(f, _)| f).join(", ")
            ),
        });
    }
    for name in ["order_id", "workflow"] {
        let is_meant = fields.keys().any(|key| suggested_field(key) == Some(name));
        if !fields.contains_key(name) && !is_meant {
            missing.push(format!("the field {name:?} is missing"));
        }
    }
    let mut refusal = None;
    for (name, wanted) in FIELDS {
        let Some(value) = fields.get(name) else {
            continue;
        };
        let is_optional = matches!(name, "reply_topic" | "start_at" | "order_timeout");
        match (name, value) {
            (_, Value::Null) if is_optional => {}
            ("details", Value::Object(_)) | ("reply_topic", Value::String(_)) => {}
            ("order_id", Value::String(id)) if OrderId::new(id.as_str()).is_err() => {
                let shown = id.chars().take(200).collect();
                refusal = refusal.or(Some(SubmissionRefusal::OrderId(shown)));
            }
            ("workflow", Value::String(name)) => {
                if let Err(e) = WorkflowName::new(name) {
                    wrong.push(format!("\"workflow\": {e}"));
                }
            }
            ("start_at", Value::String(at)) => {
                if let Err(e) = moment(at, Tz::UTC) {
                    wrong.push(format!("\"start_at\": {e}"));
                }
            }
            ("order_timeout", Value::String(within)) => {
                if let Err(e) = Millis::try_from(within.clone()) {
                    wrong.push(format!("\"order_timeout\": {e}"));
                }
            }
            ("order_id", Value::String(_)) => {}
            (_, other) => wrong.push(format!(
                "{name:?} is {}, and has to be {wanted}",
                kind(other)
            )),
        }
    }
    let all = |lists: &[&Vec<String>]| {
        lists
            .iter()
            .flat_map(|l| l.iter().cloned())
            .collect::<Vec<_>>()
            .join("; ")
    };
    if !unknown.is_empty() {
        return SubmissionRefusal::UnknownField(all(&[&unknown, &missing, &wrong]));
    }
    if !missing.is_empty() {
        return SubmissionRefusal::MissingField(all(&[&missing, &wrong]));
    }
    if !wrong.is_empty() {
        return SubmissionRefusal::WrongField(all(&[&wrong]));
    }
    // The only remaining fault is a field that occurs twice.
    refusal.unwrap_or_else(|| SubmissionRefusal::NotAnOrder(error.to_string()))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The known field that a misspelt name means, if it differs in case, in `_` and `-`, or in one or two letters.
fn suggested_field(name: &str) -> Option<&'static str> {
    let others = [
        ("id", "order_id"),
        ("order", "order_id"),
        ("deadline", "order_timeout"),
        ("complete_within", "order_timeout"),
    ];
    let known = FIELDS.iter().map(|(field, _)| *field);
    triad_workflow::nearest(name, known).or_else(|| {
        let (_, field) = others.iter().find(|(other, _)| *other == name)?;
        Some(field)
    })
}
