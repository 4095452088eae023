//! Steps that wait: how a wait begins, and what happens when its time is over.
//!
//! A wait is no attempt at a call: nothing is sent, nothing is counted, and no service has any part in it. Its step is
//! parked ([`Work::Parked`]), and the due index has the moment at which it is over.

mod events;
mod timer;

use std::collections::BTreeMap;

use serde_json::Value;
use triad_workflow::{Otherwise, StepIndex, StepKind};

use super::{Draft, give_up, next_position, push_of_step, push_step_completed, undefined};
use crate::context::{Context, NeedsDetails};
use crate::failure::{Failure, FailureKind};
use crate::ids::{Attempt, Timestamp};
use crate::order::{Incident, IncidentKind, Order};
use crate::status::Status;
use crate::step::{StepState, Work};

pub(super) use events::{Taken, keep_unread, take, tell_unused, too_late};

/// Begins the wait of a step, as the one after `last`. It is over at once if its moment has passed, or the events have
/// come before. False if an expression has no value and the step was given up.
pub(super) fn begin(
    ctx: &Context<'_>,
    order: &mut Draft,
    index: StepIndex,
    last: Attempt,
    now: Timestamp,
) -> Result<bool, NeedsDetails> {
    let kind = &ctx.workflow.steps[index].kind;
    let ends = match kind {
        StepKind::Timer(timer) => timer::until(ctx, order, timer, now)?,
        StepKind::Await(wait) => Ok(now.plus(wait.within)),
        // These are no waits: `forward::start` makes the request of a call, and `children` the orders of a run.
        StepKind::Call(_) | StepKind::Run(_) => return Ok(true),
    };
    let ends = match ends {
        Ok(ends) => ends,
        Err(error) => {
            undefined(ctx, order, index, &error, now)?;
            return Ok(false);
        }
    };
    let keys = match kind {
        StepKind::Await(wait) => match events::keys(ctx, order, wait)? {
            Ok(keys) => keys,
            Err(error) => {
                undefined(ctx, order, index, &error, now)?;
                return Ok(false);
            }
        },
        StepKind::Timer(_) | StepKind::Call(_) | StepKind::Run(_) => BTreeMap::new(),
    };
    let until = next_look(kind, now, ends, now);
    order.steps[index].state = StepState::Acting(Work::Parked {
        attempt: last.next(),
        since: now,
        until,
        ends: (until < ends).then_some(ends),
        events: match kind {
            StepKind::Await(wait) => wait.events.iter().map(|e| e.event.clone()).collect(),
            StepKind::Timer(_) | StepKind::Call(_) | StepKind::Run(_) => Vec::new(),
        },
        keys,
    });
    let output = match kind {
        StepKind::Await(wait) => {
            let output = events::collect(ctx, order, index, wait, now)?;
            if output.is_none() && wait.decision.is_some() {
                push_of_step(order, index, Status::DecisionAsked, now);
            }
            output
        }
        _ => (until <= now).then_some(Value::Null),
    };
    match output {
        Some(output) => ended(ctx, order, index, output, now),
        None => Ok(true),
    }
}

/// Whether an order waits for timers and for nothing else.
pub(super) fn has_only_timers(ctx: &Context<'_>, order: &Order) -> bool {
    let is_timer = |index: StepIndex| matches!(ctx.workflow.steps[index].kind, StepKind::Timer(_));
    let work = (0..order.steps.len()).filter(|&index| order.steps[index].state.work().is_some());
    let mut work = work.map(is_timer).peekable();
    work.peek().is_some() && work.all(|is_timer| is_timer)
}

/// When the Supervisor looks at a wait that began at `since`: at its end, or before it when a decision is to be asked for
/// again.
fn next_look(kind: &StepKind, since: Timestamp, ends: Timestamp, now: Timestamp) -> Timestamp {
    let (waited, within) = (now.since(since), ends.since(since));
    match kind {
        StepKind::Await(wait) => match &wait.decision {
            Some(decision) => since.plus(decision.asked_again(waited, within)),
            None => ends,
        },
        StepKind::Timer(_) | StepKind::Call(_) | StepKind::Run(_) => ends,
    }
}

/// Asks once more for the decision that a step waits for. False if its time is over.
pub(super) fn asks_again(
    ctx: &Context<'_>,
    order: &mut Order,
    index: StepIndex,
    now: Timestamp,
) -> bool {
    let Some(Work::Parked {
        since, until, ends, ..
    }) = order.steps[index].state.work_mut()
    else {
        return false;
    };
    let Some(end) = *ends else {
        return false;
    };
    *until = next_look(
        &ctx.workflow.steps[index].kind,
        *since,
        end,
        now.max(*until),
    );
    if *until >= end {
        *ends = None;
    }
    if !order.outbox.is_full() {
        push_of_step(order, index, Status::DecisionAsked, now);
    }
    true
}

/// Ends a wait for which everything has come. False if that is a failure of the step, which was given up.
fn ended(
    ctx: &Context<'_>,
    order: &mut Draft,
    index: StepIndex,
    output: Value,
    now: Timestamp,
) -> Result<bool, NeedsDetails> {
    if let StepKind::Await(wait) = &ctx.workflow.steps[index].kind
        && events::is_failure(ctx, order, wait, &output)?
    {
        let condition = wait.fails_when.as_ref().map_or("", |fails| fails.source());
        let text = format!("what came is a failure: `{condition}` holds");
        let failure = Failure::new(FailureKind::Permanent, "event-fails", &text);
        fail(ctx, order, index, failure, now)?;
        return Ok(false);
    }
    complete(ctx, order, index, output, now);
    Ok(true)
}

/// Ends a wait whose time is over. False if the step was given up, and the decision with it: awaited events have not
/// come, and the definition says that the order does not go on without them.
pub(super) fn over(
    ctx: &Context<'_>,
    order: &mut Draft,
    index: StepIndex,
    now: Timestamp,
) -> Result<bool, NeedsDetails> {
    let missing = match &ctx.workflow.steps[index].kind {
        StepKind::Await(wait) if wait.otherwise != Otherwise::Continue => {
            events::missing(order, index, wait)
        }
        StepKind::Await(_) | StepKind::Timer(_) | StepKind::Call(_) | StepKind::Run(_) => {
            complete(ctx, order, index, Value::Null, now);
            return Ok(true);
        }
    };
    let text = format!("did not come in time: {missing}");
    let failure = Failure::new(FailureKind::TimedOut, "no-event", &text);
    fail(ctx, order, index, failure, now)?;
    Ok(false)
}

/// Gives a step up whose wait has failed. If the order is resubmitted, the step waits anew.
fn fail(
    ctx: &Context<'_>,
    order: &mut Draft,
    index: StepIndex,
    failure: Failure,
    now: Timestamp,
) -> Result<(), NeedsDetails> {
    let record = &mut order.steps[index];
    let failure = failure.in_step(&record.step);
    record.error = Some(failure.clone());
    let Some(&Work::Parked { attempt, since, .. }) = record.state.work() else {
        return Ok(());
    };
    // A wait that begins and ends in this write is in no record, and so it has no number.
    let was_stored = since < now;
    let last = attempt.0 - u32::from(!was_stored);
    record.state = StepState::due(Attempt(last));
    order.note(Incident {
        attempt: was_stored.then_some(attempt),
        started: was_stored.then_some(since),
        ..Incident::new(IncidentKind::AttemptFailed, now).of(&failure)
    });
    give_up(ctx, order, index, failure, now)
}

/// Completes a step whose wait has ended.
fn complete(ctx: &Context<'_>, order: &mut Draft, index: StepIndex, output: Value, now: Timestamp) {
    let position = next_position(order);
    let record = &mut order.steps[index];
    let Some(&Work::Parked { attempt, since, .. }) = record.state.work() else {
        return;
    };
    record.state = StepState::Completed {
        attempt,
        started: Some(since),
        finished: now,
        position,
        output: output.into(),
    };
    push_step_completed(ctx, order, index, now);
}
