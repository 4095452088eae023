//! A broken store, for tests of the judge: it now and then breaks one promise of the store.
//!
//! It sits behind the recorder, so the history contains the wrong answers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use clap::ValueEnum;
use serde_json::{Value, json};

/// The promise that the store breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum)]
pub enum Kind {
    /// A consistent read of a process record returns the previous version.
    StaleRead,
    /// A write is carried out although its condition is false: another write is lost.
    IgnoredCondition,
    /// A write is acknowledged and not carried out.
    DroppedWrite,
    /// Only the second put of a transaction is carried out.
    HalfTransaction,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 4] = [
        Self::StaleRead,
        Self::IgnoredCondition,
        Self::DroppedWrite,
        Self::HalfTransaction,
    ];
}

/// Number of records whose previous version is remembered; reads of other records are answered correctly.
const REMEMBERED: usize = 10_000;

/// A store that breaks one promise, and what it remembers for that.
#[derive(Debug)]
pub struct Lies {
    kind: Kind,
    /// One in this many of the requests that it can answer wrongly is answered wrongly.
    every: u64,
    asked: AtomicU64,
    told: AtomicU64,
    /// The last two versions of each process record.
    versions: Mutex<HashMap<String, [Option<Value>; 2]>>,
}

/// What the store gets.
#[derive(Debug, Clone, PartialEq)]
pub enum Sent {
    /// The request, unchanged.
    True,
    /// Another request in its place: action and body.
    Instead(&'static str, Value),
    /// Nothing; the client gets this answer.
    Answered(Value),
}

impl Lies {
    /// Answers one in `every` of the possible requests wrongly.
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

    /// Number of wrong answers so far.
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

    /// Decides what the store gets in place of a request.
    pub fn request(&self, action: &str, body: &[u8]) -> Sent {
        let Ok(mut body) = serde_json::from_slice::<Value>(body) else {
            return Sent::True;
        };
        let is_write = action == "PutItem" && body["TableName"] == "order-state";
        match self.kind {
            Kind::IgnoredCondition if is_write && self.is_turn() => {
                if let Some(fields) = body.as_object_mut() {
                    // DynamoDB refuses a request with unused names or values.
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

    /// A wrong answer in place of the store's answer with status 200; `None` to keep the store's.
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
