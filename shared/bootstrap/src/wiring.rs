//! Clients and handlers, put together from a configuration.

use triad_dynamodb::{DynamoStore, connect};
use triad_kafka::{KafkaBus, KafkaError};
use triad_runtime::agent::{Agent, Remotes};
use triad_runtime::operator::Operator;
use triad_runtime::scheduler::Scheduler;
use triad_runtime::submission::Submission;
use triad_runtime::supervisor::Supervisor;
use triad_runtime::system::{SystemClock, SystemEntropy};

use crate::config::Config;

/// The state store in production: DynamoDB, with the real clock.
pub type Store = DynamoStore<SystemClock>;
/// The bus in production: Kafka.
pub type Bus = KafkaBus;

/// The Scheduler in production, over [`Store`] and [`Bus`].
pub type SchedulerHandler = Scheduler<Store, Bus, SystemClock, SystemEntropy>;

/// The clients of one process. Handlers are made over them, and share them.
#[derive(Clone)]
pub struct Wiring {
    /// The state store, the definition store and the control store.
    pub store: Store,
    /// The bus; all handlers of the process send through this one producer.
    pub bus: Bus,
    /// The configuration that the clients were made from.
    pub config: Config,
}

impl Wiring {
    /// Makes the clients. Nothing is asked of Kafka or DynamoDB yet.
    ///
    /// # Errors
    /// [`KafkaError::Settings`] if librdkafka refuses the settings.
    pub async fn new(config: Config) -> Result<Self, KafkaError> {
        let client = connect(config.endpoint.clone()).await;
        let store = DynamoStore::new(client, config.tables.clone(), SystemClock, config.retention)
            .keeping_details(config.details_retention);
        Ok(Self {
            store,
            bus: KafkaBus::new(&config.kafka)?,
            config,
        })
    }

    /// A new Submission handler over these clients.
    #[must_use]
    pub fn submission(&self) -> Submission<Store, Bus, SystemClock> {
        Submission::new(
            self.store.clone(),
            self.bus.clone(),
            SystemClock,
            self.config.settings.clone(),
        )
    }

    /// A new Scheduler handler over these clients. A process needs only one: each remembers the
    /// orders that wait for room.
    #[must_use]
    pub fn scheduler(&self) -> SchedulerHandler {
        Scheduler::new(
            self.store.clone(),
            self.bus.clone(),
            SystemClock,
            SystemEntropy,
            self.config.settings.clone(),
        )
    }

    /// A new agent handler over these clients, for these remote services.
    #[must_use]
    pub fn agent(&self, remotes: Remotes) -> Agent<Store, Bus, SystemClock, SystemEntropy> {
        Agent::new(
            remotes,
            self.store.clone(),
            self.bus.clone(),
            SystemClock,
            SystemEntropy,
            self.config.settings.clone(),
        )
    }

    /// The acts of an operator, over these clients.
    #[must_use]
    pub fn operator(&self) -> Operator<Store, Bus, SystemClock, SystemEntropy> {
        Operator::new(
            self.store.clone(),
            self.bus.clone(),
            SystemClock,
            SystemEntropy,
            self.config.settings.clone(),
        )
    }

    /// A new Supervisor handler over these clients.
    #[must_use]
    pub fn supervisor(&self) -> Supervisor<Store, Bus, SystemClock, SystemEntropy> {
        Supervisor::new(
            self.store.clone(),
            self.bus.clone(),
            SystemClock,
            SystemEntropy,
            self.config.settings.clone(),
        )
    }
}
