//! The direct line: the broker for the process that it runs in, without a socket or the protocol.
//!
//! What goes through it is what goes through a connection: whole record batches, positions, committed
//! offsets. Clients of the Kafka protocol see it, and it sees what they write. Who reads through a line
//! is no member of a group: it reads what it asks for, and commits under a group's name whatever the
//! members of that group do. It is shown among them as long as it [attends](Line::attend).

mod serve;

use std::sync::mpsc::{RecvTimeoutError, TryRecvError};
use std::sync::{Arc, Weak};
use std::time::Duration;

use kafka_protocol::error::ResponseError;
use tokio::sync::{mpsc, oneshot};

pub(crate) use serve::serve;

/// Bound: questions that wait for the broker's thread. Who asks one more waits for room.
const MAX_QUEUED: usize = 1_024;

/// A way into the broker. Clones are the same way; it works as long as the broker runs, from any thread
/// and under any runtime.
#[derive(Debug, Clone)]
pub struct Line {
    asked: mpsc::Sender<Ask>,
}

/// Why something was not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// There is no such topic or partition.
    #[error("there is no such topic or partition")]
    NoTopic,
    /// The broker refuses writes to this topic.
    #[error("the topic may not be written to")]
    NotAllowed,
    /// The batch is larger than the topic takes.
    #[error("the batch is larger than the topic takes")]
    TooLarge,
    /// The bytes are no record batch of the present format (magic 2).
    #[error("the bytes are no record batch")]
    NoBatch,
    /// The group has no name, or the metadata is longer than 4,096 bytes.
    #[error("the group takes no such offset")]
    NoOffset,
    /// The disk failed or is full, or the broker's bound on bytes is reached. It may be better later.
    #[error("the records cannot be stored now")]
    Storage,
    /// The broker has more to do than may wait. It is better soon.
    #[error("the broker has too much to do")]
    Busy,
    /// The broker has stopped.
    #[error("the broker has stopped")]
    Stopped,
}

/// One record batch for one partition: the bytes of the present format (magic 2), whatever offset they
/// name.
#[derive(Debug, Clone)]
pub struct Batch {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// The batch.
    pub bytes: Vec<u8>,
    /// Whether its sender can bring it back: then it is acknowledged at once, and durable soon after. It is
    /// read at once, too, unless something before it in its partition is not durable yet. All that was
    /// acknowledged before something durable is durable, too.
    pub is_restorable: bool,
}

/// What is to be known of a topic before something is appended to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicShape {
    /// How many partitions it has; they are numbered from 0.
    pub partitions: i32,
    /// Most bytes of a record batch that it takes now (`max.message.bytes`).
    pub max_batch_bytes: usize,
}

/// What to read of one topic.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The topic.
    pub topic: Arc<str>,
    /// Partitions, and the offset from which to read each.
    pub positions: Vec<(i32, i64)>,
    /// Most bytes of all partitions together; a single batch that is larger still comes whole.
    pub max_bytes: usize,
}

/// What was read of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Whole batches, the first of which holds the offset that was asked for, or the next one there is.
    Batches {
        /// The partition.
        partition: i32,
        /// Their bytes.
        bytes: Vec<u8>,
        /// The offset that the next record of the partition gets.
        end: i64,
    },
    /// The offset is before the first that is kept, or behind the last.
    OutOfRange {
        /// The partition.
        partition: i32,
        /// The first offset that is kept.
        start: i64,
        /// The offset that the next record gets.
        end: i64,
    },
}

/// A group's position in one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// The partition.
    pub partition: i32,
    /// The offset before which all is done.
    pub offset: i64,
    /// A text that is kept with it, at most 4,096 bytes; empty for none.
    pub metadata: String,
}

/// A question, and where its answer goes. Nobody may be there any more to hear it.
#[derive(Debug)]
pub(crate) enum Ask {
    Shape(Arc<str>, oneshot::Sender<Result<TopicShape, LineError>>),
    Attend(Arc<str>, Weak<()>),
    Append(Vec<Batch>, oneshot::Sender<Vec<Result<i64, LineError>>>),
    Read(Wanted, oneshot::Sender<Result<Vec<Part>, LineError>>),
    Committed(Arc<str>, Arc<str>, oneshot::Sender<Vec<Position>>),
    Commit(
        Arc<str>,
        Arc<str>,
        Vec<Position>,
        std::sync::mpsc::SyncSender<Result<(), LineError>>,
    ),
}

/// What a broker hears of its lines.
pub(crate) type Asked = mpsc::Receiver<Ask>;

impl Line {
    pub(crate) fn new() -> (Self, Asked) {
        let (asked, heard) = mpsc::channel(MAX_QUEUED);
        (Self { asked }, heard)
    }

    /// How many partitions a topic has, and how much it takes.
    ///
    /// # Errors
    /// [`LineError::NoTopic`], [`LineError::Stopped`].
    pub async fn shape(&self, topic: Arc<str>) -> Result<TopicShape, LineError> {
        self.ask(|answer| Ask::Shape(topic, answer)).await?
    }

    /// Has this process shown as a member of a group until what is returned is dropped. Nothing else comes
    /// of it.
    ///
    /// # Errors
    /// [`LineError::Stopped`].
    pub async fn attend(&self, group: Arc<str>) -> Result<Attending, LineError> {
        let attending = Arc::new(());
        let ask = Ask::Attend(group, Arc::downgrade(&attending));
        let asked = self.asked.send(ask).await;
        asked.map_err(|_| LineError::Stopped)?;
        Ok(Attending(attending))
    }

    /// Appends batches, in their order, and waits until those that are not
    /// [restorable](Batch::is_restorable) are durable, as [`FlushPolicy`](crate::FlushPolicy) says. The
    /// answer has for each the offset of its first record.
    ///
    /// # Errors
    /// For each batch: [`LineError::NoTopic`], [`LineError::NotAllowed`], [`LineError::TooLarge`],
    /// [`LineError::NoBatch`], [`LineError::Storage`] or [`LineError::Stopped`]. After the last two it may
    /// have been appended all the same.
    pub async fn append(&self, batches: Vec<Batch>) -> Vec<Result<i64, LineError>> {
        let count = batches.len();
        let done = self.ask(|answer| Ask::Append(batches, answer)).await;
        done.unwrap_or_else(|stopped| vec![Err(stopped); count])
    }

    /// Asks for records from some positions on; see [`Reading`].
    pub fn read(&self, wanted: Wanted) -> Reading {
        let (answer, reading) = oneshot::channel();
        Reading {
            asking: Some((self.asked.clone(), Ask::Read(wanted, answer))),
            reading,
        }
    }

    /// What a group has committed in a topic, of the partitions of which it has committed anything.
    ///
    /// # Errors
    /// [`LineError::Stopped`].
    pub async fn committed(
        &self,
        group: Arc<str>,
        topic: Arc<str>,
    ) -> Result<Vec<Position>, LineError> {
        self.ask(|answer| Ask::Committed(group, topic, answer))
            .await
    }

    /// Begins to commit positions, all or none, and does not wait. What is begun first is committed
    /// first.
    ///
    /// # Errors
    /// [`LineError::Busy`] or [`LineError::Stopped`]: nothing was begun.
    pub fn commit(
        &self,
        group: Arc<str>,
        topic: Arc<str>,
        positions: Vec<Position>,
    ) -> Result<Committing, LineError> {
        let (answer, committing) = std::sync::mpsc::sync_channel(1);
        let ask = Ask::Commit(group, topic, positions, answer);
        match self.asked.try_send(ask) {
            Ok(()) => Ok(Committing(committing)),
            Err(mpsc::error::TrySendError::Full(_)) => Err(LineError::Busy),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(LineError::Stopped),
        }
    }

    async fn ask<T>(&self, ask: impl FnOnce(oneshot::Sender<T>) -> Ask) -> Result<T, LineError> {
        let (answer, answered) = oneshot::channel();
        let asked = self.asked.send(ask(answer)).await;
        asked.map_err(|_| LineError::Stopped)?;
        answered.await.map_err(|_| LineError::Stopped)
    }
}

/// As long as it is there, the process is shown as a member of a group.
#[derive(Debug)]
pub struct Attending(#[expect(dead_code, reason = "it is there")] Arc<()>);

/// Positions that are being committed. Nothing is undone if it is dropped.
#[derive(Debug)]
pub struct Committing(std::sync::mpsc::Receiver<Result<(), LineError>>);

impl Committing {
    /// Waits until they are durable, for at most `within`; the thread is blocked meanwhile.
    ///
    /// # Errors
    /// [`LineError::NoTopic`] or [`LineError::NoOffset`]: nothing was committed. [`LineError::Storage`],
    /// [`LineError::Busy`] (there was no answer in time) or [`LineError::Stopped`], after which they may be
    /// committed all the same.
    pub fn wait(self, within: Duration) -> Result<(), LineError> {
        match self.0.recv_timeout(within) {
            Ok(committed) => committed,
            Err(RecvTimeoutError::Timeout) => Err(LineError::Busy),
            Err(RecvTimeoutError::Disconnected) => Err(LineError::Stopped),
        }
    }

    /// What became of it, if that is known already; to be asked no more then.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn at_hand(&self) -> Option<Result<(), LineError>> {
        match self.0.try_recv() {
            Ok(committed) => Some(committed),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(LineError::Stopped)),
        }
    }
}

/// Records that were asked for. They come as soon as one position has something to read, or is none that
/// can be read. Nothing is lost if it is dropped.
#[derive(Debug)]
pub struct Reading {
    asking: Option<(mpsc::Sender<Ask>, Ask)>,
    reading: oneshot::Receiver<Result<Vec<Part>, LineError>>,
}

impl Reading {
    /// What has come. After it has answered it must not be asked again. The future may be dropped, and
    /// asked for anew.
    ///
    /// # Errors
    /// [`LineError::NoTopic`], [`LineError::Storage`] or [`LineError::Stopped`].
    pub async fn come(&mut self) -> Result<Vec<Part>, LineError> {
        if let Some((asked, _)) = &self.asking {
            let room = asked.clone().reserve_owned().await;
            let room = room.map_err(|_| LineError::Stopped)?;
            if let Some((_, ask)) = self.asking.take() {
                room.send(ask);
            }
        }
        (&mut self.reading).await.map_err(|_| LineError::Stopped)?
    }

    /// What has come already, if anything has. After it has answered it must not be asked again.
    ///
    /// # Errors
    /// As [`come`](Self::come).
    pub fn at_hand(&mut self) -> Option<Result<Vec<Part>, LineError>> {
        if let Some((asked, _)) = &self.asking {
            let room = asked.clone().try_reserve_owned().ok()?;
            if let Some((_, ask)) = self.asking.take() {
                room.send(ask);
            }
        }
        match self.reading.try_recv() {
            Ok(read) => Some(read),
            Err(oneshot::error::TryRecvError::Empty) => None,
            Err(oneshot::error::TryRecvError::Closed) => Some(Err(LineError::Stopped)),
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
