//! How large a batch is, what became of an order, and when a campaign stops by itself. All of it is pure.

use triad_core::{Order, ProcessState, Timestamp};

use super::form::{Batch, Came, Campaign, End, Phase, Then, What};

/// How many orders each batch has, from the first one after a start or a resumption on; all later ones have as
/// many as the last. They bound what an act does that does not help, and the size of a batch's record.
pub const SIZES: [u32; 8] = [1, 2, 5, 20, 50, 100, 200, 500];
/// Batches smaller than this are judged together: the share of one order says little.
const SMALL: u32 = 20;
/// Fewer than so many orders that failed again stop no campaign: one may have had a trouble of its own.
const LEAST_AGAIN: u32 = 2;

/// How many orders the next batch has.
#[must_use]
pub fn size(campaign: &Campaign) -> u32 {
    size_of(campaign.grown)
}

/// The size of the batch behind so many others.
fn size_of(grown: u32) -> u32 {
    let last = SIZES.len() - 1;
    SIZES[usize::try_from(grown).map_or(last, |n| n.min(last))]
}

/// Whether an order that fits the filter is not chosen: the campaign has acted on it, or it has changed since
/// the start in a way by which it did not fit then.
#[must_use]
pub fn is_left_out(campaign: &Campaign, order: &Order) -> bool {
    let start = campaign.started_at;
    order.is_acted_on_by(&campaign.id)
        || order.submitted_at > start
        || order.state.finished_at().is_some_and(|at| at > start)
        || order.paused.as_ref().is_some_and(|hold| hold.at > start)
}

/// What became of an order that was acted on; `None` while it is under way. An order that is not stored any
/// more had ended well, or was closed.
#[must_use]
pub fn came_of(what: &What, order: Option<&Order>) -> Option<Then> {
    // With these acts nothing else is to be waited for.
    if matches!(what, What::Close | What::Pause | What::Resume) {
        return Some(Then::Well);
    }
    let Some(order) = order else {
        return Some(Then::Well);
    };
    let is_back = matches!(what, What::Cancel | What::RetryUndo);
    match &order.state {
        ProcessState::Pending { .. } | ProcessState::Processing(_) => None,
        ProcessState::Compensating { .. } if is_back => None,
        ProcessState::Processed { .. } => Some(Then::Well),
        ProcessState::Compensated { .. } if is_back => Some(Then::Well),
        // An order in Error that was moved to another version waits for a resubmission.
        ProcessState::Error { .. } if matches!(what, What::Migrate { .. }) => Some(Then::Well),
        ProcessState::Error { .. }
        | ProcessState::Compensating { .. }
        | ProcessState::Compensated { .. }
        | ProcessState::CompensationFailed { .. } => Some(Then::Again),
    }
}

/// What follows from how a batch has gone so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Wait on.
    Watch,
    /// The next batch.
    GoOn,
    /// The campaign is over.
    Over(End),
}

/// Judges a batch whose orders were all acted on, watched since `since`.
#[must_use]
pub fn verdict(campaign: &Campaign, batch: &Batch, since: Timestamp, now: Timestamp) -> Verdict {
    let (done, came) = batch.came();
    let judged = match is_small(campaign) {
        true => Came {
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
    let over = Verdict::Over(End::FailsAgain {
        again: judged.again,
        of: judged.of,
    });
    let open = done - came.of;
    let is_late = now.since(since) >= campaign.pace.patience;
    match open {
        // Even if all that are under way end well.
        _ if fails_again(judged.of + open) => over,
        0 => Verdict::GoOn,
        _ if !is_late => Verdict::Watch,
        _ if open * 2 > done => Verdict::Over(End::Stalled { open }),
        _ if fails_again(judged.of) => over,
        _ => Verdict::GoOn,
    }
}

fn is_small(campaign: &Campaign) -> bool {
    // The present batch is counted already.
    size_of(campaign.grown.saturating_sub(1)) < SMALL
}

/// The campaign with its next batch begun.
#[must_use]
pub fn begun(mut campaign: Campaign, batch: &Batch) -> Campaign {
    campaign.batch += 1;
    campaign.grown = campaign.grown.saturating_add(1);
    campaign.next = batch.next.clone();
    campaign.is_whole = batch.is_whole;
    campaign.is_open = true;
    campaign.phase = Phase::Acting;
    campaign
}

/// The campaign with a batch behind it that has this verdict; [`Verdict::Watch`] changes nothing.
#[must_use]
pub fn ended(mut campaign: Campaign, batch: &Batch, verdict: Verdict, now: Timestamp) -> Campaign {
    let (_, came) = batch.came();
    let end = match verdict {
        Verdict::Watch => return campaign,
        Verdict::Over(end) => Some(end),
        Verdict::GoOn if campaign.is_whole => Some(End::Finished),
        Verdict::GoOn => None,
    };
    campaign.counts = campaign.counts.with(batch);
    campaign.is_open = false;
    if is_small(&campaign) {
        campaign.small.of += came.of;
        campaign.small.again += came.again;
    }
    campaign.phase = match end {
        None => Phase::Choosing,
        Some(end) => Phase::Ended { at: now, end },
    };
    campaign
}
