//! The kill drill: a broker process is killed repeatedly while an idempotent producer writes to it; afterwards every
//! message must be there once and in order.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rdkafka::config::FromClientConfigAndContext;
use rdkafka::consumer::{CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::producer::{BaseRecord, DeliveryResult, Producer, ProducerContext, ThreadedProducer};
use rdkafka::{ClientContext, Offset, TopicPartitionList};

use crate::client::{PATIENCE, config, consumer, create_topic};
use crate::process::{Process, free_port};

/// Parameters of a drill.
#[derive(Debug, Clone)]
pub struct Drill {
    /// The broker's program.
    pub program: PathBuf,
    /// An empty directory for the broker's data.
    pub data: PathBuf,
    pub messages: usize,
    pub kills: usize,
    pub partitions: i32,
}

/// Result of a drill.
#[derive(Debug)]
pub struct Outcome {
    pub kills: usize,
    pub took: Duration,
    /// Longest time from the start of the program to its first line.
    pub slowest_start: Duration,
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} kills: nothing lost, doubled or reordered; {:.1} s, slowest start {:.0} ms",
            self.kills,
            self.took.as_secs_f64(),
            self.slowest_start.as_secs_f64() * 1000.0
        )
    }
}

#[derive(Default)]
struct Tally {
    delivered: AtomicUsize,
    failed: AtomicUsize,
}

struct Counting(Arc<Tally>);

impl ClientContext for Counting {
    // Logs nothing: the client's errors about the kills are expected.
    fn log(&self, _: rdkafka::config::RDKafkaLogLevel, _: &str, _: &str) {}
    fn error(&self, _: KafkaError, _: &str) {}
}

impl ProducerContext for Counting {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let counter = match result {
            Ok(_) => &self.0.delivered,
            Err(_) => &self.0.failed,
        };
        counter.fetch_add(1, Ordering::AcqRel);
    }
}

/// Runs the drill; panics if a message was lost, duplicated or reordered.
pub fn run(drill: &Drill) -> Outcome {
    let begun = Instant::now();
    let listen = free_port();
    let broker = Process::start(&drill.program, listen, Some(&drill.data));
    let mut slowest_start = broker.started_in;
    let bootstrap = listen.to_string();
    create_topic(&bootstrap, "drill", drill.partitions);
    create_topic(&bootstrap, "side", 1);
    let tally = Arc::new(Tally::default());
    let mut settings = config(&bootstrap);
    settings
        .set("enable.idempotence", "true")
        .set("linger.ms", "2")
        .set("message.timeout.ms", "300000")
        .set("retry.backoff.ms", "20")
        .set("reconnect.backoff.ms", "10")
        .set("reconnect.backoff.max.ms", "50")
        .set("queue.buffering.max.messages", "20000");
    let producer: ThreadedProducer<Counting> =
        ThreadedProducer::from_config_and_context(&settings, Counting(Arc::clone(&tally)))
            .expect("a producer");
    let stop = AtomicBool::new(false);
    let kills = std::thread::scope(|scope| {
        let (tally, stop, bootstrap) = (&tally, &stop, &bootstrap);
        let killer = scope.spawn(move || {
            let mut broker = broker;
            let mut kills = 0;
            // Kills the broker once after each further share of the messages has been acknowledged.
            while kills < drill.kills {
                let due = (kills + 1) * drill.messages / (drill.kills + 1);
                while tally.delivered.load(Ordering::Acquire) < due {
                    assert!(begun.elapsed() < Duration::from_secs(1200), "no progress");
                    std::thread::park_timeout(Duration::from_millis(1));
                }
                let offset = i64::try_from(kills + 1).expect("small");
                commit(bootstrap, offset);
                drop(broker);
                broker = Process::start(&drill.program, listen, Some(&drill.data));
                slowest_start = slowest_start.max(broker.started_in);
                kills += 1;
                assert_eq!(
                    committed(bootstrap),
                    Offset::Offset(offset),
                    "a commit went backwards"
                );
            }
            stop.store(true, Ordering::Release);
            (kills, slowest_start, broker)
        });
        for i in 0..drill.messages {
            let partition = i32::try_from(i).expect("small") % drill.partitions;
            let value = format!("{i:0100}");
            let mut record = BaseRecord::<(), _>::to("drill")
                .partition(partition)
                .payload(&value);
            loop {
                match producer.send(record) {
                    Ok(()) => break,
                    Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                        record = back;
                        std::thread::park_timeout(Duration::from_millis(1));
                    }
                    Err((error, _)) => panic!("{error}"),
                }
            }
        }
        killer.join().expect("the killer")
    });
    let (kills, slowest_start, broker) = kills;
    assert!(stop.load(Ordering::Acquire));
    producer
        .flush(Duration::from_secs(300))
        .expect("all delivered");
    assert_eq!(tally.failed.load(Ordering::Acquire), 0, "deliveries failed");
    assert_eq!(tally.delivered.load(Ordering::Acquire), drill.messages);
    verify(&bootstrap, drill);
    drop(broker);
    Outcome {
        kills,
        took: begun.elapsed(),
        slowest_start,
    }
}

fn position(offset: i64) -> TopicPartitionList {
    let mut position = TopicPartitionList::new();
    position
        .add_partition_offset("side", 0, Offset::Offset(offset))
        .expect("an offset");
    position
}

fn commit(bootstrap: &str, offset: i64) {
    let consumer = consumer(bootstrap, "drill", &[]);
    consumer
        .commit(&position(offset), CommitMode::Sync)
        .expect("a commit");
}

fn committed(bootstrap: &str) -> Offset {
    let consumer = consumer(bootstrap, "drill", &[]);
    let known = consumer
        .committed_offsets(position(0), PATIENCE)
        .expect("an answer");
    known.elements()[0].offset()
}

/// Checks that every message is there once, in order, and that offsets have no gap.
fn verify(bootstrap: &str, drill: &Drill) {
    let consumer = consumer(bootstrap, "verify", &[]);
    let mut all = TopicPartitionList::new();
    for partition in 0..drill.partitions {
        all.add_partition_offset("drill", partition, Offset::Beginning)
            .expect("an offset");
    }
    consumer.assign(&all).expect("an assignment");
    let step = usize::try_from(drill.partitions).expect("positive");
    let mut next: Vec<usize> = (0..step).collect();
    let mut seen = 0;
    eventually_long("every message comes back", || {
        let Some(message) = consumer.poll(Duration::from_millis(200)) else {
            return (seen >= drill.messages).then_some(());
        };
        let message = message.expect("a message");
        let partition = usize::try_from(message.partition()).expect("positive");
        let text = std::str::from_utf8(message.payload().expect("a value")).expect("text");
        let value: usize = text.parse().expect("a number");
        assert_eq!(
            value,
            next[partition],
            "partition {partition}, offset {}",
            message.offset()
        );
        assert_eq!(
            usize::try_from(message.offset()).expect("positive"),
            value / step
        );
        next[partition] += step;
        seen += 1;
        None
    });
    assert_eq!(seen, drill.messages);
}

/// `eventually` with a longer time limit, for a million messages.
fn eventually_long(what: &str, mut check: impl FnMut() -> Option<()>) {
    let end = Instant::now() + Duration::from_secs(600);
    loop {
        if check().is_some() {
            return;
        }
        assert!(Instant::now() < end, "in vain: {what}");
    }
}
