//! A bus in memory, from which the test takes the sent messages.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use triad_core::Envelope;
use triad_runtime::{Bus, BusError, InputRecord};

/// The messages, in the order in which they were sent.
#[derive(Debug, Clone, Default)]
pub struct MemoryBus(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    queue: VecDeque<InputRecord>,
    sent: i64,
}

impl MemoryBus {
    /// Takes the oldest message, as a record.
    pub fn next(&self) -> Option<InputRecord> {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.queue.pop_front()
    }

    /// Puts a record back, behind the others.
    pub fn keep(&self, record: InputRecord) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.queue.push_back(record);
    }
}

impl Bus for MemoryBus {
    async fn publish(&self, messages: Vec<Envelope>) -> Vec<Result<(), BusError>> {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let answers = messages.iter().map(|_| Ok(())).collect();
        for message in messages {
            let offset = inner.sent;
            inner.sent += 1;
            inner.queue.push_back(InputRecord {
                headers: message.copied_headers(),
                topic: message.topic,
                partition: 0,
                offset,
                timestamp_ms: -1,
                key: message.key,
                value: Some(message.value),
            });
        }
        answers
    }
}
