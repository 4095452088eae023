//! The operator of a replay or dismissal of a dead letter, and the reason.

use triad_core::Timestamp;

/// Most bytes of the name in [`ReplayAct::by`], inclusive; a longer name is refused.
pub const MAX_BY_BYTES: usize = 128;
/// Most bytes of the reason in [`ReplayAct::why`], inclusive; a longer reason is refused.
pub const MAX_WHY_BYTES: usize = 1024;

/// The operator of a replay or dismissal, the reason and the time; kept in the letter's marker. [`ReplayAct::new`]
/// checks the bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayAct {
    /// Name of the person: from 1 to [`MAX_BY_BYTES`] bytes.
    pub by: String,
    /// Reason in words: from 1 to [`MAX_WHY_BYTES`] bytes.
    pub why: String,
    /// When the replay was acknowledged by the bus, or the letter was dismissed.
    pub at: Timestamp,
}

/// The error of [`ReplayAct::new`]: the name or the reason is empty or too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{what} has {bytes} bytes; from 1 to {limit} are allowed")]
pub struct InvalidAct {
    /// Which of the two: `who` or `why`.
    pub what: &'static str,
    /// How many bytes it has, without blanks at its ends.
    pub bytes: usize,
    /// Most bytes that it may have.
    pub limit: usize,
}

impl ReplayAct {
    /// Makes an act of a name, a reason and a moment. Blanks at both ends of name and reason are left out.
    ///
    /// # Errors
    /// [`InvalidAct`] if the name is empty or has more than [`MAX_BY_BYTES`] bytes, or the reason
    /// is empty or has more than [`MAX_WHY_BYTES`].
    pub fn new(by: &str, why: &str, at: Timestamp) -> Result<Self, InvalidAct> {
        let checked = |what, text: &str, limit| match text.trim() {
            text if (1..=limit).contains(&text.len()) => Ok(text.to_owned()),
            text => Err(InvalidAct {
                what,
                bytes: text.len(),
                limit,
            }),
        };
        Ok(Self {
            by: checked("who", by, MAX_BY_BYTES)?,
            why: checked("why", why, MAX_WHY_BYTES)?,
            at,
        })
    }
}
