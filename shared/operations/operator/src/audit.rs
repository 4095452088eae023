//! The audit: every stored act of an operator on orders, downstreams, campaigns and dead letters.
//!
//! An order's record keeps its acts longer than its other lines ([`triad_core::timeline`]), until it expires. A
//! downstream's record keeps its last changes, and every setting that is still in force, however old; the topic of
//! alerts has all its changes. Only listed campaigns are included: at most 200.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use triad_core::order::{Hold, IncidentKind};
use triad_core::{CampaignId, OperatorAct, OrderId, Timestamp};
use triad_runtime::dead_letter::{LetterEntry, LetterId};
use triad_runtime::ports::OperatorStore;
use triad_runtime::{ControlStore, DefinitionStore, StateStore, StoreError};
use triad_workflow::{AgentName, StepId};

use crate::campaign::commands;
use crate::dead_letters::as_text;
use crate::downstreams::{DownstreamError, Published, view};
use crate::skipped::Skipped;
use crate::topic::{Extent, LogTopic, TopicReader, TopicRecords};

/// One act of an operator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AuditEntry {
    /// When the act was done.
    #[schemars(with = "crate::schema::Moment")]
    pub at: Timestamp,
    /// The order, downstream or campaign that the act was on.
    #[serde(flatten)]
    pub on: AuditTarget,
    /// What was done, by its name in records, such as `resubmitted` or `forced open`.
    pub what: String,
    /// Who did the act, and why.
    #[serde(flatten)]
    #[schemars(with = "crate::schema::Operator")]
    pub operator: OperatorAct,
    /// The step that the act is about; `None` if it is about no single step.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub step: Option<StepId>,
    /// What was changed, such as the corrected input; `None` if nothing is kept beside the act itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The thing that an act was on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum AuditTarget {
    /// An order.
    Order {
        /// The order's id.
        #[schemars(with = "String")]
        order_id: OrderId,
    },
    /// A downstream.
    Downstream {
        /// The name of the downstream's agent.
        #[schemars(with = "String")]
        downstream: AgentName,
    },
    /// A campaign: it was started, stopped or resumed.
    Campaign {
        /// The campaign's id.
        #[schemars(with = "String")]
        campaign_id: CampaignId,
    },
    /// A dead letter: it was replayed or dismissed.
    DeadLetter {
        /// The letter's id.
        #[serde(with = "as_text")]
        #[schemars(with = "String")]
        dead_letter: LetterId,
    },
}

/// Why [`export`] ended before its last line. `E` is the error of the caller's `report`.
#[derive(Debug, thiserror::Error)]
pub enum AuditError<E> {
    /// The store failed, or the record of a campaign or a downstream cannot be read ([`StoreError::Item`]).
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The workflows, which name the downstreams, cannot be read.
    #[error(transparent)]
    Downstreams(#[from] DownstreamError),
    /// The caller's `report` returned this error.
    #[error("{0}")]
    Report(E),
}

/// Calls `report` with every act that records still keep and that was done at or after `since`: acts on
/// campaigns first, then on downstreams, then on orders, in the store's order of the orders. It reads the
/// whole table of process records, page by page. Returns the orders' records that cannot be read.
///
/// # Errors
/// [`AuditError::Store`] if the store failed, or the record of a campaign or a downstream cannot be read;
/// [`AuditError::Downstreams`] if the workflows cannot be read; [`AuditError::Report`] if `report` returned
/// an error. Lines that were reported before stay reported.
pub async fn export<S, E>(
    store: &S,
    since: Timestamp,
    mut report: impl FnMut(&AuditEntry) -> Result<(), E>,
) -> Result<Skipped, AuditError<E>>
where
    S: StateStore + DefinitionStore + OperatorStore + ControlStore,
{
    let mut tell = |line: AuditEntry| match line.at >= since {
        true => report(&line).map_err(AuditError::Report),
        false => Ok(()),
    };
    campaigns(store, &mut tell).await?;
    downstreams(store, &mut tell).await?;
    orders(store, &mut tell).await
}

/// Why [`letters`] ended before its last line. `T` is the error of the [`TopicReader`], `E` that of the caller's
/// `report`.
#[derive(Debug, thiserror::Error)]
pub enum LettersError<T, E> {
    /// The topic cannot be read.
    #[error("the topic of dead letters cannot be read")]
    Topic(T),
    /// The caller's `report` returned this error.
    #[error("{0}")]
    Report(E),
}

/// Calls `report` with every replay and dismissal of a dead letter that the topic of dead letters still has and
/// that was done at or after `since`, in the topic's order. The topic is read from the first record on that was
/// written at `since` or later.
///
/// # Errors
/// [`LettersError::Topic`] if the topic cannot be read; [`LettersError::Report`] if `report` returned an error.
/// Lines that were reported before stay reported.
pub async fn letters<T: TopicReader, E>(
    topics: &T,
    since: Timestamp,
    mut report: impl FnMut(&AuditEntry) -> Result<(), E>,
) -> Result<(), LettersError<T::Error, E>> {
    let extent = Extent {
        since: Some(since),
        last: None,
    };
    let opened = topics.open(LogTopic::DeadLetters, extent).await;
    let mut records = opened.map_err(LettersError::Topic)?;
    while let Some(record) = records.next().await.map_err(LettersError::Topic)? {
        let (what, marker) = match LetterEntry::read(record) {
            Ok(LetterEntry::Replayed(marker)) => ("replayed", marker),
            Ok(LetterEntry::Dismissed(marker)) => ("dismissed", marker),
            Ok(LetterEntry::Letter(_)) | Err(_) => continue,
        };
        if marker.act.at < since {
            continue;
        }
        let corrected = marker.corrected.as_deref().map(String::from_utf8_lossy);
        let line = AuditEntry {
            at: marker.act.at,
            on: AuditTarget::DeadLetter {
                dead_letter: marker.of,
            },
            what: what.to_owned(),
            operator: OperatorAct::new(&marker.act.by, &marker.act.why),
            step: None,
            note: corrected.map(|value| format!("value: {value}")),
        };
        report(&line).map_err(LettersError::Report)?;
    }
    Ok(())
}

async fn campaigns<S: ControlStore, E>(
    store: &S,
    tell: &mut impl FnMut(AuditEntry) -> Result<(), AuditError<E>>,
) -> Result<(), AuditError<E>> {
    for standing in commands::list(store, usize::MAX).await? {
        let campaign = standing.campaign;
        let line = |at, what: String, operator| AuditEntry {
            at,
            on: AuditTarget::Campaign {
                campaign_id: campaign.id.clone(),
            },
            what,
            operator,
            step: None,
            note: None,
        };
        let started = format!("started: {}", campaign.what.name());
        tell(line(
            campaign.started_at,
            started,
            campaign.operator.clone(),
        ))?;
        for note in &campaign.notes {
            tell(line(note.at, note.what.clone(), note.operator.clone()))?;
        }
    }
    Ok(())
}

async fn downstreams<S, E>(
    store: &S,
    tell: &mut impl FnMut(AuditEntry) -> Result<(), AuditError<E>>,
) -> Result<(), AuditError<E>>
where
    S: DefinitionStore + OperatorStore + ControlStore,
{
    for agent in Published::read(store).await?.agents() {
        let shown = view(store, &agent).await?.record;
        let line = |at, what: String, operator: &OperatorAct| AuditEntry {
            at,
            on: AuditTarget::Downstream {
                downstream: agent.clone(),
            },
            what,
            operator: operator.clone(),
            step: None,
            note: None,
        };
        let changes = || shown.earlier.iter().rev().chain([&shown.last]);
        let mut acts = changes().filter_map(|change| Some((change, change.operator.as_ref()?)));
        // A setting in force that is not among the kept changes is older than all of them.
        let kept_since = acts.clone().next().map(|(change, _)| change.at);
        let is_kept = |hold: &Hold| kept_since.is_some_and(|since| hold.at >= since);
        if let Some(forced) = shown.forced.as_ref().filter(|f| !is_kept(&f.hold)) {
            let what = format!("forced {:?}", forced.to).to_lowercase();
            tell(line(forced.hold.at, what, &forced.hold.act))?;
        }
        for held in shown.paused.iter().filter(|p| !is_kept(&p.hold)) {
            let what = format!("step {}/{} paused", held.workflow, held.step);
            tell(line(held.hold.at, what, &held.hold.act))?;
        }
        acts.try_for_each(|(change, act)| tell(line(change.at, change.alone().to_owned(), act)))?;
    }
    Ok(())
}

async fn orders<S: StateStore, E>(
    store: &S,
    tell: &mut impl FnMut(AuditEntry) -> Result<(), AuditError<E>>,
) -> Result<Skipped, AuditError<E>> {
    let (mut skipped, mut page) = (Skipped::default(), None);
    loop {
        let got = store.list(None, page).await?;
        skipped.add(got.unreadable);
        for order in got.orders {
            for incident in order.incidents {
                let Some(operator) = incident.act else {
                    continue;
                };
                tell(AuditEntry {
                    at: incident.at,
                    on: AuditTarget::Order {
                        order_id: order.id.clone(),
                    },
                    what: named(incident.what),
                    operator,
                    step: incident.step,
                    note: incident.note,
                })?;
            }
        }
        match got.next {
            Some(next) => page = Some(next),
            None => return Ok(skipped),
        }
    }
}

/// The name of a kind in records.
fn named(kind: IncidentKind) -> String {
    let name = serde_json::to_value(kind).unwrap_or_default();
    name.as_str().unwrap_or_default().to_owned()
}
