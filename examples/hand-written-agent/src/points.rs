//! The remote service: loyalty points, kept in memory.
//!
//! It honours what Triad asks of every remote service: a key takes effect once, a compensation takes
//! back the effect of the key that it names once, and a compensation that comes before its forward call
//! leaves a tombstone, so that the late call has no effect. A real service keeps all of this in
//! its database, in one transaction with the effect.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use triad_core::{Direction, IdempotencyKey};
use triad_runtime::{Call, Fault, RemoteService};

/// Most points of one credit.
const MOST_POINTS: u64 = 10_000;

/// What has happened under the key of a credit.
#[derive(Debug, Clone)]
enum Credit {
    Given {
        customer: String,
        points: u64,
    },
    TakenBack,
    /// The compensation came before the credit, which is refused from then on.
    Tombstone,
}

#[derive(Debug, Default)]
struct Book {
    balances: HashMap<String, u64>,
    credits: HashMap<IdempotencyKey, Credit>,
}

/// Balances, and what each key did to them.
#[derive(Debug, Default)]
pub struct Points(Mutex<Book>);

impl Points {
    /// A customer's points.
    #[cfg(test)]
    fn balance(&self, customer: &str) -> u64 {
        self.book().balances.get(customer).copied().unwrap_or(0)
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn credit(&self, key: &IdempotencyKey, input: &Value) -> Result<Value, Fault> {
        let (Some(customer), Some(points)) = (input["customer"].as_str(), input["points"].as_u64())
        else {
            return Err(refused("bad-input", "customer and points are needed"));
        };
        if points > MOST_POINTS {
            let message = format!("{points} points are more than {MOST_POINTS}");
            return Err(refused("too-many-points", &message));
        }
        let mut book = self.book();
        match book.credits.get(key) {
            None => {
                *book.balances.entry(customer.to_owned()).or_default() += points;
                let customer = customer.to_owned();
                let credit = Credit::Given { customer, points };
                book.credits.insert(key.clone(), credit);
            }
            // The same key is answered the same, without another effect.
            Some(Credit::Given { .. }) => {}
            Some(Credit::TakenBack | Credit::Tombstone) => {
                return Err(refused("compensated", "this credit has been taken back"));
            }
        }
        Ok(json!({"customer": customer, "points": points}))
    }

    /// Whether a credit has been given and stands. A step that declares a probe is asked this
    /// way; the credit itself may be repeated safely, so nothing here has to.
    fn status(&self, forward: &IdempotencyKey) -> Value {
        match self.book().credits.get(forward) {
            Some(Credit::Given { customer, points }) => {
                json!({"applied": true, "output": {"customer": customer, "points": points}})
            }
            Some(Credit::TakenBack | Credit::Tombstone) | None => json!({"applied": false}),
        }
    }

    fn take_back(&self, forward: &IdempotencyKey) -> Value {
        let mut book = self.book();
        let taken_back = match book.credits.get(forward).cloned() {
            Some(Credit::Given { customer, points }) => {
                if let Some(balance) = book.balances.get_mut(&customer) {
                    *balance = balance.saturating_sub(points);
                }
                book.credits.insert(forward.clone(), Credit::TakenBack);
                points
            }
            Some(Credit::TakenBack | Credit::Tombstone) => 0,
            None => {
                book.credits.insert(forward.clone(), Credit::Tombstone);
                0
            }
        };
        json!({ "taken_back": taken_back })
    }
}

fn refused(code: &str, message: &str) -> Fault {
    Fault::Permanent {
        code: code.to_owned(),
        message: message.to_owned(),
    }
}

impl RemoteService for Points {
    async fn call(&self, call: Call<'_>) -> Result<Value, Fault> {
        match (call.direction, call.action, call.compensates) {
            (Direction::Forward, "credit", _) => self.credit(call.idempotency_key, call.input),
            (Direction::Compensate, "take-back", Some(forward)) => Ok(self.take_back(forward)),
            (Direction::Probe, "credit-status", _) => Ok(self.status(call.idempotency_key)),
            _ => Err(refused("unknown-action", call.action)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use triad_core::OrderId;
    use triad_workflow::{Millis, StepId};

    async fn call(points: &Points, direction: Direction, input: Value) -> Result<Value, Fault> {
        let order_id = OrderId::new("1").unwrap();
        let step = StepId::new("credit-points").unwrap();
        let key = |direction| IdempotencyKey::of(&order_id, &step, direction, 0);
        let forward = key(Direction::Forward);
        let call = Call {
            order_id: &order_id,
            step: &step,
            direction,
            idempotency_key: &key(direction),
            compensates: (direction == Direction::Compensate).then_some(&forward),
            action: match direction {
                Direction::Forward => "credit",
                Direction::Compensate => "take-back",
                Direction::Probe => "credit-status",
            },
            input: &input,
            form: None,
            repeats: false,
            callback: None,
            location: None,
            time_left: Millis(1_000),
            attempt: 1,
            traceparent: None,
        };
        points.call(call).await
    }

    fn ten() -> Value {
        json!({"customer": "ANNA", "points": 10})
    }

    #[tokio::test]
    async fn a_credit_takes_effect_once_and_is_taken_back_once() {
        let points = Points::default();
        let first = call(&points, Direction::Forward, ten()).await;
        assert_eq!(first, call(&points, Direction::Forward, ten()).await);
        assert_eq!(points.balance("ANNA"), 10);
        let asked = call(&points, Direction::Probe, ten()).await.unwrap();
        assert_eq!(asked["applied"], true);
        for _ in 0..2 {
            call(&points, Direction::Compensate, json!(null))
                .await
                .unwrap();
            assert_eq!(points.balance("ANNA"), 0);
        }
        let asked = call(&points, Direction::Probe, ten()).await.unwrap();
        assert_eq!(asked["applied"], false);
        let late = call(&points, Direction::Forward, ten()).await;
        assert!(matches!(late, Err(Fault::Permanent { .. })));
        assert_eq!(points.balance("ANNA"), 0);
    }

    #[tokio::test]
    async fn a_compensation_that_comes_first_leaves_a_tombstone() {
        let points = Points::default();
        call(&points, Direction::Compensate, json!(null))
            .await
            .unwrap();
        let late = call(&points, Direction::Forward, ten()).await;
        assert!(matches!(late, Err(Fault::Permanent { .. })));
        assert_eq!(points.balance("ANNA"), 0);
    }

    #[tokio::test]
    async fn what_cannot_be_credited_is_refused() {
        let points = Points::default();
        for input in [json!({}), json!({"customer": "ANNA", "points": 1_000_000})] {
            let answer = call(&points, Direction::Forward, input).await;
            assert!(matches!(answer, Err(Fault::Permanent { .. })));
        }
    }
}
