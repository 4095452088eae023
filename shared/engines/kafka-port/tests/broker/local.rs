//! The handlers of the same process beside Kafka clients at the port.

use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _};
use rdkafka::message::Message as _;
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use triad_broker::{Broker, BrokerConfig, BrokerHandle, TopicsIn};
use triad_consume::{Broker as _, COMMIT_EVERY, Consumer, Polled, WorkerConfig, run_stream};
use triad_core::Envelope;
use triad_kafka::{KafkaConfig, Topic, create_topics};
use triad_runtime::system::SystemClock;
use triad_runtime::{Bus, BusError, Clock as _, Handled, InputRecord};
use triad_sqlite::topics::{LocalBroker, LocalConsumer, TopicSettings};

async fn broker(topic: &str, partitions: i32) -> BrokerHandle {
    let broker = started(TopicsIn::default());
    make_topic(&broker, topic, partitions).await;
    broker
}

fn started(topics: TopicsIn) -> BrokerHandle {
    let broker = Broker::start(BrokerConfig {
        topics,
        ..BrokerConfig::default()
    });
    broker.expect("the broker starts")
}

async fn make_topic(broker: &BrokerHandle, name: &str, partitions: i32) {
    let kafka = KafkaConfig::new(broker.addr().to_string());
    let name = name.to_owned();
    let topics = [Topic { name, partitions }];
    create_topics(&kafka, &topics).await.expect("a topic");
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

async fn next(consumer: &LocalConsumer) -> InputRecord {
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
    let consumer = LocalBroker::new(broker.topics())
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
    let direct = LocalBroker::new(broker.topics());
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
    let broker = started(TopicsIn::Scratch(TopicSettings {
        retention_bytes: Some(1 << 17),
        own_groups: Some("triad-".into()),
        ..TopicSettings::default()
    }));
    for topic in ["t", "foreign"] {
        make_topic(&broker, topic, 1).await;
    }
    let direct = LocalBroker::new(broker.topics());
    let consumer = direct.join("triad-t", "t").expect("it joins");
    produce(&broker, 0, "first").await;
    assert_eq!(text(&next(&consumer).await), "first");
    let producer: FutureProducer = client(&broker).create().expect("a producer");
    let value = "x".repeat(1_000);
    let sent = (0..1_000).flat_map(|_| {
        ["t", "foreign"].map(|topic| {
            let record = FutureRecord::<(), str>::to(topic).payload(&value);
            producer.send(record, Duration::from_secs(10))
        })
    });
    for taken in futures::future::join_all(sent).await {
        taken.expect("it is taken");
    }
    while broker
        .topics()
        .delete_old(SystemClock.now())
        .await
        .expect("it deletes")
    {}
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
        broker: LocalBroker::new(broker.topics()),
        group: "g".to_owned(),
        high: Some("t-high".to_owned()),
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
            let committed = broker.topics().committed("g");
            let mut commits = committed.iter().flat_map(|(_, commits)| commits);
            if commits.any(|commit| commit.committed.offset == 1) {
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
    let consumer = LocalBroker::new(broker.topics())
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
    let direct = LocalBroker::new(broker.topics());
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
        let ours = Envelope {
            key: Some(key.clone().into_bytes()),
            ..message("t", "ours")
        };
        assert_eq!(bus.publish(vec![ours]).await, [Ok(())]);
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
    let broker = started(TopicsIn::default());
    let admin: AdminClient<DefaultClientContext> = client(&broker).create().expect("a client");
    let small =
        NewTopic::new("t", 1, TopicReplication::Fixed(1)).set("max.message.bytes", "100000");
    let made = admin.create_topics([&small], &AdminOptions::new()).await;
    assert!(made.expect("an answer").iter().all(Result::is_ok));
    let direct = LocalBroker::new(broker.topics());
    let (bus, consumer) = (
        direct.bus().expect("a bus"),
        direct.join("g", "t").expect("it joins"),
    );
    // More than 512 KiB in all; the middle one alone is larger than the topic's limit.
    let sizes = [
        90_000, 90_000, 40_000, 200_000, 40_000, 90_000, 90_000, 90_000, 30,
    ];
    let sized = |(number, &size): (usize, &usize)| {
        message("t", &("0".repeat(size - 1) + &number.to_string()))
    };
    let results = bus
        .publish(sizes.iter().enumerate().map(sized).collect())
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

fn in_memory() -> TopicSettings {
    TopicSettings {
        in_memory: |topic| topic == "t",
        ..TopicSettings::default()
    }
}

fn message(topic: &str, value: &str) -> Envelope {
    Envelope {
        topic: topic.to_owned(),
        key: Some(b"order".to_vec()),
        value: value.as_bytes().to_vec(),
        headers: Vec::new(),
        trace: None,
    }
}

/// What was in memory is gone after a start, and no new record gets an offset that an earlier one had: a group goes on
/// with the first new record, whether it is this process's or another's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_in_memory_begins_anew_behind_all_offsets_that_it_ever_had() {
    let data = tempfile::tempdir().expect("a directory");
    let start = || started(TopicsIn::Directory(data.path().to_owned(), in_memory()));
    let broker = start();
    make_topic(&broker, "t", 1).await;
    make_topic(&broker, "table", 1).await;
    let bus = LocalBroker::new(broker.topics()).bus().expect("a bus");
    for value in ["0", "1", "2"] {
        let messages = vec![message("t", value), message("table", value)];
        assert_eq!(bus.publish(messages).await, [Ok(()), Ok(())]);
    }
    let commit = |offset: i64| {
        let mut config = client(&broker);
        let outer: BaseConsumer = config.set("group.id", "outer").create().expect("a client");
        let mut position = TopicPartitionList::new();
        let offset = Offset::Offset(offset);
        position
            .add_partition_offset("t", 0, offset)
            .expect("an offset");
        outer.commit(&position, CommitMode::Sync).expect("a commit");
    };
    tokio::task::block_in_place(|| commit(2));
    drop(bus);
    broker.shutdown().await.expect("it stops");

    let broker = start();
    let topics = broker.topics();
    let begins = topics.marks("t", 0).expect("it is there");
    assert!(begins.start == begins.end && begins.start > 3, "{begins:?}");
    assert_eq!(topics.marks("table", 0).map(|marks| marks.end), Some(3));
    let committed = topics.committed("outer");
    assert_eq!(committed[0].1[0].committed.offset, begins.start);
    let bus = LocalBroker::new(topics.clone()).bus().expect("a bus");
    assert_eq!(bus.publish(vec![message("t", "new")]).await, [Ok(())]);
    let ours = LocalBroker::new(topics).join("g", "t").expect("it joins");
    let record = next(&ours).await;
    assert_eq!((text(&record), record.offset), ("new", begins.start));
    // A reader that was connected all the time asks for the offset behind what it has read.
    let read = || {
        let mut config = client(&broker);
        let outer: BaseConsumer = config.set("group.id", "other").create().expect("a client");
        let mut position = TopicPartitionList::new();
        let offset = Offset::Offset(3);
        position
            .add_partition_offset("t", 0, offset)
            .expect("an offset");
        outer.assign(&position).expect("an assignment");
        loop {
            if let Some(Ok(record)) = outer.poll(Duration::from_millis(100)) {
                return (record.offset(), record.payload().map(<[u8]>::to_vec));
            }
        }
    };
    let found = tokio::task::block_in_place(read);
    assert_eq!(found, (begins.start, Some(b"new".to_vec())));
}

/// What is done makes room in memory; the newest of it can still be looked at.
#[tokio::test]
async fn a_topic_in_memory_keeps_some_of_what_is_done() {
    let broker = started(TopicsIn::Scratch(in_memory()));
    make_topic(&broker, "t", 1).await;
    let local = LocalBroker::new(broker.topics());
    let (bus, consumer) = (local.bus().expect("a bus"), local.join("g", "t"));
    let consumer = consumer.expect("it joins");
    for number in 0..1_000 {
        let value = format!("{number:0>500}");
        assert_eq!(bus.publish(vec![message("t", &value)]).await, [Ok(())]);
        assert_eq!(next(&consumer).await.offset, number);
    }
    let start = || broker.topics().marks("t", 0).map_or(0, |marks| marks.start);
    assert_eq!(start(), 0, "nothing is done");
    consumer.store(&("t".to_owned(), 0), 900);
    consumer.commit();
    assert!((850..=900).contains(&start()), "{}", start());
    let looker = local.join("other", "t").expect("it joins");
    assert_eq!(next(&looker).await.offset, start());
}

/// Memory is bounded: the oldest messages go, and readers go on with those that are left.
#[tokio::test]
async fn topics_in_memory_that_are_full_lose_their_oldest_messages() {
    let broker = started(TopicsIn::Scratch(TopicSettings {
        memory_bytes: 10_000,
        ..in_memory()
    }));
    make_topic(&broker, "t", 1).await;
    let local = LocalBroker::new(broker.topics());
    let (bus, consumer) = (local.bus().expect("a bus"), local.join("g", "t"));
    for number in 0..100 {
        let value = format!("{number:0>500}");
        assert_eq!(bus.publish(vec![message("t", &value)]).await, [Ok(())]);
    }
    let consumer = consumer.expect("it joins");
    let first = next(&consumer).await.offset;
    assert!((80..90).contains(&first), "{first}");
    for offset in first + 1..100 {
        assert_eq!(next(&consumer).await.offset, offset);
    }
}

/// One topic that nobody reads fills the memory of all: it loses its own messages, not those of the others.
#[tokio::test]
async fn a_topic_that_fills_the_memory_takes_none_from_another() {
    let broker = started(TopicsIn::Scratch(TopicSettings {
        memory_bytes: 10_000,
        in_memory: |_| true,
        ..TopicSettings::default()
    }));
    make_topic(&broker, "few", 1).await;
    make_topic(&broker, "t", 1).await;
    let local = LocalBroker::new(broker.topics());
    let (bus, consumer) = (local.bus().expect("a bus"), local.join("g", "few"));
    let few = message("few", "kept");
    assert_eq!(bus.publish(vec![few.clone()]).await, [Ok(())]);
    for _ in 0..100 {
        let sent = bus.publish(vec![message("t", &"x".repeat(500))]).await;
        assert_eq!(sent, [Ok(())]);
    }
    assert_eq!(bus.publish(vec![few]).await, [Ok(())]);
    let consumer = consumer.expect("it joins");
    let first = next(&consumer).await.offset;
    assert_eq!(next(&consumer).await.offset, first + 1);
    assert_eq!(
        broker.topics().marks("few", 0).map(|marks| marks.start),
        Some(first)
    );
}

/// Retention by age goes by this machine's clock: the time that a client wrote into a record neither deletes nor keeps.
#[tokio::test]
async fn what_is_done_is_deleted_for_its_age_and_not_for_the_time_that_it_names() {
    let age = Duration::from_secs(3_600);
    let broker = started(TopicsIn::Scratch(TopicSettings {
        retention: Some(age),
        own_groups: Some("triad-".into()),
        ..TopicSettings::default()
    }));
    make_topic(&broker, "t", 1).await;
    let local = LocalBroker::new(broker.topics());
    let consumer = local.join("triad-t", "t").expect("it joins");
    let producer: FutureProducer = client(&broker).create().expect("a producer");
    for time in [1, i64::MAX / 2, 2] {
        let record = FutureRecord::<(), str>::to("t")
            .payload("x")
            .timestamp(time);
        let sent = producer.send(record, Duration::from_secs(10)).await;
        sent.expect("it is taken");
        next(&consumer).await;
    }
    consumer.store(&("t".to_owned(), 0), 2);
    consumer.commit();
    let topics = broker.topics();
    let start = || topics.marks("t", 0).map(|marks| marks.start);
    let now = SystemClock.now();
    let delete = |at| topics.delete_old(at);
    assert_eq!(
        delete(now).await.map(|_| start()),
        Ok(Some(0)),
        "they are young"
    );
    let later = triad_core::Timestamp(now.0 + 2 * 3_600_000);
    assert_eq!(
        delete(later).await.map(|_| start()),
        Ok(Some(2)),
        "what is done"
    );
}

/// Beyond their bound the tables refuse what comes from outside, and take what this process sends.
#[tokio::test]
async fn topics_that_are_full_refuse_clients_and_take_our_own_messages() {
    let broker = started(TopicsIn::Scratch(TopicSettings {
        table_bytes: 100_000,
        ..TopicSettings::default()
    }));
    make_topic(&broker, "t", 1).await;
    let mut client = client(&broker);
    let producer: FutureProducer = client
        .set("message.timeout.ms", "500")
        .create()
        .expect("a producer");
    let value = "x".repeat(30_000);
    let mut taken = 0;
    for _ in 0..10 {
        let record = FutureRecord::<(), str>::to("t").payload(&value);
        if producer
            .send(record, Duration::from_secs(10))
            .await
            .is_err()
        {
            break;
        }
        taken += 1;
    }
    assert_eq!(taken, 4);
    let bus = LocalBroker::new(broker.topics()).bus().expect("a bus");
    assert_eq!(bus.publish(vec![message("t", "ours")]).await, [Ok(())]);
}
