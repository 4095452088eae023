//! Which orders need an operator.

use crate::ids::Timestamp;
use crate::order::{Order, ProcessState};

/// Why an order needs an operator. The attention index of the stores lists orders by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Attention {
    /// The order is in state Error, and no operator has closed it.
    Error,
    /// The order is in state CompensationFailed, and no operator has closed it.
    CompensationFailed,
    /// An operator has paused the order, and it has not finished.
    Paused,
}

impl Attention {
    /// Every reason, in the order of declaration.
    pub const ALL: [Self; 3] = [Self::Error, Self::CompensationFailed, Self::Paused];

    /// The reason as tables and the attention index spell it: `Error`, `CompensationFailed` or
    /// `Paused`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "Error",
            Self::CompensationFailed => "CompensationFailed",
            Self::Paused => "Paused",
        }
    }

    /// Why an order needs an operator, and since when: since it finished, or since it was paused. `None` if
    /// it does not need one.
    #[must_use]
    pub fn of(order: &Order) -> Option<(Self, Timestamp)> {
        use ProcessState::{CompensationFailed, Error};
        match (&order.state, &order.closed, &order.paused) {
            (Error { at, .. }, None, _) => Some((Self::Error, *at)),
            (CompensationFailed { at, .. }, None, _) => Some((Self::CompensationFailed, *at)),
            (state, _, Some(hold)) if !state.is_finished() => Some((Self::Paused, hold.at)),
            _ => None,
        }
    }
}

impl Order {
    /// The moment from which the retention of the record is counted: the end of the order, or its
    /// closing by an operator if that is later.
    ///
    /// `None` while the record must be kept whatever its age: while the order has not finished;
    /// while it is in Error or CompensationFailed and no operator has closed it; and while its last
    /// messages may be unsent, because they can be made only from the record.
    #[must_use]
    pub fn kept_from(&self) -> Option<Timestamp> {
        let finished = self.state.finished_at().filter(|_| self.due.is_none())?;
        if Attention::of(self).is_some() {
            return None;
        }
        let closed = self.closed.as_ref().map(|hold| hold.at);
        Some(closed.map_or(finished, |at| at.max(finished)))
    }
}
