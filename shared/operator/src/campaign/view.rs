//! A campaign as people and their programs see it.

use serde::Serialize;
use triad_core::{CampaignId, OperatorAct, Timestamp};
use triad_workflow::Millis;

use super::desk::Standing;
use super::form::{Counts, End, Note, Phase, What};
use crate::find::Filter;

/// What is shown of a campaign.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct View {
    /// Its id.
    pub id: CampaignId,
    /// What is done to each order.
    #[serde(flatten)]
    pub what: What,
    /// To which orders.
    pub filter: Filter,
    /// Who started it, and why.
    #[serde(flatten)]
    pub operator: OperatorAct,
    /// Most orders a second.
    pub rate: u32,
    /// How many of a hundred may fail again.
    pub stop_share: u8,
    /// How long what becomes of a batch is waited for.
    pub patience: Millis,
    /// When it was started.
    pub started_at: Timestamp,
    /// `choosing`, `acting`, `watching` or `ended`.
    pub phase: &'static str,
    /// When it ended; `None` while it is under way.
    pub ended_at: Option<Timestamp>,
    /// `finished`, `stopped`, `fails-again` or `stalled`; `None` while it is under way.
    pub end: Option<&'static str>,
    /// How it stands, for a person.
    pub text: String,
    /// The number of the present batch.
    pub batch: u32,
    /// Sums over all batches.
    pub orders: Counts,
    /// Stops and resumptions, oldest first.
    pub notes: Vec<Note>,
}

impl View {
    /// Of a campaign as it stands.
    #[must_use]
    pub fn of(standing: &Standing) -> Self {
        let Standing { campaign, counts } = standing;
        let (phase, ended) = match campaign.phase {
            Phase::Choosing => ("choosing", None),
            Phase::Acting => ("acting", None),
            Phase::Watching { .. } => ("watching", None),
            Phase::Ended { at, end } => ("ended", Some((at, end))),
        };
        Self {
            id: campaign.id.clone(),
            what: campaign.what.clone(),
            filter: campaign.filter.clone(),
            operator: campaign.operator.clone(),
            rate: campaign.pace.rate.per_second(),
            stop_share: campaign.pace.stop_share,
            patience: campaign.pace.patience,
            started_at: campaign.started_at,
            phase,
            ended_at: ended.map(|(at, _)| at),
            end: ended.map(|(_, end)| end.name()),
            text: match ended {
                Some((_, end)) => end.text(),
                None => format!("batch {} is {phase}", campaign.batch.max(1)),
            },
            batch: campaign.batch,
            orders: *counts,
            notes: campaign.notes.clone(),
        }
    }

    /// Whether it is over, unless somebody resumes it.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.end.is_some()
    }

    /// Whether it ended before it was through.
    #[must_use]
    pub fn is_cut_short(&self) -> bool {
        self.end.is_some_and(|end| end != End::Finished.name())
    }
}
