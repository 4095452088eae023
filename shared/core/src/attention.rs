//! Which orders need an operator.

use crate::ids::Timestamp;
use crate::order::{Order, ProcessState};

/// What an order needs an operator for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Attention {
    /// Stopped in Error and not closed.
    Error,
    /// Half compensated and not closed.
    CompensationFailed,
    /// Held by an operator.
    Paused,
}

impl Attention {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Error, Self::CompensationFailed, Self::Paused];

    /// As tables and people have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "Error",
            Self::CompensationFailed => "CompensationFailed",
            Self::Paused => "Paused",
        }
    }

    /// What an order needs of an operator, and since when.
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
    /// From when on the time for which finished records are kept is counted: from the end of the
    /// order, or from its closing by an operator, whichever is later.
    ///
    /// `None`, so that the record is kept, while the order is alive; while it is in Error or
    /// CompensationFailed and no operator has closed it; and while it is not known that its last
    /// messages are out, because whoever has to send them again makes them from the record.
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
