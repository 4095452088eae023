//! A consumer's events, waited for.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::consumer::BaseConsumer;
use tokio::sync::Notify;

use crate::context::Context;
use crate::error::KafkaError;
use crate::native::{Polled, Polling};

/// Longest time between two looks at a consumer that somebody waits for: it is how the group
/// knows that its member is alive.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Bound: events of the client itself that are seen to in one look.
const SERVED_AT_ONCE: usize = 64;

/// A consumer whose events one task at a time looks at.
pub(crate) struct Events {
    polling: Polling,
    wake: Arc<Notify>,
}

impl Events {
    pub(crate) fn new(mut consumer: BaseConsumer<Context>) -> Result<Self, KafkaError> {
        let wake = Arc::new(Notify::new());
        let woken = wake.clone();
        // A permit is kept until somebody waits: no event is slept through.
        consumer.set_nonempty_callback(move || woken.notify_one());
        Ok(Self {
            polling: Polling::new(consumer)?,
            wake,
        })
    }

    pub(crate) fn consumer(&self) -> &BaseConsumer<Context> {
        self.polling.consumer()
    }

    /// What wakes whoever waits for an event.
    pub(crate) fn wake(&self) -> &Arc<Notify> {
        &self.wake
    }

    /// A record, an error, or [`Polled::Nothing`] if there is neither;
    /// [`Polled::Served`] if there may be more behind the client's own events. Never waits.
    pub(crate) fn poll_events(&self) -> Polled {
        for _ in 0..SERVED_AT_ONCE {
            match self.polling.poll() {
                Polled::Served => {}
                found => return found,
            }
        }
        Polled::Served
    }

    /// Waits until another look is due.
    pub(crate) async fn changed(&self) {
        // Either way it is time for it.
        let _ = tokio::time::timeout(LOOK_EVERY, self.wake.notified()).await;
    }
}
