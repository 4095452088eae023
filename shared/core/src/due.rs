//! The due index: a sparse, sharded hint of which orders somebody must look at.
//!
//! Invariant: the hint of an order is never later than its true due time, unless that has
//! passed already. The hint is moved as seldom as that allows, because moving it costs two
//! index writes and leaving it costs none: an order that finishes in time is put into the index
//! once and taken out once. The Supervisor meets a hint that is early, sees that the order is
//! not due, and moves it to the true time.

use triad_workflow::WorkflowName;

use crate::ids::{OrderId, Timestamp};

/// Shards of the due index. A sweep asks each one; a hot shard would need
/// `SHARDS` times 1,000 due-index writes a second.
pub const SHARDS: u32 = 16;

/// The shard of an order: FNV-1a over its id. It must never change for stored orders.
#[must_use]
pub fn shard_of(order: &OrderId) -> u32 {
    hash(order.as_str()) % SHARDS
}

/// Shards behind those of the due index, for orders that are set aside until their workflow's cap
/// leaves them room. No sweep for what is due reads them, and they are not in flight: their rows lie
/// in the order of age, so that the oldest is let in first.
pub const ASIDE_SHARDS: u32 = 16;

/// The shard in which a workflow's orders are set aside; others may share it. It must never change
/// for stored orders.
///
/// # Example
/// ```
/// use triad_core::due::{SHARDS, aside_shard};
/// let name = triad_workflow::WorkflowName::new("order").unwrap();
/// assert!(aside_shard(&name) >= SHARDS, "no order that is in flight is there");
/// ```
#[must_use]
pub fn aside_shard(workflow: &WorkflowName) -> u32 {
    SHARDS + hash(workflow.as_str()) % ASIDE_SHARDS
}

/// The upper half of FNV-1a.
fn hash(text: &str) -> u32 {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| {
        (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash >> 32) as u32
}

/// The hint to write, given the one that stands and the true due time.
///
/// # Example
/// ```
/// use triad_core::{Timestamp, due::next_hint};
/// let t = |n| Some(Timestamp(n));
/// // Early but still ahead: left alone.
/// assert_eq!(next_hint(t(50), Timestamp(80), Timestamp(10)), t(50));
/// // Later than the truth: moved forward.
/// assert_eq!(next_hint(t(90), Timestamp(80), Timestamp(10)), t(80));
/// // Passed: moved, or the Supervisor would meet it at every sweep.
/// assert_eq!(next_hint(t(50), Timestamp(80), Timestamp(60)), t(80));
/// ```
#[must_use]
pub fn next_hint(
    standing: Option<Timestamp>,
    true_due: Timestamp,
    now: Timestamp,
) -> Option<Timestamp> {
    match standing {
        Some(hint) if hint <= true_due && hint > now => Some(hint),
        _ => Some(true_due),
    }
}
