//! Sending, and waiting until the log is durable.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use triad_broker::{InProcessClient, LineError, PartitionBatch};
use triad_core::{Envelope, topics};
use triad_runtime::system::SystemClock;
use triad_runtime::{Bus, BusError, Clock};

use crate::{batch, partition};

/// Longest time for which a publish waits for its acknowledgement: 10 s, as with the Kafka client. What is
/// not acknowledged by then has failed as [`BusError::Late`], and may be in the log all the same.
pub const PUBLISH_WITHIN: Duration = Duration::from_secs(10);

/// Why a publish has failed that waited for so long.
const TOO_LATE: &str = "the log did not become durable in time";

/// Most bytes of a batch of several messages, where the topic takes that many. A message that is larger
/// goes alone.
const BATCH_BYTES: usize = 512 * 1024;

/// The bus that sends to the embedded broker of this process. Clones are the same bus.
///
/// The messages of one call that go to the same partition lie there in the order of the call. Messages
/// without a key go to the partitions in turn.
#[derive(Debug, Clone)]
pub struct DirectBus(Arc<DirectBusState>);

#[derive(Debug)]
struct DirectBusState {
    line: InProcessClient,
    turn: AtomicUsize,
}

/// Messages of one call that go into one batch, by their places in the call.
struct BatchGroup {
    topic: Arc<str>,
    partition: i32,
    places: Vec<usize>,
    bytes: usize,
    /// Whether all of them are.
    is_restorable: bool,
}

impl DirectBus {
    /// A bus that sends through this line.
    #[must_use]
    pub fn new(line: InProcessClient) -> Self {
        Self(Arc::new(DirectBusState {
            line,
            turn: AtomicUsize::new(0),
        }))
    }
}

impl Bus for DirectBus {
    async fn publish(&self, messages: Vec<Envelope>) -> Vec<Result<(), BusError>> {
        let mut results = vec![Ok(()); messages.len()];
        let publishing = async {
            let groups = self.0.groups(&messages, &mut results);
            self.0.append(&messages, groups, &mut results).await;
        };
        if tokio::time::timeout(PUBLISH_WITHIN, publishing)
            .await
            .is_err()
        {
            let late = || BusError::Late(TOO_LATE.to_owned());
            results.iter_mut().for_each(|result| *result = Err(late()));
        }
        results
    }
}

impl DirectBusState {
    /// Which messages go where, together, in the order in which they were given.
    fn groups(
        &self,
        messages: &[Envelope],
        results: &mut [Result<(), BusError>],
    ) -> Vec<BatchGroup> {
        let mut groups: Vec<BatchGroup> = Vec::new();
        for (place, message) in messages.iter().enumerate() {
            let topic = &*message.topic;
            let shape = match self.line.shape(topic) {
                Ok(shape) => shape,
                Err(error) => {
                    results[place] = Err(error_of(error, topic));
                    continue;
                }
            };
            let partition = match &message.key {
                Some(key) => partition::of(key, shape.partitions),
                None => self.next_in_turn(shape.partitions),
            };
            let bytes = batch::size(message);
            let most = BATCH_BYTES.min(shape.max_batch_bytes);
            let mut same = groups.iter_mut().rev();
            let same = same.find(|g| g.partition == partition && *g.topic == *topic);
            match same {
                Some(group) if group.bytes + bytes <= most => {
                    group.bytes += bytes;
                    group.places.push(place);
                    group.is_restorable &= topics::is_between_handlers(topic);
                }
                _ => groups.push(BatchGroup {
                    topic: topic.into(),
                    partition,
                    places: vec![place],
                    bytes: batch::HEADER_BYTES + bytes,
                    is_restorable: topics::is_between_handlers(topic),
                }),
            }
        }
        groups
    }

    fn next_in_turn(&self, partitions: i32) -> i32 {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let count = usize::try_from(partitions).unwrap_or(0).max(1);
        i32::try_from(turn % count).unwrap_or(0)
    }

    /// Appends groups, and notes what came of them.
    async fn append(
        &self,
        messages: &[Envelope],
        groups: Vec<BatchGroup>,
        results: &mut [Result<(), BusError>],
    ) {
        let now = i64::try_from(SystemClock.now().0).unwrap_or(i64::MAX);
        let batches = groups.iter().map(|group| {
            let records: Vec<&Envelope> = group.places.iter().map(|at| &messages[*at]).collect();
            PartitionBatch {
                topic: group.topic.clone(),
                partition: group.partition,
                bytes: batch::encode(&records, now),
                is_restorable: group.is_restorable,
            }
        });
        let appended = self.line.append(batches.collect()).await;
        for (group, appended) in groups.into_iter().zip(appended) {
            let Err(mut error) = appended else { continue };
            // Several are too large together only if the topic has taken more until just now.
            if error == LineError::TooLarge && group.places.len() > 1 {
                error = LineError::Busy;
            }
            for place in group.places {
                results[place] = Err(error_of(error, &group.topic));
            }
        }
    }
}

fn error_of(error: LineError, topic: &str) -> BusError {
    match error {
        LineError::TooLarge => BusError::TooLarge(format!(
            "topic {topic}: {error}; its setting max.message.bytes says how large one may be"
        )),
        LineError::NoTopic => BusError::Permanent(format!(
            "topic {topic}: {error}; `triad init` makes the topics"
        )),
        LineError::NotAllowed | LineError::NoBatch | LineError::NoOffset => {
            BusError::Permanent(format!("topic {topic}: {error}"))
        }
        LineError::Storage | LineError::Busy | LineError::Stopped => {
            BusError::Transient(format!("topic {topic}: {error}"))
        }
    }
}
