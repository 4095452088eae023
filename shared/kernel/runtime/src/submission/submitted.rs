//! Submission's answer about one order, for a caller that waits for it.

use triad_core::OrderId;
use triad_core::submission::SubmissionRefusal;

use crate::handled::{Handled, Redelivery};
use crate::ports::{BusError, StoreError};

/// Result of one submitted order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Submitted {
    /// The order is new and is stored. The bus has acknowledged its messages.
    Accepted(OrderId),
    /// An order with this id and the same content was stored before. If no Scheduler had taken it up, its
    /// messages were sent again.
    Repeated(OrderId),
    /// The order can never be taken as it is: it is not valid, its workflow is not published, or its id
    /// belongs to a stored order with other content.
    Refused(SubmissionRefusal),
    /// There was no room for the order within the time that it may wait, and its application got the status
    /// `rejected`. Only for records of a topic, never for callers of
    /// [`Submission::submit`](super::Submission::submit). The text names the bound that is reached.
    Rejected(String),
    /// The order was not taken now; submit the same order again. It is stored already if the bus failed, and
    /// may be stored if the store failed.
    Later(Redelivery),
}

impl Submitted {
    /// Whether the caller has nothing left to do: true for every answer except [`Submitted::Later`].
    #[must_use]
    pub fn is_done(&self) -> bool {
        !matches!(self, Self::Later(_))
    }
}

impl From<StoreError> for Submitted {
    fn from(e: StoreError) -> Self {
        Self::Later(e.into())
    }
}

impl From<BusError> for Submitted {
    fn from(e: BusError) -> Self {
        Self::Later(e.into())
    }
}

/// The result for the shell that delivered the order's record.
impl From<Submitted> for Handled {
    fn from(submitted: Submitted) -> Self {
        match submitted {
            Submitted::Later(why) => Self::Redeliver(why),
            Submitted::Accepted(_)
            | Submitted::Repeated(_)
            | Submitted::Refused(_)
            | Submitted::Rejected(_) => Self::Done,
        }
    }
}
