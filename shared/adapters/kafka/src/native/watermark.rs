//! The end of a partition, as cached by a consumer.
#![expect(unsafe_code, reason = "rdkafka has no safe call for it")]

use std::ffi::CString;

use rdkafka::bindings::rd_kafka_get_watermark_offsets;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::types::RDKafkaRespErr;

use crate::context::Context;

/// The end of a partition, by the last answer to a fetch. Sends no request.
pub(crate) fn high_watermark(
    consumer: &BaseConsumer<Context>,
    (topic, partition): &(String, i32),
) -> Option<i64> {
    let topic = CString::new(topic.as_str()).ok()?;
    let (mut low, mut high) = (-1, -1);
    // SAFETY: the client is alive as long as it is borrowed; the name ends in a zero byte.
    let code = unsafe {
        rd_kafka_get_watermark_offsets(
            consumer.client().native_ptr(),
            topic.as_ptr(),
            *partition,
            &raw mut low,
            &raw mut high,
        )
    };
    (code == RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR && high >= 0).then_some(high)
}
