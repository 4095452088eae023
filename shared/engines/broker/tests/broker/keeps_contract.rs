//! Runs the contract suite on this broker: in memory, on disk, and on disk without fsync.

use crate::{client, contract};
use triad_broker::{Broker, BrokerConfig, FlushPolicy};

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
fn the_broker_in_memory_keeps_the_contract() {
    check_all(BrokerConfig::default());
}

#[test]
fn the_broker_on_disk_keeps_the_contract() {
    let dir = tempfile::tempdir().expect("a directory");
    check_all(BrokerConfig {
        data: Some(dir.path().into()),
        ..BrokerConfig::default()
    });
}

#[test]
fn the_broker_on_disk_without_syncing_and_with_small_segments_keeps_the_contract() {
    let dir = tempfile::tempdir().expect("a directory");
    check_all(BrokerConfig {
        data: Some(dir.path().into()),
        flush: FlushPolicy::System,
        segment_bytes: 1 << 16,
        ..BrokerConfig::default()
    });
}
