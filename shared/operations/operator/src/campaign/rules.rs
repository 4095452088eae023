//! Pure rules: the size of a batch, the result of an order, and when a campaign stops early.

use std::ops::Range;

use triad_core::{Order, ProcessState, Timestamp};

use super::form::{
    self, Batch, Campaign, CampaignAct, CampaignEnd, Done, EndedOrders, OrderAfterAct, Phase,
};

/// How many orders a batch has at most, from the first one after a start or a resumption on; all later ones
/// have as many as the last number here. Small first batches bound the harm of an act that does not help,
/// and the last number bounds the size of a batch's record.
pub const SIZES: [u32; 8] = [1, 2, 5, 20, 50, 100, 200, 500];
/// Batches smaller than this are judged together: the share of one order says little.
const SMALL: u32 = 20;
/// Fewest failed orders that stop a campaign: a single order may fail for a reason of its own.
const LEAST_AGAIN: u32 = 2;

/// How many orders the campaign's next batch, or portion of one, has at most; one of [`SIZES`].
#[must_use]
pub fn size(campaign: &Campaign) -> u32 {
    size_of(campaign.grown)
}

/// The size of a batch after so many others.
fn size_of(grown: u32) -> u32 {
    let last = SIZES.len() - 1;
    SIZES[usize::try_from(grown).map_or(last, |n| n.min(last))]
}

/// The part of the batch on which the campaign acts now, and which it judges next: the whole batch, except for the
/// rest of a batch after a resumption, which is taken in portions of [`SIZES`].
#[must_use]
pub fn portion(campaign: &Campaign, batch: &Batch) -> Range<usize> {
    let all = batch.orders.len();
    let begin = usize::try_from(campaign.judged).map_or(all, |n| n.min(all));
    let size = usize::try_from(size_of(campaign.grown.saturating_sub(1))).unwrap_or(all);
    begin..begin.saturating_add(size).min(all)
}

/// The resumed campaign, once the number of orders of its `batch` that it had acted on before is known.
#[must_use]
pub fn after_batch(mut campaign: Campaign, batch: &Batch) -> Campaign {
    let left = batch.orders.iter().position(|e| e.result.is_none());
    let acted = left.unwrap_or(batch.orders.len());
    campaign.judged = u32::try_from(acted).unwrap_or(u32::MAX);
    campaign.grown = u32::from(left.is_some());
    campaign.is_resumed = false;
    campaign
}

/// Whether an order is not chosen although it fits the filter: the campaign has acted on it before, or the
/// order was submitted, finished or paused after the campaign was started.
#[must_use]
pub fn is_left_out(campaign: &Campaign, order: &Order) -> bool {
    let start = campaign.started_at;
    order.is_acted_on_by(&campaign.id)
        || order.submitted_at > start
        || order.state.finished_at().is_some_and(|at| at > start)
        || order.paused.as_ref().is_some_and(|hold| hold.at > start)
}

/// Merges into a stored batch the orders on which the act is done by `own`, another version of the same batch.
/// Returns whether one of them was missing in the stored batch: another process may have written a refusal for it.
#[must_use]
pub fn take_over(stored: &mut Batch, own: &Batch) -> bool {
    let mut is_new = false;
    for (theirs, ours) in stored.orders.iter_mut().zip(&own.orders) {
        let is_same = theirs.order_id == ours.order_id;
        if is_same && ours.result == Some(Done::Done) && theirs.result != Some(Done::Done) {
            *theirs = ours.clone();
            is_new = true;
        }
    }
    is_new
}

/// The result of an order after the act `what`; `None` while the order is under way. An `order` of `None` is no
/// longer stored: it counts as [`OrderAfterAct::Well`], for it had ended well, or was closed. The acts close, pause
/// and resume have no later result and always give [`OrderAfterAct::Well`].
#[must_use]
pub fn came_of(what: &CampaignAct, order: Option<&Order>) -> Option<OrderAfterAct> {
    // The acts close, pause and resume have no later result.
    if matches!(
        what,
        CampaignAct::Close | CampaignAct::Pause | CampaignAct::Resume
    ) {
        return Some(OrderAfterAct::Well);
    }
    let Some(order) = order else {
        return Some(OrderAfterAct::Well);
    };
    let is_back = matches!(what, CampaignAct::Cancel | CampaignAct::RetryCompensation);
    match &order.state {
        ProcessState::Pending { .. } | ProcessState::Processing(_) => None,
        ProcessState::Compensating { .. } if is_back => None,
        ProcessState::Processed { .. } => Some(OrderAfterAct::Well),
        ProcessState::Compensated { .. } if is_back => Some(OrderAfterAct::Well),
        // An order in Error that was moved to another version waits for a resubmission.
        ProcessState::Error { .. } if matches!(what, CampaignAct::Migrate { .. }) => {
            Some(OrderAfterAct::Well)
        }
        ProcessState::Error { .. }
        | ProcessState::Compensating { .. }
        | ProcessState::Compensated { .. }
        | ProcessState::CompensationFailed { .. } => Some(OrderAfterAct::Again),
    }
}

/// What a campaign does next, judged by how its batch has gone so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The campaign goes on waiting for the orders of this batch.
    Watch,
    /// The campaign finishes this batch, and begins the next one if there are more orders.
    GoOn,
    /// The campaign ends now, in this way.
    Over(CampaignEnd),
}

/// Judges the present [`portion`] of a batch, whose orders were all acted on. `since` is when the campaign began to wait for them; after
/// [`Pace::patience`](super::form::Pace::patience) from then it waits no longer. The rule about orders that
/// fail again is at [`Pace::stop_share`](super::form::Pace::stop_share).
#[must_use]
pub fn verdict(campaign: &Campaign, batch: &Batch, since: Timestamp, now: Timestamp) -> Verdict {
    let (done, came) = form::came(&batch.orders[portion(campaign, batch)]);
    let judged = match is_small(campaign) {
        true => EndedOrders {
            of: campaign.small.of + came.of,
            again: campaign.small.again + came.again,
        },
        false => came,
    };
    let fails_again = |of: u32| {
        let share = u64::from(campaign.pace.stop_share);
        let is_beyond = u64::from(judged.again) * 100 > share * u64::from(of);
        judged.again >= LEAST_AGAIN && is_beyond
    };
    let over = Verdict::Over(CampaignEnd::FailsAgain {
        again: judged.again,
        of: judged.of,
    });
    let open = done - came.of;
    // The orders of earlier portions do not count in this verdict, but the batch stays open while they are under way.
    let (done_before, came_before) = form::came(&batch.orders[..portion(campaign, batch).start]);
    let is_before_open = done_before > came_before.of;
    let is_late = now.since(since) >= campaign.pace.patience;
    match open {
        // The campaign is over even if all orders that are under way end well.
        _ if fails_again(judged.of + open) => over,
        0 if !is_before_open => Verdict::GoOn,
        _ if !is_late => Verdict::Watch,
        _ if open * 2 > done => Verdict::Over(CampaignEnd::Stalled { open }),
        _ if fails_again(judged.of) => over,
        _ => Verdict::GoOn,
    }
}

fn is_small(campaign: &Campaign) -> bool {
    // `grown` already counts the present batch.
    size_of(campaign.grown.saturating_sub(1)) < SMALL
}

/// The campaign with `batch` begun as its next batch: it is about to act on the orders.
#[must_use]
pub fn begun(mut campaign: Campaign, batch: &Batch) -> Campaign {
    campaign.batch += 1;
    campaign.grown = campaign.grown.saturating_add(1);
    campaign.next = batch.next.clone();
    campaign.is_whole = batch.is_whole;
    campaign.is_open = true;
    campaign.judged = 0;
    campaign.is_resumed = false;
    campaign.phase = Phase::Acting;
    campaign
}

/// The campaign after the present [`portion`] of `batch` was judged with this `verdict` at `now`. After the last
/// portion the batch is counted, and the campaign chooses the next one or has ended. Otherwise the campaign acts on
/// the next portion, or has ended within the batch. [`Verdict::Watch`] changes nothing.
#[must_use]
pub fn ended(mut campaign: Campaign, batch: &Batch, verdict: Verdict, now: Timestamp) -> Campaign {
    let portion = portion(&campaign, batch);
    let (_, came) = form::came(&batch.orders[portion.clone()]);
    let is_last = portion.end == batch.orders.len();
    let end = match verdict {
        Verdict::Watch => return campaign,
        Verdict::Over(end) => Some(end),
        Verdict::GoOn if is_last && campaign.is_whole => Some(CampaignEnd::Finished),
        Verdict::GoOn => None,
    };
    if is_small(&campaign) {
        campaign.small.of += came.of;
        campaign.small.again += came.again;
    }
    if is_last {
        campaign.counts = campaign.counts.with(batch);
        campaign.is_open = false;
    }
    campaign.phase = match end {
        None if is_last => Phase::Choosing,
        None => {
            campaign.judged = u32::try_from(portion.end).unwrap_or(u32::MAX);
            campaign.grown = campaign.grown.saturating_add(1);
            Phase::Acting
        }
        Some(end) => Phase::Ended { at: now, end },
    };
    campaign
}
