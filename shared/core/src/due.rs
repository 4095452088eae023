//! The due index: a sparse, sharded hint of which orders somebody must look at.
//!
//! Invariant: the hint of an order is never later than its true due time, unless that has
//! passed already. The hint is moved as seldom as that allows, because moving it costs two
//! index writes and leaving it costs none: an order that finishes in time is put into the index
//! once and taken out once. The Supervisor meets a hint that is early, sees that the order is
//! not due, and moves it to the true time.

use triad_workflow::WorkflowName;

use crate::ids::{OrderId, Timestamp};

/// Number of shards of the due index. A sweep reads each of them. DynamoDB takes 1,000 writes a
/// second into one shard, so the index takes 16,000.
pub const SHARDS: u32 = 16;

/// The shard of an order in the due index, from 0 to [`SHARDS`] - 1: the upper 32 bits of the
/// 64-bit FNV-1a hash of its id, modulo [`SHARDS`]. It must never change for stored orders.
#[must_use]
pub fn shard_of(order: &OrderId) -> u32 {
    hash(order.as_str()) % SHARDS
}

/// How many further shards hold the orders that are set aside because their workflow's cap on
/// orders in flight is reached. Their numbers begin at [`SHARDS`].
///
/// A sweep for due orders does not read them. Their rows are sorted by the age of the order, so
/// that the oldest order is let in first.
pub const ASIDE_SHARDS: u32 = 16;

/// The shard in which a workflow's orders are set aside, from [`SHARDS`] to [`SHARDS`] +
/// [`ASIDE_SHARDS`] - 1. Several workflows may share one. It must never change for stored orders.
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

/// The hint to write into the due index. The `standing` one stays if it is after `now` and not
/// after `true_due`; otherwise, and where there is none, it is `true_due`. The result is never
/// `None`.
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
