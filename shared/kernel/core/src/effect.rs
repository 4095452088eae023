//! The messages of a decision, as values.
//!
//! A decision makes them once. If a record's messages may be unsent, [`of_record`] makes the same ones again from the
//! record. If sent messages may be lost, [`under_way`] makes those that an order waits for again.

use serde_json::{Map, Value};
use triad_workflow::{EvalError, StepIndex};

use crate::budget;
use crate::children::{Child, ChildEnded, ChildOrder, ChildState, Compensate, Parent, child_id};
use crate::context::{Context, NeedsDetails};
use crate::declared::{declared, poll};
use crate::ids::{Direction, IdempotencyKey, Timestamp};
use crate::illegal::Illegal;
use crate::input;
use crate::message::{Alert, AlertKind, StatusMessage, StepRequest};
use crate::order::{Order, ProcessState};
use crate::outbox::Emission;
use crate::status::Status;
use crate::step::Out;

/// One message of a decision.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// A status message to the submitting application.
    Status(StatusMessage),
    /// An alert to operators.
    Alert(Alert),
    /// A message that wakes the Scheduler, so that it claims the order.
    Wake,
    /// A request to an agent.
    Request(Box<StepRequest>),
    /// A child order is started, or has to be compensated.
    Child(Box<ChildOrder>),
    /// The order tells its parent how it has ended.
    Ended(Box<ChildEnded>),
}

/// When the Supervisor or an operator sends an effect. They write to an order while the Scheduler
/// may be handling another event of it, so they may not send everything at once. The Scheduler
/// sends all effects at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendOrder {
    /// Before the wakes: the bus must have acknowledged the message before the Scheduler is woken, because
    /// the Scheduler may then write the record without this message in its outbox.
    First,
    /// After the bus has acknowledged every effect whose turn is [`SendOrder::First`].
    Then,
    /// Never. Only the Scheduler sends the message, because it handles the order's events one after the
    /// other.
    SchedulerOnly,
}

impl Effect {
    pub(crate) fn request(request: StepRequest) -> Self {
        Self::Request(Box::new(request))
    }

    /// When the Supervisor or an operator sends this effect.
    #[must_use]
    pub fn turn(&self) -> SendOrder {
        match self {
            Self::Status(_) | Self::Alert(_) => SendOrder::First,
            Self::Wake | Self::Ended(_) => SendOrder::Then,
            Self::Request(_) | Self::Child(_) => SendOrder::SchedulerOnly,
        }
    }
}

/// Why the effects of a record could not be made again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unmade {
    /// The input of a request has expressions that are to be computed, and [`Context::details`] is `None`.
    #[error("the input of a request needs the order's details, which were not read")]
    NeedsDetails,
    /// A request's input has no value any more, although it had one when the record was written:
    /// the record or its definition is damaged.
    #[error(transparent)]
    Damaged(Illegal),
}

impl From<NeedsDetails> for Unmade {
    fn from(_: NeedsDetails) -> Self {
        Self::NeedsDetails
    }
}

/// Every effect of a record's last write, made again from its outbox: statuses and alerts, then
/// wakes, then requests.
///
/// Requests of attempts that are not out any more, and of steps that the workflow does not have, are left
/// out.
///
/// # Errors
/// [`Unmade::NeedsDetails`] if the details have to be read first; [`Unmade::Damaged`] if the input of a
/// request has no value. In both cases nothing is to be sent.
pub fn of_record(ctx: &Context<'_>, order: &Order) -> Result<Vec<Effect>, Unmade> {
    let mut effects = status_effects(order);
    for entry in &order.outbox.entries {
        let (step, direction, attempt) = match entry {
            Emission::Request {
                step,
                direction,
                attempt,
            } => (step, direction, attempt),
            Emission::Children { step, numbers } => {
                if let Some(index) = ctx.workflow.step_index(step.as_str()) {
                    effects.extend(children_again(ctx, order, index, numbers)?);
                }
                continue;
            }
            _ => continue,
        };
        let Some(index) = ctx.workflow.step_index(step.as_str()) else {
            continue;
        };
        // An attempt that is over needs no request.
        if out(order, index, *direction).is_none_or(|out| out.attempt != *attempt) {
            continue;
        }
        effects.extend(request_effects(ctx, order, index, *direction)?);
    }
    Ok(effects)
}

/// The messages without which an order would stop, made from its record alone. They are for a start after which
/// messages [between handlers](crate::topics::is_between_handlers) may have been lost; sending them twice is safe,
/// because a bus that delivers at least once may do so too.
///
/// They are: a wake, if the last write woke a Scheduler; before it, for a new order, the status `received`, which
/// Submission may not have sent; and the request of each attempt that is out and may still be answered at `now`.
/// Empty for an order that has finished, and for an order without a request out that waits for a moment, for room or
/// for an operator.
///
/// Left out are a wake that a later write has followed, and every later status: a sweep sends those.
///
/// # Errors
/// [`Unmade::NeedsDetails`] if the input of a request has expressions that are to be computed, and
/// [`Context::details`] is `None`; [`Unmade::Damaged`] if such an input has no value.
pub fn under_way(ctx: &Context<'_>, order: &Order, now: Timestamp) -> Result<Vec<Effect>, Unmade> {
    let mut effects = Vec::new();
    if order.state.is_finished() {
        return Ok(effects);
    }
    if is_asked_for(order) {
        let is_new = is_new(order);
        effects.extend((is_new && order.parent.is_none()).then(|| Effect::Status(received(order))));
        effects.push(Effect::Wake);
    }
    for (index, record) in order.steps.iter().enumerate() {
        if let Some(out) = record.state.out().filter(|out| now < out.complete_by) {
            effects.extend(request_effects(ctx, order, index, out.direction)?);
        }
        let children = record
            .children
            .iter()
            .flat_map(|children| (0..).zip(&children.all));
        let asked = children.filter(|(_, child)| is_asked(&child.state));
        let asked: Vec<u32> = asked.map(|(number, _)| number).collect();
        let is_out = record.state.parked_until().is_some() || record.lets_go();
        if is_out && !asked.is_empty() {
            effects.extend(children_again(ctx, order, index, &asked)?);
        }
    }
    Ok(effects)
}

fn is_asked(state: &ChildState) -> bool {
    matches!(state, ChildState::Running | ChildState::Compensating { .. })
}

/// Whether the record's last write woke a Scheduler. Submission does so for each new order.
fn is_asked_for(order: &Order) -> bool {
    let was_asked = || order.outbox.entries.contains(&Emission::Wake);
    order.paused.is_none() && order.set_aside.is_none() && (is_new(order) || was_asked())
}

/// Whether Submission's write is still the only one.
fn is_new(order: &Order) -> bool {
    matches!(order.state, ProcessState::Pending { complete_by: None })
}

/// The status with which every order begins. It has sequence 1.
#[must_use]
pub fn received(order: &Order) -> StatusMessage {
    StatusMessage {
        order_id: order.id.clone(),
        sequence: 1,
        status: Status::Received,
        step: None,
        cause: None,
        at: order.submitted_at,
    }
}

/// The request of the attempt that is out, with its input made again.
fn request_effects(
    ctx: &Context<'_>,
    order: &Order,
    index: StepIndex,
    direction: Direction,
) -> Result<Option<Effect>, Unmade> {
    let input = match direction {
        Direction::Probe if order.steps[index].in_progress.is_some() => {
            input::poll(ctx, order, index)?
        }
        Direction::Forward | Direction::Probe => input::forward(ctx, order, index)?,
        Direction::Compensate => input::compensation(ctx, order, index)?,
    };
    let input = input.map_err(|e| {
        Unmade::Damaged(Illegal::NoInput {
            step: order.steps[index].step.to_string(),
            why: e.to_string(),
        })
    })?;
    Ok(request(ctx, order, index, direction, input).map(Effect::request))
}

/// The effects of a record's outbox that every writer may send: statuses and alerts first, then
/// wakes. Requests are left out: only the Scheduler sends them.
#[must_use]
pub fn status_effects(order: &Order) -> Vec<Effect> {
    let entries = &order.outbox.entries;
    let told = entries.iter().filter_map(|entry| match entry {
        Emission::Status {
            sequence,
            status,
            step,
            at,
            cause,
        } => Some(Effect::Status(StatusMessage {
            order_id: order.id.clone(),
            sequence: *sequence,
            status: *status,
            step: step.clone(),
            cause: cause.clone(),
            at: *at,
        })),
        Emission::Alert { kind, at, cause } => Some(Effect::Alert(Alert {
            alert_id: format!("{}/{}/{}", order.id, alert_name(*kind), at.0),
            kind: *kind,
            order_id: Some(order.id.to_string()),
            cause: cause.to_string(),
            at: *at,
        })),
        Emission::Ended { end } => order.parent.as_ref().map(|parent| {
            Effect::Ended(Box::new(ChildEnded {
                order_id: parent.order_id.clone(),
                parent: (**parent).clone(),
                child: order.id.clone(),
                end: end.clone(),
            }))
        }),
        Emission::Wake | Emission::Request { .. } | Emission::Children { .. } => None,
    });
    let wakes = entries.iter().filter(|e| matches!(e, Emission::Wake));
    told.chain(wakes.map(|_| Effect::Wake)).collect()
}

/// The messages that ask for child orders of a step, made again.
fn children_again(
    ctx: &Context<'_>,
    order: &Order,
    index: StepIndex,
    numbers: &[u32],
) -> Result<Vec<Effect>, Unmade> {
    children(ctx, order, index, numbers)?.map_err(|e| {
        Unmade::Damaged(Illegal::NoInput {
            step: order.steps[index].step.to_string(),
            why: e.to_string(),
        })
    })
}

/// The messages that ask for these child orders of a step, those of them that are asked for now: to be started, or to be
/// compensated. An error if the details of one have no value.
pub(crate) fn children(
    ctx: &Context<'_>,
    order: &Order,
    index: StepIndex,
    numbers: &[u32],
) -> Result<Result<Vec<Effect>, EvalError>, NeedsDetails> {
    let record = &order.steps[index];
    let (Some(run), Some(children)) = (ctx.workflow.steps[index].run(), &record.children) else {
        return Ok(Ok(Vec::new()));
    };
    let numbers = numbers.iter().copied();
    let asked: Vec<(u32, &Child)> = numbers
        .filter_map(|number| Some((number, children.all.get(number as usize)?)))
        .filter(|(_, child)| is_asked(&child.state))
        .collect();
    let starts = |(_, child): &&(u32, &Child)| child.state == ChildState::Running;
    let started: Vec<u32> = asked
        .iter()
        .filter(starts)
        .map(|(number, _)| *number)
        .collect();
    let mut details = match input::details_of_children(ctx, order, (run, children), &started)? {
        Ok(details) => details.into_iter(),
        Err(e) => return Ok(Err(e)),
    };
    let depth = order.parent.as_ref().map_or(0, |parent| parent.depth);
    let messages = asked.into_iter().map(|(number, child)| {
        let compensate = match child.state {
            ChildState::Compensating { was_processed } => Some(Compensate { was_processed }),
            _ => None,
        };
        let id_number = children.is_list.then_some(number);
        let way = children.started(run, number);
        Effect::Child(Box::new(ChildOrder {
            order_id: child_id(&order.id, &record.step, id_number, child.attempt),
            parent: Parent {
                order_id: order.id.clone(),
                step: record.step.clone(),
                number,
                attempt: child.attempt,
                depth: depth + 1,
            },
            workflow: way.workflow.clone(),
            version: way.version.clone(),
            details: match compensate {
                Some(_) => Map::new(),
                None => details.next().unwrap_or_default(),
            },
            order_timeout: run.within,
            compensate,
        }))
    });
    Ok(Ok(messages.collect()))
}

fn alert_name(kind: AlertKind) -> &'static str {
    match kind {
        AlertKind::CompensationFailed => "CompensationFailed",
        AlertKind::OrderLate => "Late",
        AlertKind::EventsUnused => "EventsUnused",
        AlertKind::OrderError
        | AlertKind::DeadLetter
        | AlertKind::Breaker
        | AlertKind::Misconfigured
        | AlertKind::CampaignStopped
        | AlertKind::Unreadable => "Error",
    }
}

/// The attempt that is out in a direction.
fn out(order: &Order, index: StepIndex, direction: Direction) -> Option<Out> {
    let out = order.steps[index].state.out();
    out.filter(|out| out.direction == direction)
}

/// The request of the attempt that is out, with its input; `None` if none is out in that direction,
/// or the definition has no such action.
pub(crate) fn request(
    ctx: &Context<'_>,
    order: &Order,
    index: StepIndex,
    direction: Direction,
    input: Value,
) -> Option<StepRequest> {
    let out = out(order, index, direction)?;
    let (step, record) = (&ctx.workflow.steps[index], &order.steps[index]);
    let declared = declared(step, direction)?;
    let key = |direction| IdempotencyKey::of(&order.id, &record.step, direction, record.key);
    let polled = step.call().and_then(poll);
    let is_at_location = polled.is_some_and(|poll| poll.action.is_none());
    Some(StepRequest {
        order_id: order.id.clone(),
        step: record.step.clone(),
        direction,
        attempt: out.attempt,
        complete_by: out.complete_by,
        attempt_timeout_ms: declared.attempt_timeout.0,
        allowance: budget::allowance(step, record, direction),
        counted: declared.is_counted,
        repeats: record.leg(direction).may_have_called(),
        backoff_initial_ms: declared.retry.initial.0,
        backoff_max_ms: declared.retry.max.0,
        idempotency_key: key(direction),
        compensates: (direction == Direction::Compensate).then(|| key(Direction::Forward)),
        action: declared.action.to_owned(),
        call: ctx.workflow.call(declared.agent, declared.action).cloned(),
        input,
        callback: record
            .callback
            .clone()
            .filter(|_| direction != Direction::Compensate),
        location: record
            .in_progress
            .as_ref()
            .filter(|_| direction == Direction::Probe && is_at_location)
            .and_then(|work| work.location.clone()),
        priority: order.priority,
        agent: declared.agent.clone(),
        workflow: order.workflow.name.clone(),
    })
}
