//! Notes when orders end, by their status messages.

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
/// Longest wait for the next status, before the stop is checked.
const NEXT: Duration = Duration::from_millis(200);

/// The ended orders, and when each ended.
pub type Ends = Arc<Mutex<BTreeMap<String, Instant>>>;

/// When an order has ended.
pub fn end_of(ends: &Ends, order: &str) -> Option<Instant> {
    let ends = ends.lock().unwrap_or_else(PoisonError::into_inner);
    ends.get(order).copied()
}

/// Notes ends until `stop`.
///
/// # Errors
/// When the broker does not answer at all.
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
