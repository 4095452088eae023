//! The mapping emulator with each kind of a function's answer: the Lambda shell in a real process, and records from a
//! real broker.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use triad_broker::{Broker, BrokerConfig, BrokerHandle};
use triad_kafka::{KafkaConfig, Topic, create_topics};
use triad_mapping_emulator::{GivenUp, Invoke, Invoked, Keep, Poller, Settings, Why, handle};
use triad_runtime::InputRecord;
use triad_tests::engines::loopback;
use triad_tests::mapped_function::{Environment, Kept};
use triad_tests::poll::until;
use triad_tests::topics::{Raw, write};

fn echo() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_echo-function"))
}

fn settings() -> Settings {
    Settings {
        window: Duration::from_millis(50),
        partial: true,
        bisect: true,
        retries: Some(1),
        backoff: (Duration::from_millis(1), Duration::from_millis(10)),
        ..Settings::default()
    }
}

fn batch(values: &[&str]) -> Vec<InputRecord> {
    let record = |(offset, value): (usize, &&str)| InputRecord {
        topic: "t".into(),
        offset: offset as i64,
        timestamp_ms: -1,
        value: Some(value.as_bytes().to_vec()),
        ..InputRecord::default()
    };
    values.iter().enumerate().map(record).collect()
}

/// Handles a batch with a function process; returns the offsets in the order in which they were resolved, the records
/// given up with the reason, and the number of invocations.
async fn worked(values: &[&str], settings: Settings) -> (Vec<i64>, Vec<(Vec<i64>, Why)>, usize) {
    let environment = Environment::new(echo(), Duration::from_secs(3));
    let (kept, resolved) = (Kept::default(), Mutex::new(Vec::new()));
    handle(batch(values), &settings, &environment, &kept, |record| {
        resolved.lock().unwrap().push(record.offset);
    })
    .await;
    let offsets = |g: &GivenUp| g.records.iter().map(|r| r.offset).collect();
    let given_up = kept.all().iter().map(|g| (offsets(g), g.why)).collect();
    (
        resolved.into_inner().unwrap(),
        given_up,
        environment.events().len(),
    )
}

#[tokio::test]
async fn a_success_resolves_the_batch_at_once() {
    let (resolved, given_up, invocations) = worked(&["ok", "ok"], settings()).await;
    assert_eq!((resolved, given_up, invocations), (vec![0, 1], vec![], 1));
}

#[tokio::test]
async fn each_answer_for_one_bad_record_gives_up_that_record_alone_and_keeps_the_order() {
    // The five ways to fail: an answer that names the record, an exit of the process, a panic, no answer at the
    // deadline, and a kill at the deadline.
    for bad in ["fail", "crash", "panic", "hang", "block"] {
        let (resolved, given_up, _) = worked(&["ok", "ok", bad, "ok"], settings()).await;
        assert_eq!(resolved, [0, 1, 2, 3], "{bad}");
        assert_eq!(given_up, [(vec![2], Why::RetryAttemptsExhausted)], "{bad}");
    }
}

#[tokio::test]
async fn without_bisection_what_stands_behind_a_bad_record_is_given_up_with_it() {
    let plain = Settings {
        bisect: false,
        ..settings()
    };
    let (_, given_up, invocations) = worked(&["ok", "fail", "ok"], plain.clone()).await;
    assert_eq!(given_up, [(vec![1, 2], Why::RetryAttemptsExhausted)]);
    assert_eq!(invocations, 2);
    let (_, given_up, _) = worked(&["ok", "crash", "ok"], plain).await;
    assert_eq!(given_up, [(vec![0, 1, 2], Why::RetryAttemptsExhausted)]);
}

/// A function that a closure implements.
struct Script<F>(F);

impl<F: Fn(String) -> Invoked + Send + Sync> Invoke for Script<F> {
    async fn invoke(&self, event: String) -> Invoked {
        (self.0)(event)
    }
}

#[tokio::test]
async fn throttles_are_not_counted_and_an_answer_of_another_form_is() {
    let calls = AtomicU32::new(0);
    let function = Script(|_| match calls.fetch_add(1, Ordering::Relaxed) {
        0..5 => Invoked::Later("throttled".into()),
        _ => Invoked::Answer(br#"{"batchItemFailures":[{"itemIdentifier":""}]}"#.to_vec()),
    });
    let kept = Kept::default();
    handle(batch(&["a"]), &settings(), &function, &kept, |_| {}).await;
    assert_eq!(
        calls.load(Ordering::Relaxed),
        7,
        "five throttles, a try and a retry"
    );
    assert_eq!(kept.all().len(), 1);
}

/// A failure destination that fails three times.
#[derive(Default)]
struct Away(AtomicU32);

impl Keep for Away {
    async fn keep(&self, _: &GivenUp) -> anyhow::Result<()> {
        match self.0.fetch_add(1, Ordering::Relaxed) {
            0..3 => Err(anyhow::anyhow!("away")),
            _ => Ok(()),
        }
    }
}

#[tokio::test]
async fn nothing_is_resolved_that_could_not_be_kept() {
    let function = Script(|_| Invoked::Failed("always".into()));
    let (away, resolved) = (Away::default(), AtomicU32::new(0));
    handle(batch(&["a"]), &settings(), &function, &away, |_| {
        assert_eq!(away.0.load(Ordering::Relaxed), 4, "it is kept by then");
        resolved.fetch_add(1, Ordering::Relaxed);
    })
    .await;
    assert_eq!(resolved.load(Ordering::Relaxed), 1);
}

async fn broker() -> (BrokerHandle, KafkaConfig) {
    let broker = Broker::start(BrokerConfig {
        listen: loopback(),
        group_initial_delay: Duration::ZERO,
        ..BrokerConfig::default()
    })
    .expect("the broker starts");
    let kafka = KafkaConfig::new(broker.addr().to_string());
    let topic = Topic {
        name: "t".into(),
        partitions: 2,
    };
    create_topics(&kafka, &[topic])
        .await
        .expect("a topic can be made");
    (broker, kafka)
}

async fn produce(kafka: &KafkaConfig, values: &[&str]) {
    let raw = |value: &&str| Raw {
        topic: "t".into(),
        key: Some(b"one".to_vec()),
        value: Some(value.as_bytes().to_vec()),
        ..Raw::default()
    };
    let all: Vec<Raw> = values.iter().map(raw).collect();
    write(&kafka.brokers, &all).await;
}

/// The values of an event, in order.
fn values(event: &str) -> Vec<String> {
    let records = triad_lambda::parse_event(event.as_bytes()).expect("it is an event");
    let value = |record| match record {
        triad_lambda::ParsedRecord::Record(r) => String::from_utf8(r.value.unwrap()).unwrap(),
        triad_lambda::ParsedRecord::Malformed(m) => panic!("{m:?}"),
    };
    records.into_iter().map(value).collect()
}

#[tokio::test]
async fn a_batch_is_bounded_by_its_size_and_offsets_are_committed_on_success_only() {
    let (broker, kafka) = broker().await;
    produce(&kafka, &["1", "2", "3", "4", "5"]).await;
    let settings = Settings {
        batch_size: 2,
        ..settings()
    };
    let seen = Mutex::new(Vec::new());
    let stop = CancellationToken::new();
    // The first batch succeeds; in the second one, which gets no answer, the poller is stopped.
    let function = Script(|event: String| {
        seen.lock().unwrap().push(values(&event));
        if seen.lock().unwrap().len() == 1 {
            return Invoked::Answer(b"{}".to_vec());
        }
        stop.cancel();
        Invoked::Later("the mapping is stopped".into())
    });
    let poller = Poller::join(&kafka, "g", "t", settings.clone()).unwrap();
    poller.run(&function, &Kept::default(), &stop).await;
    assert_eq!(seen.into_inner().unwrap()[..2], [["1", "2"], ["3", "4"]]);

    let seen = Mutex::new(Vec::new());
    let function = Script(|event: String| {
        seen.lock().unwrap().extend(values(&event));
        Invoked::Answer(b"{}".to_vec())
    });
    let mut poller = Poller::join(&kafka, "g", "t", settings).unwrap();
    until("the rest has come", async || {
        poller.turn(&function, &Kept::default()).await;
        (seen.lock().unwrap().len() == 3).then_some(())
    })
    .await;
    assert_eq!(*seen.lock().unwrap(), ["3", "4", "5"]);
    drop(poller);
    broker.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_batch_is_bounded_by_the_payload() {
    let (broker, kafka) = broker().await;
    let large = "x".repeat(900_000);
    produce(&kafka, &[large.as_str(); 9]).await;
    let sizes = Mutex::new(Vec::new());
    let function = Script(|event: String| {
        sizes
            .lock()
            .unwrap()
            .push((event.len(), values(&event).len()));
        Invoked::Answer(b"{}".to_vec())
    });
    let window = Settings {
        window: Duration::from_secs(2),
        ..settings()
    };
    let mut poller = Poller::join(&kafka, "g", "t", window).unwrap();
    let count = || {
        sizes
            .lock()
            .unwrap()
            .iter()
            .map(|(_, records)| records)
            .sum::<usize>()
    };
    until("all have come", async || {
        poller.turn(&function, &Kept::default()).await;
        (count() == 9).then_some(())
    })
    .await;
    for (bytes, records) in sizes.lock().unwrap().iter() {
        assert!(
            *bytes <= triad_mapping_emulator::MAX_PAYLOAD && *records <= 5,
            "{bytes} {records}"
        );
    }
    drop(poller);
    broker.shutdown().await.unwrap();
}
