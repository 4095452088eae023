//! Copies a record out of librdkafka's memory; every value is copied once.
#![expect(
    unsafe_code,
    reason = "rdkafka's own reading of headers panics on what others send"
)]

use std::ffi::{CStr, c_char, c_void};
use std::ptr::{null, null_mut};

use rdkafka::bindings::{
    rd_kafka_header_get_all, rd_kafka_headers_t, rd_kafka_message_headers, rd_kafka_message_t,
    rd_kafka_message_timestamp, rd_kafka_timestamp_type_t, rd_kafka_topic_name,
};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::types::RDKafkaRespErr;
use triad_runtime::InputRecord;

use super::failed::RecordPosition;

const OK: RDKafkaRespErr = RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR;

/// A message of a consumer.
pub(super) enum Message {
    /// A record.
    Record(InputRecord),
    /// An error in its place.
    Error(RDKafkaErrorCode, RecordPosition),
}

/// Reads a consumer's message.
///
/// # Safety
/// The message is alive, and a consumer's.
pub(super) unsafe fn read(message: &rd_kafka_message_t) -> Message {
    // SAFETY: a topic's name is a text that ends in a zero byte.
    let topic = unsafe {
        match message.rkt.is_null() {
            true => String::new(),
            false => name(rd_kafka_topic_name(message.rkt)),
        }
    };
    if message.err != OK {
        let place = RecordPosition {
            topic,
            partition: message.partition,
            offset: message.offset,
        };
        return Message::Error(message.err.into(), place);
    }
    let mut kind = rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
    // SAFETY: the message is alive; key and value have the lengths that it gives.
    unsafe {
        let timestamp_ms = rd_kafka_message_timestamp(message, &raw mut kind);
        Message::Record(InputRecord {
            topic,
            partition: message.partition,
            offset: message.offset,
            timestamp_ms: match kind {
                rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE => -1,
                _ => timestamp_ms,
            },
            key: bytes(message.key, message.key_len),
            value: bytes(message.payload, message.len),
            headers: headers(message),
        })
    }
}

/// A message's headers; empty if they cannot be read.
///
/// # Safety
/// The message is alive.
unsafe fn headers(message: &rd_kafka_message_t) -> Vec<(String, Option<Vec<u8>>)> {
    let mut list: *mut rd_kafka_headers_t = null_mut();
    // SAFETY: the message is alive; the list belongs to it.
    if unsafe { rd_kafka_message_headers(message, &raw mut list) } != OK || list.is_null() {
        return Vec::new();
    }
    let mut all = Vec::new();
    loop {
        let (mut key, mut value, mut size): (*const c_char, *const c_void, usize) =
            (null(), null(), 0);
        // SAFETY: the list is alive. An index behind its end gives an error. A name ends in a zero byte, a value has
        // the given length.
        unsafe {
            let found = rd_kafka_header_get_all(
                list,
                all.len(),
                &raw mut key,
                &raw mut value,
                &raw mut size,
            );
            if found != OK {
                return all;
            }
            all.push((name(key), bytes(value, size)));
        }
    }
}

/// A name, with U+FFFD in place of invalid UTF-8; it ends at its first zero byte.
///
/// # Safety
/// It is null, or ends in a zero byte.
unsafe fn name(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller's.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

/// Copied bytes; a missing value is distinct from an empty one.
///
/// # Safety
/// It is null, or has the given length.
unsafe fn bytes(at: *const c_void, length: usize) -> Option<Vec<u8>> {
    if at.is_null() {
        return None;
    }
    // SAFETY: the caller's.
    let bytes = unsafe { std::slice::from_raw_parts(at.cast::<u8>(), length) };
    Some(bytes.to_vec())
}
