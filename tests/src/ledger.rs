//! Compares the reference service's ledger with the process records.

use std::collections::BTreeMap;

use serde_json::Value;
use triad_reference_service::{Direction, KeyStatus, KeyView, Summary};

/// The ledger of the reference service.
pub struct Ledger {
    /// The state of each key.
    pub keys: Vec<KeyView>,
    /// The counts that the service itself reports.
    pub summary: Summary,
}

impl Ledger {
    /// Reads the ledger of a running service.
    ///
    /// # Panics
    /// If it cannot be read.
    pub async fn read(service: &str) -> Self {
        let lines = get(&format!("{service}/_ledger")).await;
        let line = |line| serde_json::from_str(line).expect("a ledger line is a key");
        Self {
            keys: lines.lines().map(line).collect(),
            summary: Self::summary(service).await,
        }
    }

    /// Reads only the counts from a running service.
    ///
    /// # Panics
    /// If they cannot be read.
    pub async fn summary(service: &str) -> Summary {
        let summary = get(&format!("{service}/_ledger/summary")).await;
        serde_json::from_str(&summary).expect("the summary is JSON")
    }

    /// Number of calls with a key.
    #[must_use]
    pub fn calls(&self, key: &str) -> u32 {
        let found = self.keys.iter().find(|k| k.key == key);
        found.map_or(0, |k| k.calls)
    }

    /// Asserts that no effect was applied or compensated more than once, counted by key and by step, and that there
    /// was at least one effect.
    ///
    /// # Panics
    /// If that is not so, with the first violation.
    pub fn assert_nothing_twice(&self) {
        assert!(self.summary.total.applied > 0, "the ledger has no effect");
        assert!(!self.keys.is_empty(), "the ledger has no key");
        assert_eq!(self.summary.keys_applied_twice, 0, "{:?}", self.summary);
        assert_eq!(self.summary.steps_applied_twice, 0, "{:?}", self.summary);
        let mut applied: BTreeMap<(&str, &str), u32> = BTreeMap::new();
        for key in &self.keys {
            assert!(key.applied <= 1 && key.compensated <= 1, "{key:?}");
            if key.direction == Direction::Forward {
                let step = (key.order.as_str(), key.step.as_str());
                *applied.entry(step).or_default() += key.applied;
            }
        }
        let twice: Vec<_> = applied.iter().filter(|(_, times)| **times > 1).collect();
        assert!(twice.is_empty(), "applied twice: {twice:?}");
    }

    /// Asserts that the effects justify the end of each order (in the form of `triad get --json`): Processed with
    /// every effect in place, Compensated with none in place, Error at the step `pivot` or later.
    ///
    /// # Panics
    /// At the first order for which that is not so, or if there is no order.
    pub fn assert_justifies(&self, orders: &[Value], pivot: &str) {
        assert!(!orders.is_empty(), "there is no order to justify");
        self.assert_nothing_twice();
        let mut forward: BTreeMap<&str, Vec<&KeyView>> = BTreeMap::new();
        for key in &self.keys {
            if key.direction == Direction::Forward {
                forward.entry(key.order.as_str()).or_default().push(key);
            }
        }
        for order in orders {
            let id = order["order_id"].as_str().expect("a record has an id");
            let keys = forward.remove(id).unwrap_or_default();
            let state = order["state"].as_str().expect("a state");
            match state {
                "Processed" => processed(order, &keys),
                "Compensated" => {
                    let left = keys.iter().find(|k| k.status == KeyStatus::Applied);
                    assert!(left.is_none(), "left in place: {left:?} of {order}");
                }
                "Error" => error(order, pivot),
                other => panic!("order {id} is {other}: {order}"),
            }
        }
        let unknown: Vec<_> = forward.keys().collect();
        assert!(unknown.is_empty(), "calls for unknown orders: {unknown:?}");
    }
}

fn steps(order: &Value) -> impl Iterator<Item = (&str, &str)> {
    let steps = order["steps"].as_array().expect("a record has steps");
    steps.iter().map(|step| {
        let text = |name: &str| step[name].as_str().expect("a step has an id and a state");
        (text("step"), text("state"))
    })
}

fn processed(order: &Value, keys: &[&KeyView]) {
    for (step, state) in steps(order) {
        assert_eq!(state, "completed", "{order}");
        let applied: Vec<_> = keys.iter().filter(|k| k.step == step).collect();
        assert!(
            matches!(applied[..], [key] if key.status == KeyStatus::Applied),
            "step {step} of {order}: {applied:?}"
        );
    }
}

fn error(order: &Value, pivot: &str) {
    let open: Vec<_> = steps(order)
        .filter(|(_, state)| *state != "completed")
        .collect();
    assert!(!open.is_empty(), "nothing failed: {order}");
    let all: Vec<_> = steps(order).map(|(step, _)| step).collect();
    let place = |step: &str| all.iter().position(|s| *s == step);
    for (step, state) in open {
        assert!(
            place(step) >= place(pivot),
            "step {step} is {state}, and before {pivot}: {order}"
        );
    }
}

async fn get(url: &str) -> String {
    let answer = crate::http::client().get(url).send();
    let answer = answer.await.expect("the service answers");
    answer.text().await.expect("the answer is text")
}
