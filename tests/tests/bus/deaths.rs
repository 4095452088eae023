//! Records whose handling ends the process: a few processes die of one, then it is put aside.

use std::process::Stdio;

use triad_broker::{Broker, BrokerConfig, BrokerHandle};
use triad_kafka::{KafkaConfig, Topic, create_topics};
use triad_runtime::deaths::{HANDLER_DIED, MAX_DEATHS};
use triad_tests::engines::loopback;
use triad_tests::foreign::{Codec, Foreign, batch, produce, records};
use triad_tests::poll::until;
use triad_tests::process::{Process, command};
use triad_tests::topics::{header, read_all, read_until};

const TOPIC: &str = "t";
/// One that has noted nothing yet and one with others in hand, and then those with it alone.
const MOST_DEATHS: u32 = 2 + MAX_DEATHS;

fn plain(value: &str) -> Foreign {
    Foreign {
        value: Some(value.into()),
        ..Foreign::default()
    }
}

/// A broker with the topics of a worker, of so many partitions each.
async fn broker(partitions: i32) -> BrokerHandle {
    let broker = Broker::start(BrokerConfig {
        listen: loopback(),
        ..BrokerConfig::default()
    })
    .expect("the broker starts");
    let config = KafkaConfig::new(broker.addr().to_string());
    let topics = [TOPIC, "t.high", "dead-letter", "alerts"].map(|name| Topic {
        name: name.to_owned(),
        partitions,
    });
    create_topics(&config, &topics).await.expect("topics");
    broker
}

/// Starts workers one after the other, until one has handled what comes last of every partition.
async fn one_record_ends_processes(reads: &str) {
    let broker = broker(2).await;
    let brokers = broker.addr().to_string();
    let put = |partition: i32, values: &[&str]| {
        let all: Vec<Foreign> = values.iter().map(|value| plain(value)).collect();
        let count = i32::try_from(all.len()).expect("few");
        let batch = batch(Codec::None, count, &records(&all));
        produce(&brokers, TOPIC, partition, &batch)
    };
    let bad = put(0, &["1", "2", "die", "3", "last of 0"]) + 2;
    put(1, &["4", "5", "last of 1"]);
    let mut deaths = 0;
    let mut handled: Vec<String> = Vec::new();
    let done = |handled: &[String]| {
        let is_handled = |value: &str| handled.iter().any(|line| line == value);
        ["1", "2", "3", "last of 0", "4", "5", "last of 1"]
            .into_iter()
            .all(is_handled)
    };
    loop {
        let mut worker = command("echo-worker");
        worker.args([reads, &brokers, TOPIC]).stdin(Stdio::piped());
        let mut worker = Process::start(worker);
        let lives = until("it has handled all, or has died", async || {
            let all = [handled.clone(), worker.out()].concat();
            if worker.out().iter().any(|line| line == "die") {
                return Some(false);
            }
            // All others may have been handled by one that died.
            let is_aside = !read_all(&brokers, &["dead-letter"]).await.is_empty();
            (is_aside && done(&all)).then_some(true)
        })
        .await;
        handled.extend(worker.out());
        if lives {
            break;
        }
        assert!(!worker.ended().await.success(), "it died of it");
        deaths += 1;
        assert!(
            deaths <= MOST_DEATHS,
            "it is handed over without end: {handled:?}"
        );
    }
    assert!(deaths >= MAX_DEATHS, "put aside too early, after {deaths}");
    let letters = read_until(&brokers, &["dead-letter"], |r| !r.is_empty()).await;
    assert_eq!(letters.len(), 1, "{letters:?}");
    assert_eq!(
        letters[0].value.as_deref(),
        Some(&b"die"[..]),
        "it is kept whole"
    );
    assert_eq!(header(&letters[0], "triad-cause"), Some(HANDLER_DIED));
    assert_eq!(header(&letters[0], "triad-offset"), Some(&*bad.to_string()));
    assert_eq!(read_all(&brokers, &["alerts"]).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_of_which_processes_die_is_put_aside_and_its_batch_goes_on() {
    one_record_ends_processes("batches").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_of_which_processes_die_is_put_aside_and_its_stream_goes_on() {
    one_record_ends_processes("stream").await;
}

/// A record that waits for something in the hand of every one of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_that_end_as_they_should_leave_nothing_against_a_record() {
    let broker = broker(1).await;
    let brokers = broker.addr().to_string();
    let batch = batch(Codec::None, 1, &records(&[plain("wait")]));
    produce(&brokers, TOPIC, 0, &batch);
    for _ in 0..MOST_DEATHS {
        let mut worker = command("echo-worker");
        worker
            .args(["stream", &brokers, TOPIC])
            .stdin(Stdio::piped());
        let mut worker = Process::start(worker);
        let line = worker.first_line().await;
        assert_eq!(line, "wait", "it is handed over every time");
        worker.end_input();
        assert!(worker.ended().await.success());
        assert!(
            !worker.err().iter().any(|line| line.contains("one by one")),
            "{:?}",
            worker.err()
        );
    }
    assert!(read_all(&brokers, &["dead-letter"]).await.is_empty());
}
