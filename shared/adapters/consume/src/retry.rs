//! Waits between deliveries of the same record to its handler.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use triad_core::agent::backoff;
use triad_runtime::system::SystemEntropy;
use triad_runtime::{Entropy, InputRecord, Redelivery};
use triad_workflow::Millis;

/// Shortest and longest wait.
const RETRY: (Millis, Millis) = (Millis(100), Millis(10_000));

/// Wait before a redelivery of a record that found no room.
pub(crate) const FOR_ROOM: Duration = Duration::from_millis(50);

/// The wait before another try; it grows with every try.
pub(crate) fn wait_before(tries: &mut u32) -> Duration {
    *tries = tries.saturating_add(1);
    backoff(*tries, RETRY.0, RETRY.1, SystemEntropy.next_u64()).as_duration()
}

/// Waits before another try; false if the worker is to stop instead.
pub(crate) async fn wait_to_retry(tries: &mut u32, stop: &CancellationToken) -> bool {
    tokio::select! {
        () = tokio::time::sleep(wait_before(tries)) => true,
        () = stop.cancelled() => false,
    }
}

/// Logs the redelivery of a record, with its reason.
pub(crate) fn log_redelivery(record: &InputRecord, why: &Redelivery) {
    let (topic, partition, offset) = (&record.topic, record.partition, record.offset);
    if why.is_for_room() {
        tracing::debug!(topic, partition, offset, %why, "no room for a record yet");
    } else if why.needs_an_operator() {
        tracing::error!(topic, partition, offset, %why, "nothing continues here until the installation is repaired");
    } else {
        tracing::warn!(topic, partition, offset, %why, "record redelivered");
    }
}
