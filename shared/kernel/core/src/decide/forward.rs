//! Running an order: the claim, and the start of every ready step.

use triad_workflow::StepIndex;

use super::complete_by::set_complete_by;
use super::{
    Decision, Draft, children, give_up, later, next_version, push_status, race, stop_in_doubt,
    transition, undefined, waits, wake,
};
use crate::budget;
use crate::context::{Context, NeedsDetails};
use crate::doubt::{self, NextAttempt, next_attempt};
use crate::failure::Failure;
use crate::ids::{Attempt, ClaimId, Direction, Timestamp};
use crate::input;
use crate::later::CallbackSecret;
use crate::order::{Claim, Order, ProcessState};
use crate::outbox::Writer;
use crate::status::Status;
use crate::step::{Out, StepRecord, StepState, Work};

/// A Scheduler claims the order: due retries start first, then every ready step.
pub(super) fn claim(
    ctx: &Context<'_>,
    order: &Order,
    (id, secret): (ClaimId, CallbackSecret),
    now: Timestamp,
) -> Result<Decision, NeedsDetails> {
    let mut next = next_version(order, Writer::Scheduler);
    next.state = ProcessState::Processing(Claim {
        locked_by: id,
        complete_by: now,
    });
    if next.sequence == 1 {
        push_status(&mut next, Status::Started, None, now);
    }
    for (record, step) in next.steps.iter_mut().zip(&ctx.workflow.steps) {
        if step
            .call()
            .is_some_and(|call| call.finishes_later.is_some())
        {
            record
                .callback
                .get_or_insert_with(|| secret.token(&record.step));
        }
    }
    for index in 0..next.steps.len() {
        race::ask_let_go(ctx, &mut next, index, now)?;
        if let StepState::Acting(Work::Due { last, .. }) = next.steps[index].state
            && !start(ctx, &mut next, index, last, now)?
        {
            return Ok(transition(ctx, next, now));
        }
    }
    advance(ctx, &mut next, now)?;
    let mut claimed = transition(ctx, next, now);
    if let Decision::Transition(change) = &mut claimed
        && let ProcessState::Processed { at } = change.next.state
    {
        // An order may be announced more than once, and another process may acknowledge one announcement while this
        // one is being handled. So the order must be confirmed: that its last status was sent.
        change.next.due = Some(at.plus(ctx.timing.confirm_within));
    }
    Ok(claimed)
}

/// Starts every step whose predecessors are done; finishes the order when there are none left.
pub(super) fn advance(
    ctx: &Context<'_>,
    order: &mut Draft,
    now: Timestamp,
) -> Result<(), NeedsDetails> {
    if !matches!(order.state, ProcessState::Processing(_)) {
        // The Supervisor released the order, or an operator paused it, while this step ran: the next claim continues.
        if has_startable(ctx, order) {
            wake(ctx, order, now);
        }
        set_complete_by(order, now);
        return Ok(());
    }
    for index in 0..order.steps.len() {
        let defined = &ctx.workflow.steps[index];
        if !is_ready(ctx, order, index) {
            continue;
        }
        let wanted = match &defined.when {
            None => Ok(true),
            Some(condition) => condition.holds(&input::scope(ctx, order, [condition], None)?),
        };
        match wanted {
            // Each step comes after its predecessors in this order, so the loop still reaches the steps that a skip
            // makes ready.
            Ok(false) => order.steps[index].state = StepState::Skipped,
            Ok(true) => {
                let earlier = Attempt(order.steps[index].action.earlier);
                if !start(ctx, order, index, earlier, now)? {
                    return Ok(());
                }
            }
            Err(e) => {
                return undefined(ctx, order, index, &e, now);
            }
        }
    }
    if order.steps.iter().all(StepRecord::is_over) {
        push_status(order, Status::Completed, None, now);
        waits::tell_unused(order, now);
        order.state = ProcessState::Processed { at: now };
        children::end(ctx, order)?;
    } else {
        set_complete_by(order, now);
    }
    Ok(())
}

/// Whether the next claim has work: a due retry, a ready step, ways to ask that were let go, or the order's end.
pub(super) fn has_startable(ctx: &Context<'_>, order: &Order) -> bool {
    let mut steps = 0..order.steps.len();
    steps.any(|i| {
        let record = &order.steps[i];
        let asks = record.lets_go() && record.awaited_until().is_none();
        record.state.is_retry_due() || asks || is_ready(ctx, order, i)
    }) || order.steps.iter().all(StepRecord::is_over)
}

/// Whether a step has not been started and all its predecessors are done.
fn is_ready(ctx: &Context<'_>, order: &Order, index: StepIndex) -> bool {
    let mut before = ctx.workflow.steps[index].after.iter();
    order.steps[index].state == StepState::Waiting
        && before.all(|&a| order.steps[a].state.is_done())
}

/// Starts the attempt after `last`, or the wait of a step that waits, which may be over at once; false if the step was
/// given up instead.
///
/// If the effect may have happened and may not be repeated, the attempt is a probe, or no attempt is made.
pub(super) fn start(
    ctx: &Context<'_>,
    order: &mut Draft,
    index: StepIndex,
    last: Attempt,
    now: Timestamp,
) -> Result<bool, NeedsDetails> {
    let defined = &ctx.workflow.steps[index];
    let Some(call) = defined.call() else {
        return match defined.run() {
            Some(_) => children::start(ctx, order, index, last, now),
            None => waits::begin(ctx, order, index, last, now),
        };
    };
    if order.steps[index].in_progress.is_some() {
        if call.finishes_later.is_some() {
            return later::go_on(ctx, order, index, last, now);
        }
        // A version of the workflow without it has taken its place.
        doubt::abandon(&mut order.steps[index]);
    }
    let input = match input::forward(ctx, order, index)? {
        Ok(input) => input,
        Err(e) => {
            undefined(ctx, order, index, &e, now)?;
            return Ok(false);
        }
    };
    let (direction, attempt_timeout) = match next_attempt(&order.steps[index], defined) {
        NextAttempt::Act => (Direction::Forward, call.attempt_timeout),
        NextAttempt::Probe(probe) => (Direction::Probe, probe.attempt_timeout),
        NextAttempt::Poll | NextAttempt::Operator => {
            stop_in_doubt(order, index, now);
            return Ok(false);
        }
    };
    if budget::allowance(defined, &order.steps[index], direction) == 0 {
        let failure = exhausted(order, index);
        give_up(ctx, order, index, failure, now)?;
        return Ok(false);
    }
    let record = &mut order.steps[index];
    record.state = StepState::Acting(Work::Out(Out {
        direction,
        attempt: last.next(),
        started: now,
        complete_by: ctx.timing.complete_by(attempt_timeout, now),
        deferred_since: record.state.deferred_since(),
        unheard_since: None,
    }));
    order.request(ctx, index, direction, input);
    Ok(true)
}

/// Failure when the declared total of calls is used up: the step's last failure, or a failure that names the limit if
/// there was none.
pub(super) fn exhausted(order: &Order, index: StepIndex) -> Failure {
    let record = &order.steps[index];
    let known = record.error.clone();
    known.unwrap_or_else(|| Failure::calls_used_up().in_step(&record.step))
}
