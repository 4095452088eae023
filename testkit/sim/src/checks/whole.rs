//! The guarantees, held against a world that has come to rest.

use std::collections::{BTreeMap, BTreeSet};

use triad_core::message::{Alert, AlertKind, StatusMessage};
use triad_core::status::Status;
use triad_core::{Direction, IdempotencyKey, Order, OrderId, ProcessState, StepState, topics};
use triad_workflow::{Step, StepIndex, Workflow};

use crate::bus::Stored;
use crate::definitions;
use crate::service::named;
use crate::world::State;

/// An invariant's name and what was seen.
type Found = (&'static str, String);

/// Whether an order is where it may stay.
pub(crate) fn is_at_rest(state: &State, id: &OrderId) -> bool {
    match state.store.order(id) {
        None => is_rejected(state, id),
        Some(_) if state.store.is_gone(id) => true,
        Some(o) => o.state.is_finished() && o.due.is_none() && doubts(o).is_empty(),
    }
}

/// Whether an order was refused for want of room, and nothing of it is on its way.
fn is_rejected(state: &State, id: &OrderId) -> bool {
    let of_order = |s: &&Stored| {
        serde_json::from_slice::<StatusMessage>(&s.envelope.value)
            .is_ok_and(|m| &m.order_id == id && m.status == Status::Rejected)
    };
    state.setup.admission.reject_after.is_some()
        && [topics::STATUS, "reply.app"]
            .iter()
            .any(|t| state.bus.all(t).find(of_order).is_some())
}

/// Steps of a stopped order whose effect is in doubt and may not be repeated.
pub(crate) fn doubts(order: &Order) -> Vec<StepIndex> {
    let stopped = matches!(order.state.name(), "Error" | "CompensationFailed");
    if !stopped || order.closed.is_some() {
        return Vec::new();
    }
    let Some(workflow) = definitions::compiled(&order.workflow) else {
        return Vec::new();
    };
    let in_doubt = |i: &StepIndex| {
        order.steps[*i].in_doubt
            && !workflow.steps[*i].repeat.is_safe()
            && !order.steps[*i].state.is_done()
    };
    (0..order.steps.len()).filter(in_doubt).collect()
}

/// What has not finished yet, of these orders and in the topics.
pub(crate) fn unfinished<'a>(
    state: &State,
    orders: impl Iterator<Item = &'a OrderId>,
) -> Vec<String> {
    let mut open = Vec::new();
    if state.sent.open > 0 {
        open.push(format!("{} orders are not sent", state.sent.open));
    }
    for id in orders.filter(|id| !is_at_rest(state, id)) {
        open.push(match state.store.order(id) {
            None => format!("{id} is not stored"),
            Some(o) if !o.state.is_finished() => format!("{id} is {}", o.state.name()),
            Some(o) if o.due.is_some() => format!("{id} is not confirmed"),
            Some(_) => format!("{id} is in doubt"),
        });
    }
    for (topic, partitions) in &state.bus.topics {
        for (at, p) in partitions.iter().enumerate() {
            if p.owner.is_some() && p.committed < p.log.len() {
                let (at_offset, of) = (p.committed, p.log.len());
                open.push(format!("{topic}-{at} is at {at_offset} of {of}"));
            }
        }
    }
    open
}

/// Every guarantee that can be seen from outside.
pub(crate) fn whole(state: &State) -> Vec<Found> {
    let mut found = Vec::new();
    for order in state.store.orders() {
        let Some(workflow) = definitions::compiled(&order.workflow) else {
            continue;
        };
        effects(state, order, &workflow, &mut found);
        order_of_effects(state, order, &workflow, &mut found);
        calls(state, order, &workflow, &mut found);
    }
    let twice = state.remote.twice();
    if !twice.is_empty() {
        found.push(("g2-applied-once", twice.join(", ")));
    }
    statuses(state, &mut found);
    alerts(state, &mut found);
    letters(state, &mut found);
    found
}

/// G2, G10: what is in place is what the record says.
fn effects(state: &State, order: &Order, workflow: &Workflow, found: &mut Vec<Found>) {
    for (index, (record, step)) in order.steps.iter().zip(&workflow.steps).enumerate() {
        let in_place = state.remote.effects_of(order, index, workflow);
        let told = |what: &str| format!("{}/{} {what}; {:?}", order.id, step.id, record);
        // A step without a compensation leaves its effect behind when its order is undone, and an
        // operator may have the order done again.
        if in_place > 1 && step.compensation.is_some() {
            found.push(("g2-one-effect-of-a-step", told("is in place twice")));
        }
        let key = IdempotencyKey::of(&order.id, &step.id, Direction::Forward, record.key);
        let by_this_key = state.remote.in_place(step.agent.as_str(), &key.0) > 0;
        let in_place = in_place > 0;
        match (&order.state, &record.state) {
            (ProcessState::Processed { .. }, StepState::Completed { .. }) if !by_this_key => {
                found.push(("g2-completed-is-applied", told("is not in place")));
            }
            (ProcessState::Compensated { .. }, _) if in_place && step.compensation.is_some() => {
                found.push(("g10-compensated-leaves-no-effect", told("is in place")));
            }
            (_, StepState::Compensated { .. }) if by_this_key => {
                found.push(("g10-undone-is-not-in-place", told("is in place")));
            }
            (_, StepState::Refused { .. } | StepState::Skipped | StepState::Waiting)
                if by_this_key =>
            {
                found.push(("g2-not-applied-unasked", told("is in place")));
            }
            _ => {}
        }
    }
}

/// G3: steps take effect after what they come after. That they are undone in the reverse order
/// is seen when an undo lands.
fn order_of_effects(state: &State, order: &Order, workflow: &Workflow, found: &mut Vec<Found>) {
    if state.history.moved.contains(&order.id) {
        // Its steps came after others under another version.
        return;
    }
    let mut applied: BTreeSet<&str> = BTreeSet::new();
    let applications = state.remote.applied.get(&order.id);
    for step in applications.into_iter().flatten() {
        let Some(index) = workflow.step_index(step) else {
            continue;
        };
        for &before in &workflow.steps[index].after {
            let skipped = state.history.skipped.contains(&(order.id.clone(), before));
            let id = workflow.steps[before].id.as_str();
            if !skipped && !applied.contains(id) {
                let seen = format!("{}: {step} before {id}", order.id);
                found.push(("g3-order-of-steps", seen));
            }
        }
        applied.insert(step);
    }
}

/// G5: attempts within the threshold; calls within the allowance of each delivered request, and
/// where a total is declared, within that for every round, whatever was delivered how often.
fn calls(state: &State, order: &Order, workflow: &Workflow, found: &mut Vec<Found>) {
    let rounds = 1 + state.history.resets.get(&order.id).copied().unwrap_or(0);
    let uneven = state.history.uneven.contains(&order.id);
    for (record, step) in order.steps.iter().zip(&workflow.steps) {
        for direction in [Direction::Forward, Direction::Compensate, Direction::Probe] {
            let most = match direction {
                Direction::Compensate => step.compensation.as_ref().map_or(0, |c| c.threshold + 1),
                Direction::Forward | Direction::Probe => step.policy.max_attempts(),
            };
            for number in 0..=record.key {
                let key = IdempotencyKey::of(&order.id, &step.id, direction, number).0;
                deliveries(state, &key, direction, (!uneven).then_some(most), found);
            }
        }
        totals(state, order, step, rounds, found);
    }
}

fn deliveries(
    state: &State,
    key: &str,
    direction: Direction,
    most: Option<u32>,
    found: &mut Vec<Found>,
) {
    let name = named(direction);
    let of_key = (key.to_owned(), name, 0)..=(key.to_owned(), name, u32::MAX);
    let delivered: Vec<_> = state.bus.deliveries.range(of_key).collect();
    let calls = state.remote.calls.get(&(key.to_owned(), name));
    let calls = calls.copied().unwrap_or(0);
    let allowed: u32 = delivered.iter().map(|(_, d)| d.times * d.allowance).sum();
    let last = delivered.iter().map(|((_, _, attempt), _)| *attempt).max();
    if most.is_some_and(|most| last.unwrap_or(0) > most) {
        let seen = format!("{key} {name}: {delivered:?}");
        found.push(("g5-attempts-within-threshold", seen));
    } else if calls > allowed {
        let seen = format!("{key} {name}: {calls} calls, {delivered:?}");
        found.push(("g5-calls-within-allowance", seen));
    }
}

/// The declared total of a step, at the service itself.
fn totals(state: &State, order: &Order, step: &Step, rounds: u32, found: &mut Vec<Found>) {
    for undo in [false, true] {
        // An order may have been moved between versions: the largest total of them.
        let of = |s: &Step| {
            let undo_total = s
                .compensation
                .as_ref()
                .map(|c| (c.is_counted, c.total_calls));
            match undo {
                true => undo_total,
                false => Some((s.is_counted, s.total_calls)),
            }
        };
        let declared: Vec<_> = definitions::versions()
            .filter(|w| w.name == order.workflow.name)
            .flat_map(|w| &w.steps)
            .filter(|s| s.id == step.id)
            .filter_map(of)
            .collect();
        if declared.is_empty() || declared.iter().any(|(counted, _)| !counted) {
            continue;
        }
        let total = declared.iter().map(|(_, total)| *total).max().unwrap_or(0);
        let id = (order.id.clone(), step.id.to_string(), undo);
        let calls = state.remote.of_step.get(&id).copied().unwrap_or(0);
        if calls > total * rounds {
            let seen = format!(
                "{}/{}: {calls} calls of {total}, {rounds} rounds",
                order.id, step.id
            );
            found.push(("g5-calls-within-the-declared-total", seen));
        }
    }
}

/// G8: first occurrences in order, from 1 to the last that was written down, without a gap; a
/// sequence means one thing.
fn statuses(state: &State, found: &mut Vec<Found>) {
    let mut told: BTreeMap<OrderId, Vec<Status>> = BTreeMap::new();
    for topic in [topics::STATUS, "reply.app"] {
        for stored in state.bus.all(topic) {
            let Ok(status) = serde_json::from_slice::<StatusMessage>(&stored.envelope.value) else {
                found.push(("g8-statuses-are-readable", topic.to_owned()));
                continue;
            };
            if status.status == Status::Rejected && status.sequence == 0 {
                continue;
            }
            let id = status.order_id;
            let told = told.entry(id.clone()).or_default();
            let at = status.sequence as usize;
            if at == told.len() + 1 {
                told.push(status.status);
            } else if at == 0 || at > told.len() {
                let seen = format!("{id}: {at} comes after {}", told.len());
                found.push(("g8-no-gap", seen));
                return;
            } else if told[at - 1] != status.status {
                let seen = format!("{id}: {at} is {:?} and {:?}", told[at - 1], status.status);
                found.push(("g8-a-sequence-means-one-thing", seen));
            }
        }
    }
    for order in state.store.orders() {
        let told = told.get(&order.id).map_or(&[][..], Vec::as_slice);
        if told.len() != order.sequence as usize {
            let seen = format!("{}: told {told:?} of {}", order.id, order.sequence);
            found.push(("g8-everything-is-told", seen));
        }
        let end = match &order.state {
            ProcessState::Processed { .. } => Status::Completed,
            ProcessState::Error { .. } => Status::Failed,
            ProcessState::Compensated { .. } => Status::Compensated,
            ProcessState::CompensationFailed { .. } => Status::CompensationFailed,
            _ => continue,
        };
        if told.last().is_some_and(|last| *last != end) {
            let seen = format!("{}: told {told:?}, it is {}", order.id, order.state.name());
            found.push(("g8-the-last-status-is-the-end", seen));
        }
    }
}

/// G6: an alert for every bad end, with its cause, and none without one; one for every dead
/// letter; of a breaker none that nobody decided.
fn alerts(state: &State, found: &mut Vec<Found>) {
    let alerts: Vec<Alert> = state
        .bus
        .all(topics::ALERTS)
        .filter_map(|s| serde_json::from_slice(&s.envelope.value).ok())
        .collect();
    let mut of_ends: BTreeMap<String, (AlertKind, String)> = BTreeMap::new();
    let mut of_letters = BTreeSet::new();
    for alert in alerts {
        match alert.kind {
            AlertKind::OrderError | AlertKind::CompensationFailed | AlertKind::OrderLate => {
                let told = (alert.kind, alert.cause);
                let before = of_ends.insert(alert.alert_id.clone(), told.clone());
                if before.is_some_and(|b| b != told) {
                    found.push(("g6-an-alert-means-one-thing", alert.alert_id));
                }
            }
            AlertKind::DeadLetter => {
                of_letters.insert(alert.alert_id);
            }
            AlertKind::Breaker => {
                if !state.control.decided.contains(&alert.alert_id) {
                    found.push(("a-breakers-event-was-decided", alert.alert_id));
                }
            }
            AlertKind::Unreadable => {
                found.push(("world-every-record-is-readable", alert.cause));
            }
            AlertKind::Misconfigured => {
                if state.kernel.refused_since.is_none() {
                    found.push(("g6-an-alert-of-the-installation-has-its-cause", alert.cause));
                }
            }
        }
    }
    if of_ends != state.history.alerts {
        let seen = format!(
            "alerts {of_ends:?}, bad ends and late orders {:?}",
            state.history.alerts
        );
        found.push(("g6-alerts-for-bad-ends-alone", seen));
    }
    let letters = state.sent.letters.iter();
    let wanted: BTreeSet<String> = letters.map(|l| format!("dead-letter/{l}")).collect();
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
