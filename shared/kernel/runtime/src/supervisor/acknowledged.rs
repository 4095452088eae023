//! Records whose messages this Supervisor has seen acknowledged.
//!
//! A write carries over the statuses and alerts of the one before it, because that one's writer may have died before
//! it sent them ([`triad_core::outbox`]). A Supervisor that has seen them acknowledged need not carry them over:
//! otherwise each write about a step that waits for another attempt would send the same status.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use triad_core::pass::{PassEnd, Task};
use triad_core::{Order, OrderId, Version};

use crate::passes::Carried;

/// Most records that are remembered. The statuses of a forgotten one are sent again, with the same ids.
const MOST: usize = 4_096;

/// The newest records of a Supervisor whose messages are all acknowledged.
#[derive(Debug, Default)]
pub(super) struct Acknowledged(Mutex<AcknowledgedVersions>);

#[derive(Debug, Default)]
struct AcknowledgedVersions {
    versions: HashMap<OrderId, Version>,
    /// The orders of these versions, the longest remembered first.
    orders: VecDeque<OrderId>,
}

impl Acknowledged {
    /// Notes the result of a pass. Only a record that this Supervisor has written and sent is remembered: another
    /// process's record may have requests, which the Supervisor does not send. A write that only moves a row of the
    /// due index sends nothing.
    pub(super) fn note(&self, carried: &Carried) {
        let Task::Ended(PassEnd::Done(done)) = carried.pass.task() else {
            return;
        };
        let order = &done.order;
        let is_told = done.was_written && done.was_sent;
        if !is_told || order.state.is_finished() || order.outbox.entries.is_empty() {
            return;
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let id = order.id.clone();
        if known.versions.insert(id.clone(), order.version).is_none() {
            known.orders.push_back(id);
        }
        if known.orders.len() > MOST
            && let Some(oldest) = known.orders.pop_front()
        {
            known.versions.remove(&oldest);
        }
    }

    /// A record with an empty outbox if all messages of its version are acknowledged, otherwise unchanged.
    pub(super) fn without_sent(&self, order: Order) -> Arc<Order> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = known.versions.get(&order.id) == Some(&order.version);
        Arc::new(match is_known {
            true => Order {
                outbox: order.outbox.acknowledged(),
                ..order
            },
            false => order,
        })
    }
}
