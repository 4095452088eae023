//! Copies of records and details that a Scheduler has just seen.
//!
//! The state store alone is the truth: a copy is used to decide, and the write that follows is
//! conditional on the copy's version, so a stale one costs a reload and nothing else. A
//! decision that writes nothing is never taken on a copy. What it saves is the read that would
//! otherwise come before every write.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use lru::LruCache;
use serde_json::Value;
use triad_core::{Order, OrderId};

/// Largest details that are kept, as bytes of the message they came in.
pub const MAX_DETAILS_BYTES: usize = 16 * 1024;

/// A copy of a record, with its details where they have been read.
#[derive(Debug, Clone)]
pub struct Copy {
    /// The record.
    pub order: Arc<Order>,
    /// The details.
    pub details: Option<Arc<Value>>,
}

/// A bounded memory of the last orders seen.
#[derive(Debug)]
pub struct OrderCache(Option<Mutex<LruCache<OrderId, Copy>>>);

impl OrderCache {
    /// A cache of at most so many orders; none at all for zero.
    #[must_use]
    pub fn new(orders: usize) -> Self {
        Self(NonZeroUsize::new(orders).map(|n| Mutex::new(LruCache::new(n))))
    }

    /// The copy of an order.
    #[must_use]
    pub fn get(&self, id: &OrderId) -> Option<Copy> {
        self.with(|c| c.get(id).cloned()).flatten()
    }

    /// Keeps a copy.
    pub fn put(&self, copy: Copy) {
        self.with(|c| c.put(copy.order.id.clone(), copy));
    }

    /// Forgets an order: its copy has proved stale, or it has finished.
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
