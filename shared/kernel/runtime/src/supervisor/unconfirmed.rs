//! Finished orders whose last messages a topic refuses.
//!
//! They stay in the due index until their last status is sent, at the head of their shards. If every sweep sent them
//! again before all newer orders, some thousands of them would take up whole sweeps. So each is deferred for as long
//! as it has been waiting already, within bounds ([`kept_due`](triad_core::pass::kept_due)), and
//! once a topic has refused one page of them, the sweep sends no more of them to it.

use std::collections::BTreeSet;
use std::sync::Arc;

use triad_core::outbox::Emission;
use triad_core::pass;
use triad_core::{Order, Timestamp, topics};

use super::{Report, Supervisor, log_failure};
use crate::control::ControlStore;
use crate::passes::Carried;
use crate::ports::{Bus, Clock, DefinitionStore, Entropy, StateStore, Write, Written};

/// The topics that have refused messages of finished orders in one sweep. At most as many as rows of that sweep.
#[derive(Debug, Default)]
pub(super) struct Refusing(pub(super) BTreeSet<String>);

impl Refusing {
    /// Whether an order has finished and has a message for one of these topics.
    pub(super) fn concerns(&self, order: &Order) -> bool {
        order.state.is_finished() && topics_of(order).any(|topic| self.0.contains(topic))
    }

    /// Notes the result of a pass; returns the record to defer, if its topic refuses its messages.
    pub(super) fn note(&mut self, carried: &Carried) -> Option<pass::Carried> {
        let pass::Task::Ended(pass::PassEnd::Unsent(done)) = carried.pass.task() else {
            return None;
        };
        let is_refused = carried.unsent.as_ref().is_some_and(|e| e.is_of_its_topic());
        if !is_refused || !done.order.state.is_finished() {
            return None;
        }
        self.0.extend(carried.refused.iter().cloned());
        Some(done.clone())
    }
}

/// Topics of an order's unsent statuses and alerts, and of its message to its parent.
fn topics_of(order: &Order) -> impl Iterator<Item = &str> {
    order.outbox.entries.iter().filter_map(|entry| match entry {
        Emission::Status { .. } => Some(order.reply_topic.as_deref().unwrap_or(topics::STATUS)),
        Emission::Alert { .. } => Some(topics::ALERTS),
        Emission::Ended { .. } => Some(topics::scheduler(order.priority)),
        Emission::Wake | Emission::Request { .. } | Emission::Children { .. } => None,
    })
}

impl<S, B, C, E> Supervisor<S, B, C, E>
where
    S: StateStore + DefinitionStore + ControlStore + Clone,
    B: Bus,
    C: Clock,
    E: Entropy,
{
    /// Moves finished orders in the due index, so that the next sweeps do not find them first.
    pub(super) async fn deferred(
        &self,
        orders: &[Arc<Order>],
        now: Timestamp,
        report: &mut Report,
    ) {
        let timing = self.settings.timing;
        let writes = orders.iter().filter_map(|order| {
            let next = Arc::new(pass::kept_due(order, timing, now)?);
            let token = self.entropy.next_u64();
            Some(Write::silent(order.version, next, token))
        });
        let writes: Vec<Write> = writes.collect();
        if writes.is_empty() {
            return;
        }
        for written in self.store.commit(writes).await {
            match written {
                Ok(Written::Written | Written::WithMessages) => {}
                Ok(Written::Conflict) => report.conflicts += 1,
                Err(e) => {
                    self.misconfigured.note_store(&e);
                    log_failure(&e);
                    report.failed += 1;
                }
            }
        }
    }
}
