//! Requests that wait for the ends of orders, and their notification.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use triad_core::{Order, OrderId};
use triad_runtime::{StateStore, StoreError, Write, Written};

/// Most requests that wait for the ends of orders at once, in the default [`OrderEndWaiters`], inclusive.
pub const MAX_WAITING: usize = 10_000;

/// The requests that wait for the ends of orders. Clones share them.
///
/// [`commit`](Self::commit) gives a request the record with which its order has ended. An end that another process
/// wrote wakes no request, so each request also reads the record from time to time.
#[derive(Debug, Clone)]
pub struct OrderEndWaiters {
    waiting: Arc<Mutex<HashMap<String, watch::Sender<Ended>>>>,
    places: Arc<Semaphore>,
    most: usize,
}

/// The record with which an order has ended; `None`: it is to be read.
type Ended = Option<Arc<Order>>;

impl Default for OrderEndWaiters {
    /// With [`MAX_WAITING`] permits.
    fn default() -> Self {
        Self::new(MAX_WAITING)
    }
}

impl OrderEndWaiters {
    /// Without waiting requests. At most `most` requests may wait at once; one more is answered with 429.
    #[must_use]
    pub fn new(most: usize) -> Self {
        let most = most.min(Semaphore::MAX_PERMITS);
        Self {
            waiting: Arc::default(),
            places: Arc::new(Semaphore::new(most)),
            most,
        }
    }

    /// How many requests wait, including those that have a permit and whose order is still being submitted.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.most.saturating_sub(self.places.available_permits())
    }

    /// Commits writes to a store, and wakes the requests that wait for an order that has finished with one of them.
    ///
    /// # Errors
    /// The same as those of [`StateStore::commit`].
    pub async fn commit<S: StateStore>(
        &self,
        store: &S,
        writes: Vec<Write>,
    ) -> Vec<Result<Written, StoreError>> {
        let end = |write: &Write| write.next.state.is_finished().then(|| write.next.clone());
        let ends: Vec<Option<Arc<Order>>> = match self.waiting() {
            0 => Vec::new(),
            _ => writes.iter().map(end).collect(),
        };
        let written = store.commit(writes).await;
        for (order, written) in ends.iter().zip(&written) {
            if let (Some(order), Ok(written)) = (order, written)
                && written.is_written()
            {
                // A record that is read has no outputs that lie beside it.
                let is_as_read = order.outputs_read().next().is_none();
                self.ended(order.id.as_str(), is_as_read.then(|| order.clone()));
            }
        }
        written
    }

    /// Takes a permit to wait; `None` if all are taken.
    pub(crate) fn place(&self) -> Option<WaitPermit> {
        let permit = Arc::clone(&self.places).try_acquire_owned().ok()?;
        Some(WaitPermit {
            ends: self.clone(),
            _permit: permit,
        })
    }

    /// Wakes all requests that wait for this order.
    fn ended(&self, order: &str, record: Ended) {
        if let Some(told) = self.lock().get(order) {
            told.send_replace(record);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, watch::Sender<Ended>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A permit to wait, before the order's id is known.
#[derive(Debug)]
pub(crate) struct WaitPermit {
    ends: OrderEndWaiters,
    _permit: OwnedSemaphorePermit,
}

impl WaitPermit {
    /// Waits for this order from now on. A later notification is not missed; an earlier end is in the order's record.
    pub(crate) fn of(self, order: &OrderId) -> OrderEndWaiter {
        let told = self
            .ends
            .lock()
            .entry(order.as_str().to_owned())
            .or_insert_with(|| watch::Sender::new(None))
            .subscribe();
        OrderEndWaiter {
            place: self,
            order: order.as_str().to_owned(),
            told,
        }
    }
}

/// One request that waits for an order.
#[derive(Debug)]
pub(crate) struct OrderEndWaiter {
    place: WaitPermit,
    order: String,
    told: watch::Receiver<Ended>,
}

impl OrderEndWaiter {
    /// Completes when the order has ended, with its record, or `None` if that is to be read. Cancel-safe: it may be
    /// dropped and called again.
    pub(crate) async fn ended(&mut self) -> Option<Arc<Order>> {
        if self.told.changed().await.is_err() {
            // The sender lives as long as any request waits.
            std::future::pending::<()>().await;
        }
        self.told.borrow_and_update().clone()
    }
}

impl Drop for OrderEndWaiter {
    fn drop(&mut self) {
        let mut waiting = self.place.ends.lock();
        let is_last = |told: &watch::Sender<Ended>| told.receiver_count() <= 1;
        if waiting.get(&self.order).is_some_and(is_last) {
            waiting.remove(&self.order);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn id(text: &str) -> OrderId {
        OrderId::new(text).unwrap()
    }

    #[test]
    fn all_who_wait_for_an_order_are_told_and_nobody_else() {
        let ends = OrderEndWaiters::new(3);
        let mut both = [
            ends.place().unwrap().of(&id("7")),
            ends.place().unwrap().of(&id("7")),
        ];
        let mut other = ends.place().unwrap().of(&id("8"));
        ends.ended("7", None);
        for waiting in &mut both {
            assert!(waiting.ended().now_or_never().is_some());
            assert!(waiting.ended().now_or_never().is_none(), "told once");
        }
        assert!(other.ended().now_or_never().is_none());
    }

    #[test]
    fn places_are_bounded_and_given_back_and_nothing_is_left_of_who_went() {
        let ends = OrderEndWaiters::new(2);
        let first = ends.place().unwrap().of(&id("7"));
        let second = ends.place().unwrap().of(&id("7"));
        assert!(ends.place().is_none());
        assert_eq!(ends.waiting(), 2);
        drop(first);
        assert_eq!(ends.lock().len(), 1, "the other one still waits");
        drop(second);
        assert_eq!((ends.lock().len(), ends.waiting()), (0, 0));
        ends.ended("7", None);
    }
}
