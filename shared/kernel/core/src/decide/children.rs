//! Child orders: a step starts orders of another workflow, takes their ends, and has them compensated.
//!
//! The step is parked while they are under way, and nothing is counted. They are started and compensated in waves: when
//! one ends, the next one begins. A message to a child order goes the way of every submission, so that an order that is
//! to be compensated cannot overtake the one that starts it; and it may come again: what is known already is told again.
//! So from time to time the step asks once more, and no message that is lost holds an order up for good.

use serde_json::Value;
use triad_workflow::check::MAX_INSTANCES;
use triad_workflow::{EvalError, Millis, Run, StepIndex};

use super::{
    Decision, Draft, Halt, Reason, Taken, compensate, give_up, next_position, next_version,
    operate, push_step_completed, transition, undefined,
};
use crate::children::{
    Child, ChildEnd, ChildEnded, ChildState, Children, MAX_DEPTH, MAX_JOINED_BYTES, Parent, output,
};
use crate::context::{Context, NeedsDetails};
use crate::failure::{Failure, FailureKind};
use crate::ids::{Attempt, Timestamp};
use crate::input;
use crate::message::MAX_OUTPUT_BYTES;
use crate::order::{Incident, IncidentKind, OperatorAct, Order, ProcessState};
use crate::outbox::{Emission, Writer};
use crate::output::Output;
use crate::step::{StepRecord, StepState, Work};

/// Shortest time until a step asks again for child orders whose end has not come. It doubles with each time.
const ASK_AGAIN: Millis = Millis(60_000);

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
    let is_new = record
        .children
        .as_ref()
        .is_none_or(|c| c.count(is_running) == 0);
    let children = again(record.children.take(), run, count, now);
    park(
        record,
        children,
        if is_new { last.next() } else { last },
        now,
    );
    go_on(ctx, order, index, true, now)
}

/// The child orders of a step that begins or is done again. Those that are under way or Processed stay; every other one
/// is another order than before.
fn again(known: Option<Children>, run: &Run, count: usize, now: Timestamp) -> Children {
    let since = known
        .as_ref()
        .filter(|c| c.count(is_running) > 0)
        .map(|c| c.since);
    let mut all = known.map(|known| known.all).unwrap_or_default();
    let newest = all.iter().map(|child| child.attempt + 1).max().unwrap_or(0);
    // Of a list that has become shorter, what was started stays known.
    let known = all.iter().rposition(|child| child.state.may_have_effect());
    all.resize_with(count.max(known.map_or(0, |last| last + 1)), || Child {
        state: ChildState::Waiting,
        attempt: newest,
    });
    for child in &mut all {
        match child.state {
            ChildState::Waiting | ChildState::Running | ChildState::Processed(_) => {}
            ChildState::Failed
            | ChildState::Compensating
            | ChildState::Compensated
            | ChildState::Kept => {
                child.state = ChildState::Waiting;
                child.attempt += 1;
            }
        }
    }
    Children {
        since: since.unwrap_or(now),
        is_list: run.each.is_some(),
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
        events: Vec::new(),
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
    let at_once = run.each.as_ref().map_or(1, |each| each.at_once as usize);
    let numbers = next(
        children,
        at_once,
        asks_again,
        &ChildState::Running,
        |state| *state == ChildState::Waiting,
    );
    if children.count(is_running) == 0 {
        let joined = join(run, children)?;
        complete(ctx, order, index, joined, now);
        return Ok(true);
    }
    if let Err(error) = order.ask_children(ctx, index, numbers)? {
        undefined(ctx, order, index, &error, now)?;
        return Ok(false);
    }
    Ok(true)
}

/// Puts as many more child orders into a state as may be in it at once. Returns those that are to be asked: the new ones
/// and, if `asks_again`, those that were in it before.
fn next(
    children: &mut Children,
    at_once: usize,
    asks_again: bool,
    state: &ChildState,
    is_ready: impl Fn(&ChildState) -> bool,
) -> Vec<u32> {
    let mut room = at_once.saturating_sub(children.count(|is| is == state));
    let mut asked = Vec::new();
    let is_reversed = *state == ChildState::Compensating;
    let mut numbered: Vec<_> = (0..).zip(&mut children.all).collect();
    if is_reversed {
        numbered.reverse();
    }
    for (number, child) in numbered {
        if child.state == *state {
            asked.extend(asks_again.then_some(number));
        } else if room > 0 && is_ready(&child.state) {
            child.state = state.clone();
            room -= 1;
            asked.push(number);
        }
    }
    asked
}

/// What all child orders bring: of one, what it brings; of several, a list in their order, with null for one that has
/// failed, and for what goes beyond [`MAX_JOINED_BYTES`].
fn join(run: &Run, children: &Children) -> Result<Value, NeedsDetails> {
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
    Ok(match run.each {
        Some(_) => Value::Array(list),
        None => list.pop().unwrap_or_default(),
    })
}

fn complete(ctx: &Context<'_>, order: &mut Draft, index: StepIndex, joined: Value, now: Timestamp) {
    let position = next_position(order);
    let record = &mut order.steps[index];
    let (Some(Work::Parked { attempt, since, .. }), Some(children)) =
        (record.state.work().cloned(), &mut record.children)
    else {
        return;
    };
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
    push_step_completed(ctx, order, index, now);
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
        return Ok(Ok(1));
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
    let (index, number) = match place(ctx, order, &ended.parent) {
        Ok(place) => place,
        Err(reason) => return Ok(Taken::InVain(reason)),
    };
    let mut next = next_version(order, Writer::Scheduler);
    let record = &mut next.steps[index];
    let is_out = matches!(
        record.state.work(),
        Some(Work::Parked { .. } | Work::Due { .. })
    );
    let is_compensating = matches!(record.state, StepState::Compensating { .. });
    let Some(child) = record
        .children
        .as_mut()
        .and_then(|c| c.all.get_mut(number))
        .filter(|_| is_out)
    else {
        return Ok(Taken::InVain(Reason::Repeated));
    };
    let (state, cause) = match (&child.state, &ended.end) {
        (ChildState::Running, ChildEnd::Processed { output: value }) if !is_compensating => {
            (ChildState::Processed(output(value.clone())), None)
        }
        (ChildState::Running, ChildEnd::Undone { cause }) if !is_compensating => {
            (ChildState::Failed, Some(cause))
        }
        (ChildState::Compensating, ChildEnd::Undone { .. }) => (ChildState::Compensated, None),
        (ChildState::Compensating, ChildEnd::Kept { cause }) => (ChildState::Kept, Some(cause)),
        _ => return Ok(Taken::InVain(Reason::Repeated)),
    };
    child.state = state;
    let failure = cause.map(|cause| {
        let text = format!("order {}: {}", ended.child, cause.message);
        Failure::new(cause.kind, &cause.code, &text).in_step(&record.step)
    });
    record.error = failure.clone().or(record.error.take());
    if is_compensating {
        return compensated_one(ctx, next, index, now);
    }
    let failed = record
        .children
        .as_ref()
        .map_or(0, |c| c.count(|is| *is == ChildState::Failed));
    let each = ctx.workflow.steps[index]
        .run()
        .and_then(|run| run.each.as_ref());
    let tolerated = each.map_or(0, |each| each.tolerate as usize);
    if let Some(failure) = failure.filter(|_| failed > tolerated) {
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

/// Makes the work of a parked step due, so that the next claim goes on with it.
fn release(record: &mut StepRecord) {
    if let Some(work) = record.state.work_mut() {
        *work = Work::due(work.attempt());
    }
}

/// The step and the number of a child order that the order has started.
///
/// # Errors
/// [`Reason::Repeated`] if another order has been started in its place since, [`Reason::WrongToken`] if none was.
fn place(ctx: &Context<'_>, order: &Order, parent: &Parent) -> Result<(StepIndex, usize), Reason> {
    let index = ctx.workflow.step_index(parent.step.as_str());
    let record = index.and_then(|index| order.steps.get(index));
    let number = usize::try_from(parent.number).unwrap_or(usize::MAX);
    let children = record.and_then(|record| record.children.as_ref());
    let child = children.and_then(|children| children.all.get(number));
    let (Some(index), Some(record), Some(child)) = (index, record, child) else {
        return Err(Reason::WrongToken);
    };
    match &record.callback {
        // The step is done again, and the order has not been claimed since.
        None => Err(Reason::Repeated),
        Some(_) if parent.attempt < child.attempt => Err(Reason::Repeated),
        Some(token) if token.is(parent.token.as_str()) && parent.attempt == child.attempt => {
            Ok((index, number))
        }
        Some(_) => Err(Reason::WrongToken),
    }
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
        is_list: false,
        all: Vec::new(),
    });
    let is_new = children.count(|is| *is == ChildState::Compensating) == 0;
    if is_new {
        children.since = now;
    }
    park(
        record,
        children,
        if is_new { last.next() } else { last },
        now,
    );
    compensate_next(ctx, order, index, true, now)
}

fn compensate_next(
    ctx: &Context<'_>,
    order: &mut Draft,
    index: StepIndex,
    asks_again: bool,
    now: Timestamp,
) -> Result<(), NeedsDetails> {
    let at_once = ctx.workflow.steps[index]
        .run()
        .and_then(|run| run.each.as_ref());
    let at_once = at_once.map_or(1, |each| each.at_once as usize);
    let record = &mut order.steps[index];
    let Some(children) = &mut record.children else {
        return Ok(());
    };
    // Another try at a compensation asks those again that could not be compensated before.
    let numbers = next(
        children,
        at_once,
        asks_again,
        &ChildState::Compensating,
        |state| match state {
            ChildState::Running | ChildState::Processed(_) => true,
            ChildState::Kept => asks_again,
            _ => false,
        },
    );
    if children.count(|is| *is == ChildState::Compensating) == 0 {
        let is_kept = children.count(|is| *is == ChildState::Kept) > 0;
        let StepState::Compensating { work, applied } = record.state.clone() else {
            return Ok(());
        };
        let (attempt, since) = match work {
            Work::Parked { attempt, since, .. } => (attempt, Some(since)),
            other => (other.attempt(), None),
        };
        record.state = match is_kept {
            true => StepState::NotCompensated { attempt, applied },
            false => StepState::Compensated {
                applied,
                attempt,
                started: since,
                finished: now,
            },
        };
        return Ok(());
    }
    // A message that has a child order compensated needs no details, so that there is always one.
    order.ask_children(ctx, index, numbers)?.unwrap_or(());
    Ok(())
}

/// One child order less to compensate.
fn compensated_one(
    ctx: &Context<'_>,
    mut next: Draft,
    index: StepIndex,
    now: Timestamp,
) -> Result<Taken, NeedsDetails> {
    if next.state.locked_by().is_some() {
        compensate_next(ctx, &mut next, index, false, now)?;
    } else {
        // The next claim goes on.
        release(&mut next.steps[index]);
    }
    compensate::advance(ctx, &mut next, now)?;
    Ok(Taken::Compensated(next))
}

/// Decides that a child order is compensated, because its parent is. It tells its parent what has become of it.
pub(super) fn undo(
    ctx: &Context<'_>,
    order: &Order,
    parent: &Parent,
    now: Timestamp,
) -> Result<Decision, Halt> {
    if !order.parent.as_ref().is_some_and(|own| own.is_same(parent)) {
        return Ok(Decision::Ignore(Reason::WrongToken));
    }
    let act = OperatorAct::new(
        "triad",
        &format!("its parent order {} is compensated", parent.order_id),
    );
    match &order.state {
        ProcessState::Compensating { .. } => return Ok(Decision::Ignore(Reason::Repeated)),
        ProcessState::Compensated { .. } => return Ok(tell(ctx, order, now)?),
        ProcessState::CompensationFailed { .. } if order.closed.is_some() => {
            return Ok(tell(ctx, order, now)?);
        }
        ProcessState::CompensationFailed { .. } => return Ok(Decision::Ignore(Reason::Finished)),
        _ => {}
    }
    match operate::undo(ctx, order, &act, now) {
        Ok(next) => Ok(transition(ctx, next, now)),
        Err(Halt::Refused(why)) => {
            let mut next = next_version(order, Writer::Scheduler);
            let cause = Failure::new(
                FailureKind::Permanent,
                "past-point-of-no-return",
                &why.to_string(),
            );
            put(&mut next, ChildEnd::Kept { cause });
            Ok(transition(ctx, next, now))
        }
        Err(halt) => Err(halt),
    }
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
        ProcessState::Compensated { cause, .. } => ChildEnd::Undone {
            cause: cause.clone(),
        },
        ProcessState::Error { cause, .. } | ProcessState::CompensationFailed { cause, .. }
            if order.closed.is_some() =>
        {
            ChildEnd::Undone {
                cause: cause.clone(),
            }
        }
        _ => return Ok(()),
    };
    put(order, end);
    Ok(())
}

/// Adds the message to the parent, in the place of one that is unsent.
fn put(order: &mut Order, end: ChildEnd) {
    let entries = &mut order.outbox.entries;
    entries.retain(|entry| !matches!(entry, Emission::Ended { .. }));
    entries.push(Emission::Ended { end });
}

/// Tells the parent of an order that it has no effect; no-op if it has no parent.
pub(super) fn tell_undone(order: &mut Order, cause: &Failure) {
    if order.parent.is_some() {
        let cause = cause.clone();
        put(order, ChildEnd::Undone { cause });
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
