//! Which of its records this Supervisor knows to have nothing unsent.
//!
//! A write carries on the statuses and alerts of the one before it, since that one's writer may have died before it
//! sent them ([`triad_core::outbox`]). A Supervisor that has seen them acknowledged need not: otherwise a step that
//! waits before another attempt would have the same status sent by each of the writes after it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use triad_core::pass::{PassEnd, Task};
use triad_core::{Order, OrderId, Version};

use crate::passes::Carried;

/// Bound: records that are known. The statuses of one that was forgotten are sent again, with the same ids.
const MOST: usize = 4_096;

/// The newest records of a Supervisor of which everything is acknowledged.
#[derive(Debug, Default)]
pub(super) struct Acknowledged(Mutex<AcknowledgedVersions>);

#[derive(Debug, Default)]
struct AcknowledgedVersions {
    versions: HashMap<OrderId, Version>,
    /// Their orders, the one that is known longest first.
    orders: VecDeque<OrderId>,
}

impl Acknowledged {
    /// Notes what has come of a pass. Another process's record has requests, which the Supervisor does not send: only
    /// one that it has written and sent is known. A write that only moves a row of the due index sends nothing.
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

    /// A record as it was read, with nothing to send if all of this version is acknowledged.
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
