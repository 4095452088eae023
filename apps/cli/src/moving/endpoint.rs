//! Source of an export or target of an import: a data directory without a running process, or an installation.

use std::path::Path;

use anyhow::{Context as _, Result};
use triad_broker::{Broker, BrokerConfig, BrokerHandle, TopicsIn};
use triad_kafka::KafkaConfig;
use triad_sqlite::topics::TopicSettings;

use crate::connection::{KafkaArgs, StoreArgs};
use crate::data;
use crate::machine::directory::{refuse_root, take, unusable};
use crate::machine::stores::{Kind, OpenStore, Retention};
use crate::machine::topic_settings;
use crate::output::Usage;
use crate::store::Store;

/// A store and its brokers.
pub struct Endpoint {
    /// The store.
    pub store: Store,
    /// Kind of the store.
    pub kind: Kind,
    /// The brokers.
    pub kafka: KafkaConfig,
    own: Option<OwnProcesses>,
}

/// The processes that were started for it.
struct OwnProcesses {
    stored: OpenStore,
    broker: BrokerHandle,
    _lock: std::fs::File,
}

impl Endpoint {
    /// Opens the source or target that the options name. A data directory must have a store, unless `may_be_new`.
    ///
    /// # Errors
    /// [`Usage`] if the directory has no store or another process runs on it; otherwise an error that names what
    /// cannot be reached.
    pub async fn open(store: &StoreArgs, kafka: &KafkaArgs, may_be_new: bool) -> Result<Self> {
        let spans = store.spans()?;
        let Some(dir) = &store.data.data else {
            let (store, kafka) = tokio::join!(store.store(), kafka.reached());
            return Ok(Self {
                store: store?,
                kind: Kind::Dynamodb,
                kafka: kafka?,
                own: None,
            });
        };
        let is_new = !data::has_store(dir) && !data::has_tables(dir);
        if is_new && !may_be_new {
            return Err(Usage(format!(
                "--data {}: this directory has no store; give the data directory of triad serve, or of triad dev --data",
                dir.display()
            ))
            .into());
        }
        let retention = Retention {
            records: spans.retention,
            details: spans.details_retention,
        };
        Self::of_directory(dir, retention, is_new).await
    }

    async fn of_directory(dir: &Path, retention: Retention, is_new: bool) -> Result<Self> {
        if !is_new {
            refuse_root(dir)?;
        }
        let lock = take(dir).context(
            "what is exported or imported must stand still: stop triad serve first; for a copy while it runs: triad backup",
        )?;
        let kind = Kind::of(is_new.then_some(Kind::Sqlite), Some(dir), Kind::Dynamodb)?;
        let loopback = ([127, 0, 0, 1], 0).into();
        // What is imported must outlive this process, so no topic is in memory. The next start takes over what lies in
        // topics that are.
        let topics = TopicSettings {
            in_memory: |_| false,
            ..topic_settings()
        };
        let stored = OpenStore::start(kind, Some(dir), loopback, retention, topics).await?;
        // It does not create missing topics on request.
        let broker = Broker::start(BrokerConfig {
            topics: TopicsIn::Opened(stored.topics.clone()),
            auto_create_topics: false,
            ..BrokerConfig::default()
        });
        let broker = broker.map_err(|e| unusable("the Kafka port", Some(dir), e.into()))?;
        Ok(Self {
            store: stored.store.clone(),
            kind,
            kafka: KafkaConfig::new(broker.addr().to_string()),
            own: Some(OwnProcesses {
                stored,
                broker,
                _lock: lock,
            }),
        })
    }

    /// Whether other processes may use it meanwhile.
    pub fn is_shared(&self) -> bool {
        self.own.is_none()
    }

    /// Stops the processes that were started for it.
    ///
    /// # Errors
    /// If the Kafka port ended before.
    pub async fn close(self) -> Result<()> {
        drop(self.store);
        if let Some(OwnProcesses { stored, broker, .. }) = self.own {
            broker.shutdown().await?;
            stored.stop().await;
        }
        Ok(())
    }
}
