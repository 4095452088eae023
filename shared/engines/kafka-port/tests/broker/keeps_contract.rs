//! Runs the contract suite on this broker: with tables, synced and not, and with topics in memory.

use crate::{client, contract};
use triad_broker::{Broker, BrokerConfig, TopicsIn};
use triad_sqlite::topics::TopicSettings;

fn check_all(config: BrokerConfig) {
    let broker = Broker::start(config).expect("a broker");
    let bootstrap = broker.addr().to_string();
    for (name, check) in contract::ALL {
        println!("{name}");
        check(&bootstrap);
    }
    client::run(broker.shutdown()).expect("a clean end");
}

#[test]
fn the_broker_without_a_directory_keeps_the_contract() {
    check_all(BrokerConfig::default());
}

#[test]
fn the_broker_on_disk_keeps_the_contract() {
    let dir = tempfile::tempdir().expect("a directory");
    check_all(BrokerConfig {
        topics: TopicsIn::Directory(dir.path().into(), TopicSettings::default()),
        ..BrokerConfig::default()
    });
}

#[test]
fn topics_in_memory_keep_the_contract() {
    check_all(BrokerConfig {
        topics: TopicsIn::Scratch(TopicSettings {
            in_memory: |_| true,
            ..TopicSettings::default()
        }),
        ..BrokerConfig::default()
    });
}
