//! What is stored of a campaign.

use serde::{Deserialize, Serialize};
use triad_core::{CampaignId, OperatorAct, OrderId, Timestamp, WorkflowRef};
use triad_workflow::{Millis, StepId};

use crate::correction::Correction;
use crate::find::Filter;
use crate::pages::Cursor;
use crate::{InvalidRate, Rate};

/// Most lines about stops and resumptions that a campaign keeps: for each one above, the oldest is dropped.
pub const MAX_NOTES: usize = 20;
/// Longest text about an order, in bytes, inclusive; longer ones are cut.
pub const MAX_TEXT_BYTES: usize = 200;
/// How many of a hundred may fail again, unless something else is said.
pub const STOP_SHARE: u8 = 20;
/// How long what becomes of a batch is waited for, unless something else is said: 10 minutes.
pub const PATIENCE: Millis = Millis(600_000);

/// A campaign as it is stored, without what came of its orders.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Campaign {
    /// Its id.
    pub id: CampaignId,
    /// What is done to each order.
    #[serde(flatten)]
    pub what: What,
    /// To which orders, as they were when it was started. Not empty.
    pub filter: Filter,
    /// Who started it, and why: the acts on its orders are theirs.
    #[serde(flatten)]
    pub operator: OperatorAct,
    /// How fast, and when it stops by itself.
    #[serde(flatten)]
    pub pace: Pace,
    /// When it was started. What has changed since does not fit the filter any more.
    pub started_at: Timestamp,
    /// How far it is.
    pub phase: Phase,
    /// The number of the present batch, counted from 1; 0 before the first.
    pub batch: u32,
    /// Batches since it was started or resumed: see [`SIZES`](super::rules::SIZES).
    pub grown: u32,
    /// Where the next choice begins; `None`: where the first one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Cursor>,
    /// Whether every order that fits has been chosen.
    pub is_whole: bool,
    /// Whether the present batch is not in the sums yet.
    pub is_open: bool,
    /// Sums over the batches that are behind it.
    pub counts: Counts,
    /// Of the small batches since it was started or resumed: orders that came to an end.
    #[serde(default)]
    pub small: Came,
    /// Stops and resumptions, oldest first, at most [`MAX_NOTES`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
    /// Which of the processes that could carry it on does; `None` while none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<CampaignLease>,
}

/// What a campaign does to each of its orders, under the names of the single acts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "act", rename_all = "kebab-case")]
pub enum What {
    /// Has the failed steps done again, or runs a compensated order again.
    Resubmit,
    /// The same, with a corrected input of one step.
    Correct {
        /// The step.
        step: StepId,
        /// How its input is corrected.
        correction: Correction,
    },
    /// Compensates.
    Cancel,
    /// Tries failed compensations again.
    RetryUndo,
    /// Takes as settled by hand.
    Close,
    /// Starts no further step.
    Pause,
    /// Lets go on.
    Resume,
    /// Moves to another version of the workflow.
    Migrate {
        /// The version.
        to: WorkflowRef,
    },
}

impl What {
    /// The name of the single act, such as `retry-undo`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Resubmit | Self::Correct { .. } => "resubmit",
            Self::Cancel => "cancel",
            Self::RetryUndo => "retry-undo",
            Self::Close => "close",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Migrate { .. } => "migrate",
        }
    }
}

/// How fast a campaign is, and when it stops by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pace {
    /// Most orders a second.
    #[serde(with = "per_second")]
    pub rate: Rate,
    /// How many of a hundred orders that came to an end may have failed again, from 1 to 100: beyond that it
    /// stops. 100 never stops it.
    pub stop_share: u8,
    /// How long what becomes of a batch is waited for.
    pub patience: Millis,
}

mod per_second {
    use serde::{Deserialize, Deserializer, Serializer, de};

    use super::{InvalidRate, Rate};

    pub(super) fn serialize<S: Serializer>(rate: &Rate, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u32(rate.per_second())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Rate, D::Error> {
        let rate = Rate::new(u32::deserialize(from)?);
        rate.map_err(|e: InvalidRate| de::Error::custom(e))
    }
}

/// How far a campaign is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "kebab-case")]
pub enum Phase {
    /// The next batch is to be chosen.
    Choosing,
    /// The orders of the batch are acted on.
    Acting,
    /// What becomes of them is waited for.
    Watching {
        /// Since when.
        since: Timestamp,
    },
    /// It is over, unless an operator resumes it.
    Ended {
        /// When it ended.
        at: Timestamp,
        /// How.
        #[serde(flatten)]
        end: End,
    },
}

/// How a campaign ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "kebab-case")]
pub enum End {
    /// Every order that fits was acted on.
    Finished,
    /// An operator stopped it.
    Stopped,
    /// Too many of its orders failed again.
    FailsAgain {
        /// How many.
        again: u32,
        /// Of how many that came to an end.
        of: u32,
    },
    /// Most orders of a batch came to no end in time.
    Stalled {
        /// How many.
        open: u32,
    },
}

impl End {
    /// Whether the campaign ended by itself before it was through, so that an operator must look.
    #[must_use]
    pub fn is_trouble(self) -> bool {
        matches!(self, Self::FailsAgain { .. } | Self::Stalled { .. })
    }

    /// How it ended, in a word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Stopped => "stopped",
            Self::FailsAgain { .. } => "fails-again",
            Self::Stalled { .. } => "stalled",
        }
    }

    /// How it ended, for a person.
    #[must_use]
    pub fn text(self) -> String {
        match self {
            Self::Finished => "every order that fits was acted on".to_owned(),
            Self::Stopped => "an operator stopped it".to_owned(),
            Self::FailsAgain { again, of } => {
                format!("{again} of the last {of} orders failed again: the cause is not cured")
            }
            Self::Stalled { open } => {
                format!("{open} orders of a batch have come to no end in time")
            }
        }
    }
}

/// Numbers of orders, all from 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Chosen.
    pub chosen: u64,
    /// Acted on.
    pub done: u64,
    /// Refused the act, or were not there any more; nothing was written.
    pub refused: u64,
    /// Could not be acted on: their record is damaged, or others changed it every time.
    pub failed: u64,
    /// Acted on, and came to the end that was wanted.
    pub well: u64,
    /// Acted on, and failed again.
    pub again: u64,
}

/// Orders that came to an end after they were acted on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Came {
    /// All of them.
    pub of: u32,
    /// Those that failed again.
    pub again: u32,
}

/// One line about a stop or a resumption.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// When.
    pub at: Timestamp,
    /// What: `stopped` or `resumed`.
    pub what: String,
    /// Who, and why.
    #[serde(flatten)]
    pub operator: OperatorAct,
}

/// That a process carries a campaign on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CampaignLease {
    /// Unique to the process's present turn.
    pub by: u64,
    /// From when on another process may take over.
    pub until: Timestamp,
}

/// The orders of one batch, and where the choice that made it ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Batch {
    /// The orders, in the order in which they are acted on.
    pub orders: Vec<Entry>,
    /// Where the next choice begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Cursor>,
    /// Whether nothing is left to be chosen.
    pub is_whole: bool,
}

/// One order of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The order.
    pub order_id: OrderId,
    /// What came of the act; `None` while it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Done>,
    /// The same for a person, where it was not done; at most [`MAX_TEXT_BYTES`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// What became of an order that was acted on; `None` while it is under way, and where nothing is waited
    /// for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<Then>,
}

/// What came of an act on an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Done {
    /// It is done.
    Done,
    /// The order refused it, or is not there any more; nothing was written.
    Refused,
    /// It cannot be done: the record is damaged, or others changed it every time.
    Failed,
}

/// What became of an order after the act.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Then {
    /// It came to the end that was wanted.
    Well,
    /// It needs an operator again, or came to another end.
    Again,
}

impl Entry {
    /// An order that is to be acted on.
    #[must_use]
    pub fn of(order_id: OrderId) -> Self {
        Self {
            order_id,
            result: None,
            text: None,
            then: None,
        }
    }
}

impl Counts {
    /// The sums with a batch's own.
    #[must_use]
    pub fn with(self, batch: &Batch) -> Self {
        let of = |result| {
            let entries = batch.orders.iter();
            entries.filter(|e| e.result == Some(result)).count() as u64
        };
        let (_, came) = batch.came();
        Self {
            chosen: self.chosen + batch.orders.len() as u64,
            done: self.done + of(Done::Done),
            refused: self.refused + of(Done::Refused),
            failed: self.failed + of(Done::Failed),
            well: self.well + u64::from(came.of - came.again),
            again: self.again + u64::from(came.again),
        }
    }
}

impl Batch {
    /// Orders that were acted on, and what became of those that came to an end.
    #[must_use]
    pub fn came(&self) -> (u32, Came) {
        let (mut done, mut came) = (0, Came::default());
        for entry in self.orders.iter().filter(|e| e.result == Some(Done::Done)) {
            done += 1;
            came.of += u32::from(entry.then.is_some());
            came.again += u32::from(entry.then == Some(Then::Again));
        }
        (done, came)
    }
}
