//! Two installations on one cluster stay apart by their prefixes, and topics of another program are refused.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use triad_broker::{Broker, BrokerConfig, BrokerHandle};
use triad_consume::{Broker as _, Consumer as _, Polled};
use triad_core::{Envelope, topics};
use triad_kafka::{
    HeldRecords, KafkaBus, KafkaConfig, TopicDifference, WantedTopic, compare_topics, make_topics,
    topics_seen,
};
use triad_runtime::{Bus as _, InputRecord};
use triad_tests::engines::loopback;
use triad_tests::poll::PATIENCE;

const TOPIC: &str = topics::ORDERS;
const WITHIN: Duration = Duration::from_secs(10);

fn broker() -> BrokerHandle {
    let config = BrokerConfig {
        listen: loopback(),
        auto_create_topics: false,
        ..BrokerConfig::default()
    };
    Broker::start(config).expect("the broker starts")
}

fn installation(broker: &BrokerHandle, prefix: &str) -> KafkaConfig {
    KafkaConfig {
        prefix: prefix.to_owned(),
        ..KafkaConfig::new(broker.addr().to_string())
    }
}

fn wanted(name: &str, partitions: i32, retention: &str) -> WantedTopic {
    WantedTopic {
        name: name.to_owned(),
        partitions,
        replication: Some(1),
        settings: BTreeMap::from([("retention.ms".to_owned(), retention.to_owned())]),
    }
}

async fn send(config: &KafkaConfig, value: &str) {
    let message = Envelope {
        topic: TOPIC.to_owned(),
        key: Some(b"k".to_vec()),
        value: value.as_bytes().to_vec(),
        headers: Vec::new(),
        trace: None,
    };
    let bus = KafkaBus::new(config).expect("sound settings");
    assert_eq!(bus.publish(vec![message]).await, [Ok(())]);
}

/// The first record that the installation's group gets, which is then committed.
async fn first(config: &KafkaConfig) -> InputRecord {
    let group = topics::group(&config.prefix, TOPIC);
    let consumer = config.join(&group, TOPIC).expect("it joins");
    let next = async {
        loop {
            if let Polled::Record(record) = consumer.next().await {
                return record;
            }
        }
    };
    let record = tokio::time::timeout(PATIENCE, next)
        .await
        .expect("a record");
    let place = (record.topic.clone(), record.partition);
    consumer.pause(&place, true);
    consumer.pause(&place, false);
    consumer.store(&place, record.offset + 1);
    consumer.commit_and_wait();
    record
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn installations_with_their_own_prefix_share_no_record() {
    let broker = broker();
    let [shop, bank] = ["shop-", "bank-"].map(|prefix| installation(&broker, prefix));
    for config in [&shop, &bank] {
        let made = make_topics(config, &[wanted(TOPIC, 1, "60000")]).await;
        assert_eq!(made.expect("topics"), 1);
        let again = make_topics(config, &[wanted(TOPIC, 1, "60000")]).await;
        assert_eq!(again.expect("topics"), 0);
        send(config, &config.prefix).await;
    }
    for config in [&shop, &bank] {
        let record = first(config).await;
        assert_eq!(record.topic, TOPIC);
        assert_eq!(record.value.as_deref(), Some(config.prefix.as_bytes()));
        let seen = topics_seen(config, WITHIN).expect("an answer");
        assert_eq!(seen, BTreeSet::from([TOPIC.to_owned()]));
    }
    send(&shop, "second").await;
    let group = topics::group(&shop.prefix, TOPIC);
    let mut held = HeldRecords::unread(&shop, TOPIC, &group, WITHIN).expect("it opens");
    let record = held.next().await.expect("an answer").expect("a record");
    assert_eq!(record.topic, TOPIC);
    assert_eq!(record.value.as_deref(), Some(&b"second"[..]));
    let all = topics_seen(&installation(&broker, ""), WITHIN).expect("an answer");
    let names = ["bank-orders", "shop-orders"].map(str::to_owned);
    assert_eq!(all, BTreeSet::from(names));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_that_differs_is_refused_and_nothing_is_made() {
    let broker = broker();
    let config = installation(&broker, "shop-");
    let made = make_topics(&config, &[wanted(TOPIC, 3, "60000")]).await;
    assert_eq!(made.expect("topics"), 1);
    let all = [
        wanted(TOPIC, 8, "604800000"),
        wanted("status", 8, "604800000"),
    ];
    let why = make_topics(&config, &all).await.unwrap_err().to_string();
    for part in [
        "shop-orders: partitions is \"3\" and not \"8\"",
        "shop-orders: retention.ms is \"60000\" and not \"604800000\"",
        "No topic was made",
        "another prefix",
    ] {
        assert!(why.contains(part), "{why}");
    }
    let differences = compare_topics(&config, &all).await.expect("an answer");
    assert_eq!(differences.len(), 3, "{differences:?}");
    assert!(differences.contains(&TopicDifference::Missing("shop-status".to_owned())));
}
