//! A broken store, for the judge to convict: one promise of it is not kept, now and then.
//!
//! It stands behind the recorder, so that what is recorded is what clients were told.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use clap::ValueEnum;
use serde_json::{Value, json};

/// Which promise is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum)]
pub enum Kind {
    /// A consistent read of one process record is answered with the version before.
    StaleRead,
    /// A write is carried out though its condition does not hold: another's is lost.
    IgnoredCondition,
    /// A write is acknowledged and not carried out.
    DroppedWrite,
    /// Of a transaction only the second put is carried out.
    HalfTransaction,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::StaleRead,
        Self::IgnoredCondition,
        Self::DroppedWrite,
        Self::HalfTransaction,
    ];
}

/// Records whose version before the last one is remembered; further ones are read truly.
const REMEMBERED: usize = 10_000;

/// A broken store's way of answering.
#[derive(Debug)]
pub struct Lies {
    kind: Kind,
    /// Every so manieth request that it could lie to.
    every: u64,
    asked: AtomicU64,
    told: AtomicU64,
    /// The last two versions of each process record.
    versions: Mutex<HashMap<String, [Option<Value>; 2]>>,
}

/// What becomes of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Sent {
    /// It goes to the store as it is.
    True,
    /// This goes to the store in its place, by action and body.
    Instead(&'static str, Value),
    /// Nothing does; this is the answer.
    Answered(Value),
}

impl Lies {
    /// Lies to one in `every` of the requests that can be lied to.
    #[must_use]
    pub fn new(kind: Kind, every: u64) -> Self {
        Self {
            kind,
            every: every.max(1),
            asked: AtomicU64::new(0),
            told: AtomicU64::new(0),
            versions: Mutex::default(),
        }
    }

    /// How often it has lied.
    #[must_use]
    pub fn lies_told(&self) -> u64 {
        self.told.load(Ordering::Relaxed)
    }

    fn is_turn(&self) -> bool {
        let number = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        let lies = number.is_multiple_of(self.every);
        if lies {
            self.told.fetch_add(1, Ordering::Relaxed);
        }
        lies
    }

    /// What is done with a request.
    pub fn request(&self, action: &str, body: &[u8]) -> Sent {
        let Ok(mut body) = serde_json::from_slice::<Value>(body) else {
            return Sent::True;
        };
        let is_write = action == "PutItem" && body["TableName"] == "order-state";
        match self.kind {
            Kind::IgnoredCondition if is_write && self.is_turn() => {
                if let Some(fields) = body.as_object_mut() {
                    // Values that nothing refers to would be refused.
                    fields.retain(|name, _| !name.starts_with("Expression"));
                    fields.remove("ConditionExpression");
                }
                Sent::Instead("PutItem", body)
            }
            Kind::DroppedWrite if is_write && self.is_turn() => Sent::Answered(json!({})),
            Kind::HalfTransaction if action == "TransactWriteItems" && self.is_turn() => {
                Sent::Instead("PutItem", body["TransactItems"][1]["Put"].take())
            }
            _ => Sent::True,
        }
    }

    /// What is told in the place of the store's answer of 200; none: that itself.
    pub fn answer(&self, action: &str, request: &[u8], answer: &[u8]) -> Option<Value> {
        if self.kind != Kind::StaleRead {
            return None;
        }
        let request: Value = serde_json::from_slice(request).ok()?;
        if request["TableName"] != "order-state" {
            return None;
        }
        match action {
            "PutItem" => {
                let id = request["Item"]["OrderID"]["S"].as_str()?;
                let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
                if versions.len() < REMEMBERED || versions.contains_key(id) {
                    let [_, last] = versions.remove(id).unwrap_or_default();
                    versions.insert(id.to_owned(), [last, Some(request["Item"].clone())]);
                }
                None
            }
            "GetItem" if request["ConsistentRead"] == true => {
                let id = request["Key"]["OrderID"]["S"].as_str()?;
                let versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
                let before = versions.get(id)?[0].clone()?;
                let mut answer: Value = serde_json::from_slice(answer).ok()?;
                let lies = self.is_turn();
                answer["Item"] = before;
                lies.then_some(answer)
            }
            _ => None,
        }
    }
}
