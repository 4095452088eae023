//! What is noted of a partition with its group.

use std::fmt;

use triad_runtime::deaths::Mark;

/// Topic and partition.
pub type Partition = (String, i32);

/// What is noted of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Of which one.
    pub partition: Partition,
    /// The offset before which all is done.
    pub position: i64,
    /// What is in hand; `None` if nothing is.
    pub in_hand: Option<InHand>,
}

/// Records that are in hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InHand {
    /// The offset of the first of them.
    pub from: i64,
    /// How they were handed over.
    pub mark: Mark,
}

/// As it is kept with a committed offset: the first offset, a blank, the mark.
impl fmt::Display for InHand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.from, self.mark)
    }
}

impl InHand {
    /// What [`Display`](fmt::Display) wrote; `None` for anything else, which others may have written.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (from, mark) = text.split_once(' ')?;
        Some(Self {
            from: from.parse().ok()?,
            mark: mark.parse().ok()?,
        })
    }
}
