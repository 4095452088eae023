//! A store with a clock that the contracts move.

use std::future::Future;

use triad_core::Timestamp;
use triad_runtime::{Clock, ControlStore, StateStore};
use triad_workflow::Millis;

use crate::ports::Ports;

/// A store for contracts that let time pass and that set the retention of finished records.
pub trait TimedStore: Send + Sync {
    /// The type of the store.
    type Store: StateStore + ControlStore;

    /// A store over the same records whose own writes keep finished records for `retention`
    /// milliseconds.
    fn keeping(&self, retention: Millis) -> Self::Store;

    /// The present time of the store's clock.
    fn now(&self) -> Timestamp;

    /// Lets at least `span` milliseconds pass on the store's clock.
    fn pass(&self, span: Millis) -> impl Future<Output = ()> + Send;
}

/// The store of a simulated world, for contracts that let time pass.
#[derive(Debug)]
pub struct SimulatedStore(Ports);

impl SimulatedStore {
    /// The store of the world that these ports belong to.
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
