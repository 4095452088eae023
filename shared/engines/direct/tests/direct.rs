//! The in-process client (`direct`) beside Kafka clients at the broker's port.

use std::path::Path;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::producer::{FutureProducer, FutureRecord};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use triad_broker::{Broker, BrokerConfig, BrokerHandle};
use triad_consume::{Broker as _, COMMIT_EVERY, Consumer, Polled, WorkerConfig, run_stream};
use triad_core::{Envelope, topics};
use triad_direct::{DirectBroker, DirectConsumer};
use triad_kafka::{KafkaConfig, Topic, create_topics};
use triad_runtime::{Bus, BusError, Handled, InputRecord};

async fn broker(topic: &str, partitions: i32) -> BrokerHandle {
    let broker = started(None);
    let kafka = KafkaConfig::new(broker.addr().to_string());
    let topics = [Topic {
        name: topic.to_owned(),
        partitions,
    }];
    create_topics(&kafka, &topics).await.expect("a topic");
    broker
}

/// Starts a broker that keeps its log in a directory, or in memory.
fn started(data: Option<&Path>) -> BrokerHandle {
    let broker = Broker::start(BrokerConfig {
        listen: ([127, 0, 0, 1], 0).into(),
        data: data.map(Path::to_owned),
        ..BrokerConfig::default()
    });
    broker.expect("the broker starts")
}

fn client(broker: &BrokerHandle) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", broker.addr().to_string());
    config
}

async fn produce(broker: &BrokerHandle, partition: i32, value: &str) {
    let producer: FutureProducer = client(broker).create().expect("a producer");
    let record = FutureRecord::<(), str>::to("t")
        .partition(partition)
        .payload(value);
    producer
        .send(record, Duration::from_secs(10))
        .await
        .expect("it is taken");
}

async fn next(consumer: &DirectConsumer) -> InputRecord {
    match consumer.next().await {
        Polled::Record(record) => record,
        other => panic!("{other:?}"),
    }
}

fn text(record: &InputRecord) -> &str {
    let value = record.value.as_deref().expect("a value");
    std::str::from_utf8(value).expect("text")
}

/// Virtual time: it advances when every task waits.
#[tokio::test(start_paused = true)]
async fn partitions_that_are_added_are_read() {
    let broker = broker("t", 1).await;
    let consumer = DirectBroker::new(broker.line())
        .join("g", "t")
        .expect("it joins");
    produce(&broker, 0, "first").await;
    assert_eq!(text(&next(&consumer).await), "first");
    let admin: AdminClient<DefaultClientContext> = client(&broker).create().expect("a client");
    let added = admin
        .create_partitions(&[NewPartitions::new("t", 3)], &AdminOptions::new())
        .await;
    assert!(added.expect("an answer").iter().all(Result::is_ok));
    produce(&broker, 2, "added").await;
    let record = next(&consumer).await;
    assert_eq!((text(&record), record.partition), ("added", 2));
}

#[tokio::test]
async fn a_reader_goes_on_from_where_its_group_has_committed() {
    let broker = broker("t", 2).await;
    let direct = DirectBroker::new(broker.line());
    for value in ["a", "b", "c"] {
        produce(&broker, 1, value).await;
    }
    let consumer = direct.join("g", "t").expect("it joins");
    let first = next(&consumer).await;
    consumer.store(&("t".to_owned(), 1), first.offset + 1);
    consumer.commit_and_wait();
    drop(consumer);
    let consumer = direct.join("g", "t").expect("it joins");
    assert_eq!(text(&next(&consumer).await), "b");
    let other = direct.join("other", "t").expect("it joins");
    assert_eq!(text(&next(&other).await), "a");
}

/// Retention by size keeps the records that one of the broker's own groups has not committed, and deletes others.
#[tokio::test]
async fn what_a_group_has_not_done_is_kept_beyond_the_bytes_that_are_kept() {
    let config = BrokerConfig {
        listen: ([127, 0, 0, 1], 0).into(),
        segment_bytes: 1 << 16,
        retention_bytes: Some(1 << 17),
        own_groups: Some("triad-".into()),
        ..BrokerConfig::default()
    };
    let broker = Broker::start(config).expect("the broker starts");
    let kafka = KafkaConfig::new(broker.addr().to_string());
    let topics = ["t", "foreign"].map(|name| Topic {
        name: name.to_owned(),
        partitions: 1,
    });
    create_topics(&kafka, &topics).await.expect("topics");
    let direct = DirectBroker::new(broker.line());
    let consumer = direct.join("triad-t", "t").expect("it joins");
    produce(&broker, 0, "first").await;
    assert_eq!(text(&next(&consumer).await), "first");
    let producer: FutureProducer = client(&broker).create().expect("a producer");
    let value = "x".repeat(1_000);
    // Sent in ten parts, because records that are sent together form one batch, which is kept or deleted as a whole.
    for _ in 0..10 {
        let sent = (0..100).flat_map(|_| {
            ["t", "foreign"].map(|topic| {
                let record = FutureRecord::<(), str>::to(topic).payload(&value);
                producer.send(record, Duration::from_secs(10))
            })
        });
        for taken in futures::future::join_all(sent).await {
            taken.expect("it is taken");
        }
    }
    for offset in 1..=1_000 {
        assert_eq!(next(&consumer).await.offset, offset);
    }
    let foreign = direct.join("other", "foreign").expect("it joins");
    let first = next(&foreign).await.offset;
    assert!(first > 500, "what nobody of ours reads is not: {first}");
}

#[tokio::test(start_paused = true)]
async fn what_is_done_is_committed_long_before_the_next_turn() {
    let broker = broker("t", 1).await;
    produce(&broker, 0, "a").await;
    let (stop, began) = (CancellationToken::new(), Instant::now());
    let config = WorkerConfig {
        broker: DirectBroker::new(broker.line()),
        group: "g".to_owned(),
        high: "t-high".to_owned(),
        normal: "t".to_owned(),
        max_records: 4,
    };
    // Each record takes 1 ms. The loop tries to commit at its beginning, when no record is handled yet; the test
    // measures when the next commit comes.
    let handle = |_| async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        Handled::Done
    };
    let reading = run_stream(config, stop.clone(), handle);
    let looking = async {
        loop {
            let committed = broker.line().committed("g", "t").expect("it answers");
            if committed.iter().any(|position| position.offset == 1) {
                return began.elapsed();
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let took = tokio::select! {
        ended = reading => panic!("it ends by itself: {ended:?}"),
        took = looking => took,
    };
    assert!(took < COMMIT_EVERY / 2, "{took:?}");
}

#[tokio::test]
async fn a_paused_partition_is_left_out_and_read_on_where_it_was() {
    let broker = broker("t", 2).await;
    let consumer = DirectBroker::new(broker.line())
        .join("g", "t")
        .expect("it joins");
    for (partition, value) in [(0, "0a"), (0, "0b"), (1, "1a"), (1, "1b")] {
        produce(&broker, partition, value).await;
    }
    let paused = ("t".to_owned(), 0);
    let mut first = next(&consumer).await;
    while first.partition != 0 {
        first = next(&consumer).await;
    }
    assert_eq!(text(&first), "0a");
    consumer.pause(&paused, true);
    let mut seen = Vec::new();
    while let Some(Polled::Record(record)) = consumer.at_hand() {
        seen.push(text(&record).to_owned());
    }
    assert!(seen.iter().all(|value| value.starts_with('1')), "{seen:?}");
    consumer.pause(&paused, false);
    loop {
        let record = next(&consumer).await;
        if record.partition == 0 {
            assert_eq!(text(&record), "0b");
            return;
        }
    }
}

#[tokio::test]
async fn a_message_of_ours_lies_where_other_clients_would_put_it() {
    let broker = broker("t", 7).await;
    let direct = DirectBroker::new(broker.line());
    let (bus, consumer) = (
        direct.bus().expect("a bus"),
        direct.join("g", "t").expect("it joins"),
    );
    let mut theirs = client(&broker);
    let theirs: FutureProducer = theirs
        .set("partitioner", "murmur2_random")
        .create()
        .expect("a producer");
    for n in 0..40 {
        let key = format!("order-{n}");
        let record = FutureRecord::to("t").key(&key).payload("theirs");
        let sent = theirs
            .send(record, Duration::from_secs(10))
            .await
            .expect("it is taken");
        let message = Envelope {
            topic: "t".into(),
            key: Some(key.clone().into_bytes()),
            value: b"ours".to_vec(),
            headers: Vec::new(),
            trace: None,
        };
        assert_eq!(bus.publish(vec![message]).await, [Ok(())]);
        for _ in 0..2 {
            let record = next(&consumer).await;
            assert_eq!(record.partition, sent.partition, "{key}: {}", text(&record));
        }
    }
}

/// The topic's size limit is smaller than the batches that the bus builds. Each message that fits must be accepted,
/// in the order of the call, also beside one that does not fit.
#[tokio::test]
async fn a_topic_that_takes_little_gets_the_messages_of_a_call_in_their_order() {
    let broker = broker("other", 1).await;
    let admin: AdminClient<DefaultClientContext> = client(&broker).create().expect("a client");
    let small =
        NewTopic::new("t", 1, TopicReplication::Fixed(1)).set("max.message.bytes", "100000");
    let made = admin.create_topics([&small], &AdminOptions::new()).await;
    assert!(made.expect("an answer").iter().all(Result::is_ok));
    let direct = DirectBroker::new(broker.line());
    let (bus, consumer) = (
        direct.bus().expect("a bus"),
        direct.join("g", "t").expect("it joins"),
    );
    // More than 512 KiB in all; the middle one alone is larger than the topic's limit.
    let sizes = [
        90_000, 90_000, 40_000, 200_000, 40_000, 90_000, 90_000, 90_000, 30,
    ];
    let message = |(number, &size): (usize, &usize)| Envelope {
        topic: "t".into(),
        key: Some(b"order".to_vec()),
        value: [b"0".repeat(size - 1), number.to_string().into_bytes()].concat(),
        headers: Vec::new(),
        trace: None,
    };
    let results = bus
        .publish(sizes.iter().enumerate().map(message).collect())
        .await;
    for (number, result) in results.iter().enumerate() {
        match result {
            Err(BusError::TooLarge(_)) if number == 3 => {}
            Ok(()) if number != 3 => {}
            other => panic!("{number}: {other:?}"),
        }
    }
    for number in [0, 1, 2, 4, 5, 6, 7, 8] {
        let record = next(&consumer).await;
        assert_eq!(text(&record).parse::<usize>().expect("a number"), number);
    }
}

/// Copies the files as they are now, as a kill would leave them.
fn copied(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).expect("a directory") {
        let path = entry.expect("an entry").path();
        let copy = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            std::fs::create_dir(&copy).expect("a directory");
            copied(&path, &copy);
        } else {
            std::fs::copy(&path, &copy).expect("a copy");
        }
    }
}

/// A message that Triad can send again is acknowledged while it is only in memory. A request for durability writes it
/// to the files.
#[tokio::test]
async fn what_was_acknowledged_at_once_is_durable_when_that_is_asked_for() {
    let data = tempfile::tempdir().expect("a directory");
    let broker = started(Some(data.path()));
    let kafka = KafkaConfig::new(broker.addr().to_string());
    let name = topics::SCHEDULER.to_owned();
    let topic = Topic {
        name,
        partitions: 1,
    };
    create_topics(&kafka, &[topic]).await.expect("a topic");
    let bus = DirectBroker::new(broker.line()).bus().expect("a bus");
    for number in 0..5 {
        let message = Envelope {
            topic: topics::SCHEDULER.into(),
            key: Some(b"order".to_vec()),
            value: number.to_string().into_bytes(),
            headers: Vec::new(),
            trace: None,
        };
        assert_eq!(bus.publish(vec![message]).await, [Ok(())]);
        assert_eq!(broker.line().make_durable().await, Ok(()));
        let copy = tempfile::tempdir().expect("a directory");
        copied(data.path(), copy.path());
        let left = started(Some(copy.path()));
        let direct = DirectBroker::new(left.line());
        let consumer = direct.join("g", topics::SCHEDULER).expect("it joins");
        for expected in 0..=number {
            let found = timeout(Duration::from_secs(30), next(&consumer)).await;
            let found = found.expect("it is in the files");
            assert_eq!(text(&found), expected.to_string());
        }
    }
}
