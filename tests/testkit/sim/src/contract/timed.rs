//! A store whose clock the contracts can move.

use std::future::Future;

use triad_core::Timestamp;
use triad_runtime::{Clock, ControlStore, StateStore};
use triad_workflow::Millis;

use crate::ports::Ports;

/// A store for contracts in which time passes, and which set the retention of finished records.
pub trait TimedStore: Send + Sync {
    /// The type of the store.
    type Store: StateStore + ControlStore;

    /// A store on the same records whose writes keep finished records for `retention` milliseconds.
    fn keeping(&self, retention: Millis) -> Self::Store;

    /// The current time of the store's clock.
    fn now(&self) -> Timestamp;

    /// Lets at least `span` milliseconds pass on the store's clock.
    fn pass(&self, span: Millis) -> impl Future<Output = ()> + Send;
}

/// The store of a simulated world, for contracts in which time passes.
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
