//! Copies of records and details that a Scheduler has just used.
//!
//! Only the state store is authoritative: a decision may use a copy, because its write is conditional on the copy's
//! version, so a stale copy only costs a reload. A decision that writes nothing is never made on a copy. The cache
//! saves the read before each write.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use lru::LruCache;
use serde_json::Value;
use triad_core::{Order, OrderId};

/// Largest message, in bytes, inclusive, whose order is kept with its details: 16 KiB. An order that came in
/// a larger message is not kept.
pub const MAX_DETAILS_BYTES: usize = 16 * 1024;

/// A copy of a process record, with the order's details if they have been read.
#[derive(Debug, Clone)]
pub struct Copy {
    /// The record as it was last written or read.
    pub order: Arc<Order>,
    /// The order's details; `None` if they have not been read.
    pub details: Option<Arc<Value>>,
}

/// Copies of the orders that were used last. When it is full, the one that was not used for the
/// longest time is dropped.
#[derive(Debug)]
pub struct OrderCache(Option<Mutex<LruCache<OrderId, Copy>>>);

impl OrderCache {
    /// A cache that holds at most `orders` copies. With 0 it holds none: [`get`](Self::get) always
    /// answers `None`, and [`put`](Self::put) does nothing.
    #[must_use]
    pub fn new(orders: usize) -> Self {
        Self(NonZeroUsize::new(orders).map(|n| Mutex::new(LruCache::new(n))))
    }

    /// The copy of an order, which then counts as just used; `None` if there is none.
    #[must_use]
    pub fn get(&self, id: &OrderId) -> Option<Copy> {
        self.with(|c| c.get(id).cloned()).flatten()
    }

    /// Keeps a copy, in place of an older one of the same order. In a full cache the order that was
    /// not used for the longest time is dropped for it.
    pub fn put(&self, copy: Copy) {
        self.with(|c| c.put(copy.order.id.clone(), copy));
    }

    /// Drops the copy of an order: it has proved stale, or the order has finished. Does nothing if
    /// there is none.
    pub fn forget(&self, id: &OrderId) {
        self.with(|c| c.pop(id));
    }

    fn with<T>(&self, act: impl FnOnce(&mut LruCache<OrderId, Copy>) -> T) -> Option<T> {
        let cache = self.0.as_ref()?;
        Some(act(&mut cache
            .lock()
            .unwrap_or_else(PoisonError::into_inner)))
    }
}
