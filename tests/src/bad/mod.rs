//! Records that cannot be handled, all different: known kinds of bad records, and valid records with random damage.

use serde_json::{Value, json};

use crate::topics::Raw;

mod damage;
mod mixture;

use mixture::is_fit;
pub use mixture::{Mixture, TOPICS, kind_counts};

/// Makes the value of the `n`th bad record of one kind.
type Maker = fn(usize) -> Option<Vec<u8>>;

/// Bad in every topic.
const ANYWHERE: [Maker; 12] = [
    |n| Some(format!("{{\"order_id\": \"cut-{n}\", ").into_bytes()),
    |n| Some([&[0xff, 0xfe, 0xc0][..], n.to_string().as_bytes()].concat()),
    |n| Some(format!("{{\"order_id\": \"\u{0}\", \"n\": {n}}}").into_bytes()),
    |n| Some([vec![b'['; 200 + n], vec![b']'; 200 + n]].concat()),
    |n| Some([br#"{"details":"#.repeat(150 + n), b"1".to_vec()].concat()),
    |_| None,
    |_| Some(Vec::new()),
    |n| Some(n.to_string().into_bytes()),
    |n| Some(format!("[{n}]").into_bytes()),
    |n| Some(format!("\"text {n}\"").into_bytes()),
    |n| {
        Some(
            format!(
                "{{\"order_id\": {n}e999, \"workflow\": 1{}}}",
                "0".repeat(400)
            )
            .into_bytes(),
        )
    },
    |n| Some(" ".repeat(1 + n).into_bytes()),
];

/// Bad in the topic of orders.
const SUBMISSIONS: [Maker; 10] = [
    |n| with(n, "workflow", json!(format!("unknown-{n}"))),
    |n| with(n, "workflow", json!({"name": n})),
    |n| with(n, "order_id", json!(n)),
    |n| with(n, "order_id", json!("x".repeat(129 + n))),
    |n| with(n, "order_id", json!(format!("slash/{n}"))),
    |n| with(n, "order_id", json!("")),
    |n| with(n, "details", json!([n])),
    |n| with(n, "reply_topic", json!(format!("orders{n}"))),
    |n| with(n, "surplus", json!(n)),
    |n| {
        let twice = format!("\"order_id\": \"twice-{n}\"");
        Some(format!("{{{twice}, {twice}, \"workflow\": \"order-fulfilment\"}}").into_bytes())
    },
];

/// Bad in the Scheduler's topic.
const MESSAGES: [Maker; 6] = [
    |n| {
        Some(
            json!({"type": "unheard-of", "n": n})
                .to_string()
                .into_bytes(),
        )
    },
    |n| {
        Some(
            json!({"type": "wake", "order_id": n})
                .to_string()
                .into_bytes(),
        )
    },
    |n| {
        Some(
            json!({"type": "reply", "order_id": n.to_string()})
                .to_string()
                .into_bytes(),
        )
    },
    |n| {
        Some(
            json!({"type": "accepted", "order_id": n.to_string()})
                .to_string()
                .into_bytes(),
        )
    },
    |n| Some(json!({"type": ["wake"], "n": n}).to_string().into_bytes()),
    |n| Some(json!({"order_id": n.to_string()}).to_string().into_bytes()),
];

/// Bad in an agent's topic.
const REQUESTS: [Maker; 3] = [
    |n| Some(json!({"order_id": n.to_string()}).to_string().into_bytes()),
    |n| {
        Some(
            json!({"order_id": n.to_string(), "step": "a", "direction": "sideways"})
                .to_string()
                .into_bytes(),
        )
    },
    |n| {
        Some(
            json!({"attempt": -1, "complete_by": "soon", "n": n})
                .to_string()
                .into_bytes(),
        )
    },
];

fn with(n: usize, field: &str, value: Value) -> Option<Vec<u8>> {
    let mut order = json!({
        "order_id": format!("bad-{field}-{n}"),
        "workflow": "order-fulfilment",
        "details": {},
    });
    order[field] = value;
    Some(order.to_string().into_bytes())
}

/// Records for a topic, of which at least `count` are bad: half of known kinds, half by damage, which leaves some
/// valid. Keys and headers vary too: none, null, not text, many.
pub fn records(topic: &str, count: usize) -> Vec<Raw> {
    let special: &[Maker] = match topic {
        "orders" => &SUBMISSIONS,
        "scheduler" => &MESSAGES,
        _ => &REQUESTS,
    };
    let makers: Vec<Maker> = ANYWHERE.iter().chain(special).copied().collect();
    let of_kinds = (0..count / 2).map(|n| makers[n % makers.len()](n / makers.len()));
    let damaged = damage::values(topic, count - count / 2);
    let mut records: Vec<Raw> = of_kinds
        .chain(damaged.into_iter().map(Some))
        .enumerate()
        .map(|(n, value)| Raw {
            topic: topic.to_owned(),
            key: key(n),
            value,
            headers: headers(n),
        })
        .collect();
    for (n, size) in [520 * 1024, 700 * 1024, 900 * 1024].into_iter().enumerate() {
        let order = json!({"order_id": format!("huge-{n}"), "workflow": "order-fulfilment",
            "details": {"text": "x".repeat(size)}});
        records.push(Raw {
            topic: topic.to_owned(),
            value: Some(order.to_string().into_bytes()),
            ..Raw::default()
        });
    }
    records
}

/// Those of [`records`] that are invalid in their topic.
pub fn unfit(topic: &str, count: usize) -> Vec<Raw> {
    let mut records = records(topic, count);
    records.retain(|r| !is_fit(topic, r.value.as_deref()));
    records
}

fn key(n: usize) -> Option<Vec<u8>> {
    match n % 5 {
        0 => None,
        1 => Some(Vec::new()),
        2 => Some(vec![0xff, n.to_le_bytes()[0], 0]),
        _ => Some(format!("key-{n}").into_bytes()),
    }
}

fn headers(n: usize) -> Vec<(String, Option<Vec<u8>>)> {
    let header = |name: &str, value: &[u8]| (name.to_owned(), Some(value.to_vec()));
    match n % 7 {
        0 => vec![("traceparent".to_owned(), None)],
        1 => vec![header("traceparent", &[0xff; 60])],
        2 => vec![header("", b""), header("", b"again")],
        3 => (0..100)
            .map(|h| header(&format!("h{h}"), &[0; 9]))
            .collect(),
        4 => vec![header("long", &vec![0x80; 20_000])],
        // Headers as an earlier dead letter has them, which name another record.
        5 => vec![
            header("triad-topic", b"elsewhere"),
            header("triad-offset", b"-1"),
        ],
        _ => Vec::new(),
    }
}
