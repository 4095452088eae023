//! Measures the broker's program through librdkafka:
//! `cargo build -p triad-broker --release && cargo run -p triad-broker --release --example bench`

#[path = "../tests/broker/client.rs"]
#[expect(dead_code, reason = "shared with the contract suite")]
mod client;
#[path = "../tests/broker/process.rs"]
mod process;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use client::{PATIENCE, consumer, create_topic, fresh, producer};
use futures::stream::{FuturesUnordered, StreamExt};
use process::{Process, free_port};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseRecord, FutureRecord, Producer, ThreadedProducer};
use rdkafka::{Offset, TopicPartitionList};

const ROUND_TRIPS: usize = 3000;
const MESSAGES: usize = 1_000_000;
const BYTES: usize = 500;
/// The load of a local run: small messages, each sent at once, over several topics.
const PACED: usize = 40_000;
const PACED_TOPICS: usize = 10;
const PACED_A_SECOND: u32 = 4000;

fn main() -> anyhow::Result<()> {
    let example = std::env::current_exe()?;
    let target = example.parent().and_then(Path::parent);
    let program = target
        .map(|d| d.join("triad-broker"))
        .filter(|p| p.exists());
    let program = program.ok_or_else(|| anyhow::anyhow!("build the broker's program first"))?;
    measure("in memory", &program, None)?;
    let dir = tempfile::tempdir()?;
    measure("on disk, synced", &program, Some(dir.path()))?;
    Ok(())
}

fn measure(title: &str, program: &Path, data: Option<&Path>) -> anyhow::Result<()> {
    println!("{title}");
    let broker = Process::start(program, free_port(), data);
    println!(
        "  start: {:.1} ms, RSS {} KiB",
        ms(broker.started_in),
        rss_kib(&broker)?
    );
    let bootstrap = broker.addr.to_string();
    round_trips(&broker, &bootstrap)?;
    throughput(&broker, &bootstrap)?;
    paced(&broker, &bootstrap)?;
    println!("  RSS at the end: {} KiB", rss_kib(&broker)?);
    Ok(())
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

fn reader(bootstrap: &str, topics: &[String]) -> BaseConsumer {
    let consumer = consumer(bootstrap, "bench", &[]);
    let mut all = TopicPartitionList::new();
    for topic in topics {
        all.add_partition_offset(topic, 0, Offset::Beginning)
            .expect("an offset");
    }
    consumer.assign(&all).expect("an assignment");
    consumer
}

/// One message at a time, from the call that sends it to the call that receives it.
fn round_trips(broker: &Process, bootstrap: &str) -> anyhow::Result<()> {
    let topic = fresh("latency");
    create_topic(bootstrap, &topic, 1);
    let producer = producer(bootstrap, &[("acks", "all")]);
    let consumer = reader(bootstrap, std::slice::from_ref(&topic));
    let mut times = Vec::with_capacity(ROUND_TRIPS);
    let cpu = cpu(broker)?;
    for _ in 0..ROUND_TRIPS {
        let begun = Instant::now();
        let record = FutureRecord::<(), _>::to(&topic)
            .partition(0)
            .payload("a small message");
        let sent = producer.send_result(record).map_err(|(e, _)| e)?;
        while consumer.poll(PATIENCE).transpose()?.is_none() {}
        times.push(begun.elapsed());
        drop(sent);
    }
    let spent = self::cpu(broker)? - cpu;
    times.sort();
    println!(
        "  produce to receive: p50 {:.2} ms, p99 {:.2} ms; broker CPU {:.0} ms per 1,000",
        ms(times[times.len() / 2]),
        ms(times[times.len() * 99 / 100]),
        ms(spent) * 1000.0 / ROUND_TRIPS as f64
    );
    Ok(())
}

fn throughput(broker: &Process, bootstrap: &str) -> anyhow::Result<()> {
    let topic = fresh("throughput");
    create_topic(bootstrap, &topic, 1);
    let mut settings = client::config(bootstrap);
    settings
        .set("linger.ms", "5")
        .set("acks", "all")
        .set("enable.idempotence", "true");
    let producer: ThreadedProducer<_> = settings.create()?;
    let value = vec![b'x'; BYTES];
    let (begun, before) = (Instant::now(), cpu(broker)?);
    for _ in 0..MESSAGES {
        let mut record = BaseRecord::<(), _>::to(&topic).partition(0).payload(&value);
        while let Err((error, back)) = producer.send(record) {
            if error != KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull) {
                return Err(error.into());
            }
            record = back;
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }
    producer.flush(PATIENCE)?;
    report("produce", MESSAGES, begun.elapsed(), cpu(broker)? - before);
    let consumer = reader(bootstrap, &[topic]);
    let (begun, before) = (Instant::now(), cpu(broker)?);
    let mut seen = 0;
    while seen < MESSAGES {
        if consumer.poll(PATIENCE).transpose()?.is_some() {
            seen += 1;
        }
    }
    report("consume", MESSAGES, begun.elapsed(), cpu(broker)? - before);
    Ok(())
}

fn report(what: &str, messages: usize, took: Duration, cpu: Duration) {
    println!(
        "  {what} {BYTES}-byte messages: {:.0}/s; broker CPU {:.2} ms per 1,000",
        messages as f64 / took.as_secs_f64(),
        ms(cpu) * 1000.0 / messages as f64
    );
}

/// Small messages at a steady rate, no lingering, one consumer over all topics.
fn paced(broker: &Process, bootstrap: &str) -> anyhow::Result<()> {
    let topics: Vec<_> = (0..PACED_TOPICS).map(|_| fresh("paced")).collect();
    for topic in &topics {
        create_topic(bootstrap, topic, 1);
    }
    let consumer = reader(bootstrap, &topics);
    let producer = producer(bootstrap, &[("acks", "all")]);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let before = cpu(broker)?;
    let begun = Instant::now();
    std::thread::scope(|scope| -> anyhow::Result<()> {
        let reading = scope.spawn(|| {
            let mut seen = 0;
            while seen < PACED {
                seen += usize::from(matches!(consumer.poll(PATIENCE), Some(Ok(_))));
            }
        });
        runtime.block_on(async {
            let mut tick = tokio::time::interval(Duration::from_secs(1) / (PACED_A_SECOND / 10));
            let mut open = FuturesUnordered::new();
            for i in 0..PACED {
                if i % 10 == 0 {
                    tick.tick().await;
                }
                let topic = &topics[i % PACED_TOPICS];
                let record = FutureRecord::<(), _>::to(topic)
                    .partition(0)
                    .payload("a small message");
                open.push(producer.send(record, PATIENCE));
                while open.len() > 1000 {
                    open.next().await;
                }
            }
            while let Some(delivered) = open.next().await {
                delivered.map_err(|(e, _)| e)?;
            }
            Ok::<(), KafkaError>(())
        })?;
        reading
            .join()
            .map_err(|_| anyhow::anyhow!("the reader panicked"))
    })?;
    println!(
        "  {PACED_TOPICS} topics, no lingering: {:.0} messages/s; broker CPU {:.1} ms per 1,000",
        PACED as f64 / begun.elapsed().as_secs_f64(),
        ms(cpu(broker)? - before) * 1000.0 / PACED as f64
    );
    Ok(())
}

/// CPU time of the process, all threads.
fn cpu(broker: &Process) -> anyhow::Result<Duration> {
    let mut total = 0;
    for task in fs::read_dir(format!("/proc/{}/task", broker.id()))? {
        let stat = fs::read_to_string(task?.path().join("schedstat"))?;
        total += stat.split(' ').next().unwrap_or("0").parse::<u64>()?;
    }
    Ok(Duration::from_nanos(total))
}

fn rss_kib(broker: &Process) -> anyhow::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", broker.id()))?;
    let line = status
        .lines()
        .find_map(|l| l.strip_prefix("VmRSS:"))
        .unwrap_or("0 kB");
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
