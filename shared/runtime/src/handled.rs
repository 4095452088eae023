//! What a handler says of a record.

use crate::ports::{BusError, StoreError};

/// What a handler says of one input record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Handled {
    /// Its effects are acknowledged: the record may be acknowledged.
    Done,
    /// It must be delivered again, and every later record of its partition after it.
    Redeliver(Redelivery),
}

/// Why a record must be delivered again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Redelivery {
    /// The store could not be asked, or a write may not have taken place.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Not all of its messages were acknowledged by the bus.
    #[error(transparent)]
    Unsent(#[from] BusError),
    /// Somebody outside could not be reached.
    #[error("{0}")]
    Outside(String),
    /// Others changed the order every time.
    #[error("others changed the order every time")]
    Raced,
    /// A record before it must be delivered again.
    #[error("one before it is to be delivered again")]
    Behind,
    /// The time that the process was given is up.
    #[error("the time of this invocation is up")]
    OutOfTime,
    /// Nothing is wrong with it, and there is no room for it yet.
    #[error("no room yet: {0}")]
    NoRoom(String),
}

impl Handled {
    /// Whether the record may be acknowledged.
    #[must_use]
    pub fn is_done(&self) -> bool {
        *self == Self::Done
    }
}

impl Redelivery {
    /// Whether it only waits for room, and nothing has failed.
    #[must_use]
    pub fn is_for_room(&self) -> bool {
        matches!(self, Self::NoRoom(_))
    }
}

impl Redelivery {
    /// Whether somebody must mend the installation before it can be handled.
    #[must_use]
    pub fn needs_an_operator(&self) -> bool {
        matches!(
            self,
            Self::Store(StoreError::Configuration(_)) | Self::Unsent(BusError::Permanent(_))
        )
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
