//! Child orders: a step starts orders of another workflow, takes their ends, and has them compensated.
//!
//! The step is parked while they are under way, and nothing is counted. They are started and compensated in waves: when
//! one ends, the next one begins. Both messages to a child order have its id as their key, so that the one that has it
//! compensated cannot overtake the one that starts it. Each may come again: a child order answers as it did before. So from
//! time to time the step asks once more, and no message that is lost holds an order up for good.

use std::collections::BTreeMap;

use serde_json::Value;
use triad_workflow::check::MAX_INSTANCES;
use triad_workflow::{EvalError, Run, StepIndex};

use super::{
    Decision, Draft, Reason, Taken, give_up, next_position, next_version, push_step_completed,
    race, stop, transition, undefined,
};
use crate::children::{
    ASK_AGAIN, Child, ChildEnd, ChildEnded, ChildState, Children, MAX_DEPTH, MAX_JOINED_BYTES,
    Parent, output,
};
use crate::context::{Context, NeedsDetails};
use crate::failure::{Failure, FailureKind};
use crate::ids::{Attempt, Timestamp};
use crate::input;
use crate::message::MAX_OUTPUT_BYTES;
use crate::order::{Incident, IncidentKind, Order, ProcessState};
use crate::outbox::{Emission, Writer};
use crate::output::Output;
use crate::step::{StepRecord, StepState, Work};

/// Starts the child orders of a step, as the wait after `last`, or goes on with them: asks again for those whose end has
/// not come, and starts those anew that have failed. False if the step was given up.
pub(super) fn start(
    ctx: &Context<'_>,
    order: &mut Draft,
    index: StepIndex,
    last: Attempt,
    now: Timestamp,
) -> Result<bool, NeedsDetails> {
    let Some(run) = ctx.workflow.steps[index].run() else {
        return Ok(true);
    };
    if depth(order) >= MAX_DEPTH {
        let text = format!("{MAX_DEPTH} orders are above this one: no more are allowed");
        let failure = Failure::new(FailureKind::Definition, "too-deep", &text);
        fail(ctx, order, index, failure, now)?;
        return Ok(false);
    }
    let count = match count(ctx, order, run)? {
        Ok(count) => count,
        Err(error) => {
            undefined(ctx, order, index, &error, now)?;
            return Ok(false);
        }
    };
    let record = &mut order.steps[index];
    let children = again(record.children.take(), run, count, now);
    park(record, children, last.next(), now);
    go_on(ctx, order, index, true, now)
}

/// The child orders of a step that begins, goes on or is done again. Those that are under way or Processed stay, and so do
/// failures that the step tolerates. Every other one is another order than before, and does the step's work in its first
/// way.
fn again(known: Option<Children>, run: &Run, count: usize, now: Timestamp) -> Children {
    let Some(known) = known else {
        let first = Child {
            state: ChildState::Waiting,
            attempt: 0,
        };
        return Children {
            since: now,
            newest: 0,
            is_list: is_list(run),
            way: 0,
            asks_again: None,
            all: vec![first; count],
        };
    };
    let since = match known.count(is_running) {
        0 => now,
        _ => known.since,
    };
    let next = Child {
        state: ChildState::Waiting,
        attempt: known.newest + 1,
    };
    let mut all = known.all;
    // Of a list that has become shorter, what has an effect stays known.
    let last = all.iter().rposition(|child| child.state.may_have_effect());
    all.resize(count.max(last.map_or(0, |last| last + 1)), next.clone());
    let failed = all.iter().filter(|child| child.state == ChildState::Failed);
    let is_tolerated = failed.count() <= run.tolerated();
    let was_compensated = |child: &Child| {
        matches!(
            child.state,
            ChildState::Compensating { .. } | ChildState::Compensated | ChildState::Kept
        )
    };
    let goes_on = is_tolerated && !all.iter().any(was_compensated);
    for child in &mut all {
        if was_compensated(child) || child.state == ChildState::Failed && !goes_on {
            *child = next.clone();
        }
    }
    let newest = all.iter().map(|child| child.attempt).max();
    Children {
        since,
        newest: newest.unwrap_or(0).max(known.newest),
        is_list: is_list(run),
        way: if goes_on { known.way } else { 0 },
        asks_again: None,
        all,
    }
}

/// Parks a step until its child orders end, or it asks again.
fn park(record: &mut StepRecord, children: Children, attempt: Attempt, now: Timestamp) {
    let since = children.since;
    let parked = Work::Parked {
        attempt,
        since,
        until: now.plus(now.since(since).max(ASK_AGAIN)),
        ends: None,
        events: Vec::new(),
        keys: BTreeMap::new(),
    };
    record.children = Some(children);
    match &mut record.state {
        StepState::Compensating { work, .. } => *work = parked,
        state => *state = StepState::Acting(parked),
    }
}

/// Starts the next child orders, and asks again for those under way if `asks_again`; completes the step when none is
/// left. False if the step was given up.
fn go_on(
    ctx: &Context<'_>,
    order: &mut Draft,
    index: StepIndex,
    asks_again: bool,
    now: Timestamp,
) -> Result<bool, NeedsDetails> {
    let (Some(run), Some(children)) = (
        ctx.workflow.steps[index].run(),
        &mut order.steps[index].children,
    ) else {
        return Ok(true);
    };
    if run.is_race && children.count(|is| matches!(is, ChildState::Processed(_))) > 0 {
        complete(ctx, order, index, run, now)?;
        return Ok(true);
    }
    let mut all: Vec<_> = (0..).zip(&mut children.all).collect();
    let numbers = next(&mut all, run.at_once(), asks_again, is_running, |state| {
        (*state == ChildState::Waiting).then_some(ChildState::Running)
    });
    if children.count(is_running) == 0 {
        complete(ctx, order, index, run, now)?;
        return Ok(true);
    }
    if let Err(error) = order.ask_children(ctx, index, numbers)? {
        if asks_again {
            // A wait that begins and ends in this write is in no record, and so it has no number.
            release(&mut order.steps[index]);
        }
        undefined(ctx, order, index, &error, now)?;
        return Ok(false);
    }
    Ok(true)
}

/// Puts as many more child orders under way as may be at once, in this order. Returns those that are to be asked: the new
/// ones and, if `asks_again`, those that were under way before.
fn next(
    all: &mut [(u32, &mut Child)],
    at_once: usize,
    asks_again: bool,
    is_under_way: impl Fn(&ChildState) -> bool,
    goes_to: impl Fn(&ChildState) -> Option<ChildState>,
) -> Vec<u32> {
    let under_way = all.iter().filter(|(_, child)| is_under_way(&child.state));
    let mut room = at_once.saturating_sub(under_way.count());
    let mut asked = Vec::new();
    for (number, child) in all {
        if is_under_way(&child.state) {
            asked.extend(asks_again.then_some(*number));
        } else if let Some(state) = goes_to(&child.state).filter(|_| room > 0) {
            child.state = state;
            room -= 1;
            asked.push(*number);
        }
    }
    asked
}

/// What all child orders bring: of one, or the first of several ways, what it brings; of a list, a list in their order,
/// with null for one that has failed, and for what goes beyond [`MAX_JOINED_BYTES`].
fn join(run: &Run, children: &Children) -> Result<Value, NeedsDetails> {
    if run.each.is_none() {
        let value = children.outputs().next().map(|output| output.value());
        return value.map_or(Ok(Value::Null), |value| value.cloned().ok_or(NeedsDetails));
    }
    let mut room = MAX_JOINED_BYTES;
    let mut list = Vec::with_capacity(children.all.len());
    for child in &children.all {
        let value = match &child.state {
            ChildState::Processed(output) => output.value().ok_or(NeedsDetails)?,
            _ => &Value::Null,
        };
        let size = value.to_string().len() + 1;
        list.push(match size <= room {
            true => value.clone(),
            false => Value::Null,
        });
        room = room.saturating_sub(size);
    }
    Ok(Value::Array(list))
}

/// Completes a parked step. The ways to do its work that are not the first to have succeeded are let go in the same write.
fn complete(
    ctx: &Context<'_>,
    order: &mut Draft,
    index: StepIndex,
    run: &Run,
    now: Timestamp,
) -> Result<(), NeedsDetails> {
    let position = next_position(order);
    let record = &mut order.steps[index];
    let (Some(Work::Parked { attempt, since, .. }), Some(children)) =
        (record.state.work().cloned(), &mut record.children)
    else {
        return Ok(());
    };
    let joined = join(run, children)?;
    let let_go = if run.is_race {
        race::let_go(children)
    } else {
        Vec::new()
    };
    children.since = now;
    for child in &mut children.all {
        if let ChildState::Processed(output) = &mut child.state {
            *output = Output::inline(Value::Null);
        }
    }
    record.state = StepState::Completed {
        attempt,
        started: Some(since),
        finished: now,
        position,
        output: joined.into(),
    };
    race::ask_compensated(ctx, order, index, let_go, now)?;
    push_step_completed(ctx, order, index, now);
    Ok(())
}

/// Gives a step up one of whose child orders has failed, or that may start none.
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
    let parked = match record.state.work() {
        Some(&Work::Parked { attempt, since, .. }) => Some((attempt, since)),
        _ => None,
    };
    if let Some((attempt, _)) = parked {
        record.state = StepState::due(attempt);
    }
    order.note(Incident {
        attempt: parked.map(|(attempt, _)| attempt),
        started: parked.map(|(_, since)| since),
        ..Incident::new(IncidentKind::AttemptFailed, now).of(&failure)
    });
    give_up(ctx, order, index, failure, now)
}

/// How many child orders a step runs, or why that is not known.
fn count(
    ctx: &Context<'_>,
    order: &Order,
    run: &Run,
) -> Result<Result<usize, EvalError>, NeedsDetails> {
    let Some(each) = &run.each else {
        return Ok(Ok(run.at_once()));
    };
    let wrong = |reason: String| {
        let expressions = each.list.expressions();
        Err(EvalError {
            source_text: expressions
                .first()
                .map_or("for_each", |e| e.source())
                .to_owned(),
            reason,
        })
    };
    Ok(match input::list(ctx, order, each)? {
        Err(error) => Err(error),
        Ok(Value::Array(items)) if items.len() > MAX_INSTANCES => wrong(format!(
            "the list has {} elements; {MAX_INSTANCES} are allowed",
            items.len()
        )),
        Ok(Value::Array(items)) => Ok(items.len()),
        Ok(_) => wrong("it is no list".to_owned()),
    })
}

fn depth(order: &Order) -> u32 {
    order.parent.as_ref().map_or(0, |parent| parent.depth)
}

fn is_running(state: &ChildState) -> bool {
    *state == ChildState::Running
}

/// Takes the end of a child order.
pub(super) fn ended(
    ctx: &Context<'_>,
    order: &Order,
    ended: &ChildEnded,
    now: Timestamp,
) -> Result<Taken, NeedsDetails> {
    let Some((index, number)) = place(ctx, order, &ended.parent) else {
        return Ok(Taken::InVain(Reason::NotAwaited));
    };
    let mut next = next_version(order, Writer::Scheduler);
    let record = &mut next.steps[index];
    let is_out = matches!(
        record.state.work(),
        Some(Work::Parked { .. } | Work::Due { .. })
    );
    let is_compensating = matches!(record.state, StepState::Compensating { .. });
    let is_let_go = record.lets_go();
    let Some(child) = record
        .children
        .as_mut()
        .and_then(|c| c.all.get_mut(number))
        .filter(|_| is_out || is_let_go)
    else {
        return Ok(Taken::InVain(Reason::Repeated));
    };
    let (state, cause) = match (&child.state, &ended.end) {
        (ChildState::Running, ChildEnd::Processed { output: value }) if !is_compensating => {
            (ChildState::Processed(output(value.clone())), None)
        }
        (ChildState::Running, ChildEnd::NoEffect { cause }) if !is_compensating => {
            (ChildState::Failed, Some(cause))
        }
        (ChildState::Running, ChildEnd::Kept { cause }) if !is_compensating => {
            // Nobody knows how it has ended: an operator has to find out.
            let failure = cause.clone().in_step(&record.step);
            record.error = Some(failure.clone());
            stop(&mut next, failure, now);
            return Ok(Taken::Changed(next));
        }
        (ChildState::Compensating { .. }, ChildEnd::NoEffect { .. }) => {
            (ChildState::Compensated, None)
        }
        (ChildState::Compensating { .. }, ChildEnd::Kept { cause }) => {
            (ChildState::Kept, Some(cause))
        }
        _ => return Ok(Taken::InVain(Reason::Repeated)),
    };
    child.state = state;
    let failure = cause.map(|cause| {
        let text = format!("order {}: {}", ended.child, cause.message);
        Failure::new(cause.kind, &cause.code, &text).in_step(&record.step)
    });
    if is_let_go {
        return Ok(race::let_go_ended(next, index, failure.as_ref(), now));
    }
    record.error = failure.clone().or(record.error.take());
    if is_compensating {
        return compensated_one(ctx, next, index, now);
    }
    if let (Some(failure), Some(run)) = (failure, ctx.workflow.steps[index].run())
        && !is_met(&mut next, index, run, &failure, now)
    {
        fail(ctx, &mut next, index, failure, now)?;
        return Ok(Taken::Changed(next));
    }
    let is_claimed = matches!(next.state, ProcessState::Processing(_));
    let record = &mut next.steps[index];
    let waits = record
        .children
        .as_ref()
        .map_or(0, |c| c.count(|is| *is == ChildState::Waiting));
    if !is_claimed && waits > 0 {
        // The next claim starts them.
        release(record);
        return Ok(Taken::WaitIsOver(next));
    }
    if !go_on(ctx, &mut next, index, false, now)? {
        return Ok(Taken::Changed(next));
    }
    Ok(match next.steps[index].state.is_done() {
        true => Taken::WaitIsOver(next),
        false => Taken::Changed(next),
    })
}

/// Whether the step goes on after the failure of a child order: it tolerates the failure, or there is another way to do
/// its work, which is then to be started.
fn is_met(
    order: &mut Draft,
    index: StepIndex,
    run: &Run,
    failure: &Failure,
    now: Timestamp,
) -> bool {
    let record = &mut order.steps[index];
    let Some(children) = &mut record.children else {
        return false;
    };
    if children.count(|is| *is == ChildState::Failed) <= run.tolerated() {
        if run.is_race {
            order.note(Incident::new(IncidentKind::AttemptFailed, now).of(failure));
        }
        return true;
    }
    if !run.has_way_after(children.way, &failure.code) {
        return false;
    }
    children.take_next_way();
    order.note(Incident::new(IncidentKind::AttemptFailed, now).of(failure));
    true
}

/// Whether the child orders of a step have numbers in their ids.
fn is_list(run: &Run) -> bool {
    run.each.is_some() || run.is_race
}

/// Makes the work of a parked step due, so that the next claim goes on with it, as the same wait; or has it ask the ways
/// again that a completed step has let go.
pub(super) fn release(record: &mut StepRecord) {
    if record.lets_go()
        && let Some(children) = &mut record.children
    {
        children.asks_again = None;
    }
    if let Some(work) = record.state.work_mut()
        && let Work::Parked { attempt, .. } = work
    {
        *work = Work::due(Attempt(attempt.0.saturating_sub(1)));
    }
}

/// The step and the number of a child order that the order has started; `None` if another order has been started in its
/// place since, or none was.
fn place(ctx: &Context<'_>, order: &Order, parent: &Parent) -> Option<(StepIndex, usize)> {
    let index = ctx.workflow.step_index(parent.step.as_str())?;
    let number = usize::try_from(parent.number).ok()?;
    let children = order.steps.get(index)?.children.as_ref()?;
    let child = children.all.get(number)?;
    (child.attempt == parent.attempt).then_some((index, number))
}

/// Has the child orders of a step compensated, in the reverse order, as the attempt after `last`; completes its
/// compensation when none is left.
pub(super) fn compensate(
    ctx: &Context<'_>,
    order: &mut Draft,
    index: StepIndex,
    last: Attempt,
    now: Timestamp,
) -> Result<(), NeedsDetails> {
    let record = &mut order.steps[index];
    let mut children = record.children.take().unwrap_or(Children {
        since: now,
        newest: 0,
        is_list: false,
        way: 0,
        asks_again: None,
        all: Vec::new(),
    });
    let is_new = children.count(ChildState::is_compensating) == 0;
    if is_new {
        children.since = now;
    }
    park(record, children, last.next(), now);
    compensate_next(ctx, order, index, true, now)
}

fn compensate_next(
    ctx: &Context<'_>,
    order: &mut Draft,
    index: StepIndex,
    asks_again: bool,
    now: Timestamp,
) -> Result<(), NeedsDetails> {
    let at_once = ctx.workflow.steps[index].run().map_or(1, Run::at_once);
    let record = &mut order.steps[index];
    let Some(children) = &mut record.children else {
        return Ok(());
    };
    // Another try at a compensation asks those again that could not be compensated before.
    let mut all: Vec<_> = (0..).zip(&mut children.all).collect();
    all.reverse();
    let is_compensating = ChildState::is_compensating;
    let numbers = next(&mut all, at_once, asks_again, is_compensating, |state| {
        let was_processed = match state {
            ChildState::Running => false,
            ChildState::Processed(_) => true,
            ChildState::Kept if asks_again => true,
            _ => return None,
        };
        Some(ChildState::Compensating { was_processed })
    });
    if children.count(ChildState::is_compensating) == 0 {
        let is_kept = children.count(|is| *is == ChildState::Kept) > 0;
        ended_compensating(order, index, is_kept, now);
        return Ok(());
    }
    // A message that has a child order compensated needs no details, so that there is always one.
    order.ask_children(ctx, index, numbers)?.unwrap_or(());
    Ok(())
}

/// Ends the compensation of a step; an operator is needed if a child order cannot be compensated.
fn ended_compensating(order: &mut Draft, index: StepIndex, is_kept: bool, now: Timestamp) {
    let record = &mut order.steps[index];
    let StepState::Compensating {
        work: Work::Parked { attempt, since, .. },
        applied,
    } = record.state.clone()
    else {
        return;
    };
    if !is_kept {
        record.state = StepState::Compensated {
            applied,
            attempt,
            started: Some(since),
            finished: now,
        };
        return;
    }
    record.state = StepState::NotCompensated { attempt, applied };
    let failure = record.error.clone();
    let line = Incident {
        attempt: Some(attempt),
        started: Some(since),
        ..Incident::new(IncidentKind::CompensationFailed, now)
    };
    order.note(match failure {
        Some(failure) => line.of(&failure),
        None => line,
    });
}

/// One child order less to compensate.
fn compensated_one(
    ctx: &Context<'_>,
    mut next: Draft,
    index: StepIndex,
    now: Timestamp,
) -> Result<Taken, NeedsDetails> {
    let has_begun = matches!(next.steps[index].state.work(), Some(Work::Parked { .. }));
    if next.state.locked_by().is_none() {
        // The next claim goes on.
        release(&mut next.steps[index]);
    } else if has_begun {
        // Before its turn only ways are compensated that were let go.
        compensate_next(ctx, &mut next, index, false, now)?;
    }
    Ok(Taken::Compensating(next))
}

/// Tells the parent of a finished order once more how the order has ended: it has asked for it.
pub(super) fn tell(
    ctx: &Context<'_>,
    order: &Order,
    now: Timestamp,
) -> Result<Decision, NeedsDetails> {
    let mut next = next_version(order, Writer::Scheduler);
    end(ctx, &mut next)?;
    let tells = |entry: &Emission| matches!(entry, Emission::Ended { .. });
    Ok(match next.outbox.entries.iter().any(tells) {
        true => transition(ctx, next, now),
        false => Decision::Ignore(Reason::Finished),
    })
}

/// Adds the message to the parent of an order that has ended; no-op if the order has no parent, or needs an operator
/// first.
pub(super) fn end(ctx: &Context<'_>, order: &mut Draft) -> Result<(), NeedsDetails> {
    if order.parent.is_none() {
        return Ok(());
    }
    let end = match &order.state {
        ProcessState::Processed { .. } => ChildEnd::Processed {
            output: brings(ctx, order)?,
        },
        ProcessState::Compensated { cause, .. } => ChildEnd::NoEffect {
            cause: cause.clone(),
        },
        ProcessState::Error { cause, .. } | ProcessState::CompensationFailed { cause, .. }
            if order.closed.is_some() =>
        {
            ChildEnd::NoEffect {
                cause: cause.clone(),
            }
        }
        _ => return Ok(()),
    };
    put(order, end);
    Ok(())
}

/// Adds the message to the parent, in the place of one that is unsent.
pub(super) fn put(order: &mut Order, end: ChildEnd) {
    let entries = &mut order.outbox.entries;
    entries.retain(|entry| !matches!(entry, Emission::Ended { .. }));
    entries.push(Emission::Ended { end });
}

/// Tells the parent of an order that it has no effect; no-op if it has no parent.
pub(super) fn tell_no_effect(order: &mut Order, cause: &Failure) {
    if order.parent.is_some() {
        let cause = cause.clone();
        put(order, ChildEnd::NoEffect { cause });
    }
}

/// What a Processed order brings to its parent. What is too large, or has no value, is null: the work is done, and is
/// not compensated for the shape of what it brings.
fn brings(ctx: &Context<'_>, order: &Order) -> Result<Value, NeedsDetails> {
    let value = match &ctx.workflow.output {
        Some(template) => input::brings(ctx, order, template)?.unwrap_or_default(),
        None => {
            let last = ctx.workflow.definition.steps.last();
            let last = last.and_then(|last| ctx.workflow.step_index(&last.id));
            let output = last.and_then(|index| order.steps[index].state.output());
            match output {
                Some(output) => output.value().ok_or(NeedsDetails)?.clone(),
                None => Value::Null,
            }
        }
    };
    Ok(match value.to_string().len() <= MAX_OUTPUT_BYTES {
        true => value,
        false => Value::Null,
    })
}
