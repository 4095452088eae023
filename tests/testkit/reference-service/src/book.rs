//! The service's memory: the state of every key, and counts.
//!
//! [`Book::apply`] is the only function that changes state. Keys are never removed, because that would lose the
//! knowledge that their effects took place. So a full book refuses new keys (507), and still answers known ones.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use crate::call::Status;
use crate::call::{CallHead, Cause, Direction, Kind};
use crate::hash;
use crate::summary::{CallCounts, KeyView, MAX_EXAMPLES, Summary};

/// One call, as it is written to the ledger file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerLine {
    /// When the effect of the call was determined, in milliseconds since the Unix epoch.
    pub at_ms: i64,
    /// Service, action, order, step, key and attempt of the call.
    #[serde(flatten)]
    pub head: CallHead,
    /// Hash of the request: see [`Call::fingerprint`](crate::contract::Call::fingerprint).
    pub fingerprint: u64,
    /// Number of this call among the calls of its key, from 1.
    pub call: u32,
    /// What the call did.
    pub kind: Kind,
    /// Why the call was refused, failed, or got another answer than normally; `None` otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
}

/// The error for a new key when the book is full. Known keys are still answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the ledger is full: it remembers {max_keys} forward keys and never forgets one")]
pub struct BookFull {
    /// The most keys of actions that the book accepts.
    pub max_keys: usize,
}

#[derive(Debug)]
struct BookEntry {
    key: Arc<str>,
    service: Arc<str>,
    action: Arc<str>,
    step: Arc<str>,
    order: Box<str>,
    direction: Direction,
    status: Status,
    calls: u32,
    applied: u32,
    compensated: u32,
}

/// The state of every key of every service, in the order in which the keys were first seen.
///
/// A key takes about 400 bytes. Actions add up to `max_keys` keys. Compensations may add as many again, so that every
/// effect in a full book can still be compensated.
#[derive(Debug)]
pub struct Book {
    max_keys: usize,
    entries: Vec<BookEntry>,
    index: HashMap<Arc<str>, HashMap<Arc<str>, usize>>,
    /// Names of services, actions and steps, shared because every entry repeats them.
    names: HashSet<Arc<str>>,
    counts: BTreeMap<Arc<str>, CallCounts>,
    /// Number of effects in place by (service, order, step), to detect a caller whose keys vary.
    steps: HashMap<u64, u32>,
    steps_applied_twice: u64,
    step_examples: Vec<String>,
    keys_applied_twice: u64,
    key_examples: Vec<String>,
}

impl Book {
    /// An empty book for at most `max_keys` forward keys.
    pub fn new(max_keys: usize) -> Self {
        Self {
            max_keys,
            entries: Vec::new(),
            index: HashMap::new(),
            names: HashSet::new(),
            counts: BTreeMap::new(),
            steps: HashMap::new(),
            steps_applied_twice: 0,
            step_examples: Vec::new(),
            keys_applied_twice: 0,
            key_examples: Vec::new(),
        }
    }

    /// How many keys the book holds.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the book holds no key.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The state of the effect under `key` of `service`; [`Status::New`] for an unknown key.
    pub fn status(&self, service: &str, key: &str) -> Status {
        self.find(service, key)
            .map_or(Status::New, |at| self.entries[at].status)
    }

    /// The action of a key, from the call that had the effect or else from the first call; `None` for an unknown key.
    pub fn action(&self, service: &str, key: &str) -> Option<&str> {
        let at = self.find(service, key)?;
        Some(&self.entries[at].action)
    }

    /// Counts an incoming call. Returns its number among the calls of its key, from 1.
    ///
    /// # Errors
    /// [`BookFull`] if the key is new and there is no room; nothing is counted then.
    pub fn arrive(&mut self, head: &CallHead) -> Result<u32, BookFull> {
        let at = match self.find(&head.service, &head.key) {
            Some(at) => at,
            None => {
                // A compensation may need a second entry, its tombstone. Concurrent calls may exceed the limit by one
                // tombstone each.
                let fits = match head.direction {
                    Direction::Forward => self.entries.len() < self.max_keys,
                    Direction::Compensate => {
                        self.entries.len() + 2 <= self.max_keys.saturating_mul(2)
                    }
                };
                if !fits {
                    return Err(BookFull {
                        max_keys: self.max_keys,
                    });
                }
                self.insert(head, &head.key, head.direction)
            }
        };
        self.counts_of(&head.service).calls += 1;
        let entry = &mut self.entries[at];
        entry.calls = entry.calls.saturating_add(1);
        Ok(entry.calls)
    }

    /// Applies and counts the effect of a call. [`arrive`](Self::arrive) must be called before it for the same call.
    pub fn apply(&mut self, line: &LedgerLine) {
        let head = &line.head;
        self.counts_of(&head.service).note(line.kind, line.cause);
        let at = match self.find(&head.service, &head.key) {
            Some(at) => at,
            None => self.insert(head, &head.key, head.direction),
        };
        // A call that got no answer, because the process was killed, has a number but no line.
        self.entries[at].calls = self.entries[at].calls.max(line.call);
        let fingerprint = line.fingerprint;
        match (line.kind, head.direction) {
            (Kind::Applied, _) => {
                self.bind(at, head, Status::Applied { fingerprint });
                self.note_effect(at);
            }
            (Kind::Compensated | Kind::Tombstoned, _) | (Kind::Replayed, Direction::Compensate) => {
                self.bind(at, head, Status::CompensationDone { fingerprint });
                self.resolve_target(line);
            }
            (Kind::Replayed, Direction::Forward) | (Kind::Refused | Kind::Fault, _) => {}
        }
    }

    fn resolve_target(&mut self, line: &LedgerLine) {
        let head = &line.head;
        let target = head.compensates.as_deref().unwrap_or_default();
        let at = match self.find(&head.service, target) {
            Some(at) => at,
            None => self.insert(head, target, Direction::Forward),
        };
        match line.kind {
            Kind::Compensated => {
                self.entries[at].status = Status::Compensated;
                self.entries[at].compensated += 1;
                let step = self.step_hash(at);
                if let Some(in_place) = self.steps.get_mut(&step) {
                    *in_place = in_place.saturating_sub(1);
                }
            }
            Kind::Tombstoned => self.entries[at].status = Status::Tombstoned,
            Kind::Applied | Kind::Replayed | Kind::Refused | Kind::Fault => {}
        }
    }

    /// Binds a key to the request that first had an effect, which need not be the first one seen.
    fn bind(&mut self, at: usize, head: &CallHead, status: Status) {
        let action = self.name(&head.action);
        let step = self.name(&head.step);
        let entry = &mut self.entries[at];
        entry.status = status;
        entry.direction = head.direction;
        entry.action = action;
        entry.step = step;
        if *entry.order != *head.order {
            entry.order = head.order.as_str().into();
        }
    }

    fn note_effect(&mut self, at: usize) {
        let entry = &mut self.entries[at];
        entry.applied += 1;
        if entry.applied == 2 {
            self.keys_applied_twice += 1;
            if self.key_examples.len() < MAX_EXAMPLES {
                let example = format!("{} {}", entry.service, entry.key);
                self.key_examples.push(example);
            }
        }
        if self.entries[at].order.is_empty() {
            return;
        }
        let step = self.step_hash(at);
        let in_place = self.steps.entry(step).or_default();
        *in_place += 1;
        if *in_place == 2 {
            self.steps_applied_twice += 1;
            if self.step_examples.len() < MAX_EXAMPLES {
                let entry = &self.entries[at];
                let example = format!("{} {} {}", entry.service, entry.order, entry.step);
                self.step_examples.push(example);
            }
        }
    }

    fn step_hash(&self, at: usize) -> u64 {
        let entry = &self.entries[at];
        [&*entry.service, &*entry.order, &*entry.step]
            .iter()
            .fold(0, |hash, part| hash::bytes(hash, part.as_bytes()))
    }

    fn insert(&mut self, head: &CallHead, key: &str, direction: Direction) -> usize {
        let service = self.name(&head.service);
        let entry = BookEntry {
            key: key.into(),
            service: service.clone(),
            action: self.name(&head.action),
            step: self.name(&head.step),
            order: head.order.as_str().into(),
            direction,
            status: Status::New,
            calls: 0,
            applied: 0,
            compensated: 0,
        };
        let at = self.entries.len();
        let keys = self.index.entry(service).or_default();
        keys.insert(entry.key.clone(), at);
        self.entries.push(entry);
        at
    }

    fn find(&self, service: &str, key: &str) -> Option<usize> {
        self.index.get(service)?.get(key).copied()
    }

    fn name(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.names.get(name) {
            return known.clone();
        }
        let new: Arc<str> = name.into();
        self.names.insert(new.clone());
        new
    }

    fn counts_of(&mut self, service: &str) -> &mut CallCounts {
        if !self.counts.contains_key(service) {
            let name = self.name(service);
            self.counts.insert(name, CallCounts::default());
        }
        self.counts
            .get_mut(service)
            .expect("the service was inserted just above")
    }

    /// At most `limit` keys, in the order in which they were first seen, beginning with number
    /// `from` (from 0). Empty after the last key.
    pub fn page(&self, from: usize, limit: usize) -> Vec<KeyView> {
        let view = |entry: &BookEntry| KeyView {
            key: entry.key.to_string(),
            service: entry.service.to_string(),
            action: entry.action.to_string(),
            order: entry.order.to_string(),
            step: entry.step.to_string(),
            direction: entry.direction,
            status: entry.status.into(),
            calls: entry.calls,
            applied: entry.applied,
            compensated: entry.compensated,
        };
        self.entries
            .iter()
            .skip(from)
            .take(limit)
            .map(view)
            .collect()
    }

    /// The counts of all keys. The time that it takes grows with the number of services, not of
    /// keys.
    pub fn summary(&self) -> Summary {
        let mut total = CallCounts::default();
        let named = |(name, counts): (&Arc<str>, &CallCounts)| (name.to_string(), counts.clone());
        let services: BTreeMap<String, CallCounts> = self.counts.iter().map(named).collect();
        for counts in services.values() {
            total.add(counts);
        }
        Summary {
            keys: self.entries.len() as u64,
            invalid: 0,
            full: 0,
            total,
            services,
            keys_applied_twice: self.keys_applied_twice,
            keys_applied_twice_examples: self.key_examples.clone(),
            steps_applied_twice: self.steps_applied_twice,
            steps_applied_twice_examples: self.step_examples.clone(),
        }
    }
}
