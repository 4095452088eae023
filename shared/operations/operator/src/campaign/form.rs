//! The stored records of a campaign.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use triad_core::{CampaignId, OperatorAct, OrderId, Timestamp, WorkflowRef};
use triad_workflow::{Millis, StepId};

use crate::correction::Correction;
use crate::find::Filter;
use crate::pages::Cursor;
use crate::{InvalidRate, Rate};

/// Most lines about stops and resumptions that a campaign keeps, inclusive: for each one above, the oldest is
/// dropped.
pub const MAX_NOTES: usize = 20;
/// Longest text about an order, in bytes, inclusive; longer ones are cut.
pub const MAX_TEXT_BYTES: usize = 200;
/// Default of [`Pace::stop_share`], in percent.
pub const STOP_SHARE: u8 = 20;
/// Default of [`Pace::patience`]: 10 minutes.
pub const PATIENCE: Millis = Millis(600_000);

/// How many orders a campaign would act on, as far as they were counted by [`preview`](super::commands::preview).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Preview {
    /// How many orders were found that fit the filter now.
    pub orders: u64,
    /// Whether more orders may fit, because the count ended at its bound.
    pub more: bool,
}

/// The record of a campaign. What came of its single orders is not in it, but in the records of its batches
/// ([`Batch`]).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Campaign {
    /// The campaign's id.
    pub id: CampaignId,
    /// The act that is done to each order.
    #[serde(flatten)]
    pub what: CampaignAct,
    /// Which orders the campaign acts on: those that fit this filter when a batch is chosen, and that were
    /// not submitted, finished or paused after `started_at`. Ages are counted at `started_at`. Not empty.
    pub filter: Filter,
    /// Who started it, and why. The acts on its orders bear this name and this reason.
    #[serde(flatten)]
    pub operator: OperatorAct,
    /// The campaign's rate, and when it stops early.
    #[serde(flatten)]
    pub pace: Pace,
    /// How many orders fitted when it was started, as far as they were counted; `None` if they were not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<Preview>,
    /// When the campaign was started. An order that was submitted, finished or paused later is left out.
    pub started_at: Timestamp,
    /// What the campaign does now, or how it ended.
    pub phase: Phase,
    /// The number of the present or last batch, counted from 1; 0 before the first.
    pub batch: u32,
    /// How many portions were begun since the campaign was started or last resumed. This number determines the size
    /// of the next portion: see [`SIZES`](super::rules::SIZES). A portion is a whole batch, except for the rest of a
    /// batch after a resumption.
    pub grown: u32,
    /// Where the search for the orders of the next batch begins; `None`: at the beginning, or nowhere if
    /// `is_whole`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Cursor>,
    /// Whether the search has come to its end, so that there is no further batch.
    pub is_whole: bool,
    /// Whether the present batch is not finished, so that `counts` does not include it yet.
    pub is_open: bool,
    /// How many orders of the present batch, from its first one on, are not judged any more: they were judged before,
    /// or acted on before the campaign was last resumed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub judged: u32,
    /// Whether the campaign was resumed within its present batch, and the Supervisor has not yet determined which of
    /// its orders were acted on before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_resumed: bool,
    /// Counts over all batches that are finished.
    pub counts: CampaignCounts,
    /// Ended orders of the finished portions that could have fewer than 20 orders ([`SIZES`](super::rules::SIZES))
    /// since the campaign was started or last resumed. These portions are judged together.
    #[serde(default)]
    pub small: EndedOrders,
    /// Stops and resumptions, oldest first, at most [`MAX_NOTES`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<CampaignNote>,
    /// The process that carries the campaign on, and until when; `None` if no process does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<CampaignLease>,
}

/// The act that a campaign does to each of its orders. Each is the act on a single order of the same name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "act", rename_all = "kebab-case")]
pub enum CampaignAct {
    /// Has the failed steps done again, or runs a compensated order again.
    Resubmit,
    /// Resubmits the order, as [`Self::Resubmit`] does, with a corrected input of one step.
    Correct {
        /// The step whose input is corrected.
        #[schemars(with = "String")]
        step: StepId,
        /// How the input is corrected. Each order's new input is made from its own present input.
        correction: Correction,
    },
    /// Compensates the order.
    Cancel,
    /// Tries the order's failed compensations again.
    #[serde(rename = "retry-compensation")]
    RetryCompensation,
    /// Notes that the order was put right by hand, so that it needs no operator any more. Its state stays.
    Close,
    /// Pauses the order: no further step of it is started.
    Pause,
    /// Lets a paused order go on.
    Resume,
    /// Moves the order to another version of its workflow.
    Migrate {
        /// The version that the order is moved to.
        #[schemars(with = "String")]
        to: WorkflowRef,
    },
}

impl CampaignAct {
    /// The name of the act, such as `retry-compensation`. That of [`Self::Correct`] is `resubmit`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Resubmit | Self::Correct { .. } => "resubmit",
            Self::Cancel => "cancel",
            Self::RetryCompensation => "retry-compensation",
            Self::Close => "close",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Migrate { .. } => "migrate",
        }
    }
}

/// The rate of a campaign, and when it stops early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pace {
    /// Most orders that it acts on in a second.
    #[serde(with = "per_second")]
    pub rate: Rate,
    /// The share of orders that may fail again, among those that came to an end, in percent: from 1 to 100. If more
    /// fail again, and at least 2 orders, the campaign stops. 100 disables this.
    pub stop_share: u8,
    /// How long the campaign waits for the orders of a batch to come to an end, in milliseconds, once all of
    /// them were acted on.
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

/// What a campaign does now, or how it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "kebab-case")]
pub enum Phase {
    /// The campaign is about to choose the orders of the next batch.
    Choosing,
    /// The campaign acts on the orders of the batch, one after the other.
    Acting,
    /// All orders of the batch were acted on, and the campaign waits for them to come to an end.
    Watching {
        /// Since when it waits.
        since: Timestamp,
    },
    /// The campaign has ended. An operator may resume it, unless the end is [`CampaignEnd::Finished`].
    Ended {
        /// When it ended.
        at: Timestamp,
        /// How it ended.
        #[serde(flatten)]
        end: CampaignEnd,
    },
}

/// How a campaign ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "kebab-case")]
pub enum CampaignEnd {
    /// The act was tried on every order that fits.
    Finished,
    /// An operator stopped it.
    Stopped,
    /// More of its orders failed again than [`Pace::stop_share`] allows.
    FailsAgain {
        /// How many orders failed again.
        again: u32,
        /// How many orders came to an end, among those that were judged together: one batch, or several
        /// small ones.
        of: u32,
    },
    /// More than half of the orders of a batch that were acted on came to no end within
    /// [`Pace::patience`].
    Stalled {
        /// How many orders of the batch came to no end.
        open: u32,
    },
}

impl CampaignEnd {
    /// Whether the campaign stopped early because of failures or a stall, so that an operator must look at it. False
    /// for a campaign that an operator stopped.
    #[must_use]
    pub fn is_trouble(self) -> bool {
        matches!(self, Self::FailsAgain { .. } | Self::Stalled { .. })
    }

    /// The end in a word: `finished`, `stopped`, `fails-again` or `stalled`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Stopped => "stopped",
            Self::FailsAgain { .. } => "fails-again",
            Self::Stalled { .. } => "stalled",
        }
    }

    /// The end in a few words for a person. The text is no contract.
    #[must_use]
    pub fn text(self) -> String {
        match self {
            Self::Finished => "every order that fits was acted on".to_owned(),
            Self::Stopped => "an operator stopped it".to_owned(),
            Self::FailsAgain { again, of } => {
                format!("{again} of the last {of} orders failed again: the cause is not cured")
            }
            Self::Stalled { open } => {
                format!("{open} orders of a batch have not ended in time")
            }
        }
    }
}

/// How many orders of a campaign came to which result. `done` includes `well` and `again`, and `chosen`
/// includes all others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CampaignCounts {
    /// Orders that were chosen for a batch.
    pub chosen: u64,
    /// Orders on which the act was done.
    pub done: u64,
    /// Orders that refused the act, or were not stored any more; nothing was written.
    pub refused: u64,
    /// Orders that could not be acted on: their record is damaged, or others changed it in every try.
    pub failed: u64,
    /// Orders on which the act was done and whose result is [`OrderAfterAct::Well`].
    pub well: u64,
    /// Orders on which the act was done and whose result is [`OrderAfterAct::Again`].
    pub again: u64,
}

/// Orders that came to an end after they were acted on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedOrders {
    /// How many there are in all.
    pub of: u32,
    /// How many of these failed again ([`OrderAfterAct::Again`]).
    pub again: u32,
}

/// A line of a campaign's record: an operator stopped or resumed the campaign.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CampaignNote {
    /// When the operator did so.
    #[schemars(with = "crate::schema::Moment")]
    pub at: Timestamp,
    /// What the operator did: `stopped` or `resumed`.
    pub what: String,
    /// Who did so, and why.
    #[serde(flatten)]
    #[schemars(with = "crate::schema::Operator")]
    pub operator: OperatorAct,
}

/// The lease of the process that carries a campaign on. It avoids duplicate work and gives no safety: each write has
/// its own condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CampaignLease {
    /// A random number that is unique to the process's present turn.
    pub by: u64,
    /// From this moment on another process may take over.
    pub until: Timestamp,
}

/// The record of one batch: its orders, and where the search that chose them ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Batch {
    /// The orders, in the order in which they are acted on.
    pub orders: Vec<CampaignOrder>,
    /// Where the search for the next batch begins; `None` if `is_whole`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Cursor>,
    /// Whether the search has come to its end, so that this batch is the last one.
    pub is_whole: bool,
}

/// One order of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CampaignOrder {
    /// The order's id.
    #[schemars(with = "String")]
    pub order_id: OrderId,
    /// What came of the act; `None` until that is known and written down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Done>,
    /// Why the act was not done, for a person, in at most [`MAX_TEXT_BYTES`]; `None` if it was done, and
    /// while `result` is `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// What became of the order after the act; `None` while that is not known, and for an order on which the
    /// act was not done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<OrderAfterAct>,
}

/// What came of an act on an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Done {
    /// The act is done.
    Done,
    /// The order refused the act, or is not stored any more; nothing was written.
    Refused,
    /// The act cannot be done: the order's record is damaged, or others changed it in every try.
    Failed,
}

/// What became of an order after the act.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OrderAfterAct {
    /// The order came to the end that the act is for, or is not stored any more. Acts after which nothing is
    /// waited for, such as a pause, always have this result.
    Well,
    /// The order needs an operator again, came to another end than the act is for, or has a record that
    /// cannot be read.
    Again,
}

impl CampaignOrder {
    /// The entry of an order that was not acted on yet.
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

impl CampaignCounts {
    /// These counts plus those of one batch.
    #[must_use]
    pub fn with(self, batch: &Batch) -> Self {
        let of = |result| {
            let entries = batch.orders.iter();
            entries.filter(|e| e.result == Some(result)).count() as u64
        };
        let (_, came) = batch.ended_orders();
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
    /// On how many orders of the batch the act was done, and how many of these ended.
    #[must_use]
    pub fn ended_orders(&self) -> (u32, EndedOrders) {
        came(&self.orders)
    }
}

/// On how many of these orders the act was done, and how many of those ended.
pub(super) fn came(orders: &[CampaignOrder]) -> (u32, EndedOrders) {
    let (mut done, mut came) = (0, EndedOrders::default());
    for entry in orders.iter().filter(|e| e.result == Some(Done::Done)) {
        done += 1;
        came.of += u32::from(entry.then.is_some());
        came.again += u32::from(entry.then == Some(OrderAfterAct::Again));
    }
    (done, came)
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands out references"
)]
fn is_zero(n: &u32) -> bool {
    *n == 0
}
