//! Views of the ledger: counts, and a view of each key.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::call::{Cause, Direction, Kind, Status};

/// Most examples of one kind in a summary, inclusive.
pub const MAX_EXAMPLES: usize = 16;

/// Counts of calls, by result and by cause.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CallCounts {
    /// Calls that arrived, including refused and failed ones.
    pub calls: u64,
    /// Calls that applied the effect of an action.
    pub applied: u64,
    /// Calls that compensated an effect.
    pub compensated: u64,
    /// Calls whose effect, or whose compensation, had been carried out before.
    pub replayed: u64,
    /// Compensations that came before their action.
    pub tombstoned: u64,
    /// Calls refused for good.
    pub refused: u64,
    /// Calls that failed before any effect.
    pub failed: u64,
    /// Calls that were refused, failed, or got another answer than normally, by cause.
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
    /// Number of keys.
    pub keys: u64,
    /// Requests since the start of the process that were not calls (answered 400, 404, 405 or 413). They have no key.
    pub invalid: u64,
    /// Calls since the start of the process that were answered 507, because there was no room for a new key.
    pub full: u64,
    /// Counts of the calls of all services together.
    pub total: CallCounts,
    /// Counts of the calls of each service, by its name.
    pub services: BTreeMap<String, CallCounts>,
    /// Keys whose effect was applied more than once. Anything but 0 is a fault of this service.
    pub keys_applied_twice: u64,
    /// The first of these keys, as `service key`; at most [`MAX_EXAMPLES`].
    pub keys_applied_twice_examples: Vec<String>,
    /// How often a second effect of the same step and order was applied under another key while the first was in
    /// place. More than 0 means that the caller's keys vary.
    pub steps_applied_twice: u64,
    /// The first of these steps, as `service order step`; at most [`MAX_EXAMPLES`].
    pub steps_applied_twice_examples: Vec<String>,
}

/// The state of the effect under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyStatus {
    /// The key was used, but none of its calls has had an effect.
    New,
    /// The key of an action whose effect is in place.
    Applied,
    /// The key of an action whose effect was applied and then compensated.
    #[serde(rename = "compensated")]
    Compensated,
    /// The key of an action whose compensation came first: its effect can never be applied.
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
    /// Name of the service that was called.
    pub service: String,
    /// Name of the action, from the call that had the effect or else from the first call.
    pub action: String,
    /// Id of the order; empty if the caller did not name it.
    pub order: String,
    /// Id of the step; empty if the caller did not name it.
    pub step: String,
    /// Whether it is the key of an action or of a compensation.
    pub direction: Direction,
    /// State of the effect under the key.
    pub status: KeyStatus,
    /// Number of calls with this key.
    pub calls: u32,
    /// How often its effect was applied: 0 or 1.
    pub applied: u32,
    /// How often its effect was compensated: 0 or 1.
    pub compensated: u32,
}
