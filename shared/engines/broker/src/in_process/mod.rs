//! The in-process client: the broker for its own process, without a socket or the protocol.
//!
//! It handles the same data as a connection: whole record batches, positions, committed offsets. It and clients of
//! the Kafka protocol see each other's writes. An in-process reader is no member of a group: it reads the positions
//! that it requests, and commits under a group's name, independently of that group's members. While it
//! [attends](InProcessClient::attend) a group, it is shown among the members.

mod serve;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use kafka_protocol::error::ResponseError;

use crate::core::{SharedCore, Signal};
use crate::log::flusher::{Flush, Lsn};

/// A client of the broker of this process, without a socket. It works as long as the broker runs, from any thread and
/// under any async runtime; each call runs on the calling thread. Clones share the client.
#[derive(Debug, Clone)]
pub struct InProcessClient {
    core: SharedCore,
}

/// Why a call of an [`InProcessClient`] has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// There is no such topic or partition.
    #[error("there is no such topic or partition")]
    NoTopic,
    /// The broker refuses writes to this topic.
    #[error("the topic may not be written to")]
    NotAllowed,
    /// The batch is larger than [`TopicShape::max_batch_bytes`].
    #[error("the batch is larger than the topic takes")]
    TooLarge,
    /// The bytes are no record batch of the present format (magic 2).
    #[error("the bytes are no record batch")]
    NoBatch,
    /// The name of the group is empty, so no offset can be committed for it.
    #[error("the group takes no such offset")]
    NoOffset,
    /// The disk failed or is full, or a bound of the broker is reached: on bytes, or on the groups with committed
    /// offsets. A later attempt may succeed.
    #[error("the records cannot be stored now")]
    Storage,
    /// Positions were not durable in time: the broker has too much to do. A later attempt may succeed.
    #[error("the broker has too much to do")]
    Busy,
    /// The broker has stopped.
    #[error("the broker has stopped")]
    Stopped,
}

/// One record batch for one partition.
#[derive(Debug, Clone)]
pub struct PartitionBatch {
    /// Name of the topic.
    pub topic: Arc<str>,
    /// Number of the partition, from 0.
    pub partition: i32,
    /// The batch in Kafka's present format (magic 2). The broker overwrites its offsets.
    pub bytes: Vec<u8>,
    /// Whether the sender can restore the batch. Such a batch is acknowledged before it is durable, and made durable
    /// soon after: a loss of power may lose it. It can be read at once, unless an earlier batch of its partition is
    /// not durable yet. Once a batch is durable, so are all batches that were acknowledged before it.
    pub is_restorable: bool,
}

/// Facts about a topic that a sender needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicShape {
    /// How many partitions the topic has; they are numbered from 0.
    pub partitions: i32,
    /// Most bytes of a record batch that the topic takes now (`max.message.bytes`), inclusive.
    pub max_batch_bytes: usize,
}

/// Positions of one topic to read from.
#[derive(Debug, Clone)]
pub struct ReadRequest {
    /// Name of the topic.
    pub topic: Arc<str>,
    /// Pairs of a partition and the offset from which to read it.
    pub positions: Vec<(i32, i64)>,
    /// Most bytes of all partitions together; a single larger batch is returned whole.
    pub max_bytes: usize,
}

/// Result of reading one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartitionRead {
    /// Whole batches. The first one contains the requested offset, or the next existing one.
    Batches {
        /// Number of the partition, from 0.
        partition: i32,
        /// The bytes of the batches, one batch behind the other.
        bytes: Vec<u8>,
        /// The offset that the next record of the partition gets.
        end: i64,
    },
    /// The requested offset is before `start` or behind `end`.
    OutOfRange {
        /// Number of the partition, from 0.
        partition: i32,
        /// The offset of the first record that is kept.
        start: i64,
        /// The offset that the next record of the partition gets.
        end: i64,
    },
}

/// A consumer group's position in one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// Number of the partition, from 0.
    pub partition: i32,
    /// The offset of the next record to read: all records below it are done.
    pub offset: i64,
}

impl InProcessClient {
    pub(crate) fn new(core: SharedCore) -> Self {
        Self { core }
    }

    /// How many partitions a topic has, and how large a batch it takes.
    ///
    /// # Errors
    /// [`LineError::NoTopic`] if there is no such topic, [`LineError::Stopped`] if the broker has stopped.
    pub fn shape(&self, topic: &str) -> Result<TopicShape, LineError> {
        let shape = self.core.with(|core| serve::shape(core, topic));
        shape.unwrap_or(Err(LineError::Stopped))
    }

    /// Shows this process as a member of a group, until the returned value is dropped. This has no effect on reads
    /// and commits.
    ///
    /// # Errors
    /// [`LineError::Stopped`].
    pub fn attend(&self, group: &str) -> Result<Attending, LineError> {
        let attending = Arc::new(());
        let attended = self
            .core
            .with(|core| core.attend(group, Arc::downgrade(&attending)));
        attended.ok_or(LineError::Stopped)?;
        Ok(Attending(attending))
    }

    /// Appends batches in order, and waits until those that are not [restorable](PartitionBatch::is_restorable) are
    /// durable, as [`FlushPolicy`](crate::FlushPolicy) says. While the disk is far behind, it waits first. Returns
    /// for each batch the offset of its first record.
    ///
    /// # Errors
    /// For each batch: [`LineError::NoTopic`], [`LineError::NotAllowed`], [`LineError::TooLarge`],
    /// [`LineError::NoBatch`], [`LineError::Storage`] or [`LineError::Stopped`]. After the last two the batch may
    /// have been appended all the same.
    pub async fn append(&self, batches: Vec<PartitionBatch>) -> Vec<Result<i64, LineError>> {
        let appended = match self.keep_up().await {
            Ok(()) => self.core.with(|core| serve::append(core, &batches)),
            Err(_) => None,
        };
        let Some((appended, to)) = appended else {
            return vec![Err(LineError::Stopped); batches.len()];
        };
        match self.durable(to).await {
            Ok(()) => appended,
            Err(failed) => appended.into_iter().map(|a| a.and(Err(failed))).collect(),
        }
    }

    /// Starts the empty partitions of a topic at these offsets, by partition, and waits until that is durable:
    /// earlier offsets belong to another log. A partition that has reached its offset already is unchanged.
    ///
    /// # Errors
    /// [`LineError::NoTopic`] for a topic or partition that does not exist, [`LineError::Storage`] if the disk
    /// failed, [`LineError::Stopped`] if the broker has stopped.
    pub async fn begin_at(
        &self,
        topic: &str,
        offsets: &BTreeMap<i32, i64>,
    ) -> Result<(), LineError> {
        let begun = self.core.with(|core| serve::begin_at(core, topic, offsets));
        self.durable(begun.ok_or(LineError::Stopped)??).await
    }

    /// Writes a small record without effect, and waits until it is durable, to check that the disk has room.
    ///
    /// # Errors
    /// [`LineError::Storage`] if the disk failed, [`LineError::Stopped`] if the broker has stopped.
    pub async fn try_write(&self) -> Result<(), LineError> {
        let written = self.core.with(|core| core.store.write_nothing());
        self.durable(written.ok_or(LineError::Stopped)??).await
    }

    /// Starts a sync at once, and waits until everything that was appended before this call is durable.
    ///
    /// # Errors
    /// [`LineError::Storage`] if the disk failed, [`LineError::Stopped`] if the broker has stopped. It is then not
    /// known whether everything is durable.
    pub async fn make_durable(&self) -> Result<(), LineError> {
        let end = self.core.with(|core| core.store.flush_now());
        self.durable(end.ok_or(LineError::Stopped)?).await
    }

    /// Waits while the disk is behind, as connections do. The following call reports a failed disk.
    async fn keep_up(&self) -> Result<(), LineError> {
        loop {
            let next = self.core.with(|core| {
                let behind = core.store.is_behind() && !core.store.failed();
                behind.then(|| core.store.durable_to() + 1)
            });
            match next.ok_or(LineError::Stopped)? {
                Some(next) => self
                    .durable(next)
                    .await
                    .or_else(LineError::unless_stopped)?,
                None => return Ok(()),
            }
        }
    }

    /// Waits until everything up to a position is durable.
    async fn durable(&self, lsn: Lsn) -> Result<(), LineError> {
        let mut signal = None;
        loop {
            let durable = self.core.with(|core| {
                let durable = serve::durable(core, lsn);
                if durable.is_none() {
                    core.watch_durable(lsn, signal.get_or_insert_default());
                }
                durable
            });
            match (durable.ok_or(LineError::Stopped)?, &signal) {
                (Some(durable), _) => return durable,
                (None, Some(signal)) => signal.notify.notified().await,
                (None, None) => {}
            }
        }
    }

    /// A request for the records from some positions on. Reads nothing until [`PendingRead`] is polled.
    #[must_use]
    pub fn read(&self, wanted: ReadRequest) -> PendingRead {
        PendingRead {
            core: self.core.clone(),
            wanted,
            signal: Arc::default(),
        }
    }

    /// The positions that a group has committed in a topic. Partitions without a commit are left out; an unknown
    /// group or topic has none.
    ///
    /// # Errors
    /// [`LineError::Stopped`].
    pub fn committed(&self, group: &str, topic: &str) -> Result<Vec<Position>, LineError> {
        let committed = self.core.with(|core| serve::committed(core, group, topic));
        committed.ok_or(LineError::Stopped)
    }

    /// Commits positions of a group in a topic, all or none, and does not wait until they are durable. Commits take
    /// effect in the order of the calls. Pass [`Flush::Now`] as `flush` if the caller is going to wait.
    ///
    /// # Errors
    /// [`LineError::NoTopic`] for a topic or partition that does not exist, [`LineError::NoOffset`] for a group
    /// without a name, or [`LineError::Stopped`]: nothing was committed. [`LineError::Storage`] if the disk failed or
    /// there is no room for another group; the positions may be committed all the same.
    pub fn commit(
        &self,
        group: &str,
        topic: &str,
        positions: Vec<Position>,
        flush: Flush,
    ) -> Result<Committing, LineError> {
        let committed = self
            .core
            .with(|core| serve::commit(core, group, topic, positions, flush));
        let lsn = committed.unwrap_or(Err(LineError::Stopped))?;
        Ok(Committing {
            core: self.core.clone(),
            lsn,
        })
    }
}

/// Result of [`InProcessClient::attend`]: until it is dropped, the process is shown as a member of the group.
#[derive(Debug)]
pub struct Attending(#[expect(dead_code, reason = "it is there")] Arc<()>);

/// Committed positions that may not be durable yet. Dropping this value does not take the commit back.
#[derive(Debug)]
pub struct Committing {
    core: SharedCore,
    lsn: Lsn,
}

impl Committing {
    /// Waits until the positions are durable, for at most `within`, and blocks the thread.
    ///
    /// # Errors
    /// [`LineError::Storage`] if the disk failed, [`LineError::Busy`] if the positions were not durable in time, or
    /// [`LineError::Stopped`] if the broker has stopped. The positions may be committed all the same.
    pub fn wait(self, within: Duration) -> Result<(), LineError> {
        let (tell, told) = sync_channel(1);
        let waits = self.core.with(|core| {
            let durable = serve::durable(core, self.lsn);
            if durable.is_none() {
                core.tell_durable(self.lsn, tell);
            }
            durable
        });
        if let Some(durable) = waits.ok_or(LineError::Stopped)? {
            return durable;
        }
        match told.recv_timeout(within) {
            Ok(()) => self.at_hand().unwrap_or(Err(LineError::Busy)),
            Err(RecvTimeoutError::Timeout) => Err(LineError::Busy),
            Err(RecvTimeoutError::Disconnected) => Err(LineError::Stopped),
        }
    }

    /// `Some(Ok(()))` if the positions are durable; `None` if that is not known yet. Does not wait.
    ///
    /// # Errors
    /// [`LineError::Storage`] if the disk failed, [`LineError::Stopped`] if the broker has stopped.
    #[must_use]
    pub fn at_hand(&self) -> Option<Result<(), LineError>> {
        let durable = self.core.with(|core| serve::durable(core, self.lsn));
        durable.unwrap_or(Some(Err(LineError::Stopped)))
    }
}

/// A request to read records, made by [`InProcessClient::read`]. It can be polled any number of times, and always
/// reads from the same positions; dropping it loses nothing.
#[derive(Debug)]
pub struct PendingRead {
    core: SharedCore,
    wanted: ReadRequest,
    signal: Arc<Signal>,
}

impl PendingRead {
    /// Waits until at least one partition has something to read, or its offset is out of range, and returns that. The
    /// future may be dropped and the call made again.
    ///
    /// # Errors
    /// [`LineError::NoTopic`] if the topic or a partition does not exist, [`LineError::Storage`] if the disk failed,
    /// [`LineError::Stopped`] if the broker has stopped.
    pub async fn come(&self) -> Result<Vec<PartitionRead>, LineError> {
        loop {
            let read = self.core.with(|core| {
                let read = serve::read(core, &self.wanted);
                if matches!(&read, Ok(parts) if parts.is_empty()) {
                    serve::watch(core, &self.wanted, &self.signal);
                }
                read
            });
            let parts = read.unwrap_or(Err(LineError::Stopped))?;
            if !parts.is_empty() {
                return Ok(parts);
            }
            self.signal.notify.notified().await;
        }
    }

    /// Reads without waiting; `None` if there is nothing.
    ///
    /// # Errors
    /// The same as those of [`come`](Self::come).
    #[must_use]
    pub fn at_hand(&self) -> Option<Result<Vec<PartitionRead>, LineError>> {
        let read = self.core.with(|core| serve::read(core, &self.wanted));
        match read.unwrap_or(Err(LineError::Stopped)) {
            Ok(parts) if parts.is_empty() => None,
            read => Some(read),
        }
    }
}

impl Drop for PendingRead {
    fn drop(&mut self) {
        self.signal.close();
    }
}

impl LineError {
    /// Ignores every error except a stopped broker.
    fn unless_stopped(self) -> Result<(), Self> {
        match self {
            Self::Stopped => Err(self),
            _ => Ok(()),
        }
    }
}

impl From<ResponseError> for LineError {
    fn from(error: ResponseError) -> Self {
        use ResponseError as E;
        match error {
            E::UnknownTopicOrPartition => Self::NoTopic,
            E::TopicAuthorizationFailed => Self::NotAllowed,
            E::MessageTooLarge => Self::TooLarge,
            E::CorruptMessage | E::InvalidRecord | E::UnsupportedForMessageFormat => Self::NoBatch,
            E::OffsetMetadataTooLarge | E::InvalidGroupId => Self::NoOffset,
            _ => Self::Storage,
        }
    }
}
