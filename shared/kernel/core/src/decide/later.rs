//! Work that a service has taken and finishes later: it is parked, asked for, called back about, and given up when its
//! time is over.
//!
//! The effect of such work is in doubt until its end is known. Nothing is counted while it goes on: neither the
//! questions nor their calls.

use std::collections::BTreeMap;

use triad_workflow::{FinishesLater, StepIndex, Workflow};

use super::answered::AnsweredRequest;
use super::{
    Draft, Reason, Taken, give_up, next_position, next_version_by_event, push_step_completed,
    undefined,
};
use crate::context::{Context, NeedsDetails};
use crate::doubt;
use crate::failure::{Failure, FailureKind};
use crate::history::{self, Deferral};
use crate::ids::{Attempt, Direction, Timestamp};
use crate::input;
use crate::later::{Callback, InProgress, Says};
use crate::message::Taking;
use crate::order::{Incident, IncidentKind, Order};
use crate::step::{Out, StepRecord, StepState, Work};

/// How a step's work is finished later; `None` if the step does not say that it may be.
fn declared<'a>(ctx: &'a Context<'_>, index: StepIndex) -> Option<&'a FinishesLater> {
    ctx.workflow.steps[index].call()?.finishes_later.as_deref()
}

/// Takes the answer that the service has taken the work, or is not done with it. False if the step does not say that
/// its work may be finished later.
pub(super) fn goes_on(
    ctx: &Context<'_>,
    order: &mut Draft,
    asked: AnsweredRequest,
    taking: &Taking,
    now: Timestamp,
) -> bool {
    let Some(later) = declared(ctx, asked.index) else {
        return false;
    };
    let record = &mut order.steps[asked.index];
    let (since, is_poll) = (asked.finished, asked.out.direction == Direction::Probe);
    let work = record.in_progress.get_or_insert_with(|| InProgress {
        since,
        until: since.plus(later.within),
        heard: since,
        asked: 0,
        output: taking.output.clone(),
        location: taking.location.clone(),
    });
    work.heard = work.heard.max(asked.finished);
    if is_poll {
        work.asked = work.asked.saturating_add(1);
        work.location = taking.location.clone().or(work.location.take());
    }
    park(later, record, asked.out.attempt, Some(taking), now);
    let wait = Deferral {
        attempt: asked.out.attempt,
        started: asked.out.started,
        direction: asked.out.direction,
        why: None,
        // One line for all questions, however often the service is asked.
        is_new: !is_poll,
    };
    history::record_deferral(order, asked.index, wait, now);
    true
}

/// Takes a failure of a question: it says nothing about the work, so the service is asked again at the next moment. False
/// if no work is in progress.
pub(super) fn asked_in_vain(
    ctx: &Context<'_>,
    order: &mut Draft,
    asked: AnsweredRequest,
    failure: &Failure,
    now: Timestamp,
) -> bool {
    let record = &mut order.steps[asked.index];
    let (Some(later), Some(work)) = (declared(ctx, asked.index), &mut record.in_progress) else {
        return false;
    };
    work.asked = work.asked.saturating_add(1);
    park(later, record, asked.out.attempt, None, now);
    let wait = Deferral {
        attempt: asked.out.attempt,
        started: asked.out.started,
        direction: asked.out.direction,
        why: Some(failure.clone()),
        is_new: false,
    };
    history::record_deferral(order, asked.index, wait, now);
    true
}

/// Parks the work until the service is to be asked, or its time or the time without a sign of life is over.
fn park(
    later: &FinishesLater,
    record: &mut StepRecord,
    attempt: Attempt,
    taking: Option<&Taking>,
    now: Timestamp,
) {
    let Some(work) = &record.in_progress else {
        return;
    };
    let asked_for = taking.and_then(|taking| taking.ask_after);
    let poll = later.poll.as_ref();
    let can_be_asked = poll.filter(|poll| poll.action.is_some() || work.location.is_some());
    let poll = can_be_asked.map(|poll| now.plus(poll.wait(work.asked, asked_for)));
    let silent = later.heartbeat.map(|span| work.heard.plus(span));
    let until = poll
        .into_iter()
        .chain(silent)
        .fold(work.until, Timestamp::min);
    record.state = StepState::Acting(Work::Parked {
        attempt,
        since: work.since,
        until: until.max(now),
        ends: None,
        events: Vec::new(),
        keys: BTreeMap::new(),
    });
}

/// Goes on with work in progress whose next moment has come, as the attempt after `last`: asks the service, or gives the
/// work up. False if the step was given up.
pub(super) fn go_on(
    ctx: &Context<'_>,
    order: &mut Draft,
    index: StepIndex,
    last: Attempt,
    now: Timestamp,
) -> Result<bool, NeedsDetails> {
    let record = &mut order.steps[index];
    let (Some(later), Some(work)) = (declared(ctx, index), record.in_progress.clone()) else {
        return Ok(true);
    };
    if now >= work.until {
        let text = format!(
            "the service has taken the work and not finished it in {}",
            later.within
        );
        let failure = Failure::new(FailureKind::TimedOut, "not-finished", &text);
        record.state = StepState::due(last);
        fail(ctx, order, index, failure, &Asked::before(last), now)?;
        return Ok(false);
    }
    if later
        .heartbeat
        .is_some_and(|span| now >= work.heard.plus(span))
    {
        let text = "the service has taken the work and gives no sign of life";
        let failure = Failure::new(FailureKind::TimedOut, "no-heartbeat", text);
        doubt::abandon(record);
        record.error = Some(failure.in_step(&record.step));
        record.state = StepState::Acting(Work::Failed {
            direction: Direction::Forward,
            attempt: last,
            started: work.since,
            calls: 0,
        });
        return Ok(true);
    }
    let poll = later.poll.as_ref();
    let Some(poll) = poll.filter(|poll| poll.action.is_some() || work.location.is_some()) else {
        park(later, record, last, None, now);
        return Ok(true);
    };
    let input = match input::poll(ctx, order, index)? {
        Ok(input) => input,
        Err(e) => {
            undefined(ctx, order, index, &e, now)?;
            return Ok(false);
        }
    };
    let record = &mut order.steps[index];
    record.state = StepState::Acting(Work::Out(Out {
        direction: Direction::Probe,
        attempt: last.next(),
        started: now,
        complete_by: ctx.timing.complete_by(poll.attempt_timeout, now),
        deferred_since: record.state.deferred_since(),
        unheard_since: None,
    }));
    order.request(ctx, index, Direction::Probe, input);
    Ok(true)
}

/// The last attempt at a step whose work ends without an answer to it.
struct Asked {
    attempt: Attempt,
    /// When its request was made; `None` if the timeline says that already.
    started: Option<Timestamp>,
    direction: Direction,
}

impl Asked {
    fn before(attempt: Attempt) -> Self {
        Self {
            attempt,
            started: None,
            direction: Direction::Forward,
        }
    }

    fn of(work: &Work) -> Self {
        let (started, direction) = match work {
            Work::Out(out) => (Some(out.started), out.direction),
            Work::Failed { direction, .. } => (None, *direction),
            _ => (None, Direction::Forward),
        };
        Self {
            attempt: work.attempt(),
            started,
            direction,
        }
    }
}

/// Gives a step up whose work has failed or has not been finished.
fn fail(
    ctx: &Context<'_>,
    order: &mut Draft,
    index: StepIndex,
    failure: Failure,
    asked: &Asked,
    now: Timestamp,
) -> Result<(), NeedsDetails> {
    let record = &mut order.steps[index];
    let failure = failure.in_step(&record.step);
    record.error = Some(failure.clone());
    record.action.failures += 1;
    let line = Incident {
        attempt: Some(asked.attempt),
        started: asked.started,
        ..Incident::new(IncidentKind::AttemptFailed, now).of(&failure)
    };
    order.note(line.in_direction(asked.direction));
    give_up(ctx, order, index, failure, now)
}

/// Decides on what a service says of work that it was asked for, of an order that runs. It may say so before its answer
/// to the call has come, or after that was lost.
pub(super) fn called_back(
    ctx: &Context<'_>,
    order: &Order,
    callback: &Callback,
    now: Timestamp,
) -> Result<Taken, NeedsDetails> {
    let index = match addressed(ctx.workflow, order, callback) {
        Ok(index) => index,
        Err(reason) => return Ok(Taken::InVain(reason)),
    };
    let (Some(later), Some(work)) = (declared(ctx, index), order.steps[index].state.work()) else {
        return Ok(Taken::InVain(Reason::TooLate));
    };
    let (attempt, work) = (work.attempt(), work.clone());
    let mut next = next_version_by_event(order);
    let record = &mut next.steps[index];
    let data = match &callback.says {
        Says::Ended(data) => data,
        Says::Alive => {
            let Some(in_progress) = &mut record.in_progress else {
                return Ok(Taken::InVain(Reason::Repeated));
            };
            in_progress.heard = in_progress.heard.max(now);
            // A question that is planned shows a sign of life as well, so its moment stays.
            if matches!(work, Work::Parked { .. }) && later.poll.is_none() {
                park(later, record, attempt, None, now);
            }
            return Ok(Taken::Changed(next));
        }
    };
    let asked = Asked::of(&work);
    if matches!(work, Work::Failed { .. }) {
        history::change(&mut next, index, now, |record| {
            record.state = StepState::due(attempt);
        });
    }
    doubt::lift(&mut next.steps[index]);
    let scope = match &later.fails_when {
        Some(condition) => Some(input::scope(ctx, &next, [condition], None)?.with("event", data)),
        None => None,
    };
    let condition = later.fails_when.as_ref().zip(scope.as_ref());
    let fails = condition.is_some_and(|(condition, scope)| condition.holds(scope).unwrap_or(false));
    if fails {
        let condition = condition.map_or("", |(condition, _)| condition.source());
        let text = format!("the service has called back, and `{condition}` holds");
        let failure = Failure::new(FailureKind::Permanent, "callback-fails", &text);
        let record = &mut next.steps[index];
        record.state = StepState::Refused { attempt };
        fail(ctx, &mut next, index, failure, &asked, now)?;
        return Ok(Taken::Changed(next));
    }
    let position = next_position(&next);
    next.steps[index].state = StepState::Completed {
        attempt,
        started: asked.started,
        finished: now,
        position,
        output: data.clone().into(),
    };
    push_step_completed(ctx, &mut next, index, now);
    Ok(Taken::WaitIsOver(next))
}

/// The step that a callback is about, if an order works on what its service was asked for.
///
/// # Errors
/// [`Reason::WrongToken`] if no step of that name has this token, [`Reason::Repeated`] if the step is completed,
/// [`Reason::TooLate`] if it is not worked on any more.
pub fn addressed(
    workflow: &Workflow,
    order: &Order,
    callback: &Callback,
) -> Result<StepIndex, Reason> {
    let index = workflow.step_index(&callback.step);
    let record = index.and_then(|index| order.steps.get(index));
    let token = record.and_then(|record| record.callback.as_ref());
    if !token.is_some_and(|token| token.is(&callback.token)) {
        return Err(Reason::WrongToken);
    }
    match (record.map(|record| &record.state), index) {
        (Some(StepState::Acting(_)), Some(index)) => Ok(index),
        (Some(StepState::Completed { .. }), _) => Err(Reason::Repeated),
        _ => Err(Reason::TooLate),
    }
}

/// Why a callback for an order that has finished, or is being compensated, changes nothing.
pub(super) fn too_late(ctx: &Context<'_>, order: &Order, callback: &Callback) -> Reason {
    let addressed = addressed(ctx.workflow, order, callback);
    addressed.err().unwrap_or(Reason::TooLate)
}
