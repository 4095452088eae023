//! Compares statuses and alerts with the process records.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use triad_runtime::InputRecord;

fn json(record: &InputRecord) -> Value {
    let value = record.value.as_deref().expect("a message has a value");
    serde_json::from_slice(value).expect("a message is JSON")
}

/// Asserts that each order's statuses came in sequence from 1, without gaps when repetitions are removed, up to the
/// sequence in its record.
///
/// # Panics
/// At the first order for which that is not so.
pub fn assert_statuses(statuses: &[InputRecord], orders: &[Value]) {
    let mut told: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    // A message about a refused record is not a status of an order.
    let of_orders = statuses
        .iter()
        .map(json)
        .filter(|s| s["status"] != "rejected");
    for status in of_orders {
        let id = status["order_id"].as_str().expect("an order id").to_owned();
        let sequence = status["sequence"].as_u64().expect("a sequence");
        let before = told.entry(id).or_default();
        if !before.contains(&sequence) {
            before.push(sequence);
        }
    }
    for order in orders {
        let id = order["order_id"].as_str().expect("an order id");
        let last = order["status_sequence"].as_u64().expect("a sequence");
        let sequences = told.remove(id).unwrap_or_default();
        let wanted: Vec<u64> = (1..=last).collect();
        assert_eq!(sequences, wanted, "statuses of {order}");
    }
    let unknown: Vec<_> = told.keys().collect();
    assert!(
        unknown.is_empty(),
        "statuses of unknown orders: {unknown:?}"
    );
}

/// Asserts that an order has an alert if and only if it ended in Error or CompensationFailed.
///
/// # Panics
/// With the orders for which that is not so.
pub fn assert_alerts(alerts: &[InputRecord], orders: &[Value]) {
    let alerted: BTreeSet<String> = alerts
        .iter()
        .map(json)
        .filter_map(|alert| alert["order_id"].as_str().map(str::to_owned))
        .collect();
    let wanted: BTreeSet<String> = orders
        .iter()
        .filter(|o| matches!(o["state"].as_str(), Some("Error" | "CompensationFailed")))
        .filter_map(|o| o["order_id"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(alerted, wanted);
}
