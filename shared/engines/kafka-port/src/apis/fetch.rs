//! Fetch: a long poll that answers as soon as there is enough to read.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::fetch_request::FetchRequest;
use kafka_protocol::messages::fetch_response::{
    FetchResponse, FetchableTopicResponse, PartitionData,
};
use kafka_protocol::messages::{BrokerId, TopicName};
use tokio::sync::Notify;
use tokio::time::Instant;
use triad_sqlite::topics::{Found, PartitionRead, Position, TopicError, Topics};

use super::Reply;
use crate::batch;
use crate::core::{Core, error_of};
use crate::wire::frame::Header;

/// Bound: how long a poll may ask to wait.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// A waiting fetch.
struct Poll {
    topics: Vec<(TopicName, Vec<Position>)>,
    deadline: Instant,
    min_bytes: usize,
    max_bytes: usize,
}

fn size(bytes: i32) -> usize {
    usize::try_from(bytes).unwrap_or(0)
}

/// Begins a long poll. Fetch sessions are not supported: the answer has session 0, so the client sends its whole
/// request each time, which is cheap over loopback.
pub(crate) fn begin(core: &Core, header: &Header, request: FetchRequest) -> Reply {
    if request.session_id != 0 {
        let error = ResponseError::FetchSessionIdNotFound.code();
        return Reply::Ready(header.encode(&FetchResponse::default().with_error_code(error)));
    }
    let topics = request.topics.into_iter().map(|topic| {
        let position = |p: &kafka_protocol::messages::fetch_request::FetchPartition| Position {
            partition: p.partition,
            offset: p.fetch_offset,
            max_bytes: size(p.partition_max_bytes),
        };
        let positions = topic.partitions.iter().map(position).collect();
        (topic.topic, positions)
    });
    let wait = Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0)).min(MAX_WAIT);
    let poll = Poll {
        topics: topics.collect(),
        deadline: Instant::now() + wait,
        min_bytes: size(request.min_bytes),
        max_bytes: size(request.max_bytes).min(core.config.max_fetch_bytes),
    };
    let hurry = Rc::new(Notify::new());
    let answer = poll.run(core.topics.clone(), header.clone(), hurry.clone());
    Reply::Fetch(Box::pin(answer), hurry)
}

impl Poll {
    /// Answers if there is enough to read, or an error to report, or time is up, or `hurry` is notified.
    async fn run(self, topics: Topics, header: Header, hurry: Rc<Notify>) -> Vec<u8> {
        let more = Arc::new(Notify::new());
        let mut is_over = self.min_bytes == 0 || self.deadline <= Instant::now();
        loop {
            let read = self.read(&topics, &more).await;
            if is_over || read.failed || read.bytes >= self.min_bytes {
                return header.encode(&read.response);
            }
            tokio::select! {
                () = more.notified() => {}
                () = hurry.notified() => is_over = true,
                () = tokio::time::sleep_until(self.deadline) => is_over = true,
            }
        }
    }

    /// Reads all positions. The first record of an answer is sent even if it exceeds every limit, so that a consumer
    /// always makes progress.
    async fn read(&self, topics: &Topics, more: &Arc<Notify>) -> Read {
        let mut read = Read::default();
        for (topic, positions) in &self.topics {
            let left = self.max_bytes.saturating_sub(read.bytes);
            let is_first = read.bytes == 0;
            let found = topics.read(topic, positions, left, is_first, Some(more));
            let partitions = match found.await {
                Ok(found) => found.iter().map(|part| read.add(part)).collect(),
                Err(error) => {
                    read.failed = true;
                    let failed = |at: &Position| failed(at.partition, error_of(&error));
                    positions.iter().map(failed).collect()
                }
            };
            let topic = FetchableTopicResponse::default()
                .with_topic(topic.clone())
                .with_partitions(partitions);
            read.response.responses.push(topic);
        }
        read
    }
}

/// What was read.
#[derive(Default)]
struct Read {
    response: FetchResponse,
    bytes: usize,
    /// Whether a partition has an error.
    failed: bool,
}

impl Read {
    fn add(&mut self, part: &PartitionRead) -> PartitionData {
        let records = match &part.found {
            Found::Records(records) => records,
            Found::OutOfRange => {
                self.failed = true;
                return failed(part.partition, ResponseError::OffsetOutOfRange)
                    .with_high_watermark(part.marks.end)
                    .with_last_stable_offset(part.marks.end)
                    .with_log_start_offset(part.marks.start);
            }
            Found::NoPartition => {
                self.failed = true;
                return failed(part.partition, error_of(&TopicError::NoTopic));
            }
        };
        let mut batch = Vec::new();
        batch::write(&mut batch, records);
        self.bytes += batch.len();
        data(part.partition)
            .with_high_watermark(part.marks.end)
            .with_last_stable_offset(part.marks.end)
            .with_log_start_offset(part.marks.start)
            .with_records(Some(Bytes::from(batch)))
    }
}

fn failed(partition: i32, error: ResponseError) -> PartitionData {
    data(partition).with_error_code(error.code())
}

/// A partition without marks and records.
fn data(partition: i32) -> PartitionData {
    PartitionData::default()
        .with_partition_index(partition)
        .with_high_watermark(-1)
        .with_last_stable_offset(-1)
        .with_log_start_offset(-1)
        .with_preferred_read_replica(BrokerId(-1))
        .with_aborted_transactions(None)
        .with_records(Some(Bytes::new()))
}
