//! The input of a world: orders, and unreadable records.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use triad_core::OrderId;
use triad_core::ids::MAX_ORDER_ID_BYTES;

use crate::definitions::workflows;
use crate::kernel::{BEGINNING_MS, Rng};

/// The reply topic that submissions may name.
pub(crate) const REPLIES: &str = "reply.app";

/// One order, as its application sends it.
#[derive(Debug, Clone)]
pub(crate) struct NewOrder {
    pub id: String,
    pub high: bool,
    pub value: Vec<u8>,
    /// Another order with the same id and different content, sent after it.
    pub conflict: Option<Vec<u8>>,
    /// Whether its order timeout is shorter than its workflow's.
    pub hurries: bool,
    pub repeats: u32,
    /// Whether its details do not fit the schema of its workflow, so that it must never be stored.
    pub misfit: bool,
    /// Events about it, as others send them.
    pub events: Vec<NewEvent>,
    /// What its application does to it; `None`: nothing.
    pub act: Option<NewAct>,
}

/// An act of an application on its own order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NewAct {
    /// When it is sent, from when the order is, in milliseconds.
    pub after_ms: u64,
    pub value: Value,
}

/// The application that acts.
pub(crate) const APPLICATION: &str = "app";

/// What the application of an order does to it. It is drawn from the order's id, so that other choices stay.
fn act_on(id: &str) -> Option<NewAct> {
    let sum: u64 = id.bytes().map(u64::from).sum();
    let value = match sum % 24 {
        3 | 11 => json!({"act": "cancel", "why": "a reason", "by": APPLICATION}),
        17 => json!({"act": "amend", "details": {"note": "n"}, "by": APPLICATION}),
        _ => return None,
    };
    Some(NewAct {
        after_ms: sum * 37 % 30_000,
        value,
    })
}

/// When an order asks to be started; `None`: it does not ask. It is drawn from the order's id, so that other choices
/// stay.
fn start_of(id: &str) -> Option<String> {
    let sum: u64 = id.bytes().map(u64::from).sum();
    let at = BEGINNING_MS + sum * 53 % 90_000;
    (sum % 16 == 5).then(|| triad_workflow::moment::text(at))
}

/// An event about an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NewEvent {
    /// When it is sent, from when the order is, in milliseconds. `None`: before the order.
    pub after_ms: Option<u64>,
    pub event: String,
    pub id: String,
    /// What it brings, as JSON.
    pub data: Value,
}

/// Who sends an event: one who may decide, who may do so later, or who may not.
pub(crate) fn sender(event: &NewEvent) -> &'static str {
    match event.after_ms {
        _ if event.id == "other" => "eve",
        Some(after) if after % 7 == 3 => "bob",
        _ => "ann",
    }
}

/// Events for an order of a workflow that waits for some: in time, too late, twice, with another sum, of another name,
/// before the order, or not at all.
fn drawn_events(rng: &mut Rng, sum: &Value) -> Vec<NewEvent> {
    let mut events = Vec::new();
    for name in ["paid", "signed"] {
        let mut add = |rng: &mut Rng, id: &str, name: &str, sum: &Value, most_ms: u64| {
            let before = rng.chance(60);
            events.push(NewEvent {
                after_ms: (!before).then(|| rng.below(most_ms)),
                event: name.to_owned(),
                id: id.to_owned(),
                data: json!({"sum": sum, "payment": "p-1"}),
            });
        };
        if rng.chance(850) {
            add(rng, "good", name, sum, 25_000);
        }
        if rng.chance(300) {
            add(rng, "good", name, sum, 60_000);
        }
        if rng.chance(150) {
            add(rng, "other", name, &json!(8), 20_000);
        }
        if rng.chance(80) {
            add(rng, "good", "unknown", sum, 20_000);
        }
    }
    events
}

/// The workflow that has a schema of its details, and the longest note that fits it, in characters; as in
/// `crate::definitions`. Written here once more, because the production code is checked against it.
const PARTICULAR: (&str, usize) = ("shelf", 50);

/// The workflows of which a step waits for events.
pub(crate) const WAITS: [&str; 2] = ["sale", "lease"];

/// Whether details do not fit the schema of their workflow.
pub(crate) fn is_misfit(workflow: &str, details: &Value) -> bool {
    let note = details["note"].as_str().unwrap_or_default();
    workflow == PARTICULAR.0 && (!details["sum"].is_i64() || note.chars().count() > PARTICULAR.1)
}

/// What has been sent into a world.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    /// Ids of valid orders.
    pub orders: BTreeSet<OrderId>,
    /// Ids of orders whose details do not fit, with the topic of their status.
    pub misfits: BTreeMap<OrderId, &'static str>,
    /// Number of orders still to be sent.
    pub open: usize,
    /// Records that must be dead-lettered, as topic, partition and offset.
    pub letters: BTreeSet<String>,
    /// Events for orders.
    pub events: Vec<SentEvent>,
    /// Acts of applications: the order, the act, and its record as above.
    pub acts: Vec<(OrderId, Value, String)>,
    /// Records that may be dead-lettered or not, in the same form: those that one machine had in memory when it died,
    /// and events, of which it depends on the moment.
    pub forgotten: BTreeSet<String>,
}

/// An event that was sent.
#[derive(Debug)]
pub(crate) struct SentEvent {
    pub order: OrderId,
    pub event: NewEvent,
    /// Its record, as topic, partition and offset.
    pub record: String,
}

/// Whether the sender of an event does not know the order, and names its key: the order's id, as in
/// `crate::definitions`.
pub(crate) fn is_keyed(event: &NewEvent) -> bool {
    event.after_ms.is_some_and(|after| after % 3 == 0)
}

/// Random orders; with `conflicts`, some are followed by a conflicting one.
pub(crate) fn orders(rng: &mut Rng, count: usize, conflicts: bool) -> Vec<NewOrder> {
    let order = |rng: &mut Rng, n: usize| {
        let id = drawn_id(rng, n);
        let workflow = rng.pick(workflows()).name.to_string();
        let mut details = json!({"item": n, "gift": rng.chance(500), "sum": 7});
        if rng.chance(300) {
            details["note"] = json!(drawn_note(rng));
        }
        if rng.chance(60) {
            details["sum"] = json!("seven");
        }
        if rng.chance(40) {
            details["item"] = Value::Null;
        }
        let misfit = is_misfit(&workflow, &details);
        let events = match WAITS.contains(&workflow.as_str()) {
            true => drawn_events(rng, &details["sum"]),
            false => Vec::new(),
        };
        let mut body = json!({"order_id": id, "workflow": workflow, "details": details});
        if rng.chance(200) {
            body["reply_topic"] = json!(REPLIES);
        }
        if let Some(at) = start_of(&id) {
            body["start_at"] = json!(at);
        }
        let hurries = rng.chance(100);
        if hurries {
            body["order_timeout"] = json!(format!("{}s", rng.between(1, 90)));
        }
        let conflict = (rng.chance(80) && conflicts).then(|| {
            let mut other = body.clone();
            other["details"]["item"] = json!("another");
            other.to_string().into_bytes()
        });
        let act = act_on(&id).filter(|_| !misfit);
        NewOrder {
            id,
            act,
            high: rng.chance(150),
            value: body.to_string().into_bytes(),
            conflict,
            hurries,
            repeats: u32::try_from(rng.below(10) / 8).unwrap_or(0),
            misfit,
            events,
        }
    };
    (0..count).map(|n| order(rng, n)).collect()
}

/// The topic for the statuses of an order with this content.
pub(crate) fn reply_topic(value: &[u8]) -> &'static str {
    let body: Value = serde_json::from_slice(value).unwrap_or_default();
    match body["reply_topic"].is_string() {
        true => REPLIES,
        false => triad_core::topics::STATUS,
    }
}

/// A text of random length with characters of one to four bytes, sometimes longer than a Scheduler caches or a wake
/// carries.
fn drawn_note(rng: &mut Rng) -> String {
    let length = if rng.chance(20) {
        rng.between(1_000, 40_000)
    } else {
        rng.below(100)
    };
    const OF: [char; 8] = ['a', 'Z', '0', '"', '\\', '\u{7f}', 'é', '🦀'];
    (0..length).map(|_| *rng.pick(&OF)).collect()
}

/// An id of random length with any allowed characters, unique by its number. If ids differed only at their ends, most
/// shards of the due index would stay empty.
pub(crate) fn drawn_id(rng: &mut Rng, n: usize) -> String {
    const FIRST: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    const LATER: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~:@=,";
    let mut id = format!("{}{n}:", char::from(*rng.pick(FIRST)));
    let room = MAX_ORDER_ID_BYTES - id.len();
    let longer = if rng.chance(30) {
        room
    } else {
        rng.below(12) as usize
    };
    id.extend((0..longer).map(|_| char::from(*rng.pick(LATER))));
    id
}

/// The id of an order that is not random.
fn plain_id(n: usize) -> String {
    format!("{n}-order")
}

/// A plain order of a workflow.
pub(crate) fn plain_order(n: usize, workflow: &str) -> NewOrder {
    let body = plain_body(plain_id(n), n, workflow);
    of_body(&body)
}

/// An order of a workflow, in the high lane if `high`, with the reply topic of the application if `replies`.
pub(crate) fn order_of(id: String, workflow: &str, high: bool, replies: bool) -> NewOrder {
    let mut body = plain_body(id, 0, workflow);
    if replies {
        body["reply_topic"] = json!(REPLIES);
    }
    NewOrder {
        high,
        ..of_body(&body)
    }
}

fn plain_body(id: String, n: usize, workflow: &str) -> Value {
    let details = json!({"item": n, "gift": true, "sum": 7});
    json!({"order_id": id, "workflow": workflow, "details": details})
}

fn of_body(body: &Value) -> NewOrder {
    NewOrder {
        id: body["order_id"].as_str().unwrap_or_default().to_owned(),
        high: false,
        value: body.to_string().into_bytes(),
        conflict: None,
        misfit: false,
        act: None,
        events: Vec::new(),
        hurries: false,
        repeats: 0,
    }
}

/// An order that is compensated, because the input of its last step has no value.
pub(crate) fn failing_order(n: usize) -> NewOrder {
    let details = json!({"item": n, "gift": true, "sum": "seven"});
    let body = json!({"order_id": plain_id(n), "workflow": "choice", "details": details});
    NewOrder {
        value: body.to_string().into_bytes(),
        ..plain_order(n, "choice")
    }
}

/// An order that waits to be paid, and when it is.
pub(crate) fn paid_order(n: usize, after_ms: &[u64]) -> NewOrder {
    let event = |after_ms: &u64| NewEvent {
        after_ms: Some(*after_ms),
        event: "paid".to_owned(),
        id: "good".to_owned(),
        data: json!({"sum": 7, "payment": "p-1"}),
    };
    NewOrder {
        events: after_ms.iter().map(event).collect(),
        ..plain_order(n, "sale")
    }
}

/// A record that cannot be handled: topic, value, and the name under which it is counted.
pub(crate) fn poison(rng: &mut Rng) -> (&'static str, Vec<u8>, &'static str) {
    let deep = || "[".repeat(500).into_bytes();
    match rng.below(10) {
        0 => ("orders", b"{oops".to_vec(), "input: poison order"),
        1 => ("orders", vec![0xff, 0xfe, b'{'], "input: poison order"),
        2 => ("orders", Vec::new(), "input: poison order"),
        3 => ("orders", deep(), "input: poison order"),
        4 => (
            "orders",
            br#"{"order_id": "nobody", "workflow": "no-such"}"#.to_vec(),
            "input: poison order",
        ),
        5 => (
            "scheduler",
            br#"{"type": "bogus"}"#.to_vec(),
            "input: poison scheduler message",
        ),
        6 => ("scheduler", Vec::new(), "input: poison scheduler message"),
        7 => ("events", b"{oops".to_vec(), "input: poison event"),
        8 => (
            "events",
            br#"{"order_id": "nobody", "event": "paid"}"#.to_vec(),
            "input: poison event",
        ),
        _ => ("agent.stock", b"\xc3\x28".to_vec(), "input: poison request"),
    }
}
