//! The embedded broker of one machine as its own handlers use it: without a socket.

use std::convert::Infallible;
use std::time::Duration;

use triad_bootstrap::Wiring;
use triad_broker::InProcessClient;
use triad_consume::Broker;
use triad_direct::{DirectBroker, DirectBus, DirectConsumer};
use triad_ingress::{Noticing, OrderEndWaiters};
use triad_runtime::BusError;

use crate::store::Store;

/// The clients of a run on one machine.
pub type Wired = Wiring<Store, LocalBroker>;

/// The embedded broker of this process, with a bus that notifies callers waiting for the ends of orders.
#[derive(Debug, Clone)]
pub struct LocalBroker {
    direct: DirectBroker,
    ends: OrderEndWaiters,
}

impl LocalBroker {
    /// A broker over this client; `ends` has the waiting callers.
    pub fn new(line: InProcessClient, ends: OrderEndWaiters) -> Self {
        Self {
            direct: DirectBroker::new(line),
            ends,
        }
    }
}

impl Broker for LocalBroker {
    type Consumer = DirectConsumer;
    type Bus = Noticing<DirectBus>;
    type Error = Infallible;

    fn join(&self, group: &str, topic: &str) -> Result<DirectConsumer, Infallible> {
        self.direct.join(group, topic)
    }

    fn bus(&self) -> Result<Self::Bus, BusError> {
        Ok(Noticing::new(self.direct.bus()?, self.ends.clone()))
    }

    fn flush(_bus: &Self::Bus, _within: Duration) {
        // An in-process publish needs no flush.
    }

    fn address(&self) -> &str {
        self.direct.address()
    }
}
