//! Records when each order ends, from the status messages.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use triad_core::message::StatusMessage;
use triad_core::topics;
use triad_kafka::{KafkaConfig, Polled, Reader, ReaderStart};

use crate::progress::is_end;

/// Longest wait for one answer of the broker.
const ANSWER: Duration = Duration::from_secs(20);
/// Longest wait for the next status; afterwards the stop is checked.
const NEXT: Duration = Duration::from_millis(200);

/// The time at which each ended order ended, by id.
pub type Ends = Arc<Mutex<BTreeMap<String, Instant>>>;

/// The time at which an order ended; `None` if it has not ended.
pub fn end_of(ends: &Ends, order: &str) -> Option<Instant> {
    let ends = ends.lock().unwrap_or_else(PoisonError::into_inner);
    ends.get(order).copied()
}

/// Records ends until `stop`.
///
/// # Errors
/// If the broker does not answer.
pub async fn follow(brokers: String, ends: Ends, stop: CancellationToken) -> Result<()> {
    let config = KafkaConfig::new(&brokers);
    let reader = Reader::open(&config, &[topics::STATUS], ReaderStart::Beginning, ANSWER)?;
    while !stop.is_cancelled() {
        let Polled::Record(record) = reader.next(NEXT).await else {
            continue;
        };
        let value = record.value.unwrap_or_default();
        let Ok(status) = serde_json::from_slice::<StatusMessage>(&value) else {
            continue;
        };
        if is_end(status.status) {
            let mut ends = ends.lock().unwrap_or_else(PoisonError::into_inner);
            let order = status.order_id.to_string();
            ends.entry(order).or_insert_with(Instant::now);
        }
    }
    Ok(())
}
