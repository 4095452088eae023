//! Messages that were not acknowledged in time and are still with the producer.
//!
//! The producer keeps a message until it is acknowledged: one that it gave up while a later one of
//! its partition got through would break the order of an order's statuses. Its sender is told after
//! a while that it has failed for now, and sends it again later. It is the very same one then, and
//! waits for the first instead of standing in the queue once more: a partition without a leader
//! holds what was meant for it once, and not once a try, and the queue stays free for the others.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt;
use rdkafka::producer::future_producer::DeliveryFuture;
use triad_core::Envelope;

/// Bound: overdue messages of one topic. Others for it are refused until some of these are out.
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

/// How a topic does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// No message of the topic is overdue.
    Well,
    /// Messages of the topic are overdue, and more may be.
    Late,
    /// As many messages or bytes of the topic are overdue as may be.
    Full,
}

impl Overdue {
    /// How a topic does now.
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

    /// Takes the very same message out, if it is overdue.
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

    /// Forgets all: their producer is gone.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Topic>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Topic {
    /// Leaves out what has been acknowledged or has failed since; messages and bytes that are left.
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

/// Waits for an acknowledgement; the message is overdue if that is given up before it has come.
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

    /// The topic that it is for; empty once the producer has said what became of it.
    pub(crate) fn topic(&self) -> &str {
        self.in_flight.as_ref().map_or("", |m| &m.message.topic)
    }

    /// What the producer says; [`None`] if it is gone.
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
