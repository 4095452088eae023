//! Waits for a consumer's events.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::consumer::BaseConsumer;
use tokio::sync::Notify;

use crate::context::Context;
use crate::error::KafkaError;
use crate::native::{Polled, Polling};

/// Longest interval between two polls of a consumer with a waiting caller: polls show the group that its member is
/// alive.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Bound: events of the client that are handled in one poll.
const SERVED_AT_ONCE: usize = 64;

/// A consumer that one task at a time polls.
pub(crate) struct Events {
    polling: Polling,
    wake: Arc<Notify>,
}

impl Events {
    pub(crate) fn new(mut consumer: BaseConsumer<Context>) -> Result<Self, KafkaError> {
        let wake = Arc::new(Notify::new());
        let woken = wake.clone();
        // The permit is kept until a caller waits, so no event is missed.
        consumer.set_nonempty_callback(move || woken.notify_one());
        Ok(Self {
            polling: Polling::new(consumer)?,
            wake,
        })
    }

    pub(crate) fn consumer(&self) -> &BaseConsumer<Context> {
        self.polling.consumer()
    }

    /// Wakes the caller that waits for an event.
    pub(crate) fn wake(&self) -> &Arc<Notify> {
        &self.wake
    }

    /// A record, an error, or [`Polled::Nothing`] if there is neither; [`Polled::Served`] if there may be more behind
    /// the client's own events. Never waits.
    pub(crate) fn poll_events(&self) -> Polled {
        for _ in 0..SERVED_AT_ONCE {
            match self.polling.poll() {
                Polled::Served => {}
                found => return found,
            }
        }
        Polled::Served
    }

    /// Waits until another poll is due.
    pub(crate) async fn changed(&self) {
        // A poll is due in either case.
        let _ = tokio::time::timeout(LOOK_EVERY, self.wake.notified()).await;
    }
}
