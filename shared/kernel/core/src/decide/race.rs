//! Ways to do a step's work that are begun at once, each as a child order: the first that succeeds completes the step, and
//! the others are let go, which means that they are compensated while the order goes on.
//!
//! The completed step keeps which of them are not known to be compensated, and asks them again from time to time. The
//! order does not end before they are, so that an order that has ended has nothing under way.

use triad_workflow::StepIndex;

use super::{Draft, Taken, stop};
use crate::children::{ASK_AGAIN, Child, ChildState, Children};
use crate::context::{Context, NeedsDetails};
use crate::failure::Failure;
use crate::ids::Timestamp;
use crate::order::{Incident, IncidentKind};
use crate::step::StepRecord;

/// Lets all ways go but the first that has succeeded. Returns which.
pub(super) fn let_go(children: &mut Children) -> Vec<u32> {
    let is_processed = |child: &Child| matches!(child.state, ChildState::Processed(_));
    let first = children.all.iter().position(is_processed);
    let mut let_go = Vec::new();
    for (number, child) in (0..).zip(&mut children.all) {
        let was_processed = is_processed(child);
        if Some(number as usize) == first || child.state == ChildState::Failed {
            continue;
        }
        child.state = ChildState::Compensating { was_processed };
        let_go.push(number);
    }
    let_go
}

/// Asks ways that were let go to be compensated. The order goes on meanwhile, and does not end before they are.
pub(super) fn ask_compensated(
    ctx: &Context<'_>,
    order: &mut Draft,
    index: StepIndex,
    let_go: Vec<u32>,
    now: Timestamp,
) -> Result<(), NeedsDetails> {
    let Some(children) = order.steps[index]
        .children
        .as_mut()
        .filter(|_| !let_go.is_empty())
    else {
        return Ok(());
    };
    children.asks_again = Some(now.plus(now.since(children.since).max(ASK_AGAIN)));
    // A message that has a child order compensated needs no details, so that there is always one.
    order.ask_children(ctx, index, let_go)?.unwrap_or(());
    Ok(())
}

/// Asks the ways again that a completed step has let go, if it is time.
pub(super) fn ask_let_go(
    ctx: &Context<'_>,
    order: &mut Draft,
    index: StepIndex,
    now: Timestamp,
) -> Result<(), NeedsDetails> {
    let record = &order.steps[index];
    let Some(children) = record.children.as_ref().filter(|_| record.lets_go()) else {
        return Ok(());
    };
    if children.asks_again.is_some() {
        return Ok(());
    }
    let numbered = (0..).zip(&children.all);
    let asked = numbered.filter(|(_, child)| child.state.is_compensating());
    let asked = asked.map(|(number, _)| number).collect();
    ask_compensated(ctx, order, index, asked, now)
}

/// Takes the end of a way that a completed step has let go. One that cannot be compensated (`kept`) stops the order: an
/// operator has to know of what it left.
pub(super) fn let_go_ended(
    mut next: Draft,
    index: StepIndex,
    kept: Option<&Failure>,
    now: Timestamp,
) -> Taken {
    let record = &mut next.steps[index];
    let is_last = !record.lets_go();
    if let Some(children) = record.children.as_mut().filter(|_| is_last) {
        children.asks_again = None;
    }
    if let Some(failure) = kept {
        next.note(Incident::new(IncidentKind::CompensationFailed, now).of(failure));
        stop(&mut next, failure.clone(), now);
        return Taken::Changed(next);
    }
    match is_last {
        true => Taken::WaitIsOver(next),
        false => Taken::Changed(next),
    }
}

/// Counts from now on how long a step waits for its child orders to be compensated.
pub(super) fn compensation_begins(record: &mut StepRecord, now: Timestamp) {
    if let Some(children) = record.children.as_mut().filter(|c| c.lets_go()) {
        (children.since, children.asks_again) = (now, None);
    }
}
