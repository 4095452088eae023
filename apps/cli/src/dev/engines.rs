//! The engines of `triad dev`: broker, store, reference service.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use triad_bootstrap::{Config, Wiring, http_remotes};
use triad_broker::{Broker, BrokerConfig, BrokerHandle, TopicsIn};
use triad_consume::Broker as _;
use triad_core::{Timing, topics};
use triad_kafka::KafkaConfig;
use triad_reference_service::Faults;
use triad_runtime::agent::Remotes;
use triad_runtime::settings::Settings;
use triad_sqlite::topics::LocalBroker;
use triad_workflow::{Limits, Millis, Workflow, load};

use super::agents::Agents;
use super::publisher::{Publisher, REFRESH_DEFINITIONS, make_topics};
use super::service::EmbeddedReferenceService;
use crate::machine::directory::{lock, taken, unusable};
use crate::machine::stores::{Kind, OpenStore, Retention, StoreAddress};
use crate::machine::{self, Wired, topic_settings};
use crate::output::quoted;

const BUILT_IN: (&str, &str) = (
    "order-fulfilment.yaml",
    include_str!("../../../../examples/workflows/order-fulfilment.yaml"),
);

/// Clock skew: one machine has one clock, so only the time for handling a message counts.
const SKEW: Millis = Millis(20);
/// Retention of finished orders; their details are kept for ever.
const RETENTION: Retention = Retention {
    records: Millis(30 * 24 * 3_600_000),
    details: None,
};

/// Options of the embedded engines.
#[derive(Debug, Default)]
pub struct EngineOptions {
    /// Directory for the state of all engines; created if missing. `None`: state is in memory or in a temporary
    /// directory, and lost at the end.
    pub data: Option<PathBuf>,
    /// Kind of the store. `None`: the kind that the directory has; else tables if a port for them or an external
    /// agent is named, and SQLite otherwise.
    pub store: Option<Kind>,
    /// Ports on 127.0.0.1 for Kafka, DynamoDB and the reference service, in this order; 0 takes a
    /// free one. With SQLite that of DynamoDB must be 0.
    pub ports: [u16; 3],
    /// Partitions of each topic, at least 1. Topics that exist already keep theirs.
    pub partitions: i32,
    /// Workflows that are published at the start.
    pub workflows: Vec<Arc<Workflow>>,
    /// Where the services of agents are.
    pub agents: Agents,
    /// Reply topics that orders may name, of the form `reply.<name>`; created at the start.
    pub reply_topics: Vec<String>,
    /// Faults that the reference service injects.
    pub faults: Faults,
    /// How many keys the reference service remembers; `None`: its own number. It refuses further ones.
    pub service_keys: Option<usize>,
}

impl EngineOptions {
    /// Default kind of the store. A process that serves an agent reaches only tables.
    fn usual(&self) -> Kind {
        let [_, dynamodb, _] = self.ports;
        match dynamodb != 0 || !self.agents.external.is_empty() {
            true => Kind::Dynamodb,
            false => Kind::Sqlite,
        }
    }
}

/// Addresses of the engines.
#[derive(Debug, Clone)]
pub struct Addresses {
    /// Address of the broker.
    pub kafka: SocketAddr,
    /// Address of the store.
    pub store: StoreAddress,
    /// Address of the reference service.
    pub service: SocketAddr,
}

impl Addresses {
    /// Shell lines that set the variables with which commands find Kafka and the store.
    pub fn variables(&self) -> String {
        let kafka = self.kafka;
        let brokers = format!("export TRIAD_BROKERS={kafka}\n");
        match &self.store {
            StoreAddress::Port(at) => {
                brokers + &format!("export TRIAD_DYNAMODB_ENDPOINT=http://{at}\n")
            }
            // An address from the environment would name a second installation.
            StoreAddress::Data(dir) => {
                let dir = quoted(&dir.display().to_string());
                brokers + &format!("export TRIAD_DATA={dir}\nunset TRIAD_DYNAMODB_ENDPOINT\n")
            }
        }
    }
}

/// The embedded broker, store and reference service of `triad dev`, and the clients to them.
/// Handlers are not part of it.
pub struct Engines {
    broker: BrokerHandle,
    stored: OpenStore,
    /// The reference remote service.
    pub service: EmbeddedReferenceService,
    /// The clients of the broker and the store, for the handlers.
    pub wiring: Wired,
    /// The HTTP clients by which the agents call their services.
    pub remotes: Remotes,
    /// Publishes workflows and serves the agents that they need.
    pub publisher: Publisher,
    _lock: Option<File>,
}

impl Engines {
    /// Starts the engines, creates missing topics and tables, and publishes the workflows.
    ///
    /// # Errors
    /// If another process uses the data directory, an engine does not start (for example because its port is taken),
    /// or topics, tables or definitions cannot be created.
    pub async fn start(options: EngineOptions) -> Result<Self> {
        let [kafka_port, dynamodb_port, service_port] = options.ports;
        let data = options.data.as_deref();
        let lock = data.map(|dir| lock(dir, "triad dev")).transpose()?;
        let kind = Kind::of(options.store, data, options.usual())?;
        let address = loopback(dynamodb_port);
        let mut stored = OpenStore::start(kind, data, address, RETENTION, topic_settings()).await?;
        let broker = Broker::start(BrokerConfig {
            listen: loopback(kafka_port),
            topics: TopicsIn::Opened(stored.topics.clone()),
            default_partitions: options.partitions,
            ..BrokerConfig::default()
        })
        .map_err(|error| match error {
            triad_broker::Error::Listen { addr, source } => {
                taken("--kafka-port", addr, &source).into()
            }
            error => unusable("the Kafka port", data, error.into()),
        })?;
        let usual = triad_reference_service::Config::default();
        let reference = triad_reference_service::Config {
            max_keys: options.service_keys.unwrap_or(usual.max_keys),
            listen: loopback(service_port),
            ledger: data.map(|d| d.join("ledger.jsonl")),
            faults: options.faults.clone(),
            answers: options.agents.answers.outputs(),
            calls: options.agents.answers.calls(&options.workflows),
        };
        let service = EmbeddedReferenceService::start(reference).map_err(|error| {
            use triad_reference_service::StartError;
            match error.downcast::<StartError>() {
                Ok(StartError::Listen { listen, source }) => {
                    taken("--service-port", listen, &source).into()
                }
                Ok(error) => unusable("the reference service", data, error.into()),
                Err(error) => error,
            }
        })?;

        let kafka = KafkaConfig::new(broker.addr().to_string());
        let config = Config {
            kafka: kafka.clone(),
            dynamodb: None,
            retention: RETENTION.records,
            details_retention: RETENTION.details,
            agents: BTreeMap::new(),
            settings: Settings {
                instance: triad_bootstrap::instance_name(),
                timing: Timing {
                    skew: SKEW,
                    queue_within: Millis(60_000),
                    hear_within: Millis(1_000),
                    announce_within: Millis(10_000),
                    confirm_within: Millis(2_000),
                },
                reply_topics: options.reply_topics.iter().cloned().collect(),
                refresh_definitions: REFRESH_DEFINITIONS,
                // Short, because a person watches.
                refresh_downstreams: Millis(500),
                recheck_held: Millis(1_000),
                ..Settings::default()
            },
            alerts_topic: None,
            console_url: None,
            auth: triad_bootstrap::AuthConfig::default(),
            partial_batch_responses: true,
            traces: None,
        };
        let first = topics::all(&[], &options.reply_topics);
        make_topics(&kafka, first, options.partitions).await?;
        let local = LocalBroker::new(stored.topics.clone());
        let bus = local.bus()?;
        let wiring = Wiring::with(stored.store.clone(), local, bus, config);
        let mut publisher = Publisher {
            wiring,
            agents: options.agents,
            service: service.addr(),
            partitions: options.partitions,
            needed: BTreeMap::new(),
        };
        publisher.begin(&options.workflows).await?;
        let wiring = publisher.wiring.clone();
        let remotes = http_remotes(&wiring.config, &machine::aws())?;
        stored.announce(&wiring.config)?;
        Ok(Self {
            broker,
            stored,
            service,
            wiring,
            remotes,
            publisher,
            _lock: lock,
        })
    }

    /// The addresses of the engines.
    pub fn addresses(&self) -> Addresses {
        Addresses {
            kafka: self.broker.addr(),
            store: self.stored.at(),
            service: self.service.addr(),
        }
    }

    /// Stops everything: first the clients, then the reference service, the Kafka port (for at most 10 s) and the store.
    pub async fn shutdown(self) {
        let Self {
            broker,
            service,
            wiring,
            remotes,
            stored,
            publisher,
            _lock,
        } = self;
        drop((wiring, remotes, publisher));
        service.stop();
        let stopped = tokio::time::timeout(Duration::from_secs(10), broker.shutdown()).await;
        stored.stop().await;
        if stopped.is_err() {
            tracing::warn!("the Kafka port was not closed in time");
        }
    }
}

/// The default workflow of `triad dev`: `order-fulfilment`.
///
/// # Errors
/// Never, unless the built-in file is invalid: it is checked like any other.
pub fn built_in() -> Result<Workflow> {
    Ok(load::from_yaml(BUILT_IN.0, BUILT_IN.1, &limits())?)
}

/// Limits for definitions of a local run: any agent, and a clock skew of 20 ms.
pub fn limits() -> Limits {
    Limits {
        agents: None,
        skew: SKEW,
    }
}

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}
