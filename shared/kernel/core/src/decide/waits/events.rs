//! Events from outside: which step takes one, which are kept for later, and which come in vain.

use std::collections::BTreeMap;
use std::slice;

use serde_json::{Map, Value, json};
use triad_workflow::names::check_key;
use triad_workflow::{
    Await, Decision, EvalError, Expression, Millis, Step, StepId, StepIndex, StepKind,
};

use super::super::{Decision as Decided, Draft, Reason, next_version_by_event};
use super::ended;
use super::timer::source;
use crate::context::{Context, NeedsDetails};
use crate::failure::{Failure, FailureKind};
use crate::ids::Timestamp;
use crate::input;
use crate::message::AlertKind;
use crate::order::{Incident, IncidentKind, OperatorAct, Order};
use crate::outbox::Emission;
use crate::received::{KeptEvent, MAX_KEPT, ReceivedEvent};
use crate::step::StepState;

/// What an event does to an order that runs.
pub(in super::super) enum Taken {
    /// Nothing: no step can take it.
    InVain(Reason),
    /// It is kept, for a step that does not wait yet or that waits for others too; or its step has failed.
    Changed(Draft),
    /// Its step has all that it waits for, and the order goes on.
    WaitIsOver(Draft),
    /// A child order is compensated, and the compensation of the order goes on.
    Compensating(Draft),
}

/// Decides on an event for an order that runs: the first step that waits for it takes it. If none does yet, but a later
/// step will, it is kept.
pub(in super::super) fn take(
    ctx: &Context<'_>,
    order: &Order,
    received: &ReceivedEvent,
    now: Timestamp,
) -> Result<Taken, NeedsDetails> {
    if is_repeated(order, received) {
        return Ok(Taken::InVain(Reason::Repeated));
    }
    let mut next = next_version_by_event(order);
    next.events.push(kept(received, now));
    let mut is_awaited = false;
    for (index, step) in ctx.workflow.steps.iter().enumerate() {
        let StepKind::Await(wait) = &step.kind else {
            continue;
        };
        if next.steps[index].state.parked_until().is_none() || !awaits(step, &received.event) {
            continue;
        }
        is_awaited = true;
        if let Some(output) = collect(ctx, &mut next, index, wait, now)? {
            let goes_on = ended(ctx, &mut next, index, output, now)?;
            return Ok(match goes_on {
                true => Taken::WaitIsOver(next),
                false => Taken::Changed(next),
            });
        }
        let is_it = |e: &KeptEvent| is_same(e, received) && e.step.is_some();
        if next.events.iter().any(is_it) {
            return Ok(Taken::Changed(next));
        }
    }
    let mut steps = order.steps.iter().zip(&ctx.workflow.steps);
    let will_wait = steps.any(|(record, step)| {
        let is_ahead = record.state == StepState::Waiting || record.state.is_retry_due();
        is_ahead && awaits(step, &received.event)
    });
    Ok(match (will_wait, is_awaited) {
        (true, _) if is_full(order) => Taken::InVain(Reason::TooManyEvents),
        (true, _) => Taken::Changed(next),
        (false, true) => Taken::InVain(Reason::NoMatch),
        (false, false) => Taken::InVain(Reason::NoStepAwaits),
    })
}

/// Keeps an event for an order whose definition cannot be read yet.
pub(in super::super) fn keep_unread(
    order: &Order,
    received: &ReceivedEvent,
    now: Timestamp,
) -> Decided {
    if is_repeated(order, received) {
        return Decided::Ignore(Reason::Repeated);
    }
    if is_full(order) {
        return Decided::Ignore(Reason::TooManyEvents);
    }
    let mut next = next_version_by_event(order);
    next.events.push(kept(received, now));
    next.decided()
}

/// Why an event for an order that has finished, or is being compensated, changes nothing.
pub(in super::super) fn too_late(order: &Order, received: &ReceivedEvent) -> Reason {
    match is_repeated(order, received) {
        true => Reason::Repeated,
        false => Reason::TooLate,
    }
}

/// Gives a step the events that it waits for, of those that nobody has taken, oldest first. Returns its output once it
/// has what it needs.
pub(super) fn collect(
    ctx: &Context<'_>,
    order: &mut Draft,
    index: StepIndex,
    wait: &Await,
    now: Timestamp,
) -> Result<Option<Value>, NeedsDetails> {
    let id = order.steps[index].step.clone();
    for at in 0..order.events.len() {
        let event = &order.events[at];
        let has = |e: &KeptEvent| {
            e.step.as_ref() == Some(&id) && e.data.is_some() && e.event == event.event
        };
        let since = order.steps[index].state.parked_since();
        let waited = since.map_or(Millis(0), |since| now.since(since));
        if event.step.is_some()
            || order.events.iter().any(has)
            || !fits(ctx, order, wait, event, waited)?
        {
            continue;
        }
        let event = &mut order.events[at];
        event.step = Some(id.clone());
        if !wait.needs_all {
            let mut data = event.data.take().unwrap_or_default();
            let by = event.by.take();
            if wait.decision.is_some() {
                decided(order, &id, by, &mut data, now);
                return Ok(Some(data));
            }
            return Ok(Some(match wait.is_single {
                true => data,
                false => json!({"event": order.events[at].event, "data": data}),
            }));
        }
    }
    let own = |e: &&mut KeptEvent| e.step.as_ref() == Some(&id) && e.data.is_some();
    if !wait.needs_all || order.events.iter_mut().filter(own).count() < wait.events.len() {
        return Ok(None);
    }
    let brought = order.events.iter_mut().filter(own);
    let brought: Map<String, Value> = brought
        .map(|e| (e.event.clone(), e.data.take().unwrap_or_default()))
        .collect();
    Ok(Some(brought.into()))
}

/// What senders of the events that a step waits for may name in place of the order; an error if a key has no value, or
/// one that is no text of the allowed length.
pub(super) fn keys(
    ctx: &Context<'_>,
    order: &Order,
    wait: &Await,
) -> Result<Result<BTreeMap<String, String>, EvalError>, NeedsDetails> {
    let mut keys = BTreeMap::new();
    for awaited in &wait.events {
        let Some(template) = &awaited.key else {
            continue;
        };
        let scope = input::scope(ctx, order, template.expressions(), None)?;
        let key = match template.render(&scope) {
            Ok(Value::String(text)) => text,
            Ok(Value::Number(n)) if n.is_u64() || n.is_i64() => n.to_string(),
            // No text and no whole number: no key.
            Ok(_) => String::new(),
            Err(e) => return Ok(Err(e)),
        };
        if let Err(why) = check_key(&key) {
            return Ok(Err(EvalError {
                source_text: source(template),
                reason: why.to_string(),
            }));
        }
        keys.insert(awaited.event.clone(), key);
    }
    Ok(Ok(keys))
}

/// Writes into the timeline who has decided and why, and into what the decision brings, who.
fn decided(order: &mut Draft, step: &StepId, by: Option<String>, data: &mut Value, now: Timestamp) {
    let by = by.unwrap_or_else(|| "unknown".to_owned());
    let why = ["why", "reason"]
        .iter()
        .find_map(|key| data.get(key)?.as_str());
    let act = OperatorAct::new(&by, why.unwrap_or_default());
    order.note(Incident {
        step: Some(step.clone()),
        act: Some(act),
        ..Incident::new(IncidentKind::Decided, now)
    });
    if let Value::Object(fields) = data {
        fields.insert("by".to_owned(), by.into());
    }
}

/// Whether what has come is a failure of the step. A condition that has no value does not hold.
pub(super) fn is_failure(
    ctx: &Context<'_>,
    order: &Order,
    wait: &Await,
    output: &Value,
) -> Result<bool, NeedsDetails> {
    match &wait.fails_when {
        None => Ok(false),
        Some(condition) => holds(ctx, order, condition, output),
    }
}

/// Tells operators of events that came and that no step will use any more: a payment among them would be lost.
pub(in super::super) fn tell_unused(order: &mut Draft, now: Timestamp) {
    let unused = order.events.iter().filter(|event| event.data.is_some());
    let unused: Vec<String> = unused.map(|e| format!("{} ({})", e.event, e.id)).collect();
    if unused.is_empty() {
        return;
    }
    let text = format!("came, and no step will use them: {}", unused.join(", "));
    order.outbox.entries.push(Emission::Alert {
        kind: AlertKind::EventsUnused,
        at: now,
        cause: Failure::new(FailureKind::Permanent, "events-unused", &text),
    });
}

/// The names of the events that a step still waits for, for people.
pub(super) fn missing(order: &Order, index: StepIndex, wait: &Await) -> String {
    let id = Some(&order.steps[index].step);
    let has = |name: &str| {
        let mut events = order.events.iter();
        wait.needs_all
            && events.any(|e| e.step.as_ref() == id && e.data.is_some() && e.event == name)
    };
    let names = wait.events.iter().map(|e| e.event.as_str());
    let missing: Vec<&str> = names.filter(|name| !has(name)).collect();
    missing.join(", ")
}

/// Whether an event is one that a step waits for, and fulfils its condition. A condition that has no value does not
/// hold.
fn fits(
    ctx: &Context<'_>,
    order: &Order,
    wait: &Await,
    event: &KeptEvent,
    waited: Millis,
) -> Result<bool, NeedsDetails> {
    let mut events = wait.events.iter();
    let Some(awaited) = events.find(|awaited| awaited.event == event.event) else {
        return Ok(false);
    };
    let data = event.data.clone().unwrap_or_default();
    let refusal = |decision: &Decision| decision.refusal(event.by.as_deref(), &data, waited);
    if wait.decision.as_ref().and_then(refusal).is_some() {
        return Ok(false);
    }
    let Some(condition) = &awaited.matches else {
        return Ok(true);
    };
    holds(ctx, order, condition, &data)
}

fn holds(
    ctx: &Context<'_>,
    order: &Order,
    condition: &Expression,
    event: &Value,
) -> Result<bool, NeedsDetails> {
    let scope = input::scope(ctx, order, slice::from_ref(condition), None)?.with("event", event);
    Ok(condition.holds(&scope).unwrap_or(false))
}

/// Whether a step waits for events of this name, now or later.
fn awaits(step: &Step, event: &str) -> bool {
    match &step.kind {
        StepKind::Await(wait) => wait.events.iter().any(|awaited| awaited.event == event),
        StepKind::Call(_) | StepKind::Timer(_) | StepKind::Run(_) => false,
    }
}

fn kept(received: &ReceivedEvent, now: Timestamp) -> KeptEvent {
    KeptEvent {
        event: received.event.clone(),
        id: received.id.clone(),
        at: now,
        step: None,
        data: Some(received.data.clone()),
        by: received.by.clone(),
    }
}

fn is_same(event: &KeptEvent, received: &ReceivedEvent) -> bool {
    (&event.event, &event.id) == (&received.event, &received.id)
}

fn is_repeated(order: &Order, received: &ReceivedEvent) -> bool {
    order.events.iter().any(|event| is_same(event, received))
}

/// Whether the order keeps as many events as it may.
fn is_full(order: &Order) -> bool {
    order
        .events
        .iter()
        .filter(|event| event.step.is_none())
        .count()
        >= MAX_KEPT
}
