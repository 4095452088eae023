//! The timeline of an order: ended attempts, recoveries and operators' acts. [`crate::history`] defines which
//! attempts are in it.

use serde::{Deserialize, Serialize};
use triad_workflow::StepId;

use crate::failure::Failure;
use crate::ids::{Attempt, CampaignId, Direction, Timestamp};

/// Most lines of a timeline that a record keeps. When a line is added to that many, the oldest of the
/// earlier lines that is not an operator's act is dropped; if all of them are acts, the oldest act is
/// dropped. The record says how many lines were dropped ([`Dropped`]).
pub const MAX_INCIDENTS: usize = 100;
/// How many of the newest lines are kept as they were written. Older ones keep the class, step and code
/// of their failure without its text, and at most [`MAX_OLD_TEXT_BYTES`] of a note and of an operator's
/// reason.
pub const MAX_FULL_INCIDENTS: usize = 20;
/// Longest note and longest reason in an older line, in bytes each, inclusive.
pub const MAX_OLD_TEXT_BYTES: usize = 64;
/// Longest name and longest reason of an operator, in bytes each, inclusive; longer ones are cut.
pub const MAX_ACT_BYTES: usize = 256;
/// Longest note of a line, in bytes, inclusive; longer ones are cut. A corrected input or an output that
/// the note shows is in the record of the step in full.
pub const MAX_NOTE_BYTES: usize = 1_024;

/// The operator of an act, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorAct {
    /// Name of the operator, at most [`MAX_ACT_BYTES`].
    pub by: String,
    /// The operator's reason, at most [`MAX_ACT_BYTES`]; at most [`MAX_OLD_TEXT_BYTES`] in a line that is not
    /// one of the [`MAX_FULL_INCIDENTS`] newest.
    pub why: String,
    /// The campaign that the act is part of; `None` if it is part of none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub campaign: Option<CampaignId>,
}

impl OperatorAct {
    /// An act. A name or reason above [`MAX_ACT_BYTES`] is cut at a character boundary.
    #[must_use]
    pub fn new(by: &str, why: &str) -> Self {
        Self {
            by: crate::failure::cut(by, MAX_ACT_BYTES),
            why: crate::failure::cut(why, MAX_ACT_BYTES),
            campaign: None,
        }
    }

    /// The same act, as part of a campaign. An order that the campaign has acted on before refuses it: see
    /// [`Order::is_acted_on_by`](crate::Order::is_acted_on_by).
    #[must_use]
    pub fn within(self, campaign: CampaignId) -> Self {
        Self {
            campaign: Some(campaign),
            ..self
        }
    }
}

/// One line of an order's timeline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Incident {
    /// When the line was written; of [`Completed`](IncidentKind::Completed) and
    /// [`Compensated`](IncidentKind::Compensated), when the attempt finished.
    pub at: Timestamp,
    /// What happened, by kind.
    pub what: IncidentKind,
    /// The step; `None` if the line is about the whole order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepId>,
    /// The attempt; `None` if the line is about none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<Attempt>,
    /// Number of the last attempt, inclusive, if the line is about several attempts that began with
    /// `attempt`; `None` if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub through: Option<Attempt>,
    /// Direction of the attempt, if the kind in [`what`](Self::what) does not imply it; `None` otherwise. To read it,
    /// use [`direction`](Self::direction).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toward: Option<Direction>,
    /// When that attempt's request was made; of a deferred attempt that was counted as failed, when the wait
    /// began. `None` if that is not known, or the line is about no attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
    /// How many calls the attempt made; `None` if no reply said so, and in lines of the kinds
    /// [`Completed`](IncidentKind::Completed), [`Compensated`](IncidentKind::Compensated) and
    /// [`Deferred`](IncidentKind::Deferred).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<u32>,
    /// What failed, or why the attempt was deferred; `None` if neither. Its text is empty in a line that is
    /// not one of the [`MAX_FULL_INCIDENTS`] newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// Which operator did it, and why; `None` if no operator did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub act: Option<OperatorAct>,
    /// What was changed or found, such as the corrected input or the new version; `None` if the
    /// kind says it all. In a record at most [`MAX_NOTE_BYTES`], and at most [`MAX_OLD_TEXT_BYTES`] in a line
    /// that is not one of the [`MAX_FULL_INCIDENTS`] newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Incident {
    /// A line of this kind at this time, with every other field `None`.
    #[must_use]
    pub fn new(what: IncidentKind, at: Timestamp) -> Self {
        Self {
            at,
            what,
            step: None,
            attempt: None,
            through: None,
            toward: None,
            started: None,
            calls: None,
            failure: None,
            act: None,
            note: None,
        }
    }

    /// Direction of the line's attempt: the action, the probe or the compensation. In a record of an earlier version
    /// the action may stand for the others.
    #[must_use]
    pub fn direction(&self) -> Direction {
        match self.what {
            IncidentKind::CompensationFailed | IncidentKind::Compensated => Direction::Compensate,
            IncidentKind::Probed => Direction::Probe,
            _ => self.toward.unwrap_or(Direction::Forward),
        }
    }

    /// The same line, about an attempt in this direction.
    #[must_use]
    pub(crate) fn in_direction(self, direction: Direction) -> Self {
        let told = Self {
            toward: None,
            ..self
        };
        Self {
            toward: (told.direction() != direction).then_some(direction),
            ..told
        }
    }

    /// Shortens a line that is no longer among the newest.
    pub(crate) fn age(&mut self) {
        let short = |text: &mut String| {
            if text.len() > MAX_OLD_TEXT_BYTES {
                *text = crate::failure::cut(text, MAX_OLD_TEXT_BYTES);
            }
        };
        if let Some(failure) = &mut self.failure {
            failure.message.clear();
        }
        self.note.iter_mut().for_each(short);
        self.act.iter_mut().map(|act| &mut act.why).for_each(short);
    }

    /// The same line, with this failure, and with the failure's step as its step.
    #[must_use]
    pub fn of(self, failure: &Failure) -> Self {
        Self {
            step: failure.step.clone(),
            failure: Some(failure.clone()),
            ..self
        }
    }
}

/// Lines of a timeline that a record no longer has, because there were more than [`MAX_INCIDENTS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dropped {
    /// How many lines were dropped.
    pub lines: u32,
    /// The latest [`Incident::at`] of these lines.
    pub latest: Timestamp,
}

/// What a line of the timeline is about. In records and messages some names are older than the
/// variants, such as `deferred` and `compensation-failed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IncidentKind {
    /// An attempt at a step's action or probe failed and was counted, or its input or condition had
    /// no value.
    AttemptFailed,
    /// An attempt at a compensation failed and was counted.
    #[serde(rename = "compensation-failed")]
    CompensationFailed,
    /// An attempt at the action had succeeded. The line is written when the step leaves that state, to be
    /// compensated or done again.
    Completed,
    /// An attempt at the compensation had succeeded. The line is written when the step leaves that state, to
    /// be done again.
    #[serde(rename = "compensated")]
    Compensated,
    /// An attempt was out, or its failure was not counted yet, and its reply is no longer awaited: the order began to
    /// be compensated or began a new run, or an operator resolved the effect.
    Abandoned,
    /// The compensation of the order began.
    #[serde(rename = "compensation-began")]
    CompensationBegan,
    /// An attempt was deferred, or no agent took it before its complete-by. It does not count as a
    /// failure.
    #[serde(rename = "deferred")]
    Deferred,
    /// The service has taken the work and finishes it later; or it was asked, and goes on with it.
    #[serde(rename = "in-progress")]
    InProgress,
    /// The service answered a probe: whether an effect in doubt happened.
    Probed,
    /// A person has made the decision that a step waited for.
    Decided,
    /// The order missed its deadline and continues.
    Late,
    /// An operator had the steps that did not complete, or the whole compensated order, done again.
    Resubmitted,
    /// An operator cancelled the order.
    Cancelled,
    /// An operator retried the failed compensations.
    #[serde(rename = "compensation-retried")]
    CompensationRetried,
    /// An operator closed the order by hand.
    Closed,
    /// Details were replaced; the note names the parts, without their values.
    Amended,
    /// An operator paused the order.
    Paused,
    /// An operator resumed the paused order.
    Resumed,
    /// An operator said whether an effect in doubt happened.
    Resolved,
    /// An operator moved the order to another version of its workflow.
    Migrated,
}

impl IncidentKind {
    /// What an operator or an application did, in a word such as `cancelled`; `None` of all else.
    #[must_use]
    pub fn act(self) -> Option<&'static str> {
        Some(match self {
            Self::Resubmitted => "resubmitted",
            Self::Cancelled => "cancelled",
            Self::CompensationRetried => "compensation retried",
            Self::Closed => "closed",
            Self::Amended => "amended",
            Self::Decided => "decided",
            Self::Paused => "paused",
            Self::Resumed => "resumed",
            Self::Resolved => "resolved",
            Self::Migrated => "migrated",
            Self::AttemptFailed
            | Self::CompensationFailed
            | Self::Completed
            | Self::Compensated
            | Self::Abandoned
            | Self::CompensationBegan
            | Self::Deferred
            | Self::InProgress
            | Self::Probed
            | Self::Late => return None,
        })
    }
}
