//! Valid records with random damage, the same in every run.

use std::collections::BTreeSet;

use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use triad_fuzz::damage::damage;

use super::mixture::is_fit;
use crate::orders::order;

/// Values for a topic: this many invalid ones, and those whose damage was harmless.
pub fn values(topic: &str, unfit: usize) -> Vec<Vec<u8>> {
    let mut random = StdRng::seed_from_u64(topic.len() as u64);
    let mut seen = BTreeSet::new();
    let (mut values, mut bad) = (Vec::new(), 0);
    // Bounded: most damage makes a new and invalid value.
    for n in 0..unfit * 20 {
        if bad == unfit {
            return values;
        }
        let mut bytes = sound(topic, n).to_string().into_bytes();
        damage(&mut bytes, &mut random);
        if seen.insert(bytes.clone()) {
            bad += usize::from(!is_fit(topic, Some(&bytes)));
            values.push(bytes);
        }
    }
    panic!("{bad} of {unfit} unfit values of {topic}");
}

/// The `n`th valid record for a topic; about orders that do not exist, and requests past their deadline, so that a
/// record which stays valid has no effect.
fn sound(topic: &str, n: usize) -> Value {
    let id = format!("damaged-{n}");
    match topic {
        "orders" => order(&id, n),
        "scheduler" if n.is_multiple_of(2) => json!({
            "type": "reply", "order_id": id, "step": "charge-payment", "direction": "forward",
            "attempt": 1, "complete_by": 1_000 + n, "calls": 1,
            "outcome": {"result": "succeeded", "output": {"reference": n}},
        }),
        "scheduler" => json!({"type": "wake", "order_id": id}),
        _ => json!({
            "order_id": id, "step": "charge-payment", "direction": "forward", "attempt": 1,
            "complete_by": 1_000 + n, "attempt_timeout_ms": 1_000, "allowance": 3, "backoff_initial_ms": 5,
            "backoff_max_ms": 50, "idempotency_key": format!("{id}/charge-payment/forward"),
            "action": "charge", "input": {"amount": n}, "agent": "payment", "workflow": "w",
        }),
    }
}
