//! What a handler says of a record.

/// What a handler says of one input record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Handled {
    /// Its effects are acknowledged: the record may be acknowledged.
    Done,
    /// It must be delivered again, and every later record of its partition after it.
    Again(
        /// Why, for the log.
        String,
    ),
    /// Nothing is wrong with it, and there is no room for it yet: it is to be delivered again soon,
    /// and every later record of its partition after it.
    Held(
        /// What has no room.
        String,
    ),
}

impl Handled {
    /// Whether the record may be acknowledged.
    #[must_use]
    pub fn is_done(&self) -> bool {
        *self == Self::Done
    }
}
