//! Clients and handlers, put together from a configuration.

use triad_consume::Broker;
use triad_dynamodb::{DynamoStore, connect};
use triad_kafka::{KafkaBus, KafkaConfig, KafkaError};
use triad_operator::campaign::Campaigns;
use triad_runtime::agent::{Agent, Remotes};
use triad_runtime::operator::Operator;
use triad_runtime::ports::OperatorStore;
use triad_runtime::scheduler::Scheduler;
use triad_runtime::submission::Submission;
use triad_runtime::supervisor::Supervisor;
use triad_runtime::system::{SystemClock, SystemEntropy};
use triad_runtime::{ControlStore, DefinitionStore, StateStore};

use crate::config::Config;

/// The state store of a deployment: DynamoDB, with the real clock.
pub type Store = DynamoStore<SystemClock>;
/// The bus in production: Kafka.
pub type Bus = KafkaBus;

/// A store with all the ports. Its clones are the same store.
pub trait WholeStore: StateStore + DefinitionStore + ControlStore + OperatorStore + Clone {}

impl<S: StateStore + DefinitionStore + ControlStore + OperatorStore + Clone> WholeStore for S {}

/// The Scheduler in production, over a store and a bus.
pub type SchedulerHandler<S = Store, B = Bus> = Scheduler<S, B, SystemClock, SystemEntropy>;

/// The Submission in production, over a store and a bus.
pub type SubmissionHandler<S = Store, B = Bus> = Submission<S, B, SystemClock>;

/// The clients of one process. Handlers are made over them, and share them.
///
/// The store and the broker are those of a deployment unless somebody says others. So who deploys names
/// none, and links no other.
#[derive(Clone)]
pub struct Wiring<S = Store, B: Broker = KafkaConfig> {
    /// The state store, the definition store and the control store.
    pub store: S,
    /// Where the consumer loops read.
    pub broker: B,
    /// The bus; all handlers of the process send through this one.
    pub bus: B::Bus,
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
        Self::over(store, config)
    }
}

impl<S: WholeStore> Wiring<S> {
    /// The clients of a process with this store; the configuration's tables and their endpoint are not
    /// looked at. Nothing is asked of Kafka yet.
    ///
    /// # Errors
    /// [`KafkaError::Settings`] if librdkafka refuses the settings.
    pub fn over(store: S, config: Config) -> Result<Self, KafkaError> {
        let bus = KafkaBus::new(&config.kafka)?;
        Ok(Self::with(store, config.kafka.clone(), bus, config))
    }
}

impl<S: WholeStore, B: Broker> Wiring<S, B> {
    /// The clients of a process with this store and this broker. Where the configuration says that others
    /// are is looked at only for what is asked of Kafka itself, such as who serves an agent.
    pub fn with(store: S, broker: B, bus: B::Bus, config: Config) -> Self {
        Self {
            store,
            broker,
            bus,
            config,
        }
    }

    /// A new Submission handler over these clients.
    #[must_use]
    pub fn submission(&self) -> SubmissionHandler<S, B::Bus> {
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
    pub fn scheduler(&self) -> SchedulerHandler<S, B::Bus> {
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
    pub fn agent(&self, remotes: Remotes) -> Agent<S, B::Bus, SystemClock, SystemEntropy> {
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
    pub fn operator(&self) -> Operator<S, B::Bus, SystemClock, SystemEntropy> {
        Operator::new(
            self.store.clone(),
            self.bus.clone(),
            SystemClock,
            SystemEntropy,
            self.config.settings.clone(),
        )
    }

    /// What carries operators' campaigns on, over these clients: the Supervisor's other part.
    #[must_use]
    pub fn campaigns(&self) -> Campaigns<S, B::Bus, SystemClock, SystemEntropy> {
        let operator = self.operator();
        let (store, bus) = (self.store.clone(), self.bus.clone());
        Campaigns::new(operator, store, bus, SystemClock, SystemEntropy)
    }

    /// A new Supervisor handler over these clients.
    #[must_use]
    pub fn supervisor(&self) -> Supervisor<S, B::Bus, SystemClock, SystemEntropy> {
        Supervisor::new(
            self.store.clone(),
            self.bus.clone(),
            SystemClock,
            SystemEntropy,
            self.config.settings.clone(),
        )
    }
}
