//! The decision core: from an order and an event to the next version and its messages.
//!
//! One `match` over state and event selects the rule. The rules are in [`forward`] (claim, run), [`compensate`]
//! (claim, compensate), [`replies`] (replies of agents), [`supervise`] (overdue orders), [`deadline`] and [`late`]
//! (orders past their deadline), [`operate`] (operators' acts), [`waits`] (steps that wait), [`later`] (work that
//! services finish later), [`children`] (orders that a step runs), [`failed`] (steps that are given up) and [`complete_by`] (times).

mod answered;
mod children;
mod compensate;
mod complete_by;
mod deadline;
mod draft;
mod failed;
mod forward;
mod late;
mod later;
pub(crate) mod operate;
mod race;
mod replies;
mod supervise;
mod waits;

pub use complete_by::true_due;
use complete_by::{set_complete_by, starts_later};
use draft::next_version_by_event;
pub(crate) use draft::{Draft, next_version};
use failed::{give_up, undefined};
pub use later::addressed;
pub(crate) use supervise::is_unheard;
use waits::Taken;

use triad_workflow::StepIndex;

use crate::amend;
use crate::context::{Context, NeedsDetails};
use crate::doubt;
use crate::due;
use crate::effect::Effect;
use crate::event::Event;
use crate::failure::{Failure, FailureKind};
use crate::ids::Timestamp;
use crate::illegal::Illegal;
use crate::message::AlertKind;
use crate::operate::OperationRefusal;
use crate::order::{Order, ProcessState};
use crate::outbox::{Emission, Writer};
use crate::status::Status;
use crate::step::StepState;

/// What to do about an event.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Write the next version on the condition that the stored version is the one decided on; then send its effects.
    Transition(Box<Transition>),
    /// An earlier write answered the event, or the order has finished and its messages may be unsent: write nothing,
    /// and send the record's messages again ([`crate::effect::of_record`]).
    Repeat,
    /// The decision depends on the order's details, and [`Context::details`] is `None`: read the details
    /// and decide again.
    NeedsDetails,
    /// Do nothing, for this reason.
    Ignore(Reason),
    /// The operator's act is not possible, for this reason. Nothing is written.
    Refuse(OperationRefusal),
}

/// A decided change that is not written yet.
#[derive(Debug, Clone, PartialEq)]
pub struct Transition {
    /// The record to write. Its version is one above that of the record that was decided on.
    pub next: Order,
    /// What to send once the record is written, in this order.
    pub effects: Vec<Effect>,
}

impl Decision {
    /// A change without messages.
    fn silent(next: Order) -> Self {
        Self::Transition(Box::new(Transition {
            next,
            effects: Vec::new(),
        }))
    }
}

/// Why a decision stops early.
#[derive(Debug)]
pub(crate) enum Halt {
    NeedsDetails,
    Illegal(Illegal),
    Refused(OperationRefusal),
}

impl From<NeedsDetails> for Halt {
    fn from(_: NeedsDetails) -> Self {
        Self::NeedsDetails
    }
}

impl From<Illegal> for Halt {
    fn from(illegal: Illegal) -> Self {
        Self::Illegal(illegal)
    }
}

impl From<OperationRefusal> for Halt {
    fn from(refusal: OperationRefusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Why an event changes nothing. Each reason is a normal outcome where several instances of every
/// actor run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// A Scheduler has claimed the order already.
    Claimed,
    /// The order has finished, and the event changes nothing of a finished order.
    Finished,
    /// The reply belongs to an earlier attempt, or its complete-by is not that of the attempt that
    /// is out.
    OlderAttempt,
    /// The reply is about a compensation and was sent after its complete-by. A late reply about an action or a probe
    /// is not ignored: a write records that the attempt is over, and nothing else.
    Late,
    /// No request of the reply's direction is out for that step.
    NotAwaited,
    /// Nothing is due for the order yet, and its hint in the due index needs no change.
    NotDue,
    /// The order has not finished, so its end cannot be confirmed.
    Unfinished,
    /// An operator has paused the order.
    Paused,
    /// The order is set aside until its workflow has room, or until an instance can read its definition.
    SetAside,
    /// The order is not set aside, so it need not be admitted.
    InFlight,
    /// The event came before: it is kept, or a step has taken it.
    Repeated,
    /// No step of the order that is not done waits for an event of this name.
    NoStepAwaits,
    /// A step waits for an event of this name, and this one does not fulfil its condition.
    NoMatch,
    /// The order keeps as many events as it may.
    TooManyEvents,
    /// The event came when the order had finished, or was being compensated; or the callback when its step was no
    /// longer worked on.
    TooLate,
    /// The order has no step of the callback's name that has this token: it belongs to another step or order, or to an
    /// effect that is no longer asked for.
    WrongToken,
}

/// Decides on an event of an order. The same arguments always give the same decision.
///
/// `order` has to be on the definition in `ctx`. `now` is the time of deciding, by the caller's
/// clock.
///
/// # Errors
/// [`Illegal::WrongWorkflow`] if the record has not as many steps as the definition in `ctx`;
/// [`Illegal::UnknownStep`] if a reply names a step that the definition does not have;
/// [`Illegal::FutureAttempt`] if it names an attempt that has not been made. Nothing is to be written then.
///
/// # Example
/// ```
/// use triad_core::{CallbackSecret, ClaimId, Context, Decision, Event, Order, Timestamp, Timing, decide};
/// # use triad_workflow::{Limits, Workflow};
/// # let text = r#"{"workflow": "w", "steps": [
/// #     {"id": "charge", "agent": "payment", "action": "charge", "compensation": "none"}]}"#;
/// # let workflow = Workflow::compile(serde_json::from_str(text).unwrap(), &Limits::published()).unwrap();
/// # let accepted: triad_core::Accepted = serde_json::from_value(serde_json::json!({
/// #     "order_id": "1", "workflow": format!("w@{}", workflow.hash),
/// #     "submitted_at": 0, "due": 60_000, "details": {}})).unwrap();
/// let order = Order::new(&accepted, &workflow, Timestamp(60_000));
/// let details = serde_json::json!({});
/// let ctx = Context { workflow: &workflow, details: Some(&details), timing: Timing::default() };
/// let claim = Event::Claim(ClaimId("c-1".into()), CallbackSecret([1, 2]));
/// let decision = decide(&ctx, &order, claim, Timestamp(5)).unwrap();
/// let Decision::Transition(change) = decision else { panic!("a Pending order can be claimed") };
/// assert_eq!(change.next.state.name(), "Processing");
/// assert_eq!(change.effects.len(), 2, "the status `started` and a request");
/// ```
pub fn decide(
    ctx: &Context<'_>,
    order: &Order,
    event: Event,
    now: Timestamp,
) -> Result<Decision, Illegal> {
    let read;
    let order = match (order.is_unread(), &event, ctx.details) {
        (false, ..) => order,
        (true, Event::Admit | Event::Operate(_), None) => return Ok(Decision::NeedsDetails),
        (true, Event::Admit | Event::Operate(_), Some(details)) => {
            read = order.read_by(ctx.workflow, details);
            &read
        }
        (true, Event::Received(received), _) => {
            return Ok(waits::keep_unread(order, received, now));
        }
        (true, Event::CalledBack(_), _) => return Ok(Decision::Ignore(Reason::WrongToken)),
        (
            true,
            Event::Claim(..)
            | Event::Overdue(_)
            | Event::Reply(_)
            | Event::ChildEnded(_)
            | Event::ParentCompensated(_)
            | Event::Confirmed,
            _,
        ) => {
            return Ok(Decision::Ignore(Reason::SetAside));
        }
    };
    if order.steps.len() != ctx.workflow.steps.len() {
        return Err(Illegal::WrongWorkflow {
            record: order.steps.len(),
            workflow: ctx.workflow.steps.len(),
        });
    }
    let identity = identity(&event);
    // A parent may ask for an end as often as it likes.
    let asks_for_end =
        order.parent.is_some() && order.state.is_finished() && matches!(event, Event::Claim(..));
    if identity.is_some() && order.outbox.dedup_key == identity && !asks_for_end {
        return Ok(Decision::Repeat);
    }
    let decision = match by_state(ctx, order, event, now) {
        Ok(decision) => decision,
        Err(Halt::NeedsDetails) => return Ok(Decision::NeedsDetails),
        Err(Halt::Refused(refusal)) => return Ok(Decision::Refuse(refusal)),
        Err(Halt::Illegal(illegal)) => return Err(illegal),
    };
    Ok(match decision {
        Decision::Transition(mut change) => {
            if let Some(identity) = identity {
                change.next.outbox.dedup_key = Some(identity);
            }
            Decision::Transition(change)
        }
        other => other,
    })
}

/// The rule that applies, by state and event.
fn by_state(
    ctx: &Context<'_>,
    order: &Order,
    event: Event,
    now: Timestamp,
) -> Result<Decision, Halt> {
    Ok(match (&order.state, event) {
        (_, Event::Operate(operation)) => operate::decide(ctx, order, &operation, now)?,
        (
            ProcessState::Pending { .. }
            | ProcessState::Compensating {
                locked_by: None, ..
            },
            Event::Claim(..),
        ) if order.paused.is_some() => Decision::Ignore(Reason::Paused),
        (ProcessState::Pending { .. }, Event::Claim(..) | Event::Overdue(_))
            if order.set_aside.is_some() =>
        {
            Decision::Ignore(Reason::SetAside)
        }
        (ProcessState::Pending { .. }, Event::Claim(..))
            if starts_later(ctx, order, now).is_some() =>
        {
            Decision::Ignore(Reason::NotDue)
        }
        (ProcessState::Pending { .. }, Event::Claim(id, secret)) => {
            forward::claim(ctx, order, (id, secret), now)?
        }
        (
            ProcessState::Compensating {
                locked_by: None, ..
            },
            Event::Claim(id, _),
        ) => compensate::claim(ctx, order, id, now)?,
        (ProcessState::Processing(_), Event::Claim(..))
        | (
            ProcessState::Compensating {
                locked_by: Some(_), ..
            },
            Event::Claim(..),
        ) => Decision::Ignore(Reason::Claimed),
        (
            ProcessState::Pending { .. }
            | ProcessState::Processing(_)
            | ProcessState::Compensating { .. },
            Event::Reply(reply),
        ) => replies::take(ctx, order, &reply, now)?,
        (ProcessState::Pending { .. } | ProcessState::Processing(_), Event::Received(received)) => {
            taken(ctx, waits::take(ctx, order, &received, now)?, now)?
        }
        (
            ProcessState::Pending { .. } | ProcessState::Processing(_),
            Event::CalledBack(callback),
        ) => taken(ctx, later::called_back(ctx, order, &callback, now)?, now)?,
        (
            ProcessState::Pending { .. }
            | ProcessState::Processing(_)
            | ProcessState::Compensating { .. },
            Event::ChildEnded(ended),
        ) => taken(ctx, children::ended(ctx, order, &ended, now)?, now)?,
        (_, Event::ParentCompensated(parent)) => {
            operate::parent_compensated(ctx, order, &parent, now)?
        }
        (ProcessState::Compensating { .. }, Event::Received(received)) => {
            Decision::Ignore(waits::too_late(order, &received))
        }
        (ProcessState::Compensating { .. }, Event::CalledBack(callback)) => {
            Decision::Ignore(later::too_late(ctx, order, &callback))
        }
        (
            ProcessState::Pending { .. }
            | ProcessState::Processing(_)
            | ProcessState::Compensating { .. },
            Event::Overdue(overdue),
        ) => supervise::overdue(ctx, order, &overdue, now)?,
        (
            ProcessState::Processed { .. }
            | ProcessState::Error { .. }
            | ProcessState::Compensated { .. }
            | ProcessState::CompensationFailed { .. },
            event,
        ) => finished(ctx, order, &event, now)?,
        (
            ProcessState::Pending { .. }
            | ProcessState::Processing(_)
            | ProcessState::Compensating { .. },
            Event::Confirmed,
        ) => Decision::Ignore(Reason::Unfinished),
        (
            ProcessState::Pending { .. }
            | ProcessState::Processing(_)
            | ProcessState::Compensating { .. },
            Event::Admit,
        ) => admit(ctx, order, now),
    })
}

/// Dedup key of a Scheduler's input, by which a redelivery is recognised.
fn identity(event: &Event) -> Option<String> {
    match event {
        Event::Claim(..) => Some("claim".to_owned()),
        Event::Reply(r) => Some(format!("{}/{}/{}", r.direction, r.step, r.attempt)),
        Event::Received(e) => Some(format!("event/{}/{}", e.event, e.id)),
        Event::CalledBack(c) => Some(format!("callback/{}/{}", c.step, c.id)),
        // An order that was Processed has another end when it is compensated.
        Event::ChildEnded(e) => Some(format!(
            "child/{}/{}/{}/{}",
            e.parent.step,
            e.parent.number,
            e.parent.attempt,
            e.end.name()
        )),
        Event::Overdue(_)
        | Event::Confirmed
        | Event::Operate(_)
        | Event::Admit
        | Event::ParentCompensated(_) => None,
    }
}

/// Goes on with what came from outside.
fn taken(ctx: &Context<'_>, taken: Taken, now: Timestamp) -> Result<Decision, NeedsDetails> {
    Ok(match taken {
        Taken::InVain(reason) => Decision::Ignore(reason),
        Taken::Changed(mut next) => {
            set_complete_by(&mut next, now);
            transition(ctx, next, now)
        }
        Taken::WaitIsOver(mut next) => {
            forward::advance(ctx, &mut next, now)?;
            transition(ctx, next, now)
        }
        Taken::Compensating(mut next) => {
            compensate::advance(ctx, &mut next, now)?;
            transition(ctx, next, now)
        }
    })
}

fn finished(
    ctx: &Context<'_>,
    order: &Order,
    event: &Event,
    now: Timestamp,
) -> Result<Decision, NeedsDetails> {
    let unconfirmed = order.due.is_some();
    Ok(match event {
        Event::Claim(..) if order.parent.is_some() => children::tell(ctx, order, now)?,
        Event::Claim(..)
        | Event::Reply(_)
        | Event::ChildEnded(_)
        | Event::ParentCompensated(_)
        | Event::Operate(_)
        | Event::Admit => Decision::Ignore(Reason::Finished),
        Event::CalledBack(callback) => Decision::Ignore(later::too_late(ctx, order, callback)),
        Event::Received(received) => Decision::Ignore(waits::too_late(order, received)),
        Event::Overdue(_) if unconfirmed => Decision::Repeat,
        Event::Overdue(_) => Decision::Ignore(Reason::Finished),
        Event::Confirmed if unconfirmed => {
            let mut next = order.successor();
            next.due = None;
            next.outbox.entries.clear();
            Decision::silent(next)
        }
        Event::Confirmed => Decision::Ignore(Reason::Finished),
    })
}

/// Admits an order that was set aside; no-op while an operator has paused it. If Submission could not read the
/// definition, the details are checked against its schema here.
fn admit(ctx: &Context<'_>, order: &Order, now: Timestamp) -> Decision {
    if order.set_aside.is_none() {
        return Decision::Ignore(Reason::InFlight);
    }
    if order.paused.is_some() {
        return Decision::Ignore(Reason::Paused);
    }
    let mut next = next_version(order, Writer::Supervisor);
    if let (Some(schema), Some(details)) = (&ctx.workflow.details, ctx.details) {
        match schema.misfits(&amend::details(order, details)) {
            Ok(misfits) if misfits.is_empty() => {}
            Ok(misfits) => {
                let misfits: Vec<String> = misfits.iter().map(ToString::to_string).collect();
                let (code, text) = ("details-do-not-fit", misfits.join("; "));
                stop(
                    &mut next,
                    Failure::new(FailureKind::Definition, code, &text),
                    now,
                );
                return transition(ctx, next, now);
            }
            // This process cannot read the definition either.
            Err(_) => return Decision::Ignore(Reason::SetAside),
        }
    }
    next.set_aside = None;
    next.state = ProcessState::Pending {
        complete_by: Some(release(ctx, &mut next, now)),
    };
    transition(ctx, next, now)
}

/// Wakes the Scheduler for an order; returns when to check again. A paused order is not checked until its next
/// review, and one that starts later is not before then.
fn release(ctx: &Context<'_>, order: &mut Order, now: Timestamp) -> Timestamp {
    if order.paused.is_some() {
        return now.plus(operate::PAUSE_REVIEW);
    }
    if let Some(at) = starts_later(ctx, order, now) {
        return at;
    }
    ask(order);
    now.plus(ctx.timing.announce_within)
}

/// Adds a status message to the outbox. [`Status::Retrying`] is left out while too many statuses are unsent: it is
/// the only status without a bound on its number.
fn push_status(order: &mut Order, status: Status, cause: Option<&Failure>, now: Timestamp) {
    // A child order tells its end to its parent, and nobody else knows of it.
    if order.parent.is_some() || status == Status::Retrying && order.outbox.is_full() {
        return;
    }
    order.sequence += 1;
    order.outbox.entries.push(Emission::Status {
        sequence: order.sequence,
        status,
        step: None,
        at: now,
        cause: cause.cloned(),
    });
}

/// Adds the status that a step is completed, if the workflow asks for it. Call it before deciding what follows,
/// because that may be the order's end, whose status comes last.
fn push_step_completed(ctx: &Context<'_>, order: &mut Order, index: StepIndex, now: Timestamp) {
    if ctx.workflow.progress && order.parent.is_none() {
        push_of_step(order, index, Status::StepCompleted, now);
    }
}

/// Adds a status about a step.
fn push_of_step(order: &mut Order, index: StepIndex, status: Status, now: Timestamp) {
    order.sequence += 1;
    order.outbox.entries.push(Emission::Status {
        sequence: order.sequence,
        status,
        step: Some(order.steps[index].step.clone()),
        at: now,
        cause: None,
    });
}

/// Wakes the Scheduler for this order; no-op while the order is paused or set aside.
fn ask(order: &mut Order) {
    if order.paused.is_none() && order.set_aside.is_none() {
        order.outbox.entries.push(Emission::Wake);
    }
}

/// Wakes the Scheduler for an unclaimed order, and has the Supervisor check later that it was claimed. No-op while an
/// operator has paused the order.
fn wake(ctx: &Context<'_>, order: &mut Order, now: Timestamp) {
    if order.paused.is_some() {
        return;
    }
    ask(order);
    let within = now.plus(ctx.timing.announce_within);
    match &mut order.state {
        ProcessState::Pending { complete_by } => {
            *complete_by = Some(complete_by.map_or(within, |at| at.min(within)));
        }
        ProcessState::Compensating { complete_by, .. } => *complete_by = within.min(*complete_by),
        ProcessState::Processing(_)
        | ProcessState::Processed { .. }
        | ProcessState::Error { .. }
        | ProcessState::Compensated { .. }
        | ProcessState::CompensationFailed { .. } => {}
    }
}

/// The next position in the order of completion.
fn next_position(order: &Order) -> u32 {
    order
        .steps
        .iter()
        .filter_map(|s| match s.state {
            StepState::Completed { position, .. } => Some(position + 1),
            _ => None,
        })
        .max()
        .unwrap_or(0)
}

/// Stops the order until an operator has resolved an effect in doubt.
fn stop_in_doubt(order: &mut Draft, index: usize, now: Timestamp) {
    let failure = doubt::failure(&order.steps[index]);
    order.steps[index].error = Some(failure.clone());
    stop(order, failure, now);
}

/// Stops the order in Error, with an alert.
fn stop(order: &mut Draft, cause: Failure, now: Timestamp) {
    order.void_requests();
    push_status(order, Status::Failed, Some(&cause), now);
    order.outbox.entries.push(Emission::Alert {
        kind: AlertKind::OrderError,
        at: now,
        cause: cause.clone(),
    });
    order.state = ProcessState::Error { at: now, cause };
}

/// Completes a next version and sets its hint in the due index. A finished order is neither paused nor set aside,
/// because either would block its next run unnoticed.
pub(crate) fn transition(ctx: &Context<'_>, mut next: Draft, now: Timestamp) -> Decision {
    if next.state.is_finished() {
        next.paused = None;
        next.set_aside = None;
    }
    next.due = match true_due(ctx, &next) {
        None => None,
        Some(at) if next.set_aside.is_some() => Some(at),
        Some(at) if next.state.is_finished() => Some(at),
        // A sweep that came before the end of its timers would have nothing to do but to move the hint.
        Some(at) if waits::has_only_timers(ctx, &next) => Some(at),
        Some(at) => due::next_hint(next.due, at, now),
    };
    next.decided()
}
