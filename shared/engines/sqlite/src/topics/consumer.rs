//! Consumers for the handlers of this process.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use triad_consume::{Assignment, Broker, Consumer, Partition, Polled};
use triad_runtime::BusError;

use super::bus::LocalBus;
use super::{
    Attending, Committed, Found, PartitionRead, Position, StoredRecord, TopicError, Topics,
};
use crate::catalogue::State as TopicState;

/// Bound: bytes that are read ahead of the handlers at once; of a paused partition as many may lie beside those of the
/// others.
const READ_BYTES: usize = 256 * 1024;
/// How soon after a record is done its offset is committed: 10 ms. A commit is a note in memory.
const COMMITS_AFTER: Duration = Duration::from_millis(10);
/// How often a consumer looks whether its topic has more partitions: 30 s.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// The topics of this process as the broker of the consumer loops. Clones are the same broker.
///
/// A consumer reads every partition of its topic, whoever else reads it. So only one consumer may read a topic under
/// the name of a group, and no member of this group may come through the Kafka port.
#[derive(Debug, Clone)]
pub struct LocalBroker(Topics);

impl LocalBroker {
    /// A broker over these topics.
    #[must_use]
    pub fn new(topics: Topics) -> Self {
        Self(topics)
    }
}

impl Broker for LocalBroker {
    type Consumer = LocalConsumer;
    type Bus = LocalBus;
    type Error = Infallible;

    fn join(&self, group: &str, topic: &str) -> Result<LocalConsumer, Infallible> {
        Ok(LocalConsumer {
            topics: self.0.clone(),
            group: group.into(),
            topic: topic.into(),
            more: Arc::default(),
            state: Mutex::default(),
            reading: Reading::default(),
            assignment: Assignment::default(),
        })
    }

    fn bus(&self) -> Result<LocalBus, BusError> {
        Ok(LocalBus::new(self.0.clone()))
    }

    fn flush(_bus: &LocalBus, _within: Duration) {
        // Nothing to do: a publish waits for its acknowledgement.
    }

    fn unhandled(&self, group: &str, topic: &str) -> u64 {
        let state = self.0.state();
        let Some(topic) = state.topics.get(topic) else {
            return 0;
        };
        let left = topic.partitions.iter().filter_map(|id| {
            let committed = state.offsets.get(group)?.get(id)?.offset;
            u64::try_from(state.partitions.get(id)?.end - committed).ok()
        });
        left.sum()
    }

    fn address(&self) -> &str {
        "this process"
    }
}

/// A reader of one topic for one consumer group: it begins each partition where the group has committed, or with the
/// first record, and commits under the group's name.
#[derive(Debug)]
pub struct LocalConsumer {
    topics: Topics,
    group: Arc<str>,
    topic: Arc<str>,
    /// Woken when there is more to read.
    more: Arc<Notify>,
    state: Mutex<State>,
    reading: Reading,
    assignment: Assignment,
}

/// A read of the file that has begun. It outlives a dropped call of [`LocalConsumer::next`]: callers drop it every few
/// milliseconds, and a disk may be slower than that.
#[derive(Default)]
struct Reading(tokio::sync::Mutex<Option<PendingRead>>);

type PendingRead = Pin<Box<dyn Future<Output = Result<Vec<PartitionRead>, TopicError>> + Send>>;

impl std::fmt::Debug for Reading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reading").finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct State {
    /// Once the consumer has joined: it is shown in the group.
    attending: Option<Attending>,
    /// When to look whether the topic has more partitions.
    look_at: Option<Instant>,
    partitions: BTreeMap<i32, Reader>,
    /// The partition from which something was handed over last: the others come first then.
    last: i32,
    /// Offsets before which all is done, that are not committed yet.
    done: BTreeMap<i32, i64>,
}

/// One partition.
#[derive(Debug, Default)]
struct Reader {
    /// Offset of the next record to read.
    position: i64,
    /// The partition's end, as of the last read.
    end: i64,
    /// Records that were read and not handed over yet.
    at_hand: VecDeque<Arc<StoredRecord>>,
    is_paused: bool,
}

impl LocalConsumer {
    /// Learns the partitions, and where the group is in each that was not known. A group commits the start of a
    /// partition where it has committed nothing: then the records that it has not done are kept for it.
    fn join(&self) -> Result<(), TopicError> {
        let attending = self.topics.attend(&self.group);
        let mut topics = self.topics.state();
        let topic = topics.topics.get(&*self.topic).ok_or(TopicError::NoTopic)?;
        let ids = topic.partitions.clone();
        let mut state = self.state();
        for (number, id) in (0..).zip(ids) {
            if state.partitions.contains_key(&number) {
                continue;
            }
            let committed = topics.offsets.get(&*self.group);
            let committed = committed.and_then(|of| Some(of.get(&id)?.offset));
            let start = topics.partitions.get(&id).map_or(0, |p| p.start);
            let position = committed.unwrap_or(start);
            if committed.is_none() {
                note_commit(&mut topics, &self.group, &self.topic, number, start);
            }
            let reader = Reader {
                position,
                ..Reader::default()
            };
            state.partitions.insert(number, reader);
        }
        state.attending = Some(attending);
        state.look_at = Some(Instant::now() + LOOK_EVERY);
        Ok(())
    }

    /// Where to read now.
    fn wanted(&self) -> Vec<Position> {
        let state = self.state();
        let open = state.partitions.iter();
        let open = open.filter(|(_, reader)| !reader.is_paused && reader.at_hand.is_empty());
        let mut positions: Vec<_> = open
            .map(|(partition, reader)| Position {
                partition: *partition,
                offset: reader.position,
                max_bytes: READ_BYTES,
            })
            .collect();
        // The one that was read last is asked for last: the others have their share of the bytes.
        let behind = positions.partition_point(|at| at.partition <= state.last);
        positions.rotate_left(behind);
        positions
    }

    /// Reads on where the last records were; goes on with a read that an earlier call has begun.
    async fn read(&self) -> Result<Vec<PartitionRead>, TopicError> {
        let mut reading = self.reading.0.lock().await;
        let pending = reading.get_or_insert_with(|| {
            let (topics, topic, more) =
                (self.topics.clone(), self.topic.clone(), self.more.clone());
            let wanted = self.wanted();
            Box::pin(async move {
                topics
                    .read(&topic, &wanted, READ_BYTES, true, Some(&more))
                    .await
            })
        });
        let read = pending.await;
        *reading = None;
        read
    }

    fn take_in(&self, reads: Vec<PartitionRead>) {
        let mut state = self.state();
        for read in reads {
            let Some(reader) = state.partitions.get_mut(&read.partition) else {
                continue;
            };
            reader.end = read.marks.end;
            match read.found {
                Found::Records(records) => reader.at_hand.extend(records),
                Found::OutOfRange => {
                    let (topic, partition, from) = (&*self.topic, read.partition, reader.position);
                    let (start, end) = (read.marks.start, read.marks.end);
                    tracing::warn!(
                        topic,
                        partition,
                        from,
                        start,
                        end,
                        "records were deleted before they were read"
                    );
                    reader.position = from.clamp(start, end.max(start));
                }
                // The topic was deleted: the consumer looks again in a while.
                Found::NoPartition => {}
            }
        }
    }

    fn take(&self) -> Option<Polled> {
        let (partition, record) = self.state().take()?;
        Some(Polled::Record(record.input(&self.topic, partition)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The next record at hand, from the partitions in turn.
    fn take(&mut self) -> Option<(i32, Arc<StoredRecord>)> {
        let last = self.last;
        let is_open =
            |(_, reader): &(&i32, &Reader)| !reader.is_paused && !reader.at_hand.is_empty();
        let behind = self.partitions.range(last.saturating_add(1)..);
        let found = behind.chain(self.partitions.range(..=last)).find(is_open);
        let partition = *found?.0;
        let reader = self.partitions.get_mut(&partition)?;
        let record = reader.at_hand.pop_front()?;
        reader.position = record.offset + 1;
        self.last = partition;
        Some((partition, record))
    }
}

/// Notes the offset of a consumer of this process: at once in memory, and with the next write in the file.
fn note_commit(
    topics: &mut TopicState,
    group: &Arc<str>,
    topic: &str,
    partition: i32,
    offset: i64,
) {
    let Some(id) = topics.partition_id(topic, partition) else {
        return;
    };
    let committed = Committed {
        offset,
        leader_epoch: -1,
        metadata: String::new(),
    };
    topics.commit(group, id, committed);
    if topics.partitions.get(&id).is_some_and(|p| !p.in_memory) {
        topics.unwritten.insert((group.clone(), id), offset);
    }
}

impl Consumer for LocalConsumer {
    async fn next(&self) -> Polled {
        loop {
            if let Some(found) = self.take() {
                return found;
            }
            let look_at = self.state().look_at.filter(|at| *at > Instant::now());
            let Some(look_at) = look_at else {
                match self.join() {
                    Ok(()) => continue,
                    Err(error) => return failed(&error),
                }
            };
            match self.read().await {
                Ok(reads) => {
                    let is_idle = reads.iter().all(PartitionRead::is_at_end);
                    self.take_in(reads);
                    if is_idle {
                        // The time may also have come to look for added partitions.
                        let _ = tokio::time::timeout_at(look_at, self.more.notified()).await;
                    }
                }
                Err(error) => return failed(&error),
            }
        }
    }

    fn at_hand(&self) -> Option<Polled> {
        if let Some(found) = self.take() {
            return Some(found);
        }
        let wanted = match self.reading.0.try_lock() {
            Ok(reading) if reading.is_none() => self.wanted(),
            // What is being read is not read twice.
            _ => return None,
        };
        let reads = self.topics.read_at_hand(&self.topic, &wanted, READ_BYTES)?;
        self.take_in(reads);
        self.take()
    }

    fn pause(&self, (_, partition): &Partition, paused: bool) {
        if let Some(reader) = self.state().partitions.get_mut(partition) {
            reader.is_paused = paused;
        }
        // A reader that waits looks at all partitions again.
        self.more.notify_one();
    }

    fn store(&self, (_, partition): &Partition, next: i64) {
        self.state().done.insert(*partition, next);
    }

    fn commit(&self) {
        let mut topics = self.topics.state();
        let done = std::mem::take(&mut self.state().done);
        for (partition, offset) in done {
            note_commit(&mut topics, &self.group, &self.topic, partition, offset);
        }
    }

    fn commits_after(&self) -> Option<Duration> {
        Some(COMMITS_AFTER)
    }

    fn commit_and_wait(&self) {
        // The file has the offset with its next write, at the latest when it is closed.
        self.commit();
    }

    fn unread(&self) -> Option<u64> {
        let state = self.state();
        let left = |reader: &Reader| u64::try_from(reader.end - reader.position).unwrap_or(0);
        (!state.partitions.is_empty()).then(|| state.partitions.values().map(left).sum())
    }

    fn assignment(&self) -> &Assignment {
        &self.assignment
    }
}

impl PartitionRead {
    /// Whether there was nothing to read yet.
    fn is_at_end(&self) -> bool {
        match &self.found {
            Found::Records(records) => records.is_empty(),
            Found::OutOfRange => false,
            Found::NoPartition => true,
        }
    }
}

fn failed(error: &TopicError) -> Polled {
    Polled::Failed {
        reason: error.to_string(),
        is_fatal: false,
    }
}
