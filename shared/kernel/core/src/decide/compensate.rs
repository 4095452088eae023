//! Compensating an order: in the reverse order of completion.
//!
//! A step is compensated after every later step has been; steps that the workflow runs in parallel are compensated in
//! parallel. A step whose effect is in doubt is compensated too. The service contract makes that safe: a compensation
//! that arrives before its forward call leaves a tombstone, and the forward call then has no effect.

use triad_workflow::{Step, StepIndex};

use super::complete_by::set_complete_by;
use super::{Decision, Draft, children, next_version, push_status, race, transition, waits, wake};
use crate::budget;
use crate::context::{Context, NeedsDetails};
use crate::declared::declared;
use crate::doubt::{self, Happened, happened};
use crate::failure::{Failure, FailureKind};
use crate::history;
use crate::ids::{Attempt, ClaimId, Direction, Timestamp};
use crate::input;
use crate::message::AlertKind;
use crate::order::{Incident, IncidentKind, Order, ProcessState};
use crate::outbox::{Emission, Writer};
use crate::output::Output;
use crate::status::Status;
use crate::step::{Applied, Out, StepRecord, StepState, Work};

/// Begins the compensation of an order: every step that may have had its effect.
///
/// If the Scheduler writes it, the first compensation starts in the same write. If another actor writes it, the order
/// waits for a claim.
pub(super) fn begin(
    ctx: &Context<'_>,
    order: &mut Draft,
    cause: Failure,
    now: Timestamp,
) -> Result<(), NeedsDetails> {
    let by_scheduler = order.outbox.writer == Writer::Scheduler;
    let locked_by = order.state.locked_by().filter(|_| by_scheduler).cloned();
    order.void_requests();
    for (index, step) in ctx.workflow.steps.iter().enumerate() {
        history::change(order, index, now, |record| turn(record, step));
        race::compensation_begins(&mut order.steps[index], now);
    }
    push_status(order, Status::Compensating, Some(&cause), now);
    order.note(Incident::new(IncidentKind::CompensationBegan, now).of(&cause));
    waits::tell_unused(order, now);
    let claimed = locked_by.is_some();
    order.state = ProcessState::Compensating {
        locked_by,
        complete_by: now.plus(ctx.timing.announce_within),
        cause,
    };
    if claimed {
        advance(ctx, order, now)?;
    } else {
        super::ask(order);
    }
    Ok(())
}

/// New state of a step when the compensation of its order begins.
fn turn(record: &mut StepRecord, step: &Step) {
    let can_be_compensated = step.can_be_compensated();
    let last = Attempt(record.compensation.earlier);
    if let Some(attempt) = record.state.attempt() {
        record.action.earlier = attempt.0;
    }
    let taken = record.in_progress.as_ref().map(|work| work.output.clone());
    let taken = Output::inline(taken.unwrap_or_default());
    doubt::abandon(record);
    let in_doubt = happened(record, step) == Happened::Maybe;
    let due = |position, output| StepState::Compensating {
        work: Work::due(last),
        applied: Applied { position, output },
    };
    let state = std::mem::replace(&mut record.state, StepState::Waiting);
    record.state = match state {
        StepState::Completed {
            position, output, ..
        } if can_be_compensated => due(Some(position), output),
        StepState::Acting(work) => {
            let attempt = work.attempt();
            match (in_doubt, can_be_compensated, step.is_safe_to_repeat()) {
                (false, _, _) => StepState::Refused { attempt },
                (true, false, _) => StepState::Ambiguous { attempt },
                (true, true, true) => due(None, taken),
                // The service does not promise to recognise a key again, so an operator must decide.
                (true, true, false) => {
                    record.error = Some(doubt::failure(record));
                    StepState::NotCompensated {
                        attempt: last,
                        applied: Applied {
                            position: None,
                            output: taken,
                        },
                    }
                }
            }
        }
        other => other,
    };
}

/// A Scheduler claims an order that waits to be compensated.
pub(super) fn claim(
    ctx: &Context<'_>,
    order: &Order,
    id: ClaimId,
    now: Timestamp,
) -> Result<Decision, NeedsDetails> {
    let mut next = next_version(order, Writer::Scheduler);
    if let ProcessState::Compensating { locked_by, .. } = &mut next.state {
        *locked_by = Some(id);
    }
    advance(ctx, &mut next, now)?;
    Ok(transition(ctx, next, now))
}

/// Starts every compensation whose later steps are compensated; finishes the order when none is left. Starts nothing
/// while the order is unclaimed: the next claim continues.
pub(super) fn advance(
    ctx: &Context<'_>,
    order: &mut Draft,
    now: Timestamp,
) -> Result<(), NeedsDetails> {
    if order.state.locked_by().is_none() {
        if has_startable(ctx, order) {
            wake(ctx, order, now);
        }
        set_complete_by(order, now);
        return Ok(());
    }
    // The loop ends: each iteration takes one step out of those that are due.
    loop {
        let due = startable(ctx, order).next();
        let Some(index) = due else { break };
        start(ctx, order, index, now)?;
    }
    wait_or_finish(order, now);
    Ok(())
}

/// Whether a compensation could be started.
pub(super) fn has_startable(ctx: &Context<'_>, order: &Order) -> bool {
    startable(ctx, order).next().is_some()
}

/// Compensations that are due and whose later steps are all compensated.
fn startable<'a>(ctx: &'a Context<'_>, order: &'a Order) -> impl Iterator<Item = StepIndex> + 'a {
    let open = |i: StepIndex| order.steps[i].state.to_compensate().is_some();
    (0..order.steps.len()).rev().filter(move |&i| {
        is_due(&order.steps[i].state)
            && !(i + 1..order.steps.len()).any(|j| open(j) && ctx.workflow.is_after(j, i))
    })
}

fn is_due(state: &StepState) -> bool {
    matches!(
        state,
        StepState::Compensating {
            work: Work::Due { .. },
            ..
        }
    )
}

/// Starts a compensation, or gives it up if its input has no value or its calls are used up.
fn start(
    ctx: &Context<'_>,
    order: &mut Draft,
    index: StepIndex,
    now: Timestamp,
) -> Result<(), NeedsDetails> {
    if ctx.workflow.steps[index].run().is_some() {
        let last = order.steps[index]
            .state
            .work()
            .map_or(Attempt(0), Work::attempt);
        return children::compensate(ctx, order, index, last, now);
    }
    let input = input::compensation(ctx, order, index)?;
    let record = &mut order.steps[index];
    let StepState::Compensating {
        work: Work::Due {
            last,
            deferred_since,
        },
        applied,
    } = record.state.clone()
    else {
        return Ok(());
    };
    let step = &ctx.workflow.steps[index];
    let left = budget::allowance(step, record, Direction::Compensate);
    let (Ok(input), Some(declared), 1..) = (&input, declared(step, Direction::Compensate), left)
    else {
        let failure = match input {
            Err(e) => Failure::new(FailureKind::Definition, "expression", &e.to_string()),
            Ok(_) => Failure::calls_used_up(),
        };
        record.error = Some(failure.in_step(&record.step));
        record.state = StepState::NotCompensated {
            attempt: last,
            applied,
        };
        return Ok(());
    };
    record.state = StepState::Compensating {
        work: Work::Out(Out {
            direction: Direction::Compensate,
            attempt: last.next(),
            started: now,
            complete_by: ctx.timing.complete_by(declared.attempt_timeout, now),
            deferred_since,
            unheard_since: None,
        }),
        applied,
    };
    order.request(ctx, index, Direction::Compensate, input.clone());
    Ok(())
}

/// Sets the order's complete-by, or finishes the order as Compensated or CompensationFailed.
///
/// Call it only when no compensation can be started.
pub(super) fn wait_or_finish(order: &mut Order, now: Timestamp) {
    let active = |s: &StepRecord| matches!(s.state, StepState::Compensating { .. });
    if order.steps.iter().any(|s| active(s) && !is_due(&s.state)) {
        set_complete_by(order, now);
        return;
    }
    let stuck = order
        .steps
        .iter()
        .find(|s| matches!(s.state, StepState::NotCompensated { .. }));
    match stuck {
        None => finish(order, now),
        Some(record) => {
            let known = record.error.clone();
            let cause = known.unwrap_or_else(|| doubt::failure(record));
            fail(order, cause, now);
        }
    }
}

fn finish(order: &mut Order, now: Timestamp) {
    let Some(cause) = order.state.cause().cloned() else {
        return;
    };
    push_status(order, Status::Compensated, Some(&cause), now);
    children::tell_no_effect(order, &cause);
    order.state = ProcessState::Compensated { at: now, cause };
}

/// Ends the compensation as failed: an operator must decide.
fn fail(order: &mut Order, cause: Failure, now: Timestamp) {
    push_status(order, Status::CompensationFailed, Some(&cause), now);
    order.outbox.entries.push(Emission::Alert {
        kind: AlertKind::CompensationFailed,
        at: now,
        cause: cause.clone(),
    });
    order.state = ProcessState::CompensationFailed {
        at: now,
        cause,
        compensated_for: order.state.cause().cloned(),
    };
}
