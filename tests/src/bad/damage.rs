//! Sound records with random damage, the same ones in every run.

use std::collections::BTreeSet;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use super::mixture::is_fit;
use crate::orders::order;

/// Most damages of one record.
const MOST: usize = 3;

type Damage = fn(&mut Vec<u8>, &mut StdRng);

/// Each does something to one place of the bytes.
const DAMAGES: [Damage; 9] = [
    |b, r| b.truncate(r.random_range(0..b.len())),
    |b, r| {
        let at = r.random_range(0..b.len());
        b[at] ^= 1 << r.random_range(0..8);
    },
    |b, r| b.insert(r.random_range(0..b.len()), r.random()),
    |b, r| {
        let from = r.random_range(0..b.len());
        let to = (from + r.random_range(1..20)).min(b.len());
        b.drain(from..to);
    },
    |b, r| {
        let from = r.random_range(0..b.len());
        let to = (from + r.random_range(1..60)).min(b.len());
        let again = b[from..to].to_vec();
        b.splice(from..from, again);
    },
    |b, r| replace_one(b, r, u8::is_ascii_digit, b"1e999"),
    |b, r| replace_one(b, r, u8::is_ascii_digit, b"-"),
    |b, r| replace_one(b, r, |c| *c == b'"', b"\\u12"),
    |b, r| replace_one(b, r, |c| *c == b':', b"\0,"),
];

fn replace_one(bytes: &mut Vec<u8>, random: &mut StdRng, which: fn(&u8) -> bool, by: &[u8]) {
    let places: Vec<usize> = (0..bytes.len()).filter(|&at| which(&bytes[at])).collect();
    if let Some(&at) = places.get(random.random_range(0..places.len().max(1))) {
        bytes.splice(at..=at, by.iter().copied());
    }
}

/// Values for a topic: so many that are unfit, and those among them whose damage did no harm.
pub fn values(topic: &str, unfit: usize) -> Vec<Vec<u8>> {
    let mut random = StdRng::seed_from_u64(topic.len() as u64);
    let mut seen = BTreeSet::new();
    let (mut values, mut bad) = (Vec::new(), 0);
    // Bounded: most damage makes a new and unfit value.
    for n in 0..unfit * 20 {
        if bad == unfit {
            return values;
        }
        let mut bytes = sound(topic, n).to_string().into_bytes();
        for _ in 0..random.random_range(1..=MOST) {
            if !bytes.is_empty() {
                DAMAGES[random.random_range(0..DAMAGES.len())](&mut bytes, &mut random);
            }
        }
        if seen.insert(bytes.clone()) {
            bad += usize::from(!is_fit(topic, Some(&bytes)));
            values.push(bytes);
        }
    }
    panic!("{bad} of {unfit} unfit values of {topic}");
}

/// The `n`th sound record for a topic; about orders that do not exist, and requests that are
/// long over, so that whatever survives does nothing.
fn sound(topic: &str, n: usize) -> Value {
    let id = format!("damaged-{n}");
    match topic {
        "orders" => order(&id, n),
        "scheduler" if n.is_multiple_of(2) => json!({
            "type": "reply", "order_id": id, "step": "charge-payment", "direction": "forward",
            "attempt": 1, "complete_by": 1_000 + n, "calls": 1,
            "outcome": {"result": "succeeded", "output": {"reference": n}},
        }),
        "scheduler" => json!({"type": "retry", "order_id": id}),
        _ => json!({
            "order_id": id, "step": "charge-payment", "direction": "forward", "attempt": 1,
            "complete_by": 1_000 + n, "allowance": 3, "backoff_initial_ms": 5,
            "backoff_max_ms": 50, "idempotency_key": format!("{id}/charge-payment/forward"),
            "action": "charge", "input": {"amount": n}, "agent": "payment",
        }),
    }
}
