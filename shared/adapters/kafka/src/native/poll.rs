//! Polls a consumer, event by event.
#![expect(unsafe_code, reason = "rdkafka's safe calls leave out what is needed")]

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use rdkafka::ClientContext;
use rdkafka::bindings::{
    RD_KAFKA_EVENT_ERROR, RD_KAFKA_EVENT_FETCH, RD_KAFKA_EVENT_LOG,
    RD_KAFKA_EVENT_OAUTHBEARER_TOKEN_REFRESH, RD_KAFKA_EVENT_REBALANCE, rd_kafka_queue_destroy,
    rd_kafka_queue_get_consumer, rd_kafka_queue_t,
};
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::KafkaError as RdError;
use triad_runtime::InputRecord;

use super::event::Event;
use super::failed::Failed;
use super::token::set_token;
use crate::context::Context;
use crate::error::KafkaError;

/// Result of a poll.
#[derive(Debug)]
pub(crate) enum Polled {
    /// A record.
    Record(InputRecord),
    /// An error, or the end of a partition
    /// ([`PartitionEOF`](RDKafkaErrorCode::PartitionEOF)).
    Failed(Failed),
    /// An event of the client, which was handled; there may be more.
    Served,
    /// Nothing for now.
    Nothing,
}

/// A consumer and the queue of its events. No other code may poll the consumer.
pub(crate) struct Polling {
    queue: NonNull<rd_kafka_queue_t>,
    consumer: ManuallyDrop<BaseConsumer<Context>>,
}

/// Longest wait for leaving a group: rdkafka's own wait does not end while the brokers are away.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

// SAFETY: librdkafka's queues have locks, and this one is only polled and destroyed.
unsafe impl Send for Polling {}
// SAFETY: as above.
unsafe impl Sync for Polling {}

impl Polling {
    pub(crate) fn new(consumer: BaseConsumer<Context>) -> Result<Self, KafkaError> {
        // SAFETY: the client is alive. The returned queue is ours to destroy.
        let queue = unsafe { rd_kafka_queue_get_consumer(consumer.client().native_ptr()) };
        let queue = NonNull::new(queue)
            .ok_or_else(|| KafkaError::Settings("a consumer without a group".into()))?;
        Ok(Self {
            queue,
            consumer: ManuallyDrop::new(consumer),
        })
    }

    pub(crate) fn consumer(&self) -> &BaseConsumer<Context> {
        &self.consumer
    }

    /// Takes an event if there is one. Never waits.
    pub(crate) fn poll(&self) -> Polled {
        // SAFETY: the queue lives until `self` is dropped.
        let Some(event) = (unsafe { Event::next(self.queue) }) else {
            return Polled::Nothing;
        };
        let context = self.consumer.context();
        match event.kind() {
            RD_KAFKA_EVENT_FETCH => match event.record() {
                Some(Ok(record)) => return Polled::Record(record),
                Some(Err(failed)) => return Polled::Failed(failed),
                None => {}
            },
            RD_KAFKA_EVENT_ERROR => {
                let failed = event.failure();
                context.error(RdError::Global(failed.code), &failed.reason);
                return Polled::Failed(failed);
            }
            RD_KAFKA_EVENT_REBALANCE => {
                let (what, mut partitions) = event.rebalance();
                context.rebalance(&self.consumer, what, &mut partitions);
            }
            RD_KAFKA_EVENT_LOG => {
                if let Some((level, about, line)) = event.line() {
                    context.log(level, &about, &line);
                }
            }
            RD_KAFKA_EVENT_OAUTHBEARER_TOKEN_REFRESH => self.renew_token(),
            // Answers to commits, statistics: not needed.
            _ => {}
        }
        Polled::Served
    }

    fn renew_token(&self) {
        let token = self.consumer.context().token();
        if let Err(error) = set_token(self.consumer.client(), token) {
            tracing::warn!(error, "no token for Kafka");
        }
    }
}

impl Drop for Polling {
    fn drop(&mut self) {
        let began = Instant::now();
        // Fails if the client has met a fatal error, or is being closed already.
        let is_closing = self.consumer.close_queue().is_ok();
        while is_closing && !self.consumer.closed() && began.elapsed() < CLOSE_WITHIN {
            let _ = self.consumer.poll(Duration::from_millis(50));
        }
        // SAFETY: it is ours and destroyed once; the consumer is alive.
        unsafe { rd_kafka_queue_destroy(self.queue.as_ptr()) };
        // Destroying a client waits without end for its group, and after a fatal error a client never leaves its
        // group. Such a client is leaked; the process ends soon.
        let can_end = self.consumer.client().fatal_error().is_none();
        if can_end && self.consumer.closed() {
            // SAFETY: the consumer is not used after this.
            unsafe { ManuallyDrop::drop(&mut self.consumer) };
        } else {
            tracing::warn!(
                "a consumer did not leave its group in time; the group removes it after its session timeout"
            );
        }
    }
}
