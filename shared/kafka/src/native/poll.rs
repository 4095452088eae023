//! Reading what a consumer has, event by event.
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

/// What a look at a consumer found.
#[derive(Debug)]
pub(crate) enum Polled {
    /// A record.
    Record(InputRecord),
    /// An error, or the end of a partition
    /// ([`PartitionEOF`](RDKafkaErrorCode::PartitionEOF)).
    Failed(Failed),
    /// An event of the client, which has been seen to; there may be more.
    Served,
    /// Nothing for now.
    Nothing,
}

/// A consumer and the queue of its events. Nobody else may poll the consumer.
pub(crate) struct Polling {
    queue: NonNull<rd_kafka_queue_t>,
    consumer: ManuallyDrop<BaseConsumer<Context>>,
}

/// Longest wait for a group to be left: rdkafka's own has no end while the brokers are away.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

// SAFETY: librdkafka's queues are behind locks of their own, and this one is only polled and
// given back.
unsafe impl Send for Polling {}
// SAFETY: as above.
unsafe impl Sync for Polling {}

impl Polling {
    pub(crate) fn new(consumer: BaseConsumer<Context>) -> Result<Self, KafkaError> {
        // SAFETY: the client is alive. What is returned is ours to give back.
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

    /// What is at hand. Never waits.
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
            // Answers to commits, statistics: nothing of ours hangs on them.
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
        // Refused where the client cannot go on, or is being closed already.
        let is_closing = self.consumer.close_queue().is_ok();
        while is_closing && !self.consumer.closed() && began.elapsed() < CLOSE_WITHIN {
            let _ = self.consumer.poll(Duration::from_millis(50));
        }
        // SAFETY: it is ours and given back once; the consumer is alive.
        unsafe { rd_kafka_queue_destroy(self.queue.as_ptr()) };
        // librdkafka waits without end for a group that was not left, and a client that cannot go on
        // never leaves its group: it is left to the end of the process, which is near.
        let can_end = self.consumer.client().fatal_error().is_none();
        if can_end && self.consumer.closed() {
            // SAFETY: nobody uses it any more.
            unsafe { ManuallyDrop::drop(&mut self.consumer) };
        } else {
            tracing::warn!("a consumer did not leave its group in time; the group will notice");
        }
    }
}
