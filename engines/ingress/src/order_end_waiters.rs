//! Who waits for the end of an order, and how they are told of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use triad_core::OrderId;

/// Most requests that wait for the ends of orders at once, in the default [`Ends`], inclusive.
pub const MAX_WAITING: usize = 10_000;

/// The requests that wait for the ends of orders. Clones share them.
///
/// [`Noticing`](crate::Noticing) tells a request when the order that it waits for may have ended, and the
/// request then reads the order's record. An end that another process wrote is told to nobody, so each
/// request also reads the record from time to time.
#[derive(Debug, Clone)]
pub struct OrderEndWaiters {
    waiting: Arc<Mutex<HashMap<String, watch::Sender<()>>>>,
    places: Arc<Semaphore>,
    most: usize,
}

impl Default for OrderEndWaiters {
    /// With [`MAX_WAITING`] places.
    fn default() -> Self {
        Self::new(MAX_WAITING)
    }
}

impl OrderEndWaiters {
    /// No request waits yet. At most `most` requests may wait at once; one more is answered with 429.
    #[must_use]
    pub fn new(most: usize) -> Self {
        let most = most.min(Semaphore::MAX_PERMITS);
        Self {
            waiting: Arc::default(),
            places: Arc::new(Semaphore::new(most)),
            most,
        }
    }

    /// How many requests wait, those included that have a place and are still being submitted.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.most.saturating_sub(self.places.available_permits())
    }

    /// A place to wait; `None` if all are taken.
    pub(crate) fn place(&self) -> Option<WaitPermit> {
        let permit = Arc::clone(&self.places).try_acquire_owned().ok()?;
        Some(WaitPermit {
            ends: self.clone(),
            _permit: permit,
        })
    }

    /// Tells all who wait for this order to look.
    pub(crate) fn ended(&self, order: &str) {
        if let Some(told) = self.lock().get(order) {
            told.send_replace(());
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, watch::Sender<()>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place to wait, of an order that is not known yet.
#[derive(Debug)]
pub(crate) struct WaitPermit {
    ends: OrderEndWaiters,
    _permit: OwnedSemaphorePermit,
}

impl WaitPermit {
    /// Waits for this order from now on. An end that is told later is not missed; one that was told
    /// before is in the order's record.
    pub(crate) fn of(self, order: &OrderId) -> OrderEndWaiter {
        let told = self
            .ends
            .lock()
            .entry(order.as_str().to_owned())
            .or_insert_with(|| watch::Sender::new(()))
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
    told: watch::Receiver<()>,
}

impl OrderEndWaiter {
    /// Completes when an end is told that was not seen yet. Safe to be dropped and called again.
    pub(crate) async fn ended(&mut self) {
        if self.told.changed().await.is_err() {
            // The sender stays as long as anybody waits.
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for OrderEndWaiter {
    fn drop(&mut self) {
        let mut waiting = self.place.ends.lock();
        let is_last = |told: &watch::Sender<()>| told.receiver_count() <= 1;
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
        ends.ended("7");
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
        ends.ended("7");
    }
}
