//! A handler's result for a record.

use crate::ports::{BusError, StoreError};

/// A handler's result for one input record: the shell acknowledges the record, or has it redelivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Handled {
    /// Everything that the record led to is stored and sent: the shell may acknowledge it. A record
    /// that was dead-lettered is also done.
    Done,
    /// The shell must not acknowledge the record: it must be delivered again, and with it every
    /// later record of its partition.
    Redeliver(Redelivery),
}

/// Why a record must be delivered again. The text is for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Redelivery {
    /// The store could not be read, or a write may not have taken place.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The bus has not acknowledged every message that the record led to, or has not made the record
    /// durable; this is the first failure.
    #[error(transparent)]
    Unsent(#[from] BusError),
    /// A service outside Triad, such as AWS's SNS, failed. The text says why.
    #[error("{0}")]
    Outside(String),
    /// Other processes changed the order between each read and write, in every try that one
    /// delivery has.
    #[error("other processes changed the order in every try")]
    Raced,
    /// An earlier record of the same order or partition must be delivered again, so this one waits for it.
    #[error("an earlier record of the same order or partition must be redelivered first")]
    Behind,
    /// A newer version of Triad may have sent the message, and this process cannot read it: during a rolling
    /// deployment it reaches a process that can. The text says what cannot be read.
    #[error("this process cannot read it, and a newer version of Triad may have sent it: {0}")]
    Newer(String),
    /// The time that this process was given is over, so the work was not begun or was broken off.
    #[error("the time of this process is over")]
    OutOfTime,
    /// No failure: too many orders are in flight or not yet started. The text names the limit that is reached.
    #[error("no room yet: {0}")]
    NoRoom(String),
}

impl Handled {
    /// Whether this is [`Handled::Done`]: the record may be acknowledged.
    #[must_use]
    pub fn is_done(&self) -> bool {
        *self == Self::Done
    }
}

impl Redelivery {
    /// Whether this is [`Redelivery::NoRoom`]: the record only waits, and nothing has failed.
    #[must_use]
    pub fn is_for_room(&self) -> bool {
        matches!(self, Self::NoRoom(_))
    }
}

impl Redelivery {
    /// Whether redelivery cannot succeed until an operator repairs the installation: permissions, credentials, a
    /// missing table or topic, a topic with too small a limit. True for [`StoreError::Configuration`] and if
    /// [`BusError::needs_an_operator`] is.
    #[must_use]
    pub fn needs_an_operator(&self) -> bool {
        match self {
            Self::Store(why) => matches!(why, StoreError::Configuration(_)),
            Self::Unsent(why) => why.needs_an_operator(),
            Self::Outside(_)
            | Self::Raced
            | Self::Behind
            | Self::Newer(_)
            | Self::OutOfTime
            | Self::NoRoom(_) => false,
        }
    }
}

impl From<StoreError> for Handled {
    fn from(e: StoreError) -> Self {
        Self::Redeliver(e.into())
    }
}

impl From<BusError> for Handled {
    fn from(e: BusError) -> Self {
        Self::Redeliver(e.into())
    }
}
