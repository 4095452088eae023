//! Commands for campaigns: start, list, show, stop, resume.

use triad_core::{CampaignId, OperatorAct, Timestamp};
use triad_runtime::ports::OperatorStore;
use triad_runtime::{ControlStore, Entropy, StateStore, StoreError};

use super::form::{
    Batch, Campaign, CampaignAct, CampaignCounts, CampaignEnd, CampaignNote, CampaignOrder, Done,
    EndedOrders, MAX_NOTES, OrderAfterAct, Pace, Phase, Preview,
};
use super::records;
use crate::find::Filter;
use crate::pages::{self, MAX_PAGE, PageError};

/// Most campaigns that are under way at once, inclusive. Campaigns that are started at the same moment may
/// pass this number.
pub const MAX_ALIVE: usize = 8;
/// Most attempts at a conditional write of a campaign.
const MAX_RACES: usize = 8;

/// The campaign that an operator asks for. [`check`] says whether there can be such a campaign.
#[derive(Debug, Clone, PartialEq)]
pub struct CampaignRequest {
    /// The act that is done to each order.
    pub what: CampaignAct,
    /// Which orders it acts on. It must not be empty, and an index must find the orders: see [`check`].
    pub filter: Filter,
    /// Who starts the campaign, and why. The acts on its orders bear this name and this reason.
    pub operator: OperatorAct,
    /// The campaign's rate, and when it stops early.
    pub pace: Pace,
    /// How many orders fit, as far as they were counted before the start; `None` if they were not.
    pub total: Option<Preview>,
}

/// Why a campaign is not started, stopped, resumed or found. Nothing of the campaign was changed, except that
/// with [`Self::Store`] it may have been.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CampaignError {
    /// The store failed; the campaign may be started, stopped or resumed all the same.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No field of the filter is set: it would act on every order there is.
    #[error(
        "an empty filter fits every order there is: say which, by state, cause, workflow, age or id"
    )]
    EmptyFilter,
    /// No index has the orders that fit: the Supervisor would read the whole table.
    #[error(
        "no index finds these orders: give a cause, or one of the states Error, CompensationFailed, Paused, \
         Pending, Processing, Compensating, and no search key; for others act on their ids"
    )]
    NoIndex,
    /// The [`stop_share`](Pace::stop_share) that was asked for, which is not from 1 to 100 (in percent).
    #[error("the share of orders that may fail again is from 1 to 100 percent, not {0}")]
    StopShare(u8),
    /// [`MAX_ALIVE`] campaigns are under way already.
    #[error(
        "{MAX_ALIVE} campaigns are under way, which is the most: stop one, or wait for one to end"
    )]
    TooMany,
    /// This campaign is under way, and has the same act and the same filter.
    #[error("campaign {0} does the same and is under way")]
    Same(CampaignId),
    /// There is no campaign with this id, or its records have expired.
    #[error("there is no campaign {0}")]
    NotFound(CampaignId),
    /// The campaign cannot be stopped, because it has ended, or cannot be resumed, because it is under way or
    /// has acted on every order that fits.
    #[error("campaign {id} {is}")]
    Already {
        /// The campaign.
        id: CampaignId,
        /// Why not, as the end of a sentence about the campaign, such as `is over already`.
        is: &'static str,
    },
    /// Other processes changed this campaign between each read and write, in all tries. Trying again is safe.
    #[error("campaign {0} was changed at the same time; try again")]
    Contended(CampaignId),
}

/// Counts the orders that fit a filter at `now`. The count ends with the page of orders that reaches `most`,
/// or at the last order. The record of each order is read that may fit by its row in an index.
///
/// # Errors
/// [`StoreError`] if the store fails. A single record that cannot be read is left out, and is no error.
pub async fn preview<S: StateStore + OperatorStore>(
    store: &S,
    filter: &Filter,
    most: u64,
    now: Timestamp,
) -> Result<Preview, StoreError> {
    let mut preview = Preview::default();
    let mut next = None;
    loop {
        let page = pages::page(store, filter, MAX_PAGE, next.as_ref(), now).await;
        let page = page.map_err(store_error)?;
        preview.orders += page.orders.len() as u64;
        preview.more = page.next.is_some();
        if !preview.more || preview.orders >= most {
            return Ok(preview);
        }
        next = page.next;
    }
}

/// The store's error; the cursor always belongs to the filter.
pub(super) fn store_error(error: PageError) -> StoreError {
    match error {
        PageError::Store(e) => e,
        PageError::Cursor => StoreError::Item(error.to_string()),
    }
}

/// Checks a request, without regard to the campaigns that are under way. The filter must have a field that is set and
/// no search key, the due index or the attention index must find its orders, and the share of orders that may fail
/// again must be from 1 to 100.
///
/// # Errors
/// [`CampaignError::EmptyFilter`], [`CampaignError::NoIndex`], [`CampaignError::StopShare`].
pub fn check(wanted: &CampaignRequest) -> Result<(), CampaignError> {
    if wanted.filter.is_empty() {
        return Err(CampaignError::EmptyFilter);
    }
    // The Supervisor has no permission for the search indexes.
    if !wanted.filter.is_indexed() || wanted.filter.search.is_some() {
        return Err(CampaignError::NoIndex);
    }
    match wanted.pace.stop_share {
        1..=100 => Ok(()),
        other => Err(CampaignError::StopShare(other)),
    }
}

/// Starts a campaign: stores it as started at `now`, and returns it. The Supervisor then carries it on. Its
/// id is made of a random number from `entropy`.
///
/// # Errors
/// Those of [`check`]; [`CampaignError::Same`] if a campaign with the same act and the same filter is under
/// way; [`CampaignError::TooMany`] if [`MAX_ALIVE`] campaigns are under way; [`CampaignError::Store`] if the
/// store fails. After the last one the campaign may be started all the same: look at [`list`] before it is
/// started again.
pub async fn start<S, E>(
    store: &S,
    entropy: &E,
    wanted: CampaignRequest,
    now: Timestamp,
) -> Result<Campaign, CampaignError>
where
    S: ControlStore,
    E: Entropy,
{
    check(&wanted)?;
    let CampaignRequest {
        what,
        filter,
        operator,
        pace,
        total,
    } = wanted;
    let alive = alive(store).await?;
    if let Some(same) = alive.iter().find(|c| c.what == what && c.filter == filter) {
        return Err(CampaignError::Same(same.id.clone()));
    }
    if alive.len() >= MAX_ALIVE {
        return Err(CampaignError::TooMany);
    }
    let campaign = Campaign {
        id: CampaignId::new(entropy.next_u64()),
        what,
        filter,
        operator,
        pace,
        total,
        started_at: now,
        phase: Phase::Choosing,
        batch: 0,
        grown: 0,
        next: None,
        is_whole: false,
        is_open: false,
        judged: 0,
        is_resumed: false,
        counts: CampaignCounts::default(),
        small: EndedOrders::default(),
        notes: Vec::new(),
        held: None,
    };
    // No process finds the campaign before it is in the list.
    records::put(store, entropy, &campaign, None, now).await?;
    records::note(store, entropy, &campaign.id, None, now).await?;
    Ok(campaign)
}

async fn alive<S: ControlStore>(store: &S) -> Result<Vec<Campaign>, StoreError> {
    let mut alive = Vec::new();
    for known in records::list(store, true).await? {
        if !known.is_over
            && let Some(found) = records::campaign(store, &known.id).await?
        {
            alive.push(found.value);
        }
    }
    Ok(alive)
}

/// A campaign as it is stored, and its counts as they are now.
#[derive(Debug, Clone, PartialEq)]
pub struct CampaignStatus {
    /// The campaign.
    pub campaign: Campaign,
    /// Counts over all its batches, the present one included.
    pub counts: CampaignCounts,
}

async fn status_of<S: ControlStore>(
    store: &S,
    campaign: Campaign,
) -> Result<CampaignStatus, StoreError> {
    let present = match campaign.is_open {
        true => records::batch(store, &campaign.id, campaign.batch).await?,
        false => None,
    };
    let counts = match &present {
        Some(batch) => campaign.counts.with(&batch.value),
        None => campaign.counts,
    };
    Ok(CampaignStatus { campaign, counts })
}

/// Lists the `limit` newest campaigns, newest first, without those whose records have expired. Campaigns that
/// are over are kept in the list as long as it has at most 200 campaigns. The record of the list is read, one
/// record for each campaign, and one more for a campaign in the middle of a batch.
///
/// # Errors
/// [`StoreError`] if the store fails; it is [`StoreError::Item`] if a record cannot be read.
pub async fn list<S: ControlStore>(
    store: &S,
    limit: usize,
) -> Result<Vec<CampaignStatus>, StoreError> {
    let mut found = Vec::new();
    for known in records::list(store, true).await?.into_iter().take(limit) {
        // An expired campaign may stay in the list for a while.
        if let Some(read) = records::campaign(store, &known.id).await? {
            found.push(status_of(store, read.value).await?);
        }
    }
    Ok(found)
}

/// Reads one campaign.
///
/// # Errors
/// [`CampaignError::NotFound`] if there is no such campaign or its records have expired,
/// [`CampaignError::Store`] if the store fails or a record cannot be read.
pub async fn by_id<S: ControlStore>(
    store: &S,
    id: &CampaignId,
) -> Result<CampaignStatus, CampaignError> {
    let found = records::campaign(store, id).await?;
    let found = found.ok_or_else(|| CampaignError::NotFound(id.clone()))?;
    Ok(status_of(store, found.value).await?)
}

/// Reads the batch of a campaign with this `number`, which is counted from 1: its orders, and the result
/// of each. `None` if the campaign has no such batch, or its record has expired.
///
/// # Errors
/// [`StoreError`] if the store fails; it is [`StoreError::Item`] if the record cannot be read.
pub async fn batch<S: ControlStore>(
    store: &S,
    id: &CampaignId,
    number: u32,
) -> Result<Option<Batch>, StoreError> {
    let found = records::batch(store, id, number).await?;
    Ok(found.map(|read| read.value))
}

/// Whether an order of a batch needs a person: it refused the act, could not be acted on, or failed again
/// ([`OrderAfterAct::Again`]). False while the result is not known.
#[must_use]
pub fn is_left_behind(entry: &CampaignOrder) -> bool {
    let could_not = matches!(entry.result, Some(Done::Refused | Done::Failed));
    could_not || entry.then == Some(OrderAfterAct::Again)
}

/// Stops a campaign at `now`, and returns it as it is then. A process that is carrying the campaign on may
/// still act on up to 50 more orders of the present batch; after that the campaign acts on none. Orders on
/// which it has acted go on. `operator` says who stops the campaign and why.
///
/// # Errors
/// [`CampaignError::NotFound`] if there is no such campaign or its records have expired,
/// [`CampaignError::Already`] if it has ended, [`CampaignError::Contended`] if other processes changed it in
/// each of eight tries, and [`CampaignError::Store`] if the store fails, after which the campaign may be
/// stopped all the same.
pub async fn stop<S: ControlStore, E: Entropy>(
    store: &S,
    entropy: &E,
    id: &CampaignId,
    operator: &OperatorAct,
    now: Timestamp,
) -> Result<Campaign, CampaignError> {
    change(store, entropy, id, now, |campaign| {
        if matches!(campaign.phase, Phase::Ended { .. }) {
            return Err("is over already");
        }
        campaign.phase = Phase::Ended {
            at: now,
            end: CampaignEnd::Stopped,
        };
        campaign.note("stopped", operator, now);
        Ok(())
    })
    .await
}

/// Resumes a campaign that ended before it had acted on every order that fits, and returns it as it is then.
/// It begins with small portions again: of what is left of its last batch if that is not finished, and with
/// small batches then. Of the orders that come to an end, it judges those on which it acts from now on. It does not
/// act again on orders that it has acted on. `operator` says who resumes it and why.
///
/// # Errors
/// [`CampaignError::TooMany`] if [`MAX_ALIVE`] campaigns are under way, which is looked at first;
/// [`CampaignError::NotFound`] if there is no such campaign or its records have expired;
/// [`CampaignError::Already`] if it is under way or has acted on every order that fits;
/// [`CampaignError::Contended`] if other processes changed it in each of eight tries; and
/// [`CampaignError::Store`] if the store fails, after which the campaign may be resumed all the same.
pub async fn resume<S: ControlStore, E: Entropy>(
    store: &S,
    entropy: &E,
    id: &CampaignId,
    operator: &OperatorAct,
    now: Timestamp,
) -> Result<Campaign, CampaignError> {
    if alive(store).await?.len() >= MAX_ALIVE {
        return Err(CampaignError::TooMany);
    }
    change(store, entropy, id, now, |campaign| {
        match campaign.phase {
            Phase::Ended {
                end: CampaignEnd::Finished,
                ..
            } => return Err("has acted on every order that fits"),
            Phase::Ended { .. } => {}
            _ => return Err("is under way already"),
        }
        // The rest of its last batch comes first, in small portions.
        campaign.is_resumed = campaign.is_open;
        campaign.phase = match campaign.is_open {
            true => Phase::Acting,
            false => Phase::Choosing,
        };
        campaign.grown = 0;
        campaign.small = EndedOrders::default();
        campaign.note("resumed", operator, now);
        Ok(())
    })
    .await
}

/// Changes a campaign; retries the conditional write after a lost race.
async fn change<S: ControlStore, E: Entropy>(
    store: &S,
    entropy: &E,
    id: &CampaignId,
    now: Timestamp,
    edit: impl Fn(&mut Campaign) -> Result<(), &'static str>,
) -> Result<Campaign, CampaignError> {
    for _ in 0..MAX_RACES {
        let found = records::campaign(store, id).await?;
        let read = found.ok_or_else(|| CampaignError::NotFound(id.clone()))?;
        let mut campaign = read.value;
        if let Err(is) = edit(&mut campaign) {
            // The process that ended the campaign may have died before it updated the list. For a campaign that
            // stopped early, the Supervisor marks it over in the list after it has alerted operators; that must stay.
            if !matches!(campaign.phase, Phase::Ended { end, .. } if end.is_trouble()) {
                records::note(store, entropy, id, None, now).await?;
            }
            return Err(CampaignError::Already { id: id.clone(), is });
        }
        campaign.held = None;
        if records::put(store, entropy, &campaign, Some(read.version), now)
            .await?
            .is_some()
        {
            records::note(store, entropy, id, None, now).await?;
            return Ok(campaign);
        }
    }
    Err(CampaignError::Contended(id.clone()))
}

impl Campaign {
    fn note(&mut self, what: &str, operator: &OperatorAct, now: Timestamp) {
        if self.notes.len() >= MAX_NOTES {
            self.notes.remove(0);
        }
        self.notes.push(CampaignNote {
            at: now,
            what: what.to_owned(),
            operator: operator.clone(),
        });
    }
}
