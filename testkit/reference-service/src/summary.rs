//! What the ledger shows: counts, and one view a key.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::call::{Cause, Direction, Kind, Status};

/// Most examples of a broken invariant that a summary carries.
pub const MAX_EXAMPLES: usize = 16;

/// Counts of calls, by what they did and by what went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Calls that came in, those refused or failed included.
    pub calls: u64,
    /// Effects applied.
    pub applied: u64,
    /// Effects reversed.
    pub undone: u64,
    /// Calls that found their work done.
    pub replayed: u64,
    /// Undos that came before their forward call.
    pub tombstoned: u64,
    /// Calls refused for good.
    pub refused: u64,
    /// Calls that failed before any effect.
    pub failed: u64,
    /// Calls by what went wrong, refusals included.
    pub causes: BTreeMap<Cause, u64>,
}

impl Counts {
    pub(crate) fn note(&mut self, kind: Kind, cause: Option<Cause>) {
        let count = match kind {
            Kind::Applied => &mut self.applied,
            Kind::Replayed => &mut self.replayed,
            Kind::Undone => &mut self.undone,
            Kind::Tombstoned => &mut self.tombstoned,
            Kind::Refused => &mut self.refused,
            Kind::Fault => &mut self.failed,
        };
        *count += 1;
        if let Some(cause) = cause {
            *self.causes.entry(cause).or_default() += 1;
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.applied += other.applied;
        self.undone += other.undone;
        self.replayed += other.replayed;
        self.tombstoned += other.tombstoned;
        self.refused += other.refused;
        self.failed += other.failed;
        for (cause, count) in &other.causes {
            *self.causes.entry(*cause).or_default() += count;
        }
    }
}

/// Counts of everything, as `GET /_ledger/summary` answers them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Summary {
    /// Keys remembered.
    pub keys: u64,
    /// Requests that were not a call (400, 404, 405, 413); they have no key. Since the start.
    pub invalid: u64,
    /// Calls refused because the ledger was full (507). Since the start.
    pub full: u64,
    /// Counts of all services.
    pub total: Counts,
    /// Counts by service.
    pub services: BTreeMap<String, Counts>,
    /// Keys whose effect was applied more than once. Anything but 0 is a fault of this service.
    pub keys_applied_twice: u64,
    /// Some of them, as `service key`; at most [`MAX_EXAMPLES`].
    pub keys_applied_twice_examples: Vec<String>,
    /// Times that a second effect of one (service, order, step) was put in place under another
    /// key while the first still was. Anything but 0 means that the caller's keys are not stable.
    pub steps_applied_twice: u64,
    /// Some of them, as `service order step`; at most [`MAX_EXAMPLES`].
    pub steps_applied_twice_examples: Vec<String>,
}

/// Where a key stands, as a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyStatus {
    /// Seen, without any effect.
    New,
    /// The effect is in place.
    Applied,
    /// The effect was reversed.
    Undone,
    /// The undo came first.
    Tombstoned,
    /// An undo that has been carried out.
    UndoDone,
}

impl From<Status> for KeyStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::New => Self::New,
            Status::Applied { .. } => Self::Applied,
            Status::Undone => Self::Undone,
            Status::Tombstoned => Self::Tombstoned,
            Status::UndoDone { .. } => Self::UndoDone,
        }
    }
}

/// One key, as a line of `GET /_ledger`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyView {
    /// The idempotency key.
    pub key: String,
    /// Service that it was used with.
    pub service: String,
    /// Action called.
    pub action: String,
    /// Order; empty when the caller did not say.
    pub order: String,
    /// Step; empty when the caller did not say.
    pub step: String,
    /// Forward or undo.
    pub direction: Direction,
    /// Where the key stands.
    pub status: KeyStatus,
    /// Calls with this key that came in.
    pub calls: u32,
    /// Times that its effect was applied: 0 or 1.
    pub applied: u32,
    /// Times that its effect was reversed: 0 or 1.
    pub undone: u32,
}
