//! Views of the ledger: counts, and one view per key.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::call::{Cause, Direction, Kind, Status};

/// Most examples of one kind that a summary names, inclusive.
pub const MAX_EXAMPLES: usize = 16;

/// Counts of calls, by effect and by fault.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CallCounts {
    /// Calls that came in, those that were refused or failed included.
    pub calls: u64,
    /// Calls that applied an effect.
    pub applied: u64,
    /// Calls that reversed an effect.
    pub compensated: u64,
    /// Calls whose effect, or whose reversal, was there already.
    pub replayed: u64,
    /// Compensations that came before their forward call.
    pub tombstoned: u64,
    /// Calls refused for good.
    pub refused: u64,
    /// Calls that failed before any effect.
    pub failed: u64,
    /// Calls that were refused, failed, or were not answered as they should have been, by cause.
    pub causes: BTreeMap<Cause, u64>,
}

impl CallCounts {
    pub(crate) fn note(&mut self, kind: Kind, cause: Option<Cause>) {
        let count = match kind {
            Kind::Applied => &mut self.applied,
            Kind::Replayed => &mut self.replayed,
            Kind::Compensated => &mut self.compensated,
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
        self.compensated += other.compensated;
        self.replayed += other.replayed;
        self.tombstoned += other.tombstoned;
        self.refused += other.refused;
        self.failed += other.failed;
        for (cause, count) in &other.causes {
            *self.causes.entry(*cause).or_default() += count;
        }
    }
}

/// Counts of all calls, as `GET /_ledger/summary` answers them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Summary {
    /// Keys that are remembered.
    pub keys: u64,
    /// Requests since the start of the process that were no call (answered 400, 404, 405 or 413).
    /// They have no key.
    pub invalid: u64,
    /// Calls since the start of the process that were answered 507 because no new key could be
    /// remembered.
    pub full: u64,
    /// Counts of the calls of all services together.
    pub total: CallCounts,
    /// Counts of the calls of each service, by its name.
    pub services: BTreeMap<String, CallCounts>,
    /// Keys whose effect was applied more than once. Anything but 0 is a fault of this service.
    pub keys_applied_twice: u64,
    /// The first of these keys, as `service key`; at most [`MAX_EXAMPLES`].
    pub keys_applied_twice_examples: Vec<String>,
    /// How often a second effect of one step of one order was applied under another key while the
    /// first one was in place. More than 0 means that the caller does not keep its keys the same.
    pub steps_applied_twice: u64,
    /// The first of these steps, as `service order step`; at most [`MAX_EXAMPLES`].
    pub steps_applied_twice_examples: Vec<String>,
}

/// State of the effect under a key, as a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyStatus {
    /// The key was used, and no call of it has had an effect.
    New,
    /// A forward key whose effect is in place.
    Applied,
    /// A forward key whose effect was applied and then reversed.
    #[serde(rename = "compensated")]
    Compensated,
    /// A forward key whose compensation came first: its effect can never be applied.
    Tombstoned,
    /// The key of a compensation that has been carried out.
    #[serde(rename = "compensation_done")]
    CompensationDone,
}

impl From<Status> for KeyStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::New => Self::New,
            Status::Applied { .. } => Self::Applied,
            Status::Compensated => Self::Compensated,
            Status::Tombstoned => Self::Tombstoned,
            Status::CompensationDone { .. } => Self::CompensationDone,
        }
    }
}

/// One idempotency key, as a line of `GET /_ledger`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyView {
    /// The idempotency key.
    pub key: String,
    /// Name of the service that was called with it.
    pub service: String,
    /// Name of the action: that of the call that had the effect, or else of the first call.
    pub action: String,
    /// Id of the order; empty if the caller did not say.
    pub order: String,
    /// Id of the step; empty if the caller did not say.
    pub step: String,
    /// Whether it is the key of an effect or of a compensation.
    pub direction: Direction,
    /// State of the effect under the key.
    pub status: KeyStatus,
    /// How many calls with this key came in.
    pub calls: u32,
    /// How often its effect was applied: 0 or 1.
    pub applied: u32,
    /// How often its effect was reversed: 0 or 1.
    pub compensated: u32,
}
