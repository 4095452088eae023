//! The store and the topics of one machine: their kind, their place, and their address for other commands.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::ValueEnum;
use tempfile::TempDir;
use tokio::task::JoinSet;
use triad_bootstrap::Config;
use triad_runtime::system::SystemClock;
use triad_sqlite::topics::{TopicSettings, Topics};
use triad_sqlite::{SWEEP_EVERY, SqliteStore};
use triad_workflow::Millis;

#[cfg(feature = "aws")]
use super::directory::taken;
use super::directory::unusable;
use crate::data::{self, ConnectionFile, RunningProcess};
use crate::output::Usage;
#[cfg(feature = "aws")]
use crate::store::tables::Unstarted;
use crate::store::{Engine, Store, tables};

/// Kind of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Tables of an embedded engine that speaks DynamoDB's API, for any client of AWS
    Dynamodb,
    /// One SQLite file, which other commands open themselves
    Sqlite,
}

impl Kind {
    /// The store's name, as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dynamodb => "dynamodb",
            Self::Sqlite => "sqlite",
        }
    }

    /// The kind for a run: the one that the directory has already, else the one that was `said`, else `usual`.
    ///
    /// # Errors
    /// [`Usage`] if `said` differs from the kind that the directory has.
    pub fn of(said: Option<Self>, data: Option<&Path>, usual: Self) -> Result<Self, Usage> {
        let Some(data) = data else {
            return Ok(said.unwrap_or(usual));
        };
        let found = if data::has_store(data) {
            Some(Self::Sqlite)
        } else {
            data::has_tables(data).then_some(Self::Dynamodb)
        };
        match (said, found) {
            (Some(said), Some(found)) if said != found => Err(Usage(format!(
                "--data {}: what is in this directory is of --store {}, and --store {} would not see it: leave --store out, or name another directory",
                data.display(),
                found.name(),
                said.name()
            ))),
            (said, found) => Ok(found.or(said).unwrap_or(usual)),
        }
    }
}

/// Address of a store for other commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreAddress {
    /// At this port, with DynamoDB's API.
    Port(SocketAddr),
    /// In this data directory; the path is absolute.
    Data(PathBuf),
}

impl StoreAddress {
    /// Kind of the store.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Port(_) => Kind::Dynamodb,
            Self::Data(_) => Kind::Sqlite,
        }
    }

    /// The URL of the DynamoDB port, where there is one.
    pub fn url(&self) -> Option<String> {
        match self {
            Self::Port(at) => Some(format!("http://{at}")),
            Self::Data(_) => None,
        }
    }

    /// The data directory for other commands, if there is one.
    pub fn data(&self) -> Option<&Path> {
        match self {
            Self::Port(_) => None,
            Self::Data(dir) => Some(dir),
        }
    }
}

/// Retention of finished orders.
#[derive(Debug, Clone, Copy)]
pub struct Retention {
    /// Retention of the records, in milliseconds.
    pub records: Millis,
    /// Retention of the details, in milliseconds. `None`: for ever.
    pub details: Option<Millis>,
}

impl Retention {
    /// The retention in a configuration.
    pub fn of(config: &Config) -> Self {
        Self {
            records: config.retention,
            details: config.details_retention,
        }
    }
}

/// A store and topics in use, with their tasks.
pub struct OpenStore {
    /// The store.
    pub store: Store,
    /// The topics: in the store's file, or beside the tables in a file of their own.
    pub topics: Topics,
    /// The SQLite file of the topics, and of the records unless they are in tables.
    pub file: SqliteStore<SystemClock>,
    /// The directory of the SQLite file.
    dir: PathBuf,
    /// The embedded tables, if the records are there.
    tables: Option<tables::Engine>,
    /// Tasks that delete what has expired; they end when dropped.
    maintenance: JoinSet<()>,
    said: Option<ConnectionFile>,
    _scratch: Option<TempDir>,
}

/// Directory of the topics' file in a data directory whose records are in tables.
const TOPICS: &str = "topics";

impl OpenStore {
    /// Starts a store and topics: in this data directory, which the caller has locked, or else in memory or in a
    /// temporary directory, without syncs. Finished orders are kept for `retention`. `port` is that of DynamoDB; 0
    /// takes a free one.
    ///
    /// # Errors
    /// If they cannot be started, with the option or the directory that caused it.
    pub async fn start(
        kind: Kind,
        data: Option<&Path>,
        port: SocketAddr,
        retention: Retention,
        topics: TopicSettings,
    ) -> Result<Self> {
        let tables = match kind {
            Kind::Dynamodb => {
                let started = tables::Engine::start(port, data).await;
                #[cfg(feature = "aws")]
                let started = started.map_err(|error| match error {
                    Unstarted::Listen(source) => {
                        anyhow::Error::from(taken("--dynamodb-port", port, &source))
                    }
                    Unstarted::Unusable(error) => unusable("the embedded tables", data, error),
                });
                Some(started?)
            }
            Kind::Sqlite if port.port() != 0 => {
                return Err(Usage(
                    "--dynamodb-port: with --store sqlite there is no DynamoDB port: leave it out"
                        .into(),
                )
                .into());
            }
            Kind::Sqlite => None,
        };
        let (dir, scratch) = match data {
            Some(data) if tables.is_some() => (data.join(TOPICS), None),
            Some(data) => (data.to_path_buf(), None),
            None => {
                let scratch = tempfile::Builder::new().prefix("triad-dev-").tempdir();
                let scratch = scratch.context("there is no place for temporary files")?;
                (scratch.path().to_path_buf(), Some(scratch))
            }
        };
        let dir = std::path::absolute(&dir).unwrap_or(dir);
        // Removed before the store is opened: from then on other processes trust the connection file.
        data::forget(&dir);
        let file = match &scratch {
            None => SqliteStore::open(&dir, SystemClock, retention.records),
            Some(_) => SqliteStore::scratch(&dir, SystemClock, retention.records),
        };
        let file = file.map_err(|error| unusable("the store", data, error.into()))?;
        let file = file.keeping_details(retention.details);
        let topics = TopicSettings {
            // Tables take no messages with a record: a message of theirs may be needed again after a start.
            in_memory: match tables {
                Some(_) => |_| false,
                None => topics.in_memory,
            },
            ..topics
        };
        let topics = file.open_topics(topics).await;
        let topics = topics.map_err(|error| unusable("the topics", data, error.into()))?;
        let mut maintenance = JoinSet::new();
        let maintained = topics.clone();
        maintenance.spawn(async move { maintained.maintain(SystemClock).await });
        let (tables, store) = match tables {
            Some((engine, tables)) => {
                let store = tables.store(retention.records, retention.details);
                (Some(engine), store)
            }
            None => {
                let swept = file.clone();
                maintenance.spawn(async move { swept.sweep(SWEEP_EVERY).await });
                (None, Engine::Sqlite(file.clone()).into())
            }
        };
        Ok(Self {
            store,
            topics,
            file,
            dir,
            tables,
            maintenance,
            said: None,
            _scratch: scratch,
        })
    }

    /// Address of the store for other commands.
    pub fn at(&self) -> StoreAddress {
        match &self.tables {
            Some(tables) => StoreAddress::Port(tables.addr()),
            None => StoreAddress::Data(self.dir.clone()),
        }
    }

    /// Writes the connection file of the data directory for a run with this configuration.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn announce(&mut self, config: &Config) -> Result<()> {
        if self.tables.is_none() {
            let running = RunningProcess::of(config);
            self.said = Some(running.write_connection_file(&self.dir)?);
        }
        Ok(())
    }

    /// Stops the store and the topics. All other clones of them must have been dropped.
    pub async fn stop(self) {
        let Self {
            store,
            topics,
            file,
            mut maintenance,
            said,
            ..
        } = self;
        drop((store, topics, file, said));
        // The tasks have the last clones, whose drop waits for the threads of the file.
        maintenance.shutdown().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_keeps_the_store_that_it_has() {
        let dir = tempfile::tempdir().expect("a directory");
        let of = |said| {
            let kind = Kind::of(said, Some(dir.path()), Kind::Sqlite);
            kind.map_err(|e| e.to_string())
        };
        for usual in [Kind::Dynamodb, Kind::Sqlite] {
            assert_eq!(Kind::of(None, None, usual).ok(), Some(usual));
            let of = |said| Kind::of(said, Some(dir.path()), usual).ok();
            assert_eq!(of(None), Some(usual), "it is new");
            assert_eq!(of(Some(Kind::Sqlite)), Some(Kind::Sqlite), "it is new");
        }
        for (file, has, other) in [
            ("dynamodb.sqlite", Kind::Dynamodb, Kind::Sqlite),
            ("triad.sqlite", Kind::Sqlite, Kind::Dynamodb),
        ] {
            let file = dir.path().join(file);
            std::fs::create_dir_all(file.parent().expect("a parent")).expect("a directory");
            std::fs::write(&file, "").expect("a file");
            assert_eq!(of(None), Ok(has));
            assert_eq!(of(Some(has)), Ok(has));
            let refused = of(Some(other)).expect_err("it would not be seen");
            assert!(refused.contains(&format!("of --store {}", has.name())));
            assert!(refused.contains("leave --store out"), "{refused}");
            std::fs::remove_file(&file).expect("it is there");
        }
    }
}
