//! Reading a topic of the log: every partition, from where the group has committed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use triad_broker::{Attending, InProcessClient, LineError, PartitionRead, ReadRequest};
use triad_consume::{Assignment, Consumer, Partition, Polled};

use crate::batch::{Batches, Readable};
use crate::offsets::Offsets;

/// Bound: bytes that are read ahead of the handlers at once; of a paused partition as many may lie beside
/// those of the others.
const READ_BYTES: usize = 256 * 1024;

/// How soon after a record is done that is said in the log: 10 ms. It costs a line there, and no sync of its
/// own.
const COMMITS_AFTER: Duration = Duration::from_millis(10);

/// How often it is looked whether the topic has more partitions: 30 s. The bus looks once a minute.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// A reader of one topic for one consumer group: it begins each partition where the group has committed, or
/// with the first record, and commits under the group's name. It asks the broker for nothing before it is
/// first asked for a record.
#[derive(Debug)]
pub struct DirectConsumer {
    line: InProcessClient,
    group: Arc<str>,
    topic: Arc<str>,
    state: Mutex<State>,
    offsets: Mutex<Offsets>,
    assignment: Assignment,
}

#[derive(Debug, Default)]
struct State {
    /// Once it has joined: it is shown in the group.
    attending: Option<Attending>,
    /// When to look whether the topic has more partitions.
    look_at: Option<Instant>,
    partitions: BTreeMap<i32, PartitionReader>,
    /// The partition from which something was handed over last: the others come first then.
    last: i32,
}

/// One partition.
#[derive(Debug)]
struct PartitionReader {
    /// The offset of the next record that is to be read from the log.
    position: i64,
    /// The partition's end, as of the last read.
    end: i64,
    /// What was read and not handed over yet.
    at_hand: Option<Batches>,
    is_paused: bool,
}

impl DirectConsumer {
    pub(crate) fn new(line: InProcessClient, group: &str, topic: &str) -> Self {
        let (group, topic): (Arc<str>, Arc<str>) = (group.into(), topic.into());
        Self {
            offsets: Mutex::new(Offsets::new(line.clone(), group.clone(), topic.clone())),
            line,
            group,
            topic,
            state: Mutex::default(),
            assignment: Assignment::default(),
        }
    }

    /// Learns the partitions, and where the group is in each that was not known.
    fn join(&self) -> Result<(), LineError> {
        let count = self.line.shape(&self.topic)?.partitions;
        let mut committed = self.line.committed(&self.group, &self.topic)?;
        let known = |partition| self.state().partitions.contains_key(&partition);
        committed.retain(|position| !known(position.partition));
        let of = |partition| committed.iter().find(|p| p.partition == partition);
        let position_of = |partition| of(partition).map_or(0, |p| p.offset);
        // The log keeps for a group what it has not committed, once it has committed anything.
        let new = (0..count).filter(|partition| of(*partition).is_none() && !known(*partition));
        self.offsets().begin_at_start(new)?;
        let attending = self.line.attend(&self.group)?;
        let mut state = self.state();
        state.attending = Some(attending);
        state.look_at = Some(Instant::now() + LOOK_EVERY);
        for partition in 0..count {
            state
                .partitions
                .entry(partition)
                .or_insert(PartitionReader {
                    position: position_of(partition),
                    end: 0,
                    at_hand: None,
                    is_paused: false,
                });
        }
        Ok(())
    }

    /// What is to be asked of the log now.
    fn wanted(&self) -> ReadRequest {
        let state = self.state();
        let open = state.partitions.iter().filter(|(_, r)| r.is_wanted());
        let mut positions: Vec<_> = open.map(|(p, reader)| (*p, reader.position)).collect();
        // The one that was read last is asked for last: the others have their share of the bytes.
        let behind = positions.partition_point(|(partition, _)| *partition <= state.last);
        positions.rotate_left(behind);
        ReadRequest {
            topic: self.topic.clone(),
            positions,
            max_bytes: READ_BYTES,
        }
    }

    fn take_in(&self, parts: Vec<PartitionRead>) {
        let mut state = self.state();
        for part in parts {
            match part {
                PartitionRead::Batches {
                    partition,
                    bytes,
                    end,
                } => {
                    if let Some(reader) = state.partitions.get_mut(&partition) {
                        let (topic, from) = (self.topic.clone(), reader.position);
                        reader.end = end;
                        reader.at_hand = Some(Batches::new(topic, partition, bytes, from));
                    }
                }
                PartitionRead::OutOfRange {
                    partition,
                    start,
                    end,
                } => {
                    if let Some(reader) = state.partitions.get_mut(&partition) {
                        let (topic, from) = (&*self.topic, reader.position);
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
                }
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn offsets(&self) -> MutexGuard<'_, Offsets> {
        self.offsets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PartitionReader {
    /// Whether more of it is to be read from the log.
    fn is_wanted(&self) -> bool {
        !self.is_paused && self.at_hand.is_none()
    }

    fn take(&mut self) -> Option<Readable> {
        let batches = self.at_hand.as_mut().filter(|_| !self.is_paused)?;
        let read = batches.read();
        self.position = batches.position();
        if read.is_none() {
            self.at_hand = None;
        }
        read
    }
}

impl State {
    /// The next record at hand, from the partitions in turn.
    fn take(&mut self) -> Option<Polled> {
        let last = self.last;
        let behind = self.partitions.range_mut(last.saturating_add(1)..);
        for (partition, reader) in behind {
            if let Some(read) = reader.take() {
                self.last = *partition;
                return Some(read.into());
            }
        }
        for (partition, reader) in self.partitions.range_mut(..=last) {
            if let Some(read) = reader.take() {
                self.last = *partition;
                return Some(read.into());
            }
        }
        None
    }
}

impl From<Readable> for Polled {
    fn from(read: Readable) -> Self {
        match read {
            Readable::Record(record) => Self::Record(record),
            Readable::Not(unreadable) => Self::Unreadable(unreadable),
        }
    }
}

fn failed(error: LineError) -> Polled {
    Polled::Failed {
        reason: error.to_string(),
        is_fatal: error == LineError::Stopped,
    }
}

impl Consumer for DirectConsumer {
    async fn next(&self) -> Polled {
        loop {
            if let Some(found) = self.state().take() {
                return found;
            }
            let look_at = self.state().look_at.filter(|at| *at > Instant::now());
            let Some(look_at) = look_at else {
                match self.join() {
                    Ok(()) => continue,
                    Err(error) => return failed(error),
                }
            };
            let reading = self.line.read(self.wanted());
            match tokio::time::timeout_at(look_at, reading.come()).await {
                Ok(Ok(parts)) => self.take_in(parts),
                Ok(Err(error)) => return failed(error),
                // The time has come to look for added partitions.
                Err(_) => {}
            }
        }
    }

    fn at_hand(&self) -> Option<Polled> {
        if let Some(found) = self.state().take() {
            return Some(found);
        }
        let came = self.line.read(self.wanted()).at_hand()?;
        // A failure is met again by whoever waits for the next record.
        self.take_in(came.ok()?);
        self.state().take()
    }

    fn pause(&self, (_, partition): &Partition, paused: bool) {
        if let Some(reader) = self.state().partitions.get_mut(partition) {
            reader.is_paused = paused;
        }
    }

    fn store(&self, (_, partition): &Partition, next: i64) {
        self.offsets().store(*partition, next);
    }

    fn commit(&self) {
        self.offsets().commit();
    }

    fn commits_after(&self) -> Option<Duration> {
        Some(COMMITS_AFTER)
    }

    fn commit_and_wait(&self) {
        self.offsets().commit_and_wait();
    }

    fn unread(&self) -> Option<u64> {
        let state = self.state();
        let left =
            |reader: &PartitionReader| u64::try_from(reader.end - reader.position).unwrap_or(0);
        (!state.partitions.is_empty()).then(|| state.partitions.values().map(left).sum())
    }

    fn assignment(&self) -> &Assignment {
        &self.assignment
    }
}
