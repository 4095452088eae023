//! Clients and handlers, put together from a configuration.

#[cfg(feature = "aws")]
use triad_aws::Account;
use triad_consume::Broker;
#[cfg(feature = "aws")]
use triad_dynamodb::{DynamoStore, Endpoint, Tables, connect};
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
#[cfg(feature = "aws")]
pub type Store = DynamoStore<SystemClock>;
/// The bus in production: Kafka.
pub type Bus = KafkaBus;

/// A store that implements all ports that the handlers and operators need. Its clones are the same store.
pub trait WholeStore: StateStore + DefinitionStore + ControlStore + OperatorStore + Clone {}

impl<S: StateStore + DefinitionStore + ControlStore + OperatorStore + Clone> WholeStore for S {}

/// The Scheduler with the real clock and random numbers, over the store `S` and the bus `B`.
pub type SchedulerHandler<S, B = Bus> = Scheduler<S, B, SystemClock, SystemEntropy>;

/// The Submission with the real clock, over the store `S` and the bus `B`.
pub type SubmissionHandler<S, B = Bus> = Submission<S, B, SystemClock>;

/// The clients of one process, from which its handlers are made. All handlers share them.
///
/// `S` is the store, and `B` the broker that records are read from: Kafka, unless another one is named.
#[derive(Clone)]
pub struct Wiring<S, B: Broker = KafkaConfig> {
    /// The store of orders, workflows and control records.
    pub store: S,
    /// The broker from which the consumer loops read.
    pub broker: B,
    /// The bus; all handlers of the process send through this one.
    pub bus: B::Bus,
    /// The configuration that the clients were made from.
    pub config: Config,
}

#[cfg(feature = "aws")]
impl Wiring<Store> {
    /// Makes the clients for Kafka and for the DynamoDB of this account, or of the URL in `config`. No request is
    /// sent yet.
    ///
    /// # Errors
    /// [`KafkaError::Settings`] if librdkafka refuses the settings.
    pub async fn new(config: Config, account: Account) -> Result<Self, KafkaError> {
        let endpoint = config
            .dynamodb
            .clone()
            .map_or(Endpoint::Aws(account), Endpoint::Url);
        let tables = Tables::with_prefix(&config.kafka.prefix);
        let store = DynamoStore::new(
            connect(endpoint).await,
            tables,
            SystemClock,
            config.retention,
        )
        .keeping_details(config.details_retention);
        Self::over(store, config)
    }
}

impl<S: WholeStore> Wiring<S> {
    /// The clients of a process with this store, and with Kafka. The settings of DynamoDB and of retention in
    /// `config` are not used. No request is sent to Kafka yet.
    ///
    /// # Errors
    /// [`KafkaError::Settings`] if librdkafka refuses the settings.
    pub fn over(store: S, config: Config) -> Result<Self, KafkaError> {
        let bus = KafkaBus::new(&config.kafka)?;
        Ok(Self::with(store, config.kafka.clone(), bus, config))
    }
}

impl<S: WholeStore, B: Broker> Wiring<S, B> {
    /// The clients of a process with this store and this broker; the handlers publish through `bus`. The settings of
    /// DynamoDB and of retention in `config` are not used, and those of Kafka only for requests to Kafka itself, such
    /// as for the served agents.
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

    /// A new Scheduler handler over these clients. A process needs only one: each has its own backlog of orders that
    /// wait for room.
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

    /// Carries out the acts of an operator on orders and downstreams, over these clients.
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

    /// Carries out operators' campaigns, over these clients. Programs that run the Supervisor run it, too.
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
