//! Orders of other Kafka clients: in every codec, with arbitrary bytes in headers, and beside batches that are refused.
//! Read by a worker and by a function.

use rdkafka::ClientConfig;
use serde_json::Value;
use triad_reference_service::Faults;
use triad_runtime::InputRecord;
use triad_tests::dev::Dev;
use triad_tests::engines::Engines;
use triad_tests::event_source::EventSource;
use triad_tests::foreign::{Codec, Foreign, batch, offer, produce, records};
use triad_tests::orders::{FULFILMENT, orders};
use triad_tests::poll::until;
use triad_tests::process::binary;
use triad_tests::topics::{Raw, header, read_until, write_with};

const CODECS: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];
const OF_EACH: usize = 4;

fn text(order: &Value) -> Vec<u8> {
    order.to_string().into_bytes()
}

/// Writes all records; returns the number of orders.
async fn write(brokers: &str) -> usize {
    let all = orders("foreign", OF_EACH * CODECS.len() + 2);
    let (of_codecs, odd) = all.split_at(OF_EACH * CODECS.len());
    for (codec, orders) in CODECS.iter().zip(of_codecs.chunks(OF_EACH)) {
        let producer = ClientConfig::new()
            .set("bootstrap.servers", brokers)
            .set("compression.codec", *codec)
            .set("linger.ms", "20")
            .create()
            .expect("librdkafka has the codec");
        let raw = |order: &Value| Raw {
            topic: "orders".to_owned(),
            value: Some(text(order)),
            ..Raw::default()
        };
        write_with(&producer, &orders.iter().map(raw).collect::<Vec<_>>()).await;
    }
    // The port refuses what it cannot read (`INVALID_RECORD`); Kafka may take it (the tests of `triad-kafka`).
    for bad in [
        batch(Codec::Unknown, 3, b"of no codec"),
        batch(Codec::Zstd, 1, b"not zstd"),
    ] {
        assert_eq!(offer(brokers, "orders", 0, &bad), Err(87));
    }
    let foreign = |value: Vec<u8>| Foreign {
        value: Some(value),
        headers: vec![(vec![0xff, 0xfe], Some(vec![0x80, 0])), (Vec::new(), None)],
        ..Foreign::default()
    };
    for (partition, order) in odd.iter().enumerate() {
        let good = [foreign(text(order)), foreign(b"no order".to_vec())];
        let bytes = batch(Codec::None, 2, &records(&good));
        produce(brokers, "orders", partition as i32, &bytes);
    }
    all.len()
}

/// Waits for this many dead letters; returns their causes.
async fn causes(brokers: &str, count: usize) -> Vec<String> {
    let letters = read_until(brokers, &["dead-letter"], |r| r.len() >= count).await;
    let cause = |l: &InputRecord| header(l, "triad-cause").map(str::to_owned);
    let mut causes: Vec<String> = letters.iter().filter_map(cause).collect();
    causes.sort();
    causes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_takes_every_order_that_can_be_read() {
    let dev = Dev::start(&[]).await;
    let count = write(&dev.kafka).await;
    let finished = dev.all_finished(count).await;
    assert!(finished.iter().all(|o| o["state"] == "Processed"));
    dev.ledger().await.assert_nothing_twice();
    assert_eq!(causes(&dev.kafka, 2).await.len(), 2);
    read_until(&dev.kafka, &["alerts"], |r| r.len() >= 2).await;
    let listed = dev.triad(&["dead-letters", "list", "--json"]).await.good();
    let lines = listed.json_lines();
    let letters = lines.iter().filter(|line| line["kind"] == "letter");
    assert_eq!(letters.count(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions_take_every_order_that_can_be_read() {
    let engines = Engines::start(FULFILMENT, Faults::default()).await;
    let brokers = engines.brokers();
    let count = write(&brokers).await;
    let variables = engines.variables(&brokers);
    let mut submission = EventSource::start(
        &binary("triad-submission"),
        &variables,
        &brokers,
        &["orders"],
    );
    until("every order is stored", async || {
        let _ = submission.turn().await;
        (engines.ids().await.len() == count).then_some(())
    })
    .await;
    until("the bad records have their letters", async || {
        let _ = submission.turn().await;
        let letters = triad_tests::topics::read_all(&brokers, &["dead-letter"]).await;
        (letters.len() == 2).then_some(())
    })
    .await;
    assert_eq!(causes(&brokers, 2).await.len(), 2);
}
