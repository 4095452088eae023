//! Commits stored offsets, and waits for a bounded time.
#![expect(
    unsafe_code,
    reason = "librdkafka's own call waits for ever, and so does rdkafka's"
)]

use std::ffi::c_int;
use std::ptr::{NonNull, null, null_mut};
use std::time::Duration;

use rdkafka::bindings::{
    rd_kafka_commit_queue, rd_kafka_queue_destroy, rd_kafka_queue_new, rd_kafka_queue_t,
};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::types::RDKafkaRespErr;

use super::event::Event;
use crate::context::Context;

/// A queue for one answer, destroyed when dropped.
struct Answers(NonNull<rd_kafka_queue_t>);

impl Drop for Answers {
    fn drop(&mut self) {
        // SAFETY: it is ours and destroyed once; a later answer is discarded.
        unsafe { rd_kafka_queue_destroy(self.0.as_ptr()) };
    }
}

/// Commits the stored offsets of a consumer. Blocks for at most `within`.
///
/// # Errors
/// The broker's or librdkafka's; [`OperationTimedOut`](RDKafkaErrorCode::OperationTimedOut) if no broker answers.
pub(crate) fn commit_within(
    consumer: &BaseConsumer<Context>,
    within: Duration,
) -> Result<(), RDKafkaErrorCode> {
    let client = consumer.client().native_ptr();
    // SAFETY: the client is alive as long as it is borrowed; the queue is dropped before.
    let queue = unsafe { rd_kafka_queue_new(client) };
    let answers = Answers(NonNull::new(queue).ok_or(RDKafkaErrorCode::CriticalSystemResource)?);
    // SAFETY: client and queue are alive. A null list means the stored offsets; without a callback the answer is an
    // event of the queue.
    let begun =
        unsafe { rd_kafka_commit_queue(client, null(), answers.0.as_ptr(), None, null_mut()) };
    let wait = c_int::try_from(within.as_millis()).unwrap_or(c_int::MAX);
    let result = match begun {
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR => {
            // SAFETY: the queue is alive.
            let answer = unsafe { Event::wait(answers.0, wait) };
            answer.map_or(RDKafkaErrorCode::OperationTimedOut, |answer| answer.code())
        }
        error => error.into(),
    };
    match result {
        RDKafkaErrorCode::NoError => Ok(()),
        error => Err(error),
    }
}
