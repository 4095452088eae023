//! The two topics that operators read as logs: `dead-letter` and `alerts`.
//!
//! A topic has no index but the order and the times of its records. The user of this crate implements
//! [`TopicReader`] with the client of the bus.

use std::future::Future;

use triad_core::{Timestamp, topics};
use triad_runtime::InputRecord;

/// A topic that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogTopic {
    /// Records that could not be handled, and what operators did about them.
    DeadLetters,
    /// What an operator must know.
    Alerts,
}

impl LogTopic {
    /// The topic's name on the bus.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::DeadLetters => topics::DEAD_LETTER,
            Self::Alerts => topics::ALERTS,
        }
    }
}

/// What of a topic is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extent {
    /// From the first record on whose timestamp is not before this; `None`: from the first record.
    pub since: Option<Timestamp>,
    /// At most so many records of each partition, the last ones; `None`: all.
    pub last: Option<u32>,
}

/// The client of the bus by which the topics are read.
pub trait TopicReader: Send + Sync {
    /// The error of a topic that cannot be read.
    type Error: Send;
    /// The type of one reading of a topic.
    type Records: TopicRecords<Error = Self::Error>;

    /// Begins to read. What the topic holds at this moment must be read, as far as `extent` goes; what comes
    /// later need not.
    ///
    /// # Errors
    /// [`TopicReader::Error`] if the topic cannot be read.
    fn open(
        &self,
        topic: LogTopic,
        extent: Extent,
    ) -> impl Future<Output = Result<Self::Records, Self::Error>> + Send;
}

/// One reading of a topic: record by record, to the end that the topic had when it was opened.
pub trait TopicRecords: Send {
    /// The error of a topic that cannot be read to its end.
    type Error: Send;

    /// The next record; records of one partition come in their order. `None` at the end.
    ///
    /// # Errors
    /// [`TopicRecords::Error`] if the topic cannot be read to its end.
    fn next(&mut self) -> impl Future<Output = Result<Option<InputRecord>, Self::Error>> + Send;
}
