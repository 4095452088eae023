//! Checks G11: a fault of one topic, partition, service, process or order must not stop work that does not need it.

use std::collections::{BTreeMap, BTreeSet};

use triad_core::message::{Alert, AlertKind};
use triad_core::{Order, ProcessState, topics, window};

use super::liveness::HOP_MS;
use super::load::FORGOTTEN_MS;
use crate::bus::place;
use crate::definitions;
use crate::kernel::OUTSIDE;
use crate::lone::{Lone, Older, Sample};
use crate::setup::SWEEP_MS;
use crate::world::State;

/// Longest time from an order's first refused write to the alert about it, in milliseconds. The Scheduler handles the
/// rest of its batch before it sends the alert.
const TOLD_WITHIN_MS: u64 = 60_000;

/// Time limit of an order that does not need the faulty part, in milliseconds.
///
/// If no calls fail, the order passes from process to process: Submission, a Scheduler, and for each step an agent
/// and a Scheduler. If some calls fail, steps may also be delayed, deferred and retried.
///
/// If dead letters cannot be written, the order may first have to wait for room ([`room_ms`]), and then for a sweep
/// to wake the Scheduler.
fn bound_ms(state: &State, lone: &Lone, orders: &[Sample], order: &Sample) -> u64 {
    let own = own_ms(state, order);
    match is_about_letters(lone) {
        true => {
            let announced = definitions::TIMING.announce_within.0 + 2 * SWEEP_MS;
            own + room_ms(state, orders) + announced
        }
        false => own,
    }
}

/// Longest time for which an order waits for room in the windows of its agents, in milliseconds.
///
/// A record whose dead letter cannot be written blocks one partition of every topic. An order with a request behind
/// it counts as under way until its Scheduler forgets it or the order is woken again; then it must wait for its turn
/// again. So each such order comes before another one at most once, and so does each order that is not blocked, which
/// counts as under way while it runs. No call fails in such a world, so each window admits at least two orders.
fn room_ms(state: &State, orders: &[Sample]) -> u64 {
    let behind = behind_letters(state);
    let kept = orders
        .iter()
        .map(|o| match o.lines(&state.bus).is_disjoint(&behind) {
            true => own_ms(state, o),
            false => FORGOTTEN_MS,
        });
    kept.sum::<u64>().div_ceil(u64::from(window::FEWEST))
}

/// Longest time of an order once it has room, in milliseconds.
fn own_ms(state: &State, order: &Sample) -> u64 {
    if state.kernel.faults.remote_fail > 0 {
        definitions::order_ms(order.workflow, SWEEP_MS * 2)
    } else {
        let hops = 3 + 2 * order.workflow.steps.len() as u64;
        hops * HOP_MS
    }
}

/// Whether the fault prevents dead letters of unreadable records.
pub(crate) fn is_about_letters(lone: &Lone) -> bool {
    [topics::DEAD_LETTER, topics::ALERTS].contains(&match lone {
        Lone::Topic(topic) => topic.as_str(),
        _ => return false,
    })
}

/// Time limit of all orders together that do not need the faulty part, in milliseconds.
pub(crate) fn longest_ms(state: &State, lone: &Lone, orders: &[Sample]) -> u64 {
    let others = orders.iter().filter(|o| !lone.is_needed_by(o, &state.bus));
    others
        .map(|o| bound_ms(state, lone, orders, o))
        .max()
        .unwrap_or(0)
}

/// Checks during the fault that every order that does not need the faulty part has ended within its time limit, with
/// all messages sent.
pub(crate) fn meanwhile(state: &mut State, lone: &Lone, orders: &[Sample], sent_within_ms: u64) {
    let sent = state.watched.began + sent_within_ms;
    // `None` if no order has needed the refused part.
    let refused = state.kernel.refused_since;
    if lone.is_told() && refused.is_some_and(|at| at + TOLD_WITHIN_MS < state.kernel.now) {
        let are_told = operators_are_told(state);
        if are_told {
            state
                .kernel
                .coverage
                .reach("saw: alert of the installation");
        }
        let name = "g6-operators-are-told-of-what-is-refused";
        state.kernel.check(name, are_told, || {
            format!("{lone:?}: no alert says that the installation is to be mended")
        });
    }
    if let Lone::Definition(_, Older::All) = lone {
        let alerts = state.bus.all(topics::ALERTS);
        let alerts = alerts.filter_map(|s| serde_json::from_slice::<Alert>(&s.envelope.value).ok());
        let told = alerts
            .filter(|alert| alert.kind == AlertKind::Unreadable)
            .count();
        // Each Supervisor that finds the definition at the same time may send an alert.
        let is_well = (1..=state.setup.sizes.supervisors).contains(&told);
        let name = "g6-operators-are-told-once-of-a-definition-that-cannot-be-read";
        state
            .kernel
            .check(name, is_well, || format!("{lone:?}: {told} alerts"));
    }
    let held = held_up(state, lone, orders);
    let others = orders.iter().filter(|o| {
        let waits_behind = !o.lines(&state.bus).is_disjoint(&held);
        !is_needed(state, lone, o) && !waits_behind
    });
    let sent_alerts = alerts_of_orders(state);
    let mut found = Vec::new();
    let mut on_time = 0_u32;
    let mut alerts = Vec::new();
    for order in others {
        alerts.extend(
            sent_alerts
                .iter()
                .filter(|(_, of, _)| *of == order.id.as_str()),
        );
        let bound = sent + bound_ms(state, lone, orders, order);
        match state.watched.rested.get(&order.id) {
            Some(at) if *at <= bound => on_time += 1,
            at => found.push(format!("{}: {at:?}, {bound} at the latest", order.id)),
        }
    }
    if !alerts.is_empty() {
        let is_once = alerts.iter().all(|(kind, _, times)| {
            matches!(kind, AlertKind::OrderLate | AlertKind::EventsUnused) || *times <= 1
        });
        let name = "g6-an-alert-once-where-nothing-is-lost";
        state
            .kernel
            .check(name, is_once, || format!("{lone:?}: {alerts:?}"));
    }
    if on_time > 0 {
        state.kernel.coverage.reach("alone: went on meanwhile");
    }
    state
        .kernel
        .note(OUTSIDE, || format!("{on_time} orders went on"));
    if on_time > 0 || !found.is_empty() {
        state
            .kernel
            .check("g11-others-go-on", found.is_empty(), || {
                format!("{lone:?}: {}", found.join("; "))
            });
    }
}

/// The alerts about orders: kind, order, and how often one process sent the same alert.
///
/// If no process dies and every call is answered, the writer of an order's end sends its alert once and then confirms
/// it; another process that reads the record in between may send it as well. An order that is only late continues,
/// and its next writer sends the alert again if it has no copy of the sent messages: such alerts are not limited
/// here.
fn alerts_of_orders(state: &State) -> Vec<(AlertKind, String, usize)> {
    let mut sent: BTreeMap<_, (AlertKind, String, usize)> = BTreeMap::new();
    for stored in state.bus.all(topics::ALERTS) {
        let Ok(alert) = serde_json::from_slice::<Alert>(&stored.envelope.value) else {
            continue;
        };
        if let Some(order) = alert.order_id {
            let same = (alert.alert_id, stored.by);
            let (_, _, times) = sent.entry(same).or_insert((alert.kind, order, 0));
            *times += 1;
        }
    }
    sent.into_values().collect()
}

fn is_needed(state: &State, lone: &Lone, order: &Sample) -> bool {
    let is_told_of = |o: &Order| {
        let is_bad = matches!(
            o.state,
            ProcessState::Error { .. } | ProcessState::CompensationFailed { .. }
        );
        is_bad || o.late_since.is_some()
    };
    lone.is_needed_by(order, &state.bus)
        || (*lone == Lone::Topic(topics::ALERTS.to_owned())
            && state.store.order(&order.id).is_some_and(|o| is_told_of(o)))
}

/// The partitions with a record that cannot be finished during the fault, and the partitions of the topic `scheduler`
/// that the same Scheduler reads.
///
/// Later records of such a partition may have to wait. Orders whose replies wait there count as under way until their
/// Scheduler forgets them, after half a minute each. Meanwhile it may have no room to start other orders with the
/// same agents. A service that does not answer blocks no partition, because its agent gives up the call.
fn held_up(state: &State, lone: &Lone, orders: &[Sample]) -> BTreeSet<(String, usize)> {
    let mut held = BTreeSet::new();
    if matches!(lone, Lone::Service(_) | Lone::Refused(..)) {
        return held;
    }
    // Unsent messages to agents, operators or applications do not block a partition: a sweep sends them later.
    let is_left = |topic: &str| {
        topic.starts_with("agent.")
            || topic.starts_with("reply.")
            || [topics::ALERTS, topics::STATUS].contains(&topic)
    };
    let is_held = match lone {
        Lone::Topic(topic) | Lone::Partition(topic, _) => !is_left(topic),
        Lone::Service(_) | Lone::Refused(..) | Lone::Definition(..) => false,
        Lone::Process(_) | Lone::Order(_) | Lone::Control(_) => true,
    };
    // If a rate limit cannot be read, the work is deferred. If calls cannot be claimed, the request is redelivered,
    // which blocks its partition.
    let waits_in_line = |o: &&Sample| !matches!(lone, Lone::Control(_)) || o.is_counted();
    let needing = orders
        .iter()
        .filter(|o| is_held && is_needed(state, lone, o) && waits_in_line(o));
    held.extend(needing.flat_map(|o| o.lines(&state.bus)));
    if is_about_letters(lone) {
        held.extend(behind_letters(state));
    }
    for (topic, all) in &state.bus.topics {
        let is_held = |at: usize| held.contains(&(topic.clone(), at));
        let owners: BTreeSet<_> = (0..all.len())
            .filter(|at| topics::is_scheduler(topic) && is_held(*at))
            .map(|at| all[at].owner)
            .collect();
        let beside = (0..all.len()).filter(|at| owners.contains(&all[*at].owner));
        held.extend(beside.map(|at| (topic.clone(), at)));
    }
    held
}

/// The partitions to which records without a key go; such a record is not an order, request or reply.
fn behind_letters(state: &State) -> BTreeSet<(String, usize)> {
    let topics = state.bus.topics.iter();
    topics
        .map(|(topic, partitions)| (topic.clone(), place(None, partitions.len())))
        .collect()
}

/// Whether there is an alert that the installation needs a repair.
fn operators_are_told(state: &State) -> bool {
    let alerts = state.bus.all(topics::ALERTS);
    let mut alerts = alerts.filter_map(|s| serde_json::from_slice::<Alert>(&s.envelope.value).ok());
    alerts.any(|alert| alert.kind == AlertKind::Misconfigured)
}
