//! What others may write into a topic, and handlers that panic: none of it stops a loop.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_util::sync::{CancellationToken, DropGuard};
use triad_broker::{Broker, BrokerConfig, BrokerHandle};
use triad_kafka::{
    HANDLER_PANICKED, Held, KafkaConfig, MAX_PANICS, Member, Read, Topic, WorkerConfig,
    create_topics, run_batches, run_stream,
};
use triad_runtime::{Handled, InputRecord};
use triad_tests::engines::loopback;
use triad_tests::foreign::{Codec, Foreign, batch, produce, records};
use triad_tests::poll::{PATIENCE, until};
use triad_tests::topics::{header, read_until};

const TOPIC: &str = "t";
const PARTITIONS: i32 = 2;

/// Which of the worker's loops reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loop {
    Batches,
    Stream,
}

/// A broker with topics, and the values that a loop's handler was given.
struct Kafka {
    _broker: BrokerHandle,
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
        let topics = [TOPIC, "t.high", "dead-letter", "alerts"].map(topic);
        create_topics(&config, &topics).await.expect("topics");
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

    /// Runs a loop whose handler panics for a value of `panic`, until the guard is dropped.
    fn read(&self, reads: Loop) -> DropGuard {
        let stop = CancellationToken::new();
        let config = WorkerConfig {
            kafka: self.config.clone(),
            group: "readers".to_owned(),
            high: "t.high".to_owned(),
            normal: TOPIC.to_owned(),
            max_records: 10,
        };
        let seen = self.seen.clone();
        match reads {
            Loop::Batches => {
                let handle = move |records: Arc<Vec<InputRecord>>| {
                    let seen = seen.clone();
                    async move { records.iter().map(|r| take(&seen, r)).collect() }
                };
                tokio::spawn(run_batches(config, stop.clone(), handle));
            }
            Loop::Stream => {
                let handle = move |record: Arc<InputRecord>| {
                    let seen = seen.clone();
                    async move { take(&seen, &record) }
                };
                tokio::spawn(run_stream(config, stop.clone(), handle));
            }
        }
        stop.drop_guard()
    }

    /// Waits until the handler has been given so many values, each once or more.
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

/// Headers whose names are no text, or hardly.
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
    let _reading = kafka.read(reads);
    kafka.values(4).await;
    let seen = kafka.seen();
    let odd = seen.iter().find(|r| value(r) == "2").expect("it came");
    let names: Vec<&str> = odd.headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["a\u{fffd}\u{fffd}", "", "n", "plain"]);
    assert_eq!(odd.headers[0].1.as_deref(), Some(&[0x80][..]));
    assert_eq!(odd.headers[1].1, None);
    assert_eq!(odd.headers[3].1.as_deref(), Some(&[0xff][..]));
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
    let mut held = Held::open(&kafka.config, TOPIC, None, PATIENCE).expect("it opens");
    let mut count = 0;
    while held.next().await.expect("it reads").is_some() {
        count += 1;
    }
    assert_eq!(count, 2);
    let member = Member::join(&kafka.config, "tool", TOPIC).expect("it joins");
    let first = until("a member has read it", async || {
        match member.next(Duration::from_millis(200)).await {
            Read::Record(record) => Some(record),
            Read::Nothing => None,
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
    let _reading = kafka.read(reads);
    kafka.values(8).await;
    let letters = kafka.told("dead-letter", 2).await;
    assert_eq!(letters.len(), 2, "{letters:?}");
    for letter in &letters {
        assert_eq!(header(letter, "triad-cause"), Some(HANDLER_PANICKED));
        let why = header(letter, "triad-cause-message").expect("why");
        assert!(why.contains("as it is told"), "{why}");
    }
    let first = letters.iter().find(|l| value(l) == "panic").expect("it is kept");
    assert_eq!(header(first, "triad-offset"), Some(&*bad.to_string()));
    assert_eq!(kafka.told("alerts", 2).await.len(), 2);
    let seen = kafka.seen();
    let times = seen.iter().filter(|r| value(r) == "panic").count();
    // Once more where it came with others first.
    let once_more = usize::from(reads == Loop::Batches);
    assert!((MAX_PANICS as usize..=MAX_PANICS as usize + once_more).contains(&times), "{times}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_makes_its_handler_panic_is_put_aside_and_its_batch_goes_on() {
    panics_put_one_record_aside(Loop::Batches).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_makes_its_handler_panic_is_put_aside_and_its_stream_goes_on() {
    panics_put_one_record_aside(Loop::Stream).await;
}
