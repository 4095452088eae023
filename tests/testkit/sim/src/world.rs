//! One world: the kernel and the parts behind one handle.
//!
//! Each part owns its state in its own module and gets the kernel as an argument. Code that needs several parts is
//! elsewhere: `crate::checks` reads all of them, and through `crate::ports` and `crate::consumer` an instance uses
//! them.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use triad_runtime::{Handled, InputRecord};

use crate::bus::BusState;
use crate::control::ControlState;
use crate::history::{History, Watched};
use crate::kernel::{Beginning, InstanceId, Kernel, OnKernel, Owner, Sleep};
use crate::scenario::Sent;
use crate::service::RemoteState;
use crate::setup::Setup;
use crate::store::StoreState;

/// The function with which an instance handles a batch of records.
pub(crate) type Reader = Arc<
    dyn Fn(Vec<InputRecord>) -> Pin<Box<dyn Future<Output = Vec<Handled>> + Send>> + Send + Sync,
>;

/// The kernel and the parts.
pub(crate) struct State {
    pub kernel: Kernel,
    pub setup: Setup,
    pub store: StoreState,
    pub control: ControlState,
    pub bus: BusState,
    pub remote: RemoteState,
    pub history: History,
    /// The orders that were sent, and the records that must become dead letters.
    pub sent: Sent,
    pub watched: Watched,
    /// For each living instance that reads topics, the function that handles its batches.
    pub readers: BTreeMap<InstanceId, Reader>,
}

/// A handle on one simulated world. Clones share the world.
#[derive(Clone)]
pub struct World(Arc<Mutex<State>>);

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("World")
    }
}

impl OnKernel for World {
    fn on_kernel<T>(&self, act: impl FnOnce(&mut Kernel) -> T) -> T {
        act(&mut self.state().kernel)
    }
}

impl World {
    pub(crate) fn new(beginning: Beginning, setup: Setup) -> Self {
        Self(Arc::new(Mutex::new(State {
            kernel: Kernel::new(beginning),
            setup,
            store: StoreState::default(),
            control: ControlState::default(),
            bus: BusState::default(),
            remote: RemoteState::default(),
            history: History::default(),
            sent: Sent::default(),
            watched: Watched::default(),
            readers: BTreeMap::new(),
        })))
    }

    /// Locks the state; the lock must not be held across an await.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> u64 {
        self.state().kernel.now
    }

    pub(crate) fn sleep(&self, ms: u64) -> Sleep<Self> {
        let at = self.now() + ms;
        Sleep::new(self.clone(), at)
    }

    pub(crate) fn spawn(&self, owner: Owner, work: impl Future<Output = ()> + Send + 'static) {
        self.state().kernel.spawn(owner, work);
    }

    /// Kills an instance: its tasks are dropped before any other event.
    pub(crate) fn kill(&self, instance: InstanceId, why: &'static str) {
        let mut state = self.state();
        if state.kernel.kill(instance, why) {
            state.readers.remove(&instance);
        }
    }

    /// Breaks the reference cycle: the world holds the handlers, and they hold the world.
    pub(crate) fn dismantle(&self) {
        let (readers, spawned) = {
            let mut state = self.state();
            (
                std::mem::take(&mut state.readers),
                state.kernel.take_spawned(),
            )
        };
        drop((readers, spawned));
    }
}
