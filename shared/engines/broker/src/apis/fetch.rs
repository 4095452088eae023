//! Fetch: a long poll that answers as soon as there is enough to read.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::fetch_request::FetchRequest;
use kafka_protocol::messages::fetch_response::{
    FetchResponse, FetchableTopicResponse, PartitionData,
};
use kafka_protocol::messages::{BrokerId, TopicName};
use tokio::time::Instant;

use super::Reply;
use crate::core::{Core, Signal};
use crate::log::meta::LogId;
use crate::log::partition::ReadResult;
use crate::wire::frame::Header;

/// Bound: how long a poll may ask to wait.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// A waiting fetch, with resolved names.
#[derive(Debug)]
pub(crate) struct Poll {
    topics: Vec<(TopicName, Vec<Position>)>,
    deadline: Instant,
    min_bytes: usize,
    max_bytes: usize,
    error: i16,
}

#[derive(Debug)]
struct Position {
    partition: i32,
    log: Option<LogId>,
    offset: i64,
    max_bytes: usize,
}

impl Poll {
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    fn positions(&self) -> impl Iterator<Item = &Position> {
        self.topics.iter().flat_map(|(_, positions)| positions)
    }
}

fn size(bytes: i32) -> usize {
    usize::try_from(bytes).unwrap_or(0)
}

/// Resolves the request. Fetch sessions are not supported: the answer has session 0, so the client sends its whole
/// request each time, which is cheap over loopback.
pub(crate) fn begin(core: &mut Core, _header: &Header, request: FetchRequest) -> Reply {
    let topics = request.topics.into_iter().map(|topic| {
        let known = core.store.topics.get(topic.topic.as_str());
        let position = |p: &kafka_protocol::messages::fetch_request::FetchPartition| Position {
            partition: p.partition,
            log: known.and_then(|t| t.log(p.partition)),
            offset: p.fetch_offset,
            max_bytes: size(p.partition_max_bytes),
        };
        let positions = topic.partitions.iter().map(position).collect();
        (topic.topic, positions)
    });
    let wait = Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0)).min(MAX_WAIT);
    let session = match request.session_id {
        0 => Ok(()),
        _ => Err(ResponseError::FetchSessionIdNotFound),
    };
    Reply::Fetch(Box::new(Poll {
        topics: topics.collect(),
        deadline: Instant::now() + wait,
        min_bytes: size(request.min_bytes),
        max_bytes: size(request.max_bytes).min(core.config.max_fetch_bytes),
        error: super::code(session),
    }))
}

/// Answers if there is enough to read, or an error to report, or time is up, or a `hurry` is requested. Otherwise
/// registers for a wake-up.
pub(crate) fn poll(
    core: &mut Core,
    signal: &Arc<Signal>,
    header: &Header,
    poll: &mut Poll,
    hurry: bool,
) -> Option<Vec<u8>> {
    if poll.error != 0 {
        return Some(header.encode(&FetchResponse::default().with_error_code(poll.error)));
    }
    let mut something = false;
    for position in poll.positions() {
        something |= match position.log.and_then(|log| core.store.log(log)) {
            None => true,
            Some(log) => position.offset != log.high_watermark,
        };
    }
    let overdue = hurry || poll.min_bytes == 0 || poll.deadline <= Instant::now();
    if something || overdue {
        let (response, bytes, failed) = read(core, poll);
        if overdue || failed || bytes >= poll.min_bytes {
            return Some(header.encode(&response));
        }
    }
    for position in poll.positions() {
        if let Some(log) = position.log {
            core.watch_log(log, signal);
        }
    }
    None
}

/// Reads all positions. The first batch of an answer is sent even if it exceeds every limit, so that a consumer
/// always makes progress.
fn read(core: &mut Core, poll: &Poll) -> (FetchResponse, usize, bool) {
    let mut left = poll.max_bytes;
    let mut total = 0;
    let mut failed = false;
    let mut responses = Vec::with_capacity(poll.topics.len());
    for (topic, positions) in &poll.topics {
        let mut partitions = Vec::with_capacity(positions.len());
        for position in positions {
            let limit = position.max_bytes.min(left);
            let (response, bytes) = read_one(core, position, limit, total == 0);
            left = left.saturating_sub(bytes);
            total += bytes;
            failed |= response.error_code != 0;
            partitions.push(response);
        }
        let topic = FetchableTopicResponse::default()
            .with_topic(topic.clone())
            .with_partitions(partitions);
        responses.push(topic);
    }
    (
        FetchResponse::default().with_responses(responses),
        total,
        failed,
    )
}

fn read_one(
    core: &mut Core,
    position: &Position,
    limit: usize,
    at_least_one: bool,
) -> (PartitionData, usize) {
    let response = PartitionData::default()
        .with_partition_index(position.partition)
        .with_high_watermark(-1)
        .with_last_stable_offset(-1)
        .with_log_start_offset(-1)
        .with_preferred_read_replica(BrokerId(-1))
        .with_aborted_transactions(None)
        .with_records(Some(Bytes::new()));
    let failed = |error: ResponseError| (response.clone().with_error_code(error.code()), 0);
    let Some(log) = position.log.and_then(|log| core.store.log(log)) else {
        return failed(ResponseError::UnknownTopicOrPartition);
    };
    let mut records = Vec::new();
    let read = log.read(position.offset, limit, at_least_one, &mut records);
    let response = response
        .clone()
        .with_high_watermark(log.high_watermark)
        .with_last_stable_offset(log.high_watermark)
        .with_log_start_offset(log.start);
    match read {
        Ok(ReadResult::Bytes(bytes)) => (response.with_records(Some(Bytes::from(records))), bytes),
        Ok(ReadResult::OutOfRange) => (
            response.with_error_code(ResponseError::OffsetOutOfRange.code()),
            0,
        ),
        Err(error) => {
            tracing::error!(%error, "a segment cannot be read");
            (
                response.with_error_code(ResponseError::KafkaStorageError.code()),
                0,
            )
        }
    }
}
