//! A bus while the leader of one partition is down: its publishes fail in time, and those to other partitions
//! succeed. Also the partition of each key.

use std::time::Instant;

use rdkafka::mocking::MockCluster;
use triad_broker::{Broker, BrokerConfig};
use triad_core::Envelope;
use triad_kafka::{KafkaBus, KafkaConfig, Topic, create_topics};
use triad_runtime::{Bus, BusError};
use triad_tests::engines::loopback;
use triad_tests::poll::PATIENCE;
use triad_tests::topics::{read_all, read_until};

fn message(topic: &str, value: &str) -> Envelope {
    Envelope {
        topic: topic.to_owned(),
        key: Some(b"key".to_vec()),
        value: value.into(),
        headers: Vec::new(),
        trace: None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_whose_leader_is_away_holds_up_no_other_and_gets_each_message_once() {
    let mock = MockCluster::new(2).expect("a mock cluster");
    for (topic, leader) in [("alive", 1), ("dead", 2)] {
        mock.create_topic(topic, 1, 1).expect("a topic");
        let led = mock.partition_leader(topic, 0, Some(leader));
        led.expect("a leader");
    }
    let brokers = mock.bootstrap_servers();
    let bus = KafkaBus::new(&KafkaConfig::new(&*brokers)).expect("sound settings");
    let both = |n: usize| vec![message("dead", "first"), message("alive", &n.to_string())];
    assert_eq!(bus.publish(both(0)).await, [Ok(()), Ok(())]);
    mock.broker_down(2).expect("it goes");
    // The first publish waits for the whole time limit; the later ones fail at once.
    for n in 1..=4 {
        let late = vec![
            message("dead", "second"),
            message("alive", &n.to_string()),
            message("dead", "third"),
        ];
        let sent = bus.publish(late).await;
        assert!(matches!(sent[0], Err(BusError::Late(_))), "{sent:?}");
        assert_eq!(sent[1], Ok(()));
        assert!(matches!(sent[2], Err(BusError::Late(_))), "{sent:?}");
    }
    // Messages that were late before are published while the broker comes back, and again until all are acknowledged.
    // An acknowledgement for which no publish waits is dropped, so that message would be sent again.
    let late = || bus.publish(vec![message("dead", "second"), message("dead", "third")]);
    let back = async { mock.broker_up(2).expect("it comes back") };
    let (mut sent, ()) = tokio::join!(late(), back);
    let begun = Instant::now();
    while !sent.iter().all(Result::is_ok) {
        assert!(
            begun.elapsed() < PATIENCE,
            "what was late is acknowledged: {sent:?}"
        );
        sent = late().await;
    }
    assert_eq!(bus.publish(vec![message("dead", "last")]).await, [Ok(())]);
    let read = read_until(&brokers, &["dead"], |records| {
        records
            .last()
            .is_some_and(|r| r.value.as_deref() == Some(b"last"))
    })
    .await;
    let mut values: Vec<String> = read
        .iter()
        .map(|r| String::from_utf8_lossy(r.value.as_deref().unwrap_or_default()).into_owned())
        .collect();
    assert_eq!(
        values.len(),
        4,
        "sent five times, and there once: {values:?}"
    );
    values.dedup();
    assert_eq!(
        values,
        ["first", "second", "third", "last"],
        "in their order"
    );
    assert_eq!(read_all(&brokers, &["alive"]).await.len(), 5);
}

/// Keys and hashes from the tests of Kafka's own Java client (`UtilsTest.testMurmur2`).
const HASHES: [(&str, i32); 6] = [
    ("21", -973_932_308),
    ("foobar", -790_332_482),
    ("a-little-bit-long-string", -985_981_536),
    ("a-little-bit-longer-string", -1_486_304_829),
    (
        "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
        -58_897_971,
    ),
    ("abc", 479_470_107),
];

/// An order's messages must be in one partition, whichever client sends them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_lie_where_the_java_clients_put_them() {
    let broker = Broker::start(BrokerConfig {
        listen: loopback(),
        ..BrokerConfig::default()
    })
    .expect("the broker starts");
    let brokers = broker.addr().to_string();
    let config = KafkaConfig::new(&*brokers);
    let topic = Topic {
        name: "t".to_owned(),
        partitions: 97,
    };
    create_topics(&config, &[topic]).await.expect("a topic");
    let bus = KafkaBus::new(&config).expect("sound settings");
    let of = |(key, _): &(&str, i32)| Envelope {
        key: Some(key.as_bytes().to_vec()),
        ..message("t", key)
    };
    let sent = bus.publish(HASHES.iter().map(of).collect()).await;
    assert!(sent.iter().all(Result::is_ok), "{sent:?}");
    let read = read_all(&brokers, &["t"]).await;
    for (key, hash) in HASHES {
        let found = read
            .iter()
            .find(|r| r.key.as_deref() == Some(key.as_bytes()));
        let partition = found.expect("it was sent").partition;
        assert_eq!(partition, (hash & 0x7fff_ffff) % 97, "{key}");
    }
}
