//! What is noted about a partition, with the offset that its group commits.

use std::fmt;

use triad_runtime::deaths::Mark;

/// A partition: the name of its topic, and its number, from 0.
pub type Partition = (String, i32);

/// A committed position of a partition, with the records that are in hand from there on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The partition that the note is about.
    pub partition: Partition,
    /// The offset that is committed: every record below it is done.
    pub position: i64,
    /// The records of the partition that a handler has in hand; `None` if there are none.
    pub in_hand: Option<InHand>,
}

/// Records of one partition that were handed to a handler and are not answered yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InHand {
    /// The offset of the first of these records.
    pub from: i64,
    /// Whether they were handed over together, or one record alone.
    pub mark: Mark,
}

/// The form that is kept with a committed offset: the first offset, a blank, the mark.
impl fmt::Display for InHand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.from, self.mark)
    }
}

impl InHand {
    /// Reads a text that [`Display`](fmt::Display) wrote. `None` for any other text: other programs may write
    /// into the same place.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (from, mark) = text.split_once(' ')?;
        Some(Self {
            from: from.parse().ok()?,
            mark: mark.parse().ok()?,
        })
    }
}
