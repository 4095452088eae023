//! The two lanes of a worker, and the precedence of the high one.
//!
//! Each lane has its own topic, consumer, consumer group and task, so that records of the high lane never queue
//! behind normal ones, neither in a topic nor behind a normal batch in hand or a normal record that is redelivered.
//!
//! The normal lane takes no new records while the high lane has records at hand or under way. Records that it took
//! before are finished: they are the only normal records that can delay a high one. It yields for at most
//! [`LONGEST_YIELD`] at a time: a handler of the high lane that hangs, or a flood of high records, slows the normal
//! lane to one batch in that time and does not stop it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use triad_core::Timestamp;
use triad_runtime::system::SystemClock;
use triad_runtime::{Clock, metric};

use crate::assignment::Partition;
use crate::broker::{Broker, Consumer};
use crate::dead_lettering::Item;
use crate::error::ConsumeError;
use crate::polled::Polled;

/// Longest time for which the normal lane takes no records because the high lane has some: 5 s. Then it takes one
/// batch or record, and yields again.
pub const LONGEST_YIELD: Duration = Duration::from_secs(5);

/// Wait after a read that failed.
const AFTER_ERROR: Duration = Duration::from_millis(100);

/// Which topics a worker's loop reads, and in which consumer groups. `B` is the broker that has the topics.
#[derive(Debug, Clone)]
pub struct WorkerConfig<B> {
    /// The broker that has the topics.
    pub broker: B,
    /// Consumer group of the normal lane. The group of the high lane has this name with `.high`
    /// after it.
    pub group: String,
    /// Name of the topic of the high lane; `None`: there is no such lane.
    pub high: Option<String>,
    /// Name of the topic of the normal lane.
    pub normal: String,
    /// Most records at once; 0 counts as 1. In [`run_batches`](crate::run_batches): records of one
    /// lane that the handler gets together. In [`run_stream`](crate::run_stream): records of both
    /// lanes that are under way.
    pub max_records: usize,
}

/// A lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Has precedence.
    High,
    /// Yields to the high lane.
    Normal,
}

/// One lane: its consumer, and its precedence.
pub(crate) struct Lane<C> {
    pub(crate) side: Side,
    consumer: C,
    precedence: Precedence,
    /// End of the present yield of the normal lane, kept over repeated calls.
    yields_until: Mutex<Option<Instant>>,
    topic: String,
    address: String,
}

/// Joins the group of each lane.
pub(crate) fn join_lanes<B: Broker>(
    config: &WorkerConfig<B>,
) -> Result<Vec<Lane<B::Consumer>>, ConsumeError> {
    let precedence = Precedence::default();
    let lane = |side, group: &str, topic: &str| {
        Ok(Lane {
            side,
            consumer: joined(&config.broker, group, topic)?,
            precedence: precedence.clone(),
            yields_until: Mutex::default(),
            topic: topic.to_owned(),
            address: config.broker.address().to_owned(),
        })
    };
    let high = config.high.as_ref();
    let high = high.map(|topic| lane(Side::High, &format!("{}.high", config.group), topic));
    let normal = lane(Side::Normal, &config.group, &config.normal);
    high.into_iter().chain([normal]).collect()
}

fn joined<B: Broker>(broker: &B, group: &str, topic: &str) -> Result<B::Consumer, ConsumeError> {
    let joined = broker.join(group, topic);
    joined.map_err(|refused| ConsumeError::Join(refused.to_string()))
}

impl<C: Consumer> Lane<C> {
    /// The next item, once it is this lane's turn. Nothing is lost if the future is dropped.
    ///
    /// # Errors
    /// [`ConsumeError::Fatal`] once the consumer cannot be used any more.
    pub(crate) async fn next(&self) -> Result<Item, ConsumeError> {
        loop {
            let found = match self.side {
                Side::High => self.next_of_high().await,
                Side::Normal => self.next_of_normal().await,
            };
            match found {
                Polled::Record(record) => return Ok(Item::Record(record)),
                Polled::Unreadable(unreadable) => return Ok(Item::unreadable(unreadable)),
                Polled::Failed { reason, is_fatal } if is_fatal => {
                    return Err(ConsumeError::Fatal(reason));
                }
                Polled::Failed { reason, .. } => {
                    tracing::warn!(
                        error = reason,
                        brokers = self.address,
                        "records cannot be read for now"
                    );
                    self.release_precedence();
                    tokio::time::sleep(AFTER_ERROR).await;
                }
            }
        }
    }

    async fn next_of_high(&self) -> Polled {
        let next = match self.consumer.at_hand() {
            Some(next) => next,
            None => {
                self.release_precedence();
                self.consumer.next().await
            }
        };
        self.take_precedence();
        next
    }

    async fn next_of_normal(&self) -> Polled {
        loop {
            let until = *self
                .yields_until
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .get_or_insert_with(|| Instant::now() + LONGEST_YIELD);
            let yielded = tokio::time::timeout_at(until, self.precedence.until(false)).await;
            *self
                .yields_until
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = None;
            if yielded.is_err() {
                if let Some(next) = self.consumer.at_hand() {
                    return next;
                }
                continue;
            }
            tokio::select! {
                biased;
                () = self.precedence.until(true) => {}
                next = self.consumer.next() => return next,
            }
        }
    }

    /// The next item that has arrived already.
    pub(crate) fn at_hand(&self) -> Option<Item> {
        match self.consumer.at_hand()? {
            Polled::Record(record) => Some(Item::Record(record)),
            Polled::Unreadable(unreadable) => Some(Item::unreadable(unreadable)),
            // The next call of `next` returns the failure again.
            Polled::Failed { .. } => None,
        }
    }

    /// Reports the lane's backlog to metrics. `oldest` is when the oldest record in hand was written, in milliseconds
    /// since 1970; negative if unknown.
    pub(crate) fn measure(&self, oldest: impl FnOnce() -> Option<i64>) {
        if !metric::is_measured() {
            return;
        }
        let written = oldest().and_then(|at| u64::try_from(at).ok());
        let age = written.map(|at| SystemClock.now().since(Timestamp(at)));
        metric::reads(&self.topic, age, self.consumer.unread());
    }

    pub(crate) fn consumer(&self) -> &C {
        &self.consumer
    }

    /// See [`Consumer::pause`].
    pub(crate) fn pause(&self, partition: &Partition, paused: bool) {
        self.consumer.pause(partition, paused);
    }
}

impl<C> Lane<C> {
    /// Makes the normal lane yield, because this lane has a record to handle.
    pub(crate) fn take_precedence(&self) {
        if self.side == Side::High {
            self.precedence.set(true);
        }
    }

    /// Ends the precedence, because this lane has nothing to handle, or waits before a redelivery.
    pub(crate) fn release_precedence(&self) {
        if self.side == Side::High {
            self.precedence.set(false);
        }
    }
}

impl<C> Drop for Lane<C> {
    fn drop(&mut self) {
        self.release_precedence();
    }
}

/// Whether the high lane has precedence now.
#[derive(Clone)]
struct Precedence(Arc<watch::Sender<bool>>);

impl Default for Precedence {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }
}

impl Precedence {
    fn set(&self, high_first: bool) {
        self.0.send_if_modified(|now| {
            let changed = *now != high_first;
            *now = high_first;
            changed
        });
    }

    async fn until(&self, high_first: bool) {
        let mut now = self.0.subscribe();
        // The sender lives as long as `self`.
        let _ = now.wait_for(|now| *now == high_first).await;
    }
}
