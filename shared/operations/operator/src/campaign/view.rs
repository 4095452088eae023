//! A campaign as people and programs see it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use triad_core::{CampaignId, OperatorAct, Timestamp};
use triad_workflow::Millis;

use super::commands::CampaignStatus;
use super::form::{CampaignAct, CampaignCounts, CampaignEnd, CampaignNote, Phase, Preview};
use crate::find::Filter;

/// A campaign in the form in which the command line and the API show it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct View {
    /// The campaign's id.
    #[schemars(with = "String")]
    pub id: CampaignId,
    /// The act that is done to each order.
    #[serde(flatten)]
    pub what: CampaignAct,
    /// Which orders the campaign acts on: those that fit this filter when a batch is chosen, and that were
    /// not submitted, finished or paused after `started_at`.
    pub filter: Filter,
    /// Who started it, and why.
    #[serde(flatten)]
    #[schemars(with = "crate::schema::Operator")]
    pub operator: OperatorAct,
    /// Most orders that the campaign acts on in a second.
    pub rate: u32,
    /// The share of orders that may fail again, in percent, before the campaign stops: see
    /// [`Pace::stop_share`](super::form::Pace::stop_share).
    pub stop_share: u8,
    /// How long the campaign waits for the orders of a batch to come to an end, in milliseconds, once all of
    /// them were acted on.
    #[schemars(with = "String")]
    pub patience: Millis,
    /// When the campaign was started.
    #[schemars(with = "crate::schema::Moment")]
    pub started_at: Timestamp,
    /// What the campaign does now ([`Phase`]), in a word: `choosing`, `acting`, `watching` or `ended`.
    pub phase: String,
    /// When the campaign ended; `None` while it is under way.
    #[schemars(with = "Option<crate::schema::Moment>")]
    pub ended_at: Option<Timestamp>,
    /// How the campaign ended ([`CampaignEnd`]), in a word: `finished`, `stopped`, `fails-again` or `stalled`; `None`
    /// while it is under way.
    pub end: Option<String>,
    /// What the campaign does now, or how it ended, in a few words for a person. The text is no contract.
    pub text: String,
    /// The number of the present or last batch, counted from 1; 0 before the first.
    pub batch: u32,
    /// How many orders fitted when it was started, as far as they were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<Preview>,
    /// Counts of orders over all batches, the present one included.
    pub orders: CampaignCounts,
    /// Stops and resumptions, oldest first, at most [`MAX_NOTES`](super::form::MAX_NOTES).
    pub notes: Vec<CampaignNote>,
}

impl View {
    /// The view of a campaign with its present counts.
    #[must_use]
    pub fn of(standing: &CampaignStatus) -> Self {
        let CampaignStatus { campaign, counts } = standing;
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
            phase: phase.to_owned(),
            ended_at: ended.map(|(at, _)| at),
            end: ended.map(|(_, end)| end.name().to_owned()),
            text: match ended {
                Some((_, end)) => end.text(),
                None => format!("batch {} is {phase}", campaign.batch.max(1)),
            },
            batch: campaign.batch,
            total: campaign.total,
            orders: *counts,
            notes: campaign.notes.clone(),
        }
    }

    /// Whether the campaign has ended. An operator may resume it if it [is cut short](Self::is_cut_short).
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.end.is_some()
    }

    /// Whether the campaign ended before it had acted on every order that fits: an operator stopped it, or it stopped
    /// early.
    #[must_use]
    pub fn is_cut_short(&self) -> bool {
        let end = self.end.as_deref();
        end.is_some_and(|end| end != CampaignEnd::Finished.name())
    }
}
