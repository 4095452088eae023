//! A store whose time the contracts move.

use std::future::Future;

use triad_core::Timestamp;
use triad_runtime::{Clock, ControlStore, StateStore};
use triad_workflow::Millis;

use crate::ports::Ports;

/// A store whose time the contracts move, and which they tell how long to keep finished records.
pub trait TimedStore: Send + Sync {
    /// The store.
    type Store: StateStore + ControlStore;

    /// The store over the same records, for a writer that keeps finished ones for a span.
    fn keeping(&self, retention: Millis) -> Self::Store;

    /// Now, as the store sees it.
    fn now(&self) -> Timestamp;

    /// Lets a span pass.
    fn pass(&self, span: Millis) -> impl Future<Output = ()> + Send;
}

/// The store of a simulated world.
#[derive(Debug)]
pub struct SimulatedStore(Ports);

impl SimulatedStore {
    /// The store of the world of these ports.
    #[must_use]
    pub fn of(ports: &Ports) -> Self {
        Self(ports.clone())
    }
}

impl TimedStore for SimulatedStore {
    type Store = Ports;

    fn keeping(&self, retention: Millis) -> Ports {
        self.0.keeping(retention)
    }

    fn now(&self) -> Timestamp {
        Clock::now(&self.0)
    }

    async fn pass(&self, span: Millis) {
        self.0.sleep(span).await;
    }
}
