//! Messages that were not acknowledged in time and are still with the producer.
//!
//! The producer keeps a message until it is acknowledged: if it gave up a message while a later one of its partition
//! was sent, the order of an order's statuses would break. The sender gets a transient failure after a while, and
//! publishes the message again later. That publish then waits for the first message instead of enqueuing a second
//! one. So a partition without a leader holds each of its messages once, and the queue stays free for other
//! partitions.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt;
use rdkafka::producer::future_producer::DeliveryFuture;
use triad_core::Envelope;

/// Bound: overdue messages of one topic. Further messages for it are refused until some of these are acknowledged.
const MAX_MESSAGES: usize = 10_000;
/// Bound: bytes of the overdue messages of one topic.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// The overdue messages of one bus, by topic.
#[derive(Clone, Default)]
pub(crate) struct Overdue(Arc<Mutex<BTreeMap<String, Topic>>>);

/// The overdue messages of one topic, by their key.
#[derive(Default)]
struct Topic(BTreeMap<Option<Vec<u8>>, Vec<InFlight>>);

/// A message that is with the producer.
struct InFlight {
    message: Envelope,
    delivery: DeliveryFuture,
}

/// State of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// No message of the topic is overdue.
    Well,
    /// Messages of the topic are overdue, and more may be.
    Late,
    /// The overdue messages of the topic have reached a bound.
    Full,
}

impl Overdue {
    /// The present state of a topic.
    pub(crate) fn state(&self, topic: &str) -> State {
        let mut topics = self.lock();
        let Some(late) = topics.get_mut(topic) else {
            return State::Well;
        };
        let (messages, bytes) = late.prune();
        match (messages, bytes) {
            (0, _) => {
                topics.remove(topic);
                State::Well
            }
            (messages, bytes) if messages < MAX_MESSAGES && bytes < MAX_BYTES => State::Late,
            _ => State::Full,
        }
    }

    /// Removes and returns the delivery of an equal message, if it is overdue.
    pub(crate) fn take(&self, message: &Envelope) -> Option<DeliveryFuture> {
        let mut topics = self.lock();
        let same_key = topics.get_mut(&message.topic)?.0.get_mut(&message.key)?;
        let at = same_key
            .iter()
            .position(|known| known.message == *message)?;
        Some(same_key.remove(at).delivery)
    }

    fn keep(&self, late: InFlight) {
        let mut topics = self.lock();
        let topic = topics.entry(late.message.topic.clone()).or_default();
        let key = late.message.key.clone();
        topic.0.entry(key).or_default().push(late);
    }

    /// Removes all: their producer is gone.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Topic>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Topic {
    /// Removes deliveries that have been acknowledged or have failed; returns the numbers of remaining messages and
    /// bytes.
    fn prune(&mut self) -> (usize, usize) {
        let (mut messages, mut bytes) = (0, 0);
        self.0.retain(|_, same_key| {
            same_key.retain_mut(|late| (&mut late.delivery).now_or_never().is_none());
            messages += same_key.len();
            bytes += same_key
                .iter()
                .map(|l| l.message.value.len())
                .sum::<usize>();
            !same_key.is_empty()
        });
        (messages, bytes)
    }
}

/// Waits for an acknowledgement; the message becomes overdue if the wait is dropped before.
pub(crate) struct Waiting {
    in_flight: Option<InFlight>,
    overdue: Overdue,
}

impl Waiting {
    pub(crate) fn new(message: Envelope, delivery: DeliveryFuture, overdue: Overdue) -> Self {
        Self {
            in_flight: Some(InFlight { message, delivery }),
            overdue,
        }
    }

    /// The message's topic; empty once the producer has reported the result.
    pub(crate) fn topic(&self) -> &str {
        self.in_flight.as_ref().map_or("", |m| &m.message.topic)
    }

    /// The producer's result; [`None`] if the producer is gone.
    pub(crate) async fn delivered(&mut self) -> Option<<DeliveryFuture as Future>::Output> {
        let delivered = (&mut self.in_flight.as_mut()?.delivery).await;
        self.in_flight = None;
        Some(delivered)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(late) = self.in_flight.take() {
            self.overdue.keep(late);
        }
    }
}
