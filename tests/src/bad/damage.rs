//! Valid records with random damage, the same in each run.

use std::collections::BTreeSet;

use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use triad_fuzz::damage::damage;

use super::mixture::is_fit;
use crate::orders::order;

/// Damaged values for a topic: `unfit` invalid ones, and those among them that are still valid.
pub fn values(topic: &str, unfit: usize) -> Vec<Vec<u8>> {
    let mut random = StdRng::seed_from_u64(topic.len() as u64);
    let mut seen = BTreeSet::new();
    let (mut values, mut bad) = (Vec::new(), 0);
    // With a limit; most damage makes the value invalid.
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

/// The `n`th valid record for a topic. It names orders that do not exist or a past complete-by, so that it has no
/// effect if the damage leaves it valid.
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
