//! The targets.

use std::collections::HashMap;
use std::fmt::Debug;

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Value, json};
use triad_core::Priority;
use triad_core::message::{Alert, SchedulerMessage, StatusMessage, StepRequest};
use triad_core::submission::Submission;
use triad_runtime::InputRecord;
use triad_runtime::dead_letter::Entry;
use triad_workflow::hash::canonical_json;
use triad_workflow::{Expression, Limits, Scope, Template, load};

use crate::seeds;

/// One decoder.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, that of the fuzzer's binary too.
    pub name: &'static str,
    /// Decodes and holds the outcome against what must be true of it.
    pub run: fn(&[u8]),
    /// Sound inputs to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All of them.
#[must_use]
pub fn all() -> [Target; 8] {
    let target = |name, run, seeds| Target { name, run, seeds };
    [
        target("submission", submission, seeds::submissions),
        target("messages", messages, seeds::messages),
        target("event", event, seeds::events),
        target("letter", letter, seeds::letters),
        target("record", record, seeds::records),
        target("definition", definition, seeds::definitions),
        target("expression", expression, seeds::expressions),
        target("template", template, seeds::templates),
    ]
}

/// Runs the target of a name.
///
/// # Panics
/// If there is none, or something does not hold.
pub fn run(name: &str, bytes: &[u8]) {
    let target = all().into_iter().find(|t| t.name == name);
    (target.expect("a target").run)(bytes);
}

/// A submission: taken or refused with a text; taken twice it has one digest.
fn submission(bytes: &[u8]) {
    match Submission::decode(Some(bytes)) {
        Ok(taken) => {
            let again = Submission::decode(Some(bytes)).expect("it was taken");
            let digest = taken.digest(Priority::Normal);
            assert_eq!(digest, again.digest(Priority::Normal));
        }
        Err(refusal) => assert!(!refusal.to_string().is_empty()),
    }
}

/// Messages of Triad's own: what is read is written so that it reads the same.
fn messages(bytes: &[u8]) {
    survives::<SchedulerMessage>(bytes);
    survives::<StepRequest>(bytes);
    survives::<StatusMessage>(bytes);
    survives::<Alert>(bytes);
}

fn survives<T>(bytes: &[u8])
where
    T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + Debug,
{
    if let Ok(read) = serde_json::from_slice::<T>(bytes) {
        let written = serde_json::to_vec(&read).expect("a message is JSON");
        let again: T = serde_json::from_slice(&written).expect("its own JSON");
        assert_eq!(again, read);
    }
}

/// An event of an event source mapping: every record of it has a place, and none twice in one
/// partition's order.
fn event(bytes: &[u8]) {
    let Ok(records) = triad_lambda::parse_event(bytes) else {
        return;
    };
    for record in &records {
        let id = record.id();
        assert!(id.offset >= -1 || id.offset == i64::MIN, "{id:?}");
    }
}

/// A record of the topic `dead-letter`, its headers being lines of the bytes.
fn letter(bytes: &[u8]) {
    let mut lines = bytes.split(|b| *b == b'\n');
    let value = lines.next().map(<[u8]>::to_vec);
    let headers = lines.map(|line| {
        let at = line.iter().position(|b| *b == b'=').unwrap_or(line.len());
        let name = String::from_utf8_lossy(&line[..at]).into_owned();
        (name, line.get(at + 1..).map(<[u8]>::to_vec))
    });
    let record = InputRecord {
        value,
        headers: headers.collect(),
        ..InputRecord::default()
    };
    if let Err(unreadable) = Entry::read(record) {
        assert!(!unreadable.to_string().is_empty());
    }
}

/// A process record as an item, given as DynamoDB's JSON.
fn record(bytes: &[u8]) {
    let Ok(Value::Object(fields)) = serde_json::from_slice(bytes) else {
        return;
    };
    let attribute = |value: &Value| match (value["S"].as_str(), value["N"].as_str()) {
        (Some(s), _) => AttributeValue::S(s.to_owned()),
        (_, Some(n)) => AttributeValue::N(n.to_owned()),
        _ => AttributeValue::Null(true),
    };
    let item: HashMap<_, _> = fields
        .iter()
        .map(|(n, v)| (n.clone(), attribute(v)))
        .collect();
    if let Err(e) = triad_dynamodb::read_record(&item) {
        assert!(!e.to_string().is_empty());
    }
}

/// A workflow file: what loads has a canonical form that loads as the same; what does not says
/// why.
fn definition(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    match load::from_yaml("file", text, &Limits::published()) {
        Ok(workflow) => {
            let canonical = canonical_json(&workflow.definition);
            let again = load::from_yaml("canonical", &canonical, &Limits::published());
            assert_eq!(again.expect("it was sound").hash, workflow.hash);
        }
        Err(e) => assert!(!e.problems.is_empty()),
    }
}

/// An expression: refused, or evaluated to a value or an error.
fn expression(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(expression) = Expression::compile(text) {
        assert_eq!(expression.source(), text);
        let _ = expression.evaluate(&scope());
    }
}

/// A template: any JSON with expressions in its texts.
fn template(bytes: &[u8]) {
    let Ok(value) = serde_json::from_slice::<Value>(bytes) else {
        return;
    };
    if let Ok(template) = Template::compile(&value) {
        let _ = template.render(&scope());
    }
}

fn scope() -> Scope {
    let order = json!({"id": "1", "workflow": "w", "priority": "normal"});
    let details = json!({"freight": 3.5, "lines": [{"quantity": 2}], "name": "x"});
    Scope::new(&order, &details, [("a", &json!({"ref": 7}))], None)
}
