//! The guarantees, held against a world that has come to rest.

use std::collections::{BTreeMap, BTreeSet};

use triad_core::message::{Alert, AlertKind, StatusMessage};
use triad_core::{Direction, IdempotencyKey, Order, ProcessState, StepState, topics};
use triad_reference::contract::Kind;
use triad_workflow::{Step, Workflow};

use crate::scenario;
use crate::world::State;

/// An invariant's name and what was seen.
type Found = (&'static str, String);

/// What has not finished yet.
pub(crate) fn unfinished(state: &State) -> Vec<String> {
    let mut open = Vec::new();
    if state.sent.open > 0 {
        open.push(format!("{} orders are not sent", state.sent.open));
    }
    for id in &state.sent.orders {
        match state.store.order(id) {
            None => open.push(format!("{id} is not stored")),
            Some(o) if !o.state.is_finished() => {
                open.push(format!("{id} is {}", o.state.name()));
            }
            Some(o) if o.due.is_some() => open.push(format!("{id} is not confirmed")),
            Some(_) => {}
        }
    }
    for (topic, partitions) in &state.bus.topics {
        for (at, p) in partitions.iter().enumerate() {
            if p.owner.is_some() && p.committed < p.log.len() {
                open.push(format!(
                    "{topic}-{at} is at {} of {}",
                    p.committed,
                    p.log.len()
                ));
            }
        }
    }
    open
}

/// Every guarantee that can be seen from outside.
pub(crate) fn whole(state: &State) -> Vec<Found> {
    let mut found = Vec::new();
    for order in state.store.orders() {
        let Some(workflow) = scenario::compiled(&order.workflow) else {
            continue;
        };
        effects(state, order, &workflow, &mut found);
        order_of_effects(state, order, &workflow, &mut found);
        calls(state, order, &workflow, &mut found);
    }
    twice(state, &mut found);
    statuses(state, &mut found);
    alerts(state, &mut found);
    letters(state, &mut found);
    found
}

fn key(order: &Order, step: &Step, direction: Direction) -> IdempotencyKey {
    IdempotencyKey::of(&order.id, &step.id, direction, order.round)
}

/// G2, G10: what is in place is what the record says.
fn effects(state: &State, order: &Order, workflow: &Workflow, found: &mut Vec<Found>) {
    for (record, step) in order.steps.iter().zip(&workflow.steps) {
        let forward = key(order, step, Direction::Forward);
        let in_place = state.remote.in_place(step.agent.as_str(), &forward.0);
        let told = |what: &str| format!("{forward} {what}; {:?}", record.state);
        match (&order.state, &record.state) {
            (ProcessState::Processed { .. }, StepState::Completed { .. }) if !in_place => {
                found.push(("g2-completed-is-applied", told("is not in place")));
            }
            (ProcessState::Compensated { .. }, _) if in_place && step.compensation.is_some() => {
                found.push(("g10-compensated-leaves-no-effect", told("is in place")));
            }
            (_, StepState::Refused { .. } | StepState::Skipped | StepState::Waiting)
                if in_place =>
            {
                found.push(("g2-not-applied-unasked", told("is in place")));
            }
            _ => {}
        }
    }
}

/// G2: once for each key, and one key for each step.
fn twice(state: &State, found: &mut Vec<Found>) {
    let summary = state.remote.book.summary();
    let mut examples = summary.keys_applied_twice_examples;
    examples.extend(summary.steps_applied_twice_examples);
    if !examples.is_empty() {
        found.push(("g2-applied-once", examples.join(", ")));
    }
    for view in state.remote.book.page(0, usize::MAX) {
        if view.applied > 1 || view.undone > 1 {
            let seen = format!("{}: {} and {}", view.key, view.applied, view.undone);
            found.push(("g2-applied-once-undone-once", seen));
        }
    }
}

/// G3: steps take effect after what they come after, and are undone in the demanded order.
fn order_of_effects(state: &State, order: &Order, workflow: &Workflow, found: &mut Vec<Found>) {
    let mine = || {
        state
            .remote
            .ledger
            .iter()
            .filter(|e| e.order == order.id.as_str())
    };
    let mut applied: BTreeSet<&str> = BTreeSet::new();
    for effect in mine().filter(|e| e.kind == Kind::Applied) {
        let Some(index) = workflow.step_index(&effect.step) else {
            continue;
        };
        for &before in &workflow.steps[index].after {
            let skipped = order.steps[before].state == StepState::Skipped;
            let id = workflow.steps[before].id.as_str();
            if !skipped && !applied.contains(id) {
                let seen = format!("{}: {} before {id}", order.id, effect.step);
                found.push(("g3-order-of-steps", seen));
            }
        }
        applied.insert(&effect.step);
    }
    let mut undone: Vec<&str> = Vec::new();
    for effect in mine().filter(|e| matches!(e.kind, Kind::Undone | Kind::Tombstoned)) {
        if !undone.contains(&effect.step.as_str()) {
            undone.push(&effect.step);
        }
    }
    let plan = state.store.undo_plan.get(&order.id);
    let plan: Vec<&str> = plan.into_iter().flatten().map(|s| s.as_str()).collect();
    let complete = matches!(order.state, ProcessState::Compensated { .. });
    if !plan.starts_with(&undone) || (complete && plan.len() != undone.len()) {
        let seen = format!("{}: undone {undone:?}, to be undone {plan:?}", order.id);
        found.push(("g3-order-of-undo", seen));
    }
}

/// G5: attempts within the threshold; calls within the allowance of each delivered request, and
/// so within the budget wherever no request was delivered twice.
fn calls(state: &State, order: &Order, workflow: &Workflow, found: &mut Vec<Found>) {
    for step in &workflow.steps {
        let undo = step.compensation.as_ref();
        let forward = (
            Direction::Forward,
            step.policy.max_attempts(),
            step.retry.calls,
        );
        let undo = undo.map(|c| (Direction::Undo, c.threshold + 1, c.retry.calls));
        for (direction, most, allowance) in std::iter::once(forward).chain(undo) {
            let key = key(order, step, direction).0;
            let of_key = (key.clone(), 0)..=(key.clone(), u32::MAX);
            let delivered: Vec<_> = state.bus.deliveries.range(of_key).collect();
            let calls = state.remote.calls.get(&key).copied().unwrap_or(0);
            let deliveries: u32 = delivered.iter().map(|(_, n)| **n).sum();
            let last = delivered.iter().map(|((_, attempt), _)| *attempt).max();
            let seen = format!("{key}: {calls} calls, {delivered:?}, allowance {allowance}");
            if last.unwrap_or(0) > most {
                found.push(("g5-attempts-within-threshold", seen));
            } else if calls > deliveries * allowance {
                found.push(("g5-calls-within-allowance", seen));
            }
        }
    }
}

/// G8: first occurrences in order, from 1 to the last that was written down, without a gap.
fn statuses(state: &State, found: &mut Vec<Found>) {
    let mut next: BTreeMap<String, u32> = BTreeMap::new();
    for topic in [topics::STATUS, "reply.app"] {
        for stored in state.bus.all(topic) {
            let Ok(status) = serde_json::from_slice::<StatusMessage>(&stored.envelope.value) else {
                found.push(("g8-statuses-are-readable", topic.to_owned()));
                continue;
            };
            let next = next.entry(status.order_id.to_string()).or_insert(1);
            if status.sequence == *next {
                *next += 1;
            } else if status.sequence > *next {
                let seen = format!(
                    "{}: {} comes before {next}",
                    status.order_id, status.sequence
                );
                found.push(("g8-no-gap", seen));
                *next = status.sequence + 1;
            }
        }
    }
    for order in state.store.orders() {
        let told = next.get(order.id.as_str()).copied().unwrap_or(1) - 1;
        if told != order.sequence {
            let seen = format!("{}: told {told} of {}", order.id, order.sequence);
            found.push(("g8-everything-is-told", seen));
        }
    }
}

/// G6: an alert for every bad end, and none without one; one for every dead letter.
fn alerts(state: &State, found: &mut Vec<Found>) {
    let alerts: Vec<Alert> = state
        .bus
        .all(topics::ALERTS)
        .filter_map(|s| serde_json::from_slice(&s.envelope.value).ok())
        .collect();
    for order in state.store.orders() {
        let wanted = match &order.state {
            ProcessState::Error { .. } => Some(AlertKind::OrderError),
            ProcessState::CompensationFailed { .. } => Some(AlertKind::CompensationFailed),
            _ => None,
        };
        let id = order.id.as_str();
        let of_order = |a: &&Alert| a.order_id.as_deref() == Some(id);
        let kinds: Vec<AlertKind> = alerts.iter().filter(of_order).map(|a| a.kind).collect();
        let ids: BTreeSet<&str> = alerts
            .iter()
            .filter(of_order)
            .map(|a| a.alert_id.as_str())
            .collect();
        let sound = match wanted {
            Some(kind) => ids.len() == 1 && kinds.iter().all(|k| *k == kind),
            None => kinds.is_empty(),
        };
        if !sound {
            let seen = format!("{id} is {} with {ids:?}", order.state.name());
            found.push(("g6-alerts-for-bad-ends-alone", seen));
        }
    }
    let of_letters: BTreeSet<String> = alerts
        .iter()
        .filter(|a| a.kind == AlertKind::DeadLetter)
        .map(|a| a.alert_id.clone())
        .collect();
    let wanted = state
        .sent
        .letters
        .iter()
        .map(|l| format!("dead-letter/{l}"));
    let wanted: BTreeSet<String> = wanted.collect();
    if of_letters != wanted {
        let seen = format!("alerts {of_letters:?}, poison {wanted:?}");
        found.push(("g7-an-alert-for-every-dead-letter", seen));
    }
}

/// G7: what cannot be taken is in the dead-letter topic with its cause, and nothing else is.
fn letters(state: &State, found: &mut Vec<Found>) {
    let mut kept = BTreeSet::new();
    for stored in state.bus.all(topics::DEAD_LETTER) {
        let header = |name: &str| {
            let headers = stored.envelope.headers.iter();
            let value = headers
                .filter(|(n, _)| n == name)
                .find_map(|(_, v)| v.clone());
            value.and_then(|v| String::from_utf8(v).ok())
        };
        if header("triad-cause").is_none_or(|c| c.is_empty()) {
            found.push(("g7-a-dead-letter-has-a-cause", format!("{stored:?}")));
        }
        kept.extend(header("ce_id"));
    }
    if kept != state.sent.letters {
        let seen = format!("dead letters {kept:?}, poison {:?}", state.sent.letters);
        found.push(("g7-poison-is-dead-lettered", seen));
    }
}
