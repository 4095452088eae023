//! What Submission says of one order, to a caller that waits for it.

use triad_core::OrderId;
use triad_core::submission::SubmissionRefusal;

use crate::handled::{Handled, Redelivery};
use crate::ports::{BusError, StoreError};

/// What came of one submitted order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Submitted {
    /// The order is new: it is stored, and its messages are acknowledged.
    Accepted(OrderId),
    /// The same order was stored before. Where nobody had taken it up, its messages were sent again.
    Again(OrderId),
    /// The order can never be taken as it is: not valid, of no published workflow, or of an id under
    /// which other content is stored.
    Refused(SubmissionRefusal),
    /// There was no room for the order for as long as one may wait, and its application was told so
    /// with the status `rejected`. Only of records of a topic. The text says which bound is reached.
    Rejected(String),
    /// Not taken now, and the same order may be submitted again. It is stored already where
    /// the bus failed, and may be where the store did.
    Later(Redelivery),
}

impl Submitted {
    /// Whether this is no [`Submitted::Later`]: nothing is left to be done.
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

/// What a shell is told of the record that the order came in.
impl From<Submitted> for Handled {
    fn from(submitted: Submitted) -> Self {
        match submitted {
            Submitted::Later(why) => Self::Redeliver(why),
            Submitted::Accepted(_)
            | Submitted::Again(_)
            | Submitted::Refused(_)
            | Submitted::Rejected(_) => Self::Done,
        }
    }
}
