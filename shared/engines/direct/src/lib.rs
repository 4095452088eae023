//! The bus of one machine: a direct line to the embedded broker's log, for the handlers of the process
//! that it runs in.
//!
//! Our own handlers write and read the log without a socket, the protocol and a Kafka client. Everybody
//! else reaches the same topics through the broker's Kafka port: what a handler sends they can read, and
//! what they produce comes to a handler, in any of Kafka's codecs.
//!
//! [`DirectBroker`] is the broker for the loops of `triad-consume`, [`DirectBus`] the bus of the handlers.
//! A message has the partition that the Java clients would give it.

mod batch;
mod bus;
mod consumer;
mod offsets;
mod partition;

use std::time::Duration;

use triad_broker::InProcessClient;
use triad_consume::Broker;
use triad_runtime::BusError;

pub use bus::{DirectBus, PUBLISH_WITHIN};
pub use consumer::DirectConsumer;

/// The embedded broker of this process, for the consumer loops. Clones are the same broker.
///
/// A consumer reads every partition of its topic, whoever else reads it. So only one consumer may read a
/// topic under the name of a group, and no member of this group may come through the Kafka port.
#[derive(Debug, Clone)]
pub struct DirectBroker {
    line: InProcessClient,
}

impl DirectBroker {
    /// The broker that this line leads to.
    #[must_use]
    pub fn new(line: InProcessClient) -> Self {
        Self { line }
    }
}

impl Broker for DirectBroker {
    type Consumer = DirectConsumer;
    type Bus = DirectBus;
    type Error = std::convert::Infallible;

    fn join(&self, group: &str, topic: &str) -> Result<DirectConsumer, Self::Error> {
        Ok(DirectConsumer::new(self.line.clone(), group, topic))
    }

    fn bus(&self) -> Result<DirectBus, BusError> {
        Ok(DirectBus::new(self.line.clone()))
    }

    fn flush(_bus: &DirectBus, _within: Duration) {
        // Nothing to do: a publish waits for its acknowledgement, and leaves no message behind.
    }

    fn address(&self) -> &str {
        "this process"
    }
}
