//! The due index: a sparse, sharded hint of the orders that the Supervisor must check.
//!
//! Invariant: the hint of an order is never later than its true due time, unless that has passed already. A hint is
//! moved as seldom as that allows, because moving it costs two index writes and leaving it costs none: an order that
//! finishes in time is put into the index once and removed once. If the Supervisor finds a hint too early, it moves
//! it to the true time. The hint of an order that waits for timers alone is moved when the wait begins: it would be
//! found too early for sure.

use triad_workflow::WorkflowName;

use crate::ids::{OrderId, Timestamp};

/// Number of shards of the due index. A sweep reads each of them. DynamoDB takes 1,000 writes a
/// second into one shard, so the index takes 16,000.
pub const SHARDS: u32 = 16;

/// The shard of an order in the due index, from 0 to [`SHARDS`] - 1: the upper 32 bits of the
/// 64-bit FNV-1a hash of its id, mixed once more, modulo [`SHARDS`].
///
/// FNV-1a alone puts consecutive numbers into the same shard: the last characters of an id do not reach the bits that
/// count, so 1,000 orders in a row were in one shard. Each write of an order writes its row, and every reader reads
/// all shards, so rows in shards of an earlier rule are found too.
///
/// # Example
/// ```
/// use triad_core::{OrderId, due::{SHARDS, shard_of}};
/// let mut in_shard = [0; SHARDS as usize];
/// for n in 0..1_600 {
///     let id = OrderId::new(format!("order-{n:06}")).unwrap();
///     in_shard[shard_of(&id) as usize] += 1;
/// }
/// assert!(in_shard.iter().all(|count| (50..200).contains(count)), "{in_shard:?}");
/// ```
#[must_use]
pub fn shard_of(order: &OrderId) -> u32 {
    (mixed(fnv(order.as_str())) >> 32) as u32 % SHARDS
}

/// How many further shards hold the orders that are set aside because their workflow's cap on
/// orders in flight is reached, or because their definition could not be read. Their numbers begin at [`SHARDS`].
///
/// A sweep for due orders does not read them. Their rows are sorted by the age of the order, so that the oldest order
/// is admitted first.
pub const ASIDE_SHARDS: u32 = 16;

/// Number of all shards: [`SHARDS`] and then [`ASIDE_SHARDS`]. Every order that is not finished has its row in one of
/// them, so a search for orders must read them all.
pub const ALL_SHARDS: u32 = SHARDS + ASIDE_SHARDS;

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
    SHARDS + (fnv(workflow.as_str()) >> 32) as u32 % ASIDE_SHARDS
}

/// FNV-1a, 64 bits (draft-eastlake-fnv).
pub(crate) fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| {
        (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The finalizer of MurmurHash3, `fmix64`: every bit of the argument reaches every bit of the result.
fn mixed(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
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
