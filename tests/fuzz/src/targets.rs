//! The fuzz targets.

use std::collections::HashMap;
use std::fmt::Debug;

use aws_sdk_dynamodb::types::AttributeValue;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde_json::{Value, json};
use triad_core::message::{Alert, SchedulerMessage, StatusMessage, StepRequest};
use triad_core::submission::Submission;
use triad_core::{Direction, IdempotencyKey, OrderId, Priority, stored};
use triad_runtime::dead_letter::LetterEntry;
use triad_runtime::{Call, Fault, InputRecord};
use triad_workflow::hash::canonical_json;
use triad_workflow::service::CallDefinition;
use triad_workflow::{Expression, Limits, Millis, Scope, StepId, Template, load};

use crate::seeds;

/// A decoder with its seeds.
#[derive(Clone, Copy)]
pub struct Target {
    /// Name of the target and of the fuzzer's binary.
    pub name: &'static str,
    /// Decodes the bytes and checks the result.
    pub run: fn(&[u8]),
    /// Valid inputs to start with.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// Every target.
#[must_use]
pub fn all() -> [Target; 10] {
    let target = |name, run, seeds| Target { name, run, seeds };
    [
        target("submission", submission, seeds::submissions),
        target("messages", messages, seeds::messages),
        target("event", event, seeds::events),
        target("request", request, seeds::requests),
        target("letter", letter, seeds::letters),
        target("record", record, seeds::records),
        target("definition", definition, seeds::definitions),
        target("expression", expression, seeds::expressions),
        target("template", template, seeds::templates),
        target("answer", answer, seeds::answers),
    ]
}

/// Runs the target with this name.
///
/// # Panics
/// If there is no such target, or a requirement is violated.
pub fn run(name: &str, bytes: &[u8]) {
    let target = all().into_iter().find(|t| t.name == name);
    (target.expect("a target").run)(bytes);
}

/// A submission is refused with a text, or accepted. An accepted one, encoded again, decodes to the same submission
/// with the same digest and a valid id.
fn submission(bytes: &[u8]) {
    match Submission::decode(Some(bytes)) {
        Ok(taken) => {
            let written = serde_json::to_vec(&taken).expect("a submission is JSON");
            let again = Submission::decode(Some(&written)).expect("it was taken");
            assert_eq!(again, taken);
            let digest = taken.digest(Priority::Normal);
            assert_eq!(digest, again.digest(Priority::Normal));
            assert_ne!(
                digest,
                taken.digest(Priority::High),
                "the lane is part of it"
            );
            assert!(OrderId::new(taken.order_id.as_str()).is_ok());
        }
        Err(refusal) => assert!(!refusal.to_string().is_empty()),
    }
}

/// Triad's own messages: decoding and encoding again gives the same message.
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

/// An event of an event source mapping: no record is lost, each belongs to a list of the event, and the records are
/// sorted by partition and offset.
fn event(bytes: &[u8]) {
    let Ok(records) = triad_lambda::parse_event(bytes) else {
        return;
    };
    // If a name occurs twice, a JSON value keeps only its last list, so the event may have more records than the
    // value.
    let Ok(value) = serde_json::from_slice::<Value>(bytes) else {
        // Not every valid record fits into a JSON value, for example if it has a number out of range.
        return;
    };
    let lists = value["records"].as_object().expect("lists by partition");
    let listed = lists.values().filter_map(Value::as_array).map(Vec::len);
    assert!(records.len() >= listed.sum(), "a record is lost");
    assert!(records.is_sorted_by_key(triad_lambda::ParsedRecord::id));
    // A record without an offset gets one just below that of the next record with an offset. So the lowest possible
    // offset is minus the number of records.
    let lowest = -i64::try_from(records.len()).expect("a few");
    for record in &records {
        let id = record.id();
        assert!(id.offset >= lowest, "{id:?}");
        let list = format!("{}-{}", id.topic, id.partition);
        assert!(lists.contains_key(&list), "{list} of {lists:?}");
    }
}

/// An event of a function URL. An accepted request names only this server, and its body is within the limit; any
/// other is refused as the client's error, or is no request.
fn request(bytes: &[u8]) {
    use triad_lambda::NoRequest;
    const MOST: usize = 16;
    match triad_lambda::parse_request(bytes, MOST) {
        Ok(request) => {
            assert!(request.uri().path().starts_with('/'));
            assert!(request.uri().authority().is_none());
            assert!(request.body().len() <= MOST);
        }
        Err(NoRequest::Refused { status, .. }) => assert!(status.is_client_error()),
        Err(none @ NoRequest::Event(_)) => assert!(!none.to_string().is_empty()),
    }
}

/// A record of the topic `dead-letter`; the input's lines are its headers.
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
    if let Err(unreadable) = LetterEntry::read(record) {
        assert!(!unreadable.to_string().is_empty());
    }
}

/// A process record in DynamoDB's JSON: decoding and encoding again gives the same item.
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
    match triad_dynamodb::read_record(&item) {
        Ok(order) => {
            let written: HashMap<_, _> = stored::encode(&order, 1, Millis(0)).into_iter().collect();
            let again = stored::decode(|name| Ok(written.get(name).cloned()));
            assert_eq!(again.expect("its own item"), order);
        }
        Err(e) => assert!(!e.to_string().is_empty()),
    }
}

/// A workflow file: the canonical form of a valid one loads as the same workflow; an invalid one has an error.
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

/// An expression is refused, or evaluates to a value or an error, each time the same.
fn expression(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(expression) = Expression::compile(text) {
        assert_eq!(expression.source(), text);
        let told = |e: &Expression| format!("{:?}", e.evaluate(&scope()));
        let again = Expression::compile(text).expect("it was sound");
        assert_eq!(told(&expression), told(&again));
    }
}

/// A template, which is JSON with expressions in its texts: refused, or rendered to a value or an error, each time
/// the same. Without expressions the result equals the template.
fn template(bytes: &[u8]) {
    let Ok(value) = serde_json::from_slice::<Value>(bytes) else {
        return;
    };
    if let Ok(template) = Template::compile(&value) {
        let told = |t: &Template| format!("{:?}", t.render(&scope()));
        let again = Template::compile(&value).expect("it was sound");
        assert_eq!(told(&template), told(&again));
        if !value.to_string().contains('$') {
            assert_eq!(template.render(&scope()).ok().as_ref(), Some(&value));
        }
    }
}

fn scope() -> Scope {
    let order = json!({"id": "1", "workflow": "w", "priority": "normal"});
    let details = json!({"freight": 3.5, "lines": [{"quantity": 2}], "name": "x"});
    Scope::new(&order, &details, [("a", &json!({"ref": 7}))], None)
}

/// An answer of a service: its first line is the status, the lines up to an empty one are headers, and the rest is the
/// body; a status above 999 is an answer that breaks off. Work that was done is never taken for refused because of the
/// shape of the answer, and whether a broken answer's work was done is in doubt.
fn answer(bytes: &[u8]) {
    let (head, body) = match bytes.windows(2).position(|pair| pair == b"\n\n") {
        Some(at) => (&bytes[..at], &bytes[at + 2..]),
        None => (bytes, &b""[..]),
    };
    let head = String::from_utf8_lossy(head);
    let mut lines = head.lines();
    let number: u16 = lines
        .next()
        .and_then(|l| l.trim().parse().ok())
        .unwrap_or(200);
    let Ok(status) = StatusCode::from_u16(number % 1_000) else {
        return;
    };
    let is_broken = number >= 1_000;
    let headers: HeaderMap = lines
        .filter_map(|line| line.split_once(':'))
        .filter_map(|(name, value)| Some((name.trim().parse().ok()?, value.trim().parse().ok()?)))
        .collect::<Vec<(HeaderName, HeaderValue)>>()
        .into_iter()
        .collect();
    let described: CallDefinition = serde_json::from_value(json!({"action": {
        "path": "/v1/charges", "fails_when": "body.ok == false",
        "keep": {"id": "${body.id}", "last4": "${body.card.last4}"}}}))
    .expect("a description");
    let (order, step) = (
        OrderId::new("1").expect("an id"),
        StepId::new("pay").expect("a step"),
    );
    for form in [None, Some(described)] {
        let call = Call {
            order_id: &order,
            step: &step,
            direction: Direction::Forward,
            idempotency_key: &IdempotencyKey("1/pay/forward".to_owned()),
            compensates: None,
            action: "charge",
            input: &json!({"amount": 7}),
            form: form.as_ref(),
            repeats: false,
            callback: None,
            location: None,
            time_left: Millis(1_000),
            attempt: 1,
            traceparent: None,
        };
        let judged = || triad_http::judge(&call, status, headers.clone(), body.to_vec(), is_broken);
        let result = judged();
        match &result {
            Ok(_) => assert!(status.is_success(), "{status} is no success"),
            Err(Fault::Transient { maybe_applied, .. }) if status.is_success() => {
                assert!(*maybe_applied, "the work may be done: {result:?}");
            }
            Err(Fault::Permanent { .. }) if status.is_success() => {
                assert!(form.is_some() && !is_broken, "it was done: {result:?}");
                let text = String::from_utf8_lossy(body);
                assert!(
                    text.contains("false") || headers.contains_key("content-encoding"),
                    "{result:?}"
                );
            }
            Err(_) => {}
        }
        let whole = |result: &Result<Value, Fault>| format!("{result:?}");
        assert_eq!(whole(&judged()), whole(&result), "the same each time");
    }
}
