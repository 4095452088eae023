//! The ports of one instance. At each call a fault may occur.

mod bus;
mod operator_store;
mod store;

use triad_core::Timestamp;
use triad_runtime::{Clock, Entropy};
use triad_workflow::Millis;

use crate::kernel::{Crash, InstanceId, OUTSIDE};
use crate::machine::kill;
use crate::world::World;
pub(crate) use operator_store::searched_by;

/// The ports of one simulated instance: store, bus, clock and random numbers. At each call a fault may occur.
#[derive(Debug, Clone)]
pub struct Ports {
    pub(crate) world: World,
    pub(crate) who: InstanceId,
    /// The retention of finished records, if it differs from that of the world.
    kept: Option<Millis>,
}

impl Ports {
    pub(crate) fn new(world: World, who: InstanceId) -> Self {
        Self {
            world,
            who,
            kept: None,
        }
    }

    /// The same ports with another retention.
    pub(crate) fn keeping(&self, retention: Millis) -> Self {
        Self {
            kept: Some(retention),
            ..self.clone()
        }
    }

    /// Denies every access to the control records of this world from now on, or allows it again.
    pub fn deny_control(&self, is_denied: bool) {
        self.world.state().control.is_denied = is_denied;
    }

    /// How long finished records are kept, in milliseconds; `None` for ever.
    fn retention(&self) -> Option<u64> {
        let of_world = || self.world.state().setup.retention_ms;
        self.kept.map(|kept| kept.0).or_else(of_world)
    }

    /// The process may die here, between two effects. Messages that it has sent stay sent.
    pub(crate) async fn perhaps_die(&self, when: &'static str) {
        let dies = {
            let mut state = self.world.state();
            let permille = state.kernel.faults.die;
            self.who != OUTSIDE && state.kernel.faults_left > 0 && state.kernel.rng.chance(permille)
        };
        if dies {
            self.die(when).await;
        }
    }

    async fn die(&self, when: &'static str) {
        {
            let mut state = self.world.state();
            state.kernel.faults_left = state.kernel.faults_left.saturating_sub(1);
        }
        kill(&self.world, self.who, when);
        std::future::pending::<()>().await;
    }

    /// To be called before an effect: numbers it, and may kill the process.
    pub(crate) async fn before(&self, what: &'static str) -> u64 {
        let (number, dies) = {
            let mut state = self.world.state();
            if self.who == OUTSIDE {
                return 0;
            }
            state.kernel.effects += 1;
            let number = state.kernel.effects;
            let crash = Crash {
                effect: number,
                after: false,
            };
            let dies = state.kernel.dies_at(self.who, crash);
            state
                .kernel
                .note(self.who, || format!("effect {number}: {what}"));
            (number, dies)
        };
        if dies {
            self.die("fault: died before an effect").await;
        }
        self.perhaps_die("fault: died before an effect").await;
        number
    }

    /// To be called after the effect with this number; may kill the process.
    pub(crate) async fn after(&self, number: u64) {
        let dies = {
            let mut state = self.world.state();
            let crash = Crash {
                effect: number,
                after: true,
            };
            number > 0 && state.kernel.dies_at(self.who, crash)
        };
        if dies {
            self.die("fault: died after an effect").await;
        }
        self.perhaps_die("fault: died after an effect").await;
    }

    /// The time until a call reaches the port.
    async fn enter(&self) {
        let delay = {
            let mut state = self.world.state();
            let permille = state.kernel.faults.stall;
            if state.kernel.fault("fault: port call stalled", permille) {
                state.kernel.rng.between(500, 25_000)
            } else {
                state.kernel.rng.between(0, 12)
            }
        };
        self.world.sleep(delay).await;
    }

    /// The time until the answer reaches the caller.
    async fn leave(&self) {
        let delay = self.world.state().kernel.rng.between(0, 6);
        self.world.sleep(delay).await;
        self.perhaps_die("fault: died after an effect").await;
    }
}

impl Clock for Ports {
    fn now(&self) -> Timestamp {
        self.world.state().kernel.clock_of(self.who)
    }

    async fn sleep(&self, span: Millis) {
        self.world.sleep(span.0).await;
    }
}

impl Entropy for Ports {
    fn next_u64(&self) -> u64 {
        self.world.state().kernel.rng.next()
    }
}
