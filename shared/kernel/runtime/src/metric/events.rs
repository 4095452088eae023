//! Events of handlers, and the metrics that they change.

use std::collections::BTreeMap;

use triad_core::{Direction, Order, Priority, ProcessState, Timestamp, invariants};
use triad_workflow::{AgentName, Millis, WorkflowName};

use super::table::{self, Value, is_measured};
use crate::handled::Redelivery;
use crate::ports::{BusError, StoreError};
use crate::record::InputRecord;

fn seconds(time: Millis) -> f64 {
    time.0 as f64 / 1_000.0
}

fn named(name: &impl ToString) -> Value {
    Value::Owned(name.to_string())
}

/// Label values: handlers.
const HANDLERS: [&str; 4] = ["submission", "scheduler", "agent", "supervisor"];
/// Label values: reasons of redeliveries.
const REASONS: [&str; 8] = [
    "store", "bus", "outside", "raced", "behind", "time", "newer", "room",
];
/// Label values: outcomes of attempts.
const OUTCOMES: [&str; 6] = [
    "succeeded",
    "failed",
    "in_doubt",
    "deferred",
    "silent",
    "interrupted",
];
/// States of finished orders.
const ENDS: [&str; 4] = ["Processed", "Compensated", "Error", "CompensationFailed"];

/// Starts the counters whose label values are all known.
pub(super) fn begin() {
    table::ORDERS_REJECTED.begin([]);
    table::CONFLICTS.begin([]);
    for result in ["whole", "truncated", "unread"] {
        table::SWEEPS.begin([result.into()]);
    }
    for handler in HANDLERS {
        table::MISCONFIGURED.begin([handler.into()]);
        for reason in REASONS {
            table::REDELIVERIES.begin([handler.into(), reason.into()]);
        }
        for class in ["transient", "configuration", "item"] {
            table::ERRORS.begin([handler.into(), "store".into(), class.into()]);
        }
        for class in ["transient", "late", "item", "configuration"] {
            table::ERRORS.begin([handler.into(), "bus".into(), class.into()]);
        }
    }
    let of_record = invariants::OF_RECORD.iter().map(|(name, _)| *name);
    let of_write = invariants::OF_WRITE.iter().map(|(name, _)| *name);
    for invariant in of_record.chain(of_write) {
        table::INVARIANT_BREACHES.begin([invariant.into()]);
    }
}

/// Starts the counters of an agent. Call it before the agent's first request.
pub fn begin_agent(agent: &AgentName) {
    table::BREAKER_OPENINGS.begin([named(agent)]);
    for direction in [Direction::Forward, Direction::Compensate] {
        for outcome in OUTCOMES {
            table::ATTEMPTS.begin([named(agent), named(&direction), outcome.into()]);
        }
    }
}

/// Starts the counters of a workflow's orders. Call it before the workflow's first order.
pub fn begin_workflow(workflow: &WorkflowName) {
    table::ORDERS_ACCEPTED.begin([named(workflow)]);
    for state in ENDS {
        table::ORDERS_ENDED.begin([named(workflow), state.into()]);
    }
}

/// How many orders of a workflow are in a state that needs an operator.
pub fn needing(workflow: &WorkflowName, state: &'static str, orders: u64) {
    table::ORDERS_NEEDING.set(orders as f64, [named(workflow), state.into()]);
}

/// An order was stored for the first time.
pub(crate) fn accepted(workflow: &WorkflowName) {
    if is_measured() {
        table::ORDERS_ACCEPTED.add(1, [named(workflow)]);
    }
}

/// A submission was rejected for lack of room.
pub(crate) fn rejected() {
    table::ORDERS_REJECTED.add(1, []);
}

/// A write has brought an order from `before` to `after`.
pub(crate) fn count_transition(before: &Order, after: &Order, now: Timestamp) {
    if before.state.is_finished() || !after.state.is_finished() {
        return;
    }
    count_end(after, now);
    if matches!(
        after.state,
        ProcessState::Error { .. } | ProcessState::CompensationFailed { .. }
    ) {
        let cause = after.state.cause().map(ToString::to_string);
        tracing::info!(order = %after.id, workflow = %after.workflow, state = after.state.name(), cause, "order needs an operator");
    }
}

fn count_end(order: &Order, now: Timestamp) {
    if is_measured() {
        let labels = || [named(&order.workflow.name), order.state.name().into()];
        table::ORDERS_ENDED.add(1, labels());
        let took = now.since(order.submitted_at);
        table::ORDER_DURATION.record(seconds(took), labels());
    }
}

/// An agent has done with a request.
pub(crate) fn attempted(agent: &AgentName, direction: Direction, outcome: &'static str) {
    if is_measured() {
        let labels = [named(agent), named(&direction), outcome.into()];
        table::ATTEMPTS.add(1, labels);
    }
}

/// A call of a service has ended.
pub(crate) fn called(agent: &AgentName, outcome: &'static str, took: Millis) {
    if is_measured() {
        table::CALL_DURATION.record(seconds(took), [named(agent), outcome.into()]);
    }
}

/// Records that a handler has begun work on records; those without a timestamp are left out.
pub(crate) fn taken_up(handler: &'static str, records: &[InputRecord], now: Timestamp) {
    if !is_measured() {
        return;
    }
    for record in records {
        if let Ok(written) = u64::try_from(record.timestamp_ms) {
            let waited = now.since(Timestamp(written));
            let labels = [handler.into(), named(&record.topic)];
            table::RECORD_WAIT.record(seconds(waited), labels);
        }
    }
}

/// A record was not done and is delivered again.
pub(crate) fn redelivered(handler: &'static str, why: &Redelivery) {
    let reason = match why {
        Redelivery::Store(_) => "store",
        Redelivery::Unsent(_) => "bus",
        Redelivery::Outside(_) => "outside",
        Redelivery::Raced => "raced",
        Redelivery::Behind => "behind",
        Redelivery::OutOfTime => "time",
        Redelivery::Newer(_) => "newer",
        Redelivery::NoRoom(_) => "room",
    };
    table::REDELIVERIES.add(1, [handler.into(), reason.into()]);
}

/// A call of the store has failed.
pub(crate) fn store_failed(handler: &'static str, why: &StoreError) {
    let class = match why {
        StoreError::Transient(_) => "transient",
        StoreError::Configuration(_) => "configuration",
        StoreError::Item(_) => "item",
    };
    table::ERRORS.add(1, [handler.into(), "store".into(), class.into()]);
}

/// A message could not be sent.
pub(crate) fn bus_failed(handler: &'static str, why: &BusError) {
    let class = match why {
        BusError::Transient(_) => "transient",
        BusError::Late(_) => "late",
        BusError::TooLarge(_) => "item",
        BusError::Permanent(_) => "configuration",
    };
    table::ERRORS.add(1, [handler.into(), "bus".into(), class.into()]);
}

/// A conditional write lost its race.
pub(crate) fn lost_a_race() {
    table::CONFLICTS.add(1, []);
}

/// A dead letter was made of a record from `topic`.
pub(crate) fn dead_lettered(topic: &str, cause: &'static str) {
    if is_measured() {
        table::DEAD_LETTERS.add(1, [named(&topic), cause.into()]);
    }
}

/// A sweep has ended; `oldest` is since when its most overdue order had been due.
pub(crate) fn swept(
    result: &'static str,
    found: usize,
    oldest: Option<Timestamp>,
    (began, ended): (Timestamp, Timestamp),
) {
    table::SWEEPS.add(1, [result.into()]);
    // A reader that watches for whole sweeps must see a 0 where sweeps run and none is whole.
    table::SWEEPS.add(0, ["whole".into()]);
    table::SWEEP_DURATION.record(seconds(ended.since(began)), []);
    table::SWEEP_ORDERS.set(found as f64, []);
    let overdue = oldest.map_or(Millis(0), |since| began.since(since));
    table::OLDEST_DUE.set(seconds(overdue), []);
}

/// The last known state of an agent's circuit breaker.
pub(crate) fn breaker_is(agent: &AgentName, state: &str) {
    if is_measured() {
        let share = match state {
            "open" => 1.0,
            "half-open" => 0.5,
            _ => 0.0,
        };
        table::BREAKER.set(share, [named(agent)]);
    }
}

/// A circuit breaker has opened, and operators get an alert.
pub(crate) fn breaker_opened(agent: &AgentName) {
    if is_measured() {
        table::BREAKER_OPENINGS.add(1, [named(agent)]);
    }
}

/// How many orders are in flight under a cap.
pub(crate) fn in_flight(orders: u32, limit: u32) {
    table::ORDERS_IN_FLIGHT.set(f64::from(orders), []);
    table::ORDERS_IN_FLIGHT_LIMIT.set(f64::from(limit), []);
}

/// Orders that a Scheduler holds back: each counts for one agent, or for the Schedulers themselves.
pub(crate) fn held_back(waiting: &BTreeMap<(Option<AgentName>, Priority), usize>) {
    if !is_measured() {
        return;
    }
    for ((agent, lane), orders) in waiting {
        let agent = agent.as_ref().map_or("scheduler".into(), named);
        table::ORDERS_WAITING.set(*orders as f64, [agent, lane.name().into()]);
    }
}

/// A handler cannot continue until an operator repairs the installation.
pub(crate) fn misconfigured(handler: &'static str) {
    table::MISCONFIGURED.add(1, [handler.into()]);
}

/// An invariant is broken.
pub(crate) fn breached(invariant: &'static str) {
    table::INVARIANT_BREACHES.add(1, [invariant.into()]);
}

/// Sets the metrics of a loop that reads `topic`: the age of its oldest record that is not done (`None` sets
/// 0), and how many records it has not read yet (`None` leaves the metric as it is, where the number is not
/// known).
pub fn reads(topic: &str, oldest: Option<Millis>, unread: Option<u64>) {
    if !is_measured() {
        return;
    }
    table::OLDEST_RECORD.set(oldest.map_or(0.0, seconds), [named(&topic)]);
    if let Some(unread) = unread {
        table::LAG.set(unread as f64, [named(&topic)]);
    }
}

/// Sets the sizes of one machine's store: free bytes of its disk, bytes of its file, and of its write-ahead log.
pub fn disk(free: u64, file: u64, log: u64) {
    table::DISK_FREE.set(free as f64, []);
    table::STORE_FILE.set(file as f64, []);
    table::STORE_LOG.set(log as f64, []);
}

/// Counts further groups of writes that have failed; 0 starts the counter.
pub fn write_groups_failed(more: u64) {
    table::WRITE_GROUPS_FAILED.add(more, []);
}

/// Sets when the last good backup was made; 0 if there is none.
pub fn backed_up(at: Timestamp) {
    table::LAST_BACKUP.set(at.0 as f64 / 1_000.0, []);
}

/// Counts backups that have failed; 0 starts the counter.
pub fn backups_failed(more: u64) {
    table::BACKUPS_FAILED.add(more, []);
}
