//! Checks the guarantees in a world in which all work has ended.

use std::collections::{BTreeMap, BTreeSet};

use triad_core::message::{Alert, AlertKind, StatusMessage};
use triad_core::status::Status;
use triad_core::{Direction, IdempotencyKey, Order, OrderId, ProcessState, StepState, topics};
use triad_workflow::{Step, StepIndex, Workflow};

use super::campaigns;
use super::findings::Findings;
use crate::bus::Stored;
use crate::definitions;
use crate::service::named;
use crate::world::State;

/// Whether an order may stay in its present state for ever.
pub(crate) fn is_at_rest(state: &State, id: &OrderId) -> bool {
    match state.store.order(id) {
        None => is_rejected(state, id),
        Some(_) if state.store.is_gone(id) => true,
        Some(o) => o.state.is_finished() && o.due.is_none() && doubts(o).is_empty(),
    }
}

/// Whether the order was refused for lack of room, which its status reports.
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

/// The steps of a stopped order whose effects are in doubt and may not be repeated.
pub(crate) fn doubts(order: &Order) -> Vec<StepIndex> {
    let stopped = matches!(order.state.name(), "Error" | "CompensationFailed");
    if !stopped || order.closed.is_some() {
        return Vec::new();
    }
    let Some(workflow) = definitions::compiled(&order.workflow) else {
        return Vec::new();
    };
    let in_doubt = |i: &StepIndex| {
        order.steps[*i].in_doubt.is_some()
            && !workflow.steps[*i].is_safe_to_repeat()
            && !order.steps[*i].state.is_done()
    };
    (0..order.steps.len()).filter(in_doubt).collect()
}

/// The unfinished work of these orders, and in the topics.
pub(crate) fn unfinished<'a>(
    state: &'a State,
    orders: impl Iterator<Item = &'a OrderId>,
) -> Vec<String> {
    let mut open = Vec::new();
    if state.sent.open > 0 {
        open.push(format!("{} orders are not sent", state.sent.open));
    }
    let children = state.store.orders().filter(|o| o.parent.is_some());
    for id in orders
        .chain(children.map(|o| &o.id))
        .filter(|id| !is_at_rest(state, id))
    {
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

/// Checks every guarantee that is visible from outside.
pub(crate) fn check_final_state(state: &State) -> Findings {
    let mut found = Findings::default();
    for order in state.store.orders() {
        let Some(workflow) = definitions::compiled(&order.workflow) else {
            continue;
        };
        effects(state, order, &workflow, &mut found);
        order_of_effects(state, order, &workflow, &mut found);
        calls(state, order, &workflow, &mut found);
    }
    let (keys, twice) = state.remote.twice();
    if keys > 0 {
        found.check("g2-applied-once", twice.is_empty(), || twice.join(", "));
    }
    statuses(state, &mut found);
    alerts(state, &mut found);
    campaigns::check(state, &mut found);
    letters(state, &mut found);
    letters_first(state, &mut found);
    misfits(state, &mut found);
    super::events::check(state, &mut found);
    super::children::check(state, &mut found);
    super::search::searched(state, &mut found);
    found
}

/// G2 and G10: the effects in place are exactly those in the record.
fn effects(state: &State, order: &Order, workflow: &Workflow, found: &mut Findings) {
    for (index, (record, step)) in order.steps.iter().zip(&workflow.steps).enumerate() {
        let in_place = state.remote.effects_of(order, index, workflow);
        let told = |what: &str| format!("{}/{} {what}; {:?}", order.id, step.id, record);
        // The effect of a step without a compensation stays when its order is compensated, and the step may run again
        // after an operator resubmits the order.
        let has_compensation = step.compensation.is_some();
        if has_compensation {
            found.check("g2-one-effect-of-a-step", in_place <= 1, || {
                told("is in place twice")
            });
        }
        let key = IdempotencyKey::of(&order.id, &step.id, Direction::Forward, record.key);
        let Some(call) = step.call() else { continue };
        let by_this_key = state.remote.in_place(call.agent.as_str(), &key.0) > 0;
        let is_completed = matches!(record.state, StepState::Completed { .. });
        if matches!(order.state, ProcessState::Processed { .. }) && is_completed {
            found.check("g2-completed-is-applied", by_this_key, || {
                told("is not in place")
            });
        }
        if matches!(order.state, ProcessState::Compensated { .. }) && has_compensation {
            found.check("g10-compensated-leaves-no-effect", in_place == 0, || {
                told("is in place")
            });
        }
        match &record.state {
            StepState::Compensated { .. } => {
                found.check("g10-compensated-is-not-in-place", !by_this_key, || {
                    told("is in place")
                });
            }
            StepState::Refused { .. } | StepState::Skipped | StepState::Waiting => {
                found.check("g2-not-applied-unasked", !by_this_key, || {
                    told("is in place")
                });
            }
            _ => {}
        }
    }
}

/// G3: steps take effect after their predecessors. The order of compensations is checked when each one arrives.
fn order_of_effects(state: &State, order: &Order, workflow: &Workflow, found: &mut Findings) {
    if state.history.moved.contains(&order.id) {
        // Not checked: the steps had another order in another version of the workflow.
        return;
    }
    let mut applied: BTreeSet<&str> = BTreeSet::new();
    let applications = state.remote.applied.get(&order.id);
    for step in applications.into_iter().flatten() {
        let Some(index) = workflow.step_index(step) else {
            continue;
        };
        for before in calling_before(workflow, index) {
            let skipped = state.history.skipped.contains(&(order.id.clone(), before));
            let id = workflow.steps[before].id.as_str();
            let is_in_turn = skipped || applied.contains(id);
            found.check("g3-order-of-steps", is_in_turn, || {
                format!("{}: {step} before {id}", order.id)
            });
        }
        applied.insert(step);
    }
}

/// The steps that call a service and directly precede a step, or precede it with waits alone between them.
fn calling_before(workflow: &Workflow, index: StepIndex) -> BTreeSet<StepIndex> {
    let mut open = workflow.steps[index].after.clone();
    let mut found = BTreeSet::new();
    while let Some(before) = open.pop() {
        match workflow.steps[before].call() {
            Some(_) => drop(found.insert(before)),
            None => open.extend(&workflow.steps[before].after),
        }
    }
    found
}

/// G5: attempts stay within the threshold, and calls within the allowance of each delivered request. If the workflow
/// declares calls per run, all calls of a run stay within that, however often requests were delivered.
fn calls(state: &State, order: &Order, workflow: &Workflow, found: &mut Findings) {
    let runs = 1 + state.history.resets.get(&order.id).copied().unwrap_or(0);
    let uneven = state.history.uneven.contains(&order.id);
    for (record, step) in order.steps.iter().zip(&workflow.steps) {
        for direction in [Direction::Forward, Direction::Compensate, Direction::Probe] {
            // Questions about work in progress are attempts that are not bounded by the threshold.
            let is_asked = step
                .call()
                .is_some_and(|call| call.finishes_later.is_some());
            let uneven = uneven || is_asked;
            let most = match direction {
                Direction::Compensate => {
                    let compensation = step.compensation.as_ref();
                    compensation.map_or(0, |c| c.policy.max_attempts())
                }
                Direction::Forward | Direction::Probe => step.max_attempts(),
            };
            for number in 0..=record.key {
                let key = IdempotencyKey::of(&order.id, &step.id, direction, number).0;
                deliveries(state, &key, direction, (!uneven).then_some(most), found);
            }
        }
        totals(state, order, step, runs, found);
    }
}

fn deliveries(
    state: &State,
    key: &str,
    direction: Direction,
    most: Option<u32>,
    found: &mut Findings,
) {
    let name = named(direction);
    let of_key = (key.to_owned(), name, 0)..=(key.to_owned(), name, u32::MAX);
    let delivered: Vec<_> = state.bus.deliveries.range(of_key).collect();
    let calls = state.remote.calls.get(&(key.to_owned(), name));
    let calls = calls.copied().unwrap_or(0);
    let allowed: u32 = delivered.iter().map(|(_, d)| d.times * d.allowance).sum();
    let last = delivered.iter().map(|((_, _, attempt), _)| *attempt).max();
    if let (Some(most), Some(last)) = (most, last) {
        found.check("g5-attempts-within-threshold", last <= most, || {
            format!("{key} {name}: {delivered:?}")
        });
    }
    if last.is_some() || calls > 0 {
        found.check("g5-calls-within-allowance", calls <= allowed, || {
            format!("{key} {name}: {calls} calls, {delivered:?}")
        });
    }
}

/// The declared calls per run of a step, compared with the calls that arrived at the service.
fn totals(state: &State, order: &Order, step: &Step, runs: u32, found: &mut Findings) {
    for compensation in [false, true] {
        // An order may have been migrated: the largest limit of all versions applies.
        let of = |s: &Step| {
            let compensation_total = s
                .compensation
                .as_ref()
                .map(|c| (c.is_counted, c.calls_per_run));
            match compensation {
                true => compensation_total,
                false => s.call().map(|call| (call.is_counted, call.calls_per_run)),
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
        let id = (order.id.clone(), step.id.to_string(), compensation);
        let calls = state.remote.of_step.get(&id).copied().unwrap_or(0);
        if calls == 0 {
            continue;
        }
        let holds = calls <= total * runs;
        found.check("g5-calls-within-the-declared-total", holds, || {
            format!(
                "{}/{}: {calls} calls of {total}, {runs} runs",
                order.id, step.id
            )
        });
    }
}

/// G8: the first occurrences of an order's statuses are in sequence, from 1 to the last recorded number, without a
/// gap. A sequence number has one meaning.
fn statuses(state: &State, found: &mut Findings) {
    let mut told: BTreeMap<OrderId, Vec<Status>> = BTreeMap::new();
    for topic in [topics::STATUS, "reply.app"] {
        for stored in state.bus.all(topic) {
            let read = serde_json::from_slice::<StatusMessage>(&stored.envelope.value);
            found.check("g8-statuses-are-readable", read.is_ok(), || {
                topic.to_owned()
            });
            let Ok(status) = read else { continue };
            let is_refusal = matches!(
                status.status,
                Status::Rejected | Status::Conflict | Status::Refused
            );
            if is_refusal && status.sequence == 0 {
                continue;
            }
            let id = status.order_id;
            if let Some(order) = state.store.order(&id) {
                let asked = order.reply_topic.as_deref().unwrap_or(topics::STATUS);
                found.check(
                    "g8-statuses-are-where-they-are-wanted",
                    asked == topic,
                    || format!("{id} wants {asked}, and is told in {topic}"),
                );
            }
            let told = told.entry(id.clone()).or_default();
            let at = status.sequence as usize;
            let follows = (1..=told.len() + 1).contains(&at);
            found.check("g8-no-gap", follows, || {
                format!("{id}: {at} comes after {}", told.len())
            });
            if !follows {
                return;
            }
            match told.get(at - 1) {
                None => told.push(status.status),
                Some(before) => {
                    let is_same = *before == status.status;
                    found.check("g8-a-sequence-means-one-thing", is_same, || {
                        format!("{id}: {at} is {before:?} and {:?}", status.status)
                    });
                }
            }
        }
    }
    for order in state.store.orders() {
        let told = told.get(&order.id).map_or(&[][..], Vec::as_slice);
        // A child order tells its parent alone.
        if order.parent.is_some() {
            found.check(
                "g8-a-child-order-tells-its-parent-alone",
                told.is_empty(),
                || format!("{}: told {told:?}", order.id),
            );
            continue;
        }
        let is_all = told.len() == order.sequence as usize;
        found.check("g8-everything-is-told", is_all, || {
            format!("{}: told {told:?} of {}", order.id, order.sequence)
        });
        let end = match &order.state {
            ProcessState::Processed { .. } => Status::Completed,
            ProcessState::Error { .. } => Status::Failed,
            ProcessState::Compensated { .. } => Status::Compensated,
            ProcessState::CompensationFailed { .. } => Status::CompensationFailed,
            _ => continue,
        };
        // An order in Error may be amended.
        let mut told = told.iter().filter(|status| **status != Status::Amended);
        let is_end = told.next_back() == Some(&end);
        found.check("g8-the-last-status-is-the-end", is_end, || {
            format!("{}: told {told:?}, it is {}", order.id, order.state.name())
        });
    }
}

/// G6: every bad end has an alert with its cause, and no other order has one. Every dead letter has an alert. Each
/// alert about a breaker is about a change that an instance decided.
fn alerts(state: &State, found: &mut Findings) {
    let alerts: Vec<Alert> = state
        .bus
        .all(topics::ALERTS)
        .filter_map(|s| serde_json::from_slice(&s.envelope.value).ok())
        .collect();
    let mut of_ends: BTreeMap<String, (AlertKind, String)> = BTreeMap::new();
    let mut of_letters = BTreeSet::new();
    let mut of_campaigns = BTreeSet::new();
    let mut unreadable = Vec::new();
    for alert in alerts {
        match alert.kind {
            AlertKind::OrderError
            | AlertKind::CompensationFailed
            | AlertKind::OrderLate
            | AlertKind::EventsUnused => {
                let told = (alert.kind, alert.cause);
                let before = of_ends.insert(alert.alert_id.clone(), told.clone());
                if let Some(before) = before {
                    found.check("g6-an-alert-means-one-thing", before == told, || {
                        alert.alert_id
                    });
                }
            }
            AlertKind::DeadLetter => {
                of_letters.insert(alert.alert_id);
            }
            AlertKind::Breaker => {
                let was_decided = state.control.decided.contains(&alert.alert_id);
                found.check("a-breakers-event-was-decided", was_decided, || {
                    alert.alert_id
                });
            }
            AlertKind::CampaignStopped => {
                of_campaigns.insert(alert.alert_id);
            }
            // Checked by `checks::lone`.
            AlertKind::Unreadable => {
                unreadable.extend(alert.order_id.map(|id| format!("{id}: {}", alert.cause)));
            }
            AlertKind::Misconfigured => {
                let has_cause = state.kernel.refused_since.is_some();
                found.check(
                    "g6-an-alert-of-the-installation-has-its-cause",
                    has_cause,
                    || alert.cause,
                );
            }
        }
    }
    campaigns::check_alerts(state, &of_campaigns, found);
    let are_readable = unreadable.is_empty();
    found.check("world-every-record-is-readable", are_readable, || {
        unreadable.join(", ")
    });
    let wanted = &state.history.alerts;
    if !of_ends.is_empty() || !wanted.is_empty() {
        found.check("g6-alerts-for-bad-ends-alone", of_ends == *wanted, || {
            format!("alerts {of_ends:?}, bad ends and late orders {wanted:?}")
        });
    }
    let of = |letter: &String| format!("dead-letter/{letter}");
    let forgotten: BTreeSet<String> = state.sent.forgotten.iter().map(of).collect();
    let sent_on: BTreeSet<String> = state.bus.sent_on(topics::EVENTS).iter().map(of).collect();
    let mut wanted: BTreeSet<String> = state.sent.letters.iter().map(of).collect();
    wanted.retain(|letter| !forgotten.contains(letter));
    of_letters.retain(|letter| !forgotten.contains(letter) && !sent_on.contains(letter));
    if !of_letters.is_empty() || !wanted.is_empty() {
        let name = "g7-an-alert-for-every-dead-letter";
        found.check(name, of_letters == wanted, || {
            format!("alerts {of_letters:?}, poison {wanted:?}")
        });
    }
}

/// G7: an order whose details do not fit is never stored. Its application gets the status `rejected`, in the reply
/// topic that the order names, and no other status.
fn misfits(state: &State, found: &mut Findings) {
    for (id, told_in) in &state.sent.misfits {
        let is_stored = state.store.order(id).is_some() || state.store.is_gone(id);
        found.check("g7-misfits-are-never-stored", !is_stored, || id.to_string());
        let mut told: BTreeSet<(&str, &str, u64)> = BTreeSet::new();
        for topic in [topics::STATUS, "reply.app"] {
            for stored in state.bus.all(topic) {
                let read = serde_json::from_slice::<StatusMessage>(&stored.envelope.value);
                if let Some(status) = read.ok().filter(|status| &status.order_id == id) {
                    told.insert((topic, status.status.as_str(), status.sequence.into()));
                }
            }
        }
        let wanted = BTreeSet::from([(*told_in, Status::Rejected.as_str(), 0)]);
        // While writes to the topic are refused, only the dead letter reports the order.
        let is_right = match state.kernel.refused_since {
            Some(_) => told.is_subset(&wanted),
            None => told == wanted,
        };
        found.check("g7-misfits-are-told-so", is_right, || {
            format!("{id}: told {told:?}, and is to be told {wanted:?}")
        });
    }
}

/// G7: exactly the records that cannot be handled are in the dead-letter topic, each with its cause.
fn letters(state: &State, found: &mut Findings) {
    let mut kept = BTreeSet::new();
    // The others are markers that say who has replayed a letter.
    let letters = state.bus.all(topics::DEAD_LETTER);
    for stored in letters.filter(|stored| header(stored, "triad-by").is_none()) {
        let has_cause = header(stored, "triad-cause").is_some_and(|c| !c.is_empty());
        found.check("g7-a-dead-letter-has-a-cause", has_cause, || {
            format!("{stored:?}")
        });
        kept.extend(header(stored, "ce_id"));
    }
    let forgotten = &state.sent.forgotten;
    // Events that named a key are sent on to their orders.
    let sent_on = state.bus.sent_on(topics::EVENTS);
    kept.retain(|letter| !forgotten.contains(letter) && !sent_on.contains(letter));
    let wanted: BTreeSet<String> = state.sent.letters.difference(forgotten).cloned().collect();
    if !kept.is_empty() || !wanted.is_empty() {
        found.check("g7-poison-is-dead-lettered", kept == wanted, || {
            format!("dead letters {kept:?}, poison {wanted:?}")
        });
    }
}

/// G7: an alert about a dead letter comes after the letter, and there are no more alerts than letters: if the topic
/// refuses everything, redeliveries do not cause alerts. An alert that the bus has stored twice at the same time
/// counts once; two processes may write the same letter at the same time.
fn letters_first(state: &State, found: &mut Findings) {
    let mut letters: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for stored in state.bus.all(topics::DEAD_LETTER) {
        let id = header(stored, "ce_id").unwrap_or_default();
        letters.entry(id).or_default().push(stored.at);
    }
    let mut alerts: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
    for stored in state.bus.all(topics::ALERTS) {
        let alert = serde_json::from_slice::<Alert>(&stored.envelope.value).ok();
        if let Some(id) =
            alert.and_then(|a| a.alert_id.strip_prefix("dead-letter/").map(str::to_owned))
        {
            alerts.entry(id).or_default().insert(stored.at);
        }
    }
    for (id, alerts) in alerts {
        let letters = letters.get(&id).cloned().unwrap_or_default();
        let is_first = letters.first() <= alerts.first() && alerts.len() <= letters.len();
        found.check("g7-a-letter-goes-before-its-alert", is_first, || {
            format!("{id}: letters at {letters:?}, alerts at {alerts:?}")
        });
    }
}

/// The first value of a header as text.
fn header(stored: &Stored, name: &str) -> Option<String> {
    let mut headers = stored.envelope.headers.iter();
    let (_, value) = headers.find(|(n, value)| n == name && value.is_some())?;
    value.clone().and_then(|v| String::from_utf8(v).ok())
}
