//! Kafka clients for tests; each wait has a limit.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::OwnedMessage;
use rdkafka::producer::FutureProducer;

/// Limit of each wait.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A name that no other test or process uses.
pub fn fresh(what: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!(
        "{what}-{}-{}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    )
}

pub fn config(bootstrap: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", bootstrap)
        .set("broker.address.family", "v4");
    config
}

/// Runs an asynchronous client call in a synchronous test.
pub fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(future)
}

pub fn producer(bootstrap: &str, settings: &[(&str, &str)]) -> FutureProducer {
    let mut config = config(bootstrap);
    config.set("linger.ms", "0");
    for (key, value) in settings {
        config.set(*key, *value);
    }
    config.create().expect("a producer")
}

/// A consumer with these settings in the group `group`.
pub fn consumer(bootstrap: &str, group: &str, settings: &[(&str, &str)]) -> BaseConsumer {
    let mut config = config(bootstrap);
    config
        .set("group.id", group)
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.commit", "false")
        .set("session.timeout.ms", "6000")
        .set("heartbeat.interval.ms", "100");
    for (key, value) in settings {
        config.set(*key, *value);
    }
    config.create().expect("a consumer")
}

pub fn admin(bootstrap: &str) -> AdminClient<DefaultClientContext> {
    config(bootstrap).create().expect("an admin client")
}

pub fn options() -> AdminOptions {
    AdminOptions::new()
        .operation_timeout(Some(PATIENCE))
        .request_timeout(Some(PATIENCE))
}

/// Creates a topic and waits until the broker lists it.
pub fn create_topic(bootstrap: &str, name: &str, partitions: i32) {
    let topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
    let results = run(admin(bootstrap).create_topics([&topic], &options())).expect("an answer");
    results.into_iter().for_each(|r| {
        r.expect("a topic");
    });
    let client = consumer(bootstrap, "nobody", &[]);
    eventually("the topic is visible", || {
        let metadata = client.fetch_metadata(Some(name), PATIENCE).ok()?;
        (metadata.topics()[0].partitions().len() == usize::try_from(partitions).ok()?).then_some(())
    });
}

/// Polls until `check` returns a value. `check` itself must wait or yield.
pub fn eventually<T>(what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = check() {
            return found;
        }
        assert!(Instant::now() < end, "in vain: {what}");
        std::thread::yield_now();
    }
}

/// Reads `count` messages.
pub fn take(consumer: &BaseConsumer, count: usize) -> Vec<OwnedMessage> {
    let mut taken = Vec::with_capacity(count);
    eventually("all messages arrive", || {
        if let Some(message) = consumer.poll(Duration::from_millis(100)) {
            taken.push(message.expect("a message").detach());
        }
        (taken.len() >= count).then_some(())
    });
    taken
}
