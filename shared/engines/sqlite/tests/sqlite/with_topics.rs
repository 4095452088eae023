//! The store with its topics fulfils the contract of such a store.

use std::collections::BTreeMap;

use triad_core::topics;
use triad_runtime::InputRecord;
use triad_sim::contract::topics::StoreWithTopics;
use triad_sim::contract::{self, OnThreads};
use triad_sqlite::SqliteStore;
use triad_sqlite::topics::{Found, Position, TopicSettings, Topics};
use triad_workflow::Millis;

use crate::common::Hand;

/// Most bytes of one read: more than all records of a test.
const ALL: usize = 16 << 20;

struct Opened(SqliteStore<Hand>, Topics);

impl Opened {
    async fn at(dir: &std::path::Path) -> Self {
        let store = SqliteStore::open(dir, Hand::at(10_000), Millis(86_400_000)).unwrap();
        let settings = TopicSettings {
            in_memory: topics::is_between_handlers,
            ..TopicSettings::default()
        };
        let opened = store.open_topics(settings).await.unwrap();
        for topic in [topics::STATUS, topics::ALERTS] {
            opened.create(topic, 3, BTreeMap::new()).await.unwrap();
        }
        Self(store, opened)
    }
}

impl StoreWithTopics for Opened {
    type Store = SqliteStore<Hand>;

    fn store(&self) -> &Self::Store {
        &self.0
    }

    async fn records(&self, topic: &str) -> Vec<InputRecord> {
        let partitions = self.1.get(topic).expect("it is there").partitions;
        let positions: Vec<_> = (0..partitions)
            .map(|partition| Position {
                partition,
                offset: 0,
                max_bytes: ALL,
            })
            .collect();
        let reads = self.1.read(topic, &positions, ALL, true, None).await;
        let mut records = Vec::new();
        for read in reads.unwrap() {
            let Found::Records(found) = read.found else {
                panic!("{:?}", read.found)
            };
            records.extend(found.iter().map(|stored| {
                InputRecord {
                    topic: topic.to_owned(),
                    partition: read.partition,
                    offset: stored.offset,
                    timestamp_ms: stored.timestamp_ms,
                    key: stored.key().map(<[u8]>::to_vec),
                    value: stored.value().map(<[u8]>::to_vec),
                    headers: stored
                        .headers()
                        .map(|(name, value)| (name.to_owned(), value.map(<[u8]>::to_vec)))
                        .collect(),
                }
            }));
        }
        records
    }
}

#[tokio::test]
async fn the_store_keeps_the_contract_of_a_store_with_topics() {
    let dir = tempfile::tempdir().unwrap();
    let opened = Opened::at(dir.path()).await;
    contract::topics::all(&opened, "topics").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn with_its_topics_it_keeps_the_contract_of_a_state_store() {
    let dir = tempfile::tempdir().unwrap();
    let opened = Opened::at(dir.path()).await;
    contract::store::all(&opened.0, "store", &OnThreads).await;
}
