//! One event of a client's queue.
#![expect(unsafe_code, reason = "rdkafka's safe calls leave out what is needed")]

use std::ffi::{CStr, c_char, c_int};
use std::ptr::{NonNull, null};

use rdkafka::bindings::{
    rd_kafka_event_destroy, rd_kafka_event_error, rd_kafka_event_error_is_fatal,
    rd_kafka_event_error_string, rd_kafka_event_log, rd_kafka_event_message_next,
    rd_kafka_event_topic_partition, rd_kafka_event_topic_partition_list, rd_kafka_event_type,
    rd_kafka_queue_poll, rd_kafka_queue_t, rd_kafka_topic_partition_destroy,
    rd_kafka_topic_partition_t,
};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::types::{RDKafkaEvent, RDKafkaRespErr};
use rdkafka::{Offset, TopicPartitionList};
use triad_runtime::InputRecord;

use super::failed::{Failed, RecordPosition};
use super::record::{Message, read};

/// An event, destroyed when dropped.
pub(super) struct Event(NonNull<RDKafkaEvent>);

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: it is ours, and destroyed once.
        unsafe { rd_kafka_event_destroy(self.0.as_ptr()) }
    }
}

impl Event {
    /// The next event of a queue, if there is one now.
    ///
    /// # Safety
    /// The queue is alive.
    pub(super) unsafe fn next(queue: NonNull<rd_kafka_queue_t>) -> Option<Self> {
        // SAFETY: the caller's.
        unsafe { Self::wait(queue, 0) }
    }

    /// The next event of a queue; `None` if none has come within this many milliseconds.
    ///
    /// # Safety
    /// The queue is alive.
    pub(super) unsafe fn wait(queue: NonNull<rd_kafka_queue_t>, within_ms: c_int) -> Option<Self> {
        // SAFETY: the queue is alive. An event is the caller's to destroy.
        let event = unsafe { rd_kafka_queue_poll(queue.as_ptr(), within_ms) };
        NonNull::new(event).map(Self)
    }

    /// The error code of an answer event.
    pub(super) fn code(&self) -> RDKafkaErrorCode {
        // SAFETY: the event is alive as long as it is borrowed.
        unsafe { rd_kafka_event_error(self.0.as_ptr()) }.into()
    }

    /// Which kind of event it is, one of `RD_KAFKA_EVENT_…`.
    pub(super) fn kind(&self) -> i32 {
        // SAFETY: the event is alive as long as it is borrowed; so in every call below.
        unsafe { rd_kafka_event_type(self.0.as_ptr()) }
    }

    /// The record of a fetch event, or the error in its place.
    pub(super) fn record(&self) -> Option<Result<InputRecord, Failed>> {
        // SAFETY: as above. A message belongs to its event, which outlives the reading.
        let message = unsafe { rd_kafka_event_message_next(self.0.as_ptr()).as_ref() }?;
        // SAFETY: the message is a consumer's, as fetch events are.
        match unsafe { read(message) } {
            Message::Record(record) => Some(Ok(record)),
            Message::Error(code, place) => Some(Err(Failed {
                code,
                reason: code.to_string(),
                is_fatal: false,
                place: Some(place),
            })),
        }
    }

    /// The error of an error event.
    pub(super) fn failure(&self) -> Failed {
        let event = self.0.as_ptr();
        // SAFETY: as above; the text is copied before the event is destroyed.
        let (code, fatal, reason) = unsafe {
            (
                rd_kafka_event_error(event),
                rd_kafka_event_error_is_fatal(event),
                text(rd_kafka_event_error_string(event)),
            )
        };
        let code = RDKafkaErrorCode::from(code);
        Failed {
            code,
            reason,
            is_fatal: fatal != 0 || code == RDKafkaErrorCode::Fatal,
            place: self.place(),
        }
    }

    fn place(&self) -> Option<RecordPosition> {
        // SAFETY: as above. The answer is the caller's to destroy, once it has been copied.
        unsafe {
            let found = rd_kafka_event_topic_partition(self.0.as_ptr());
            let place = found.as_ref().map(|at| RecordPosition {
                topic: text(at.topic),
                partition: at.partition,
                offset: at.offset,
            })?;
            rd_kafka_topic_partition_destroy(found);
            Some(place)
        }
    }

    /// The partitions that a rebalance assigns or revokes, and which of the two it does.
    pub(super) fn rebalance(&self) -> (RDKafkaRespErr, TopicPartitionList) {
        // SAFETY: as above; the list belongs to the event and is copied.
        let (what, all) = unsafe {
            let list = rd_kafka_event_topic_partition_list(self.0.as_ptr()).as_ref();
            let all: &[rd_kafka_topic_partition_t] = match list {
                Some(list) if list.cnt > 0 => {
                    std::slice::from_raw_parts(list.elems, list.cnt.unsigned_abs() as usize)
                }
                _ => &[],
            };
            (rd_kafka_event_error(self.0.as_ptr()), all)
        };
        let mut partitions = TopicPartitionList::with_capacity(all.len());
        for one in all {
            // SAFETY: the names of a list end in a zero byte.
            let topic = unsafe { text(one.topic) };
            let offset = Offset::from_raw(one.offset);
            if let Err(error) = partitions.add_partition_offset(&topic, one.partition, offset) {
                tracing::error!(%error, topic, "a partition was left out of a rebalance");
            }
        }
        (what, partitions)
    }

    /// The line of a log event: its level, its subject, the text.
    pub(super) fn line(&self) -> Option<(RDKafkaLogLevel, String, String)> {
        let (mut about, mut line, mut level) = (null(), null(), 0);
        // SAFETY: as above; the texts belong to the event and are copied.
        unsafe {
            let found = rd_kafka_event_log(
                self.0.as_ptr(),
                &raw mut about,
                &raw mut line,
                &raw mut level,
            );
            (found == 0).then(|| (level_of(level), text(about), text(line)))
        }
    }
}

fn level_of(level: i32) -> RDKafkaLogLevel {
    use RDKafkaLogLevel::{Alert, Critical, Debug, Emerg, Error, Info, Notice, Warning};
    match level {
        0 => Emerg,
        1 => Alert,
        2 => Critical,
        3 => Error,
        4 => Warning,
        5 => Notice,
        6 => Info,
        _ => Debug,
    }
}

/// A text of librdkafka's, copied; an absent one is empty.
///
/// # Safety
/// It is null, or ends in a zero byte.
pub(super) unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller's.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_string_lossy().trim().to_owned()
}
