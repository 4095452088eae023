//! A loop continues after records that Triad did not write, and after a panic of its handler.

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{FutureProducer, FutureRecord};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use triad_broker::{Broker, BrokerConfig};
use triad_consume::{ConsumeError, WorkerConfig, run_batches, run_stream};
use triad_kafka::{HeldRecords, KafkaConfig, Member, Polled, Topic, create_topics};
use triad_runtime::delivery::HANDLER_PANICKED;
use triad_runtime::{Handled, InputRecord, Redelivery};
use triad_tests::engines::loopback;
use triad_tests::foreign::{Codec, Foreign, batch, produce, records};
use triad_tests::poll::{PATIENCE, until};
use triad_tests::topics::{header, read_until};

const TOPIC: &str = "t";
const PARTITIONS: i32 = 2;
const TOPICS: [&str; 4] = [TOPIC, "t.high", "dead-letter", "alerts"];

/// Which of the worker's loops is under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loop {
    Batches,
    Stream,
}

/// A broker with topics, and the values that the loop's handler has received.
struct Kafka {
    _broker: Box<dyn Any>,
    config: KafkaConfig,
    seen: Arc<Mutex<Vec<InputRecord>>>,
}

impl Kafka {
    async fn start() -> Self {
        let broker = Broker::start(BrokerConfig {
            listen: loopback(),
            ..BrokerConfig::default()
        })
        .expect("the broker starts");
        let config = KafkaConfig::new(broker.addr().to_string());
        let topic = |name: &str| Topic {
            name: name.to_owned(),
            partitions: PARTITIONS,
        };
        create_topics(&config, &TOPICS.map(topic))
            .await
            .expect("topics");
        Self::of(config, Box::new(broker))
    }

    /// A broker that takes batches without a look into them, as Kafka may: librdkafka's mock cluster.
    fn unchecked() -> Self {
        let mock = MockCluster::new(1).expect("a mock cluster");
        for topic in TOPICS {
            mock.create_topic(topic, PARTITIONS, 1).expect("a topic");
        }
        Self::of(KafkaConfig::new(mock.bootstrap_servers()), Box::new(mock))
    }

    fn of(config: KafkaConfig, broker: Box<dyn Any>) -> Self {
        Self {
            _broker: broker,
            config,
            seen: Arc::default(),
        }
    }

    fn put(&self, partition: i32, all: &[Foreign]) -> i64 {
        let count = i32::try_from(all.len()).expect("few");
        let batch = batch(Codec::None, count, &records(all));
        produce(&self.config.brokers, TOPIC, partition, &batch)
    }

    fn worker(&self) -> WorkerConfig<KafkaConfig> {
        WorkerConfig {
            broker: self.config.clone(),
            group: "readers".to_owned(),
            high: Some("t.high".to_owned()),
            normal: TOPIC.to_owned(),
            max_records: 10,
        }
    }

    /// Runs a loop whose handler panics on the value `panic`, until it is stopped.
    fn read(&self, reads: Loop) -> Reading {
        let stop = CancellationToken::new();
        let config = self.worker();
        let seen = self.seen.clone();
        match reads {
            Loop::Batches => {
                let handle = move |records: Arc<Vec<InputRecord>>| {
                    let seen = seen.clone();
                    async move { records.iter().map(|r| take(&seen, r)).collect() }
                };
                let running = run_batches(config, stop.clone(), handle);
                Reading(stop, tokio::spawn(running))
            }
            Loop::Stream => {
                let handle = move |record: Arc<InputRecord>| {
                    let seen = seen.clone();
                    async move { take(&seen, &record) }
                };
                let running = run_stream(config, stop.clone(), handle);
                Reading(stop, tokio::spawn(running))
            }
        }
    }

    /// Waits until the handler has received this many different values.
    async fn values(&self, count: usize) -> BTreeSet<String> {
        until(&format!("{count} values are there"), async || {
            let values: BTreeSet<String> = self.seen().iter().map(value).collect();
            (values.len() >= count).then_some(values)
        })
        .await
    }

    fn seen(&self) -> Vec<InputRecord> {
        let seen = self.seen.lock();
        seen.unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn told(&self, topic: &str, count: usize) -> Vec<InputRecord> {
        read_until(&self.config.brokers, &[topic], |r| r.len() >= count).await
    }
}

/// A running loop.
struct Reading(CancellationToken, JoinHandle<Result<(), ConsumeError>>);

impl Reading {
    async fn end(self) {
        self.0.cancel();
        let ended = self.1.await.expect("no panic leaves a loop");
        ended.expect("it could go on");
    }
}

fn take(seen: &Mutex<Vec<InputRecord>>, record: &InputRecord) -> Handled {
    seen.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(record.clone());
    assert!(!value(record).starts_with("panic"), "as it is told");
    Handled::Done
}

fn value(record: &InputRecord) -> String {
    String::from_utf8_lossy(record.value.as_deref().unwrap_or_default()).into_owned()
}

fn plain(value: &str) -> Foreign {
    Foreign {
        value: Some(value.into()),
        ..Foreign::default()
    }
}

/// A record with headers whose names are empty or hardly text.
fn odd(value: &str) -> Foreign {
    Foreign {
        headers: vec![
            (vec![b'a', 0xff, 0xfe], Some(vec![0x80])),
            (Vec::new(), None),
            (vec![b'n', 0, b'l'], Some(b"zero".to_vec())),
            (b"plain".to_vec(), Some(vec![0xff])),
        ],
        ..plain(value)
    }
}

async fn odd_names_hold_up_nobody(reads: Loop) {
    let kafka = Kafka::start().await;
    kafka.put(0, &[plain("1"), odd("2"), plain("3")]);
    kafka.put(1, &[odd("4")]);
    let reading = kafka.read(reads);
    kafka.values(4).await;
    let seen = kafka.seen();
    let odd = seen.iter().find(|r| value(r) == "2").expect("it came");
    let names: Vec<&str> = odd.headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["a\u{fffd}\u{fffd}", "", "n", "plain"]);
    assert_eq!(odd.headers[0].1.as_deref(), Some(&[0x80][..]));
    assert_eq!(odd.headers[1].1, None);
    assert_eq!(odd.headers[3].1.as_deref(), Some(&[0xff][..]));
    reading.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_header_name_that_is_no_text_holds_up_no_batch() {
    odd_names_hold_up_nobody(Loop::Batches).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_header_name_that_is_no_text_holds_up_no_stream() {
    odd_names_hold_up_nobody(Loop::Stream).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_header_name_that_is_no_text_holds_up_no_tool() {
    let kafka = Kafka::start().await;
    kafka.put(0, &[odd("1"), plain("2")]);
    let read = read_until(&kafka.config.brokers, &[TOPIC], |r| r.len() >= 2).await;
    assert_eq!(read[0].headers.len(), 4);
    let mut held = HeldRecords::open(&kafka.config, TOPIC, None, None, PATIENCE).expect("it opens");
    let mut count = 0;
    while held.next().await.expect("it reads").is_some() {
        count += 1;
    }
    assert_eq!(count, 2);
    let member = Member::join(&kafka.config, "tool", TOPIC).expect("it joins");
    let first = until("a member has read it", async || {
        match member.next(Duration::from_millis(200)).await {
            Polled::Record(record) => Some(record),
            Polled::Nothing => None,
        }
    })
    .await;
    assert_eq!(first.headers, read[0].headers);
}

async fn panics_put_one_record_aside(reads: Loop) {
    let kafka = Kafka::start().await;
    let all: Vec<Foreign> = ["1", "2", "panic", "3", "4"].map(plain).into();
    let bad = kafka.put(0, &all) + 2;
    kafka.put(1, &[plain("5"), odd("panic too"), plain("6")]);
    let reading = kafka.read(reads);
    kafka.values(8).await;
    let letters = kafka.told("dead-letter", 2).await;
    assert_eq!(letters.len(), 2, "{letters:?}");
    for letter in &letters {
        assert_eq!(header(letter, "triad-cause"), Some(HANDLER_PANICKED));
        let why = header(letter, "triad-cause-message").expect("why");
        assert!(why.contains("as it is told"), "{why}");
    }
    let first = letters
        .iter()
        .find(|l| value(l) == "panic")
        .expect("it is kept");
    assert_eq!(header(first, "triad-offset"), Some(&*bad.to_string()));
    assert_eq!(kafka.told("alerts", 2).await.len(), 2);
    let seen = kafka.seen();
    let times = seen.iter().filter(|r| value(r) == "panic").count();
    // A batch that panics is handled again record by record, so the bad record may be handled twice.
    let once_more = usize::from(reads == Loop::Batches);
    assert!((1..=1 + once_more).contains(&times), "{times}");
    reading.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_makes_its_handler_panic_is_put_aside_and_its_batch_goes_on() {
    panics_put_one_record_aside(Loop::Batches).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_makes_its_handler_panic_is_put_aside_and_its_stream_goes_on() {
    panics_put_one_record_aside(Loop::Stream).await;
}

/// A long text that compresses well.
fn long(n: usize) -> String {
    format!("{n:04}").repeat(200)
}

async fn every_codec_is_read(reads: Loop) {
    let kafka = Kafka::start().await;
    let codecs = ["none", "gzip", "snappy", "lz4", "zstd"];
    for (at, codec) in codecs.into_iter().enumerate() {
        let producer: FutureProducer = ClientConfig::new()
            .set("bootstrap.servers", &kafka.config.brokers)
            .set("compression.codec", codec)
            .set("linger.ms", "50")
            .create()
            .expect("librdkafka has the codec");
        let sent = (0..10).map(|n| {
            let record = FutureRecord::<(), _>::to(TOPIC).partition(0);
            let value = long(10 * at + n);
            let sent = producer.send_result(record.payload(&value));
            sent.map_err(|(e, _)| e).expect("it is queued")
        });
        for delivery in sent.collect::<Vec<_>>() {
            let delivered = delivery.await.expect("the producer lives");
            delivered.map_err(|(e, _)| e).expect("the broker takes it");
        }
    }
    let reading = kafka.read(reads);
    let values = kafka.values(10 * codecs.len()).await;
    let sent: BTreeSet<String> = (0..10 * codecs.len()).map(long).collect();
    assert_eq!(values, sent);
    reading.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_in_any_codec_is_read_by_batches() {
    every_codec_is_read(Loop::Batches).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_in_any_codec_is_read_by_a_stream() {
    every_codec_is_read(Loop::Stream).await;
}

/// Writes an unreadable batch; returns the text of its dead letter.
fn put_bad(kafka: &Kafka, codec: Codec, count: i32, content: &[u8]) -> String {
    let bytes = batch(codec, count, content);
    let first = produce(&kafka.config.brokers, TOPIC, 0, &bytes);
    let last = first + i64::from(count) - 1;
    format!("the records at offsets {first} to {last} cannot be read")
}

async fn unreadable_batches_are_passed_over(reads: Loop) {
    let kafka = Kafka::unchecked();
    kafka.put(0, &[plain("1"), plain("2")]);
    let mut bad = vec![put_bad(&kafka, Codec::Unknown, 5, b"of no codec")];
    kafka.put(0, &[plain("3")]);
    bad.push(put_bad(&kafka, Codec::Zstd, 300, b"not zstd"));
    bad.push(put_bad(&kafka, Codec::Gzip, 1, b"not gzip"));
    bad.push(put_bad(&kafka, Codec::Snappy, 2, &[0xff; 40]));
    kafka.put(0, &[plain("4")]);
    bad.push(put_bad(&kafka, Codec::Lz4, 2, b"not lz4, and at the end"));
    kafka.put(1, &[plain("5")]);
    let reading = kafka.read(reads);
    let values = kafka.values(5).await;
    assert_eq!(values, ["1", "2", "3", "4", "5"].map(str::to_owned).into());
    let letters = kafka.told("dead-letter", bad.len()).await;
    let why = |l: &InputRecord| header(l, "triad-cause-message").map(str::to_owned);
    let mut told: Vec<String> = letters.iter().filter_map(why).collect();
    // The dead letter of one batch may be sent twice, with the same content.
    told.sort();
    told.dedup();
    for bad in &bad {
        assert!(told.iter().any(|t| t.starts_with(bad)), "{bad}: {told:?}");
    }
    assert_eq!(told.len(), bad.len(), "{told:?}");
    for letter in &letters {
        assert_eq!(header(letter, "triad-cause"), Some("unreadable-batch"));
    }
    kafka.told("alerts", bad.len()).await;
    // The loop continues with the record behind the unreadable batches.
    kafka.put(0, &[plain("6")]);
    kafka.values(6).await;
    reading.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_cannot_be_read_is_passed_over_by_batches() {
    unreadable_batches_are_passed_over(Loop::Batches).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_cannot_be_read_is_passed_over_by_a_stream() {
    unreadable_batches_are_passed_over(Loop::Stream).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_cannot_be_read_is_passed_over_by_tools() {
    let kafka = Kafka::unchecked();
    kafka.put(0, &[plain("1")]);
    put_bad(&kafka, Codec::Unknown, 3, b"of no codec");
    kafka.put(0, &[plain("2")]);
    put_bad(&kafka, Codec::Zstd, 3, b"not zstd");
    let read = read_until(&kafka.config.brokers, &[TOPIC], |r| r.len() >= 2).await;
    let values: Vec<String> = read.iter().map(value).collect();
    assert_eq!(values, ["1", "2"]);
    let mut held = HeldRecords::open(&kafka.config, TOPIC, None, None, PATIENCE).expect("it opens");
    let mut values = Vec::new();
    while let Some(record) = held.next().await.expect("it reads to the end") {
        values.push(value(&record));
    }
    assert_eq!(values, ["1", "2"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_holds_no_records_is_passed_over_without_a_word_of_librdkafka() {
    let kafka = Kafka::unchecked();
    let bad = put_bad(&kafka, Codec::None, 2, &[0x7e; 50]);
    kafka.put(0, &[plain("1")]);
    kafka.put(1, &[plain("2")]);
    let reading = kafka.read(Loop::Batches);
    kafka.values(2).await;
    let letters = kafka.told("dead-letter", 1).await;
    let why = header(&letters[0], "triad-cause-message").expect("why");
    assert!(why.starts_with(&bad), "{why}");
    reading.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_that_cannot_get_on_holds_up_no_other() {
    let kafka = Kafka::start().await;
    kafka.put(0, &["stuck 1", "stuck 2"].map(plain));
    let healed = Arc::new(AtomicBool::new(false));
    let stop = CancellationToken::new();
    let handle = {
        let (seen, healed) = (kafka.seen.clone(), healed.clone());
        move |records: Arc<Vec<InputRecord>>| {
            let (seen, healed) = (seen.clone(), healed.clone());
            async move {
                let take = |record: &InputRecord| {
                    let taken = take(&seen, record);
                    let stuck = value(record).starts_with("stuck");
                    match stuck && !healed.load(Ordering::Relaxed) {
                        true => Handled::Redeliver(Redelivery::Raced),
                        false => taken,
                    }
                };
                records.iter().map(take).collect()
            }
        }
    };
    let running = run_batches(kafka.worker(), stop.clone(), handle);
    let reading = Reading(stop, tokio::spawn(running));
    until("the stuck ones have come", async || {
        kafka
            .seen()
            .iter()
            .any(|r| value(r) == "stuck 2")
            .then_some(())
    })
    .await;
    // Each record is written when the previous one has been handled.
    for n in 0..20 {
        kafka.put(1, &[plain(&format!("free {n}"))]);
        until("the other partition goes on", async || {
            let seen = kafka.seen();
            seen.iter()
                .any(|r| value(r) == format!("free {n}"))
                .then_some(())
        })
        .await;
    }
    let times = |name: &str| kafka.seen().iter().filter(|r| value(r) == name).count();
    let before = times("stuck 1");
    until("the stuck ones come again and again", async || {
        (times("stuck 1") > before + 1).then_some(())
    })
    .await;
    kafka.put(0, &[plain("behind")]);
    healed.store(true, Ordering::Relaxed);
    until("what is behind them comes", async || {
        (times("behind") > 0).then_some(())
    })
    .await;
    assert_eq!(times("behind"), 1);
    reading.end().await;
}

/// More than the limit of a decompressed Zstandard batch, 32 MiB.
const TOO_MUCH: usize = 40 * 1024 * 1024;

/// A Zstandard frame that decompresses to this many zeros, made of run-length blocks (RFC 8878, 3.1.1.2).
fn zstd_bomb(bytes: usize) -> Vec<u8> {
    const BLOCK: usize = 128 * 1024;
    let blocks = bytes / BLOCK;
    // Magic number, frame header without options, window of 128 KiB.
    let mut out = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 0x38];
    for n in 1..=blocks {
        let header = u32::from(n == blocks) | 1 << 1 | (BLOCK as u32) << 3;
        out.extend_from_slice(&header.to_le_bytes()[..3]);
        out.push(0);
    }
    out
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_zstandard_batch_that_becomes_a_large_one_is_passed_over() {
    let kafka = Kafka::unchecked();
    let zstd = zstd_bomb(TOO_MUCH);
    assert!(zstd.len() < 256 * 1024);
    let bad = put_bad(&kafka, Codec::Zstd, 1, &zstd);
    kafka.put(0, &[plain("1")]);
    let reading = kafka.read(Loop::Batches);
    kafka.values(1).await;
    let letters = kafka.told("dead-letter", 1).await;
    let told =
        |l: &InputRecord| header(l, "triad-cause-message").is_some_and(|why| why.starts_with(&bad));
    assert!(letters.iter().any(told), "{bad}");
    reading.end().await;
}
