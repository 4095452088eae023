//! Checks that after a start on one machine, the messages that each unfinished order waits for are sent again.

use std::collections::{BTreeMap, BTreeSet};

use triad_core::outbox::Emission;
use triad_core::{IdempotencyKey, Order, OrderId, ProcessState, Timestamp};

use crate::kernel::InstanceId;
use crate::world::State;

/// The messages that a starting process must send again, by order and by the version that the order had: their ids,
/// and the time until which each is useful.
#[derive(Debug)]
pub(crate) struct ExpectedSends {
    since: u64,
    /// The clock of the starting instance at that time.
    clock: Timestamp,
    of: BTreeMap<OrderId, (u64, Vec<(String, Timestamp)>)>,
}

impl ExpectedSends {
    /// The messages that each unfinished order waits for now, by its record.
    pub(crate) fn now(state: &State, who: InstanceId) -> Self {
        let alive = state.store.orders().filter(|o| !o.state.is_finished());
        let of = alive.map(|o| (o.id.clone(), (o.version.0, awaited(o))));
        Self {
            since: state.kernel.now,
            clock: state.kernel.clock_of(who),
            of: of.collect(),
        }
    }

    /// Checks that these messages were sent since, for orders that were not written later. Skipped if the due index
    /// may be wrong, because then no process can find the orders.
    pub(crate) fn check(self, state: &mut State, who: InstanceId) {
        if !state.kernel.faults_at_first.index_is_true() {
            return;
        }
        let sent = sent_since(state, self.since);
        // The clock may have been set back after the process had found the request to be over.
        let now = state.kernel.clock_of(who).max(self.clock);
        for (id, (version, awaited)) in self.of {
            let order = state.store.order(&id);
            if order.is_none_or(|o| o.version.0 != version) {
                continue;
            }
            let in_time = awaited.into_iter().filter(|(_, until)| now < *until);
            for (message, _) in in_time {
                let is_sent = sent.contains(&message);
                state
                    .kernel
                    .check("g1-driven-on-at-the-start", is_sent, || {
                        format!("{message} was not sent again")
                    });
            }
        }
    }
}

/// The messages that an order waits for, by its record.
fn awaited(order: &Order) -> Vec<(String, Timestamp)> {
    let mut ids = Vec::new();
    let is_new = matches!(order.state, ProcessState::Pending { complete_by: None });
    let is_asked_for = is_new || order.outbox.entries.contains(&Emission::Wake);
    if is_asked_for && order.paused.is_none() && order.set_aside.is_none() {
        let wake = format!("{}/wake/{}", order.id, order.version);
        ids.push((wake, Timestamp(u64::MAX)));
    }
    for step in &order.steps {
        if let Some(out) = step.state.out() {
            let (direction, attempt) = (out.direction, out.attempt);
            let key = IdempotencyKey::of(&order.id, &step.step, direction, step.key);
            ids.push((format!("{key}/{direction}/{attempt}"), out.complete_by));
        }
    }
    ids
}

/// Ids of the messages sent since this time.
fn sent_since(state: &State, since: u64) -> BTreeSet<String> {
    let partitions = state.bus.topics.values().flatten();
    let records = partitions.flat_map(|p| p.log.iter().filter(|s| s.at >= since));
    let ids = records.filter_map(|s| {
        let header = s.envelope.headers.iter().find(|(name, _)| name == "ce_id");
        header.and_then(|(_, value)| value.clone())
    });
    ids.map(|id| String::from_utf8_lossy(&id).into_owned())
        .collect()
}
