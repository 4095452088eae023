//! The contract of a bus: the worker's loops and the production producer over the embedded broker (in memory and on
//! disk) and over librdkafka's mock cluster; and the same loops over the topics of their own process.

use std::future::pending;
use std::sync::Arc;

use rdkafka::mocking::MockCluster;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use triad_broker::{BrokerConfig, BrokerHandle, TopicsIn};
use triad_consume::{Broker, ConsumeError, WorkerConfig, run_batches, run_stream};
use triad_kafka::{KafkaConfig, Topic, create_topics};
use triad_runtime::{Handled, InputRecord, Redelivery};
use triad_sim::contract::bus::{Answers, BusUnderTest, Next, PARTITIONS, TOPICS, all, answer};
use triad_sqlite::topics::{LocalBroker, TopicSettings};
use triad_tests::engines::loopback;

/// Which of the worker's loops is under test.
#[derive(Clone, Copy)]
enum Loop {
    Batches,
    Stream,
}

/// A broker, and the loop that reads from it.
struct Over<B: Broker> {
    broker: B,
    bus: B::Bus,
    reads: Loop,
    /// Client that creates topics; `None` for a mock cluster, whose topics exist already.
    admin: Option<KafkaConfig>,
}

fn kafka(brokers: String, reads: Loop) -> Over<KafkaConfig> {
    let config = KafkaConfig::new(brokers);
    Over {
        bus: config.bus().expect("the settings are sound"),
        admin: Some(config.clone()),
        broker: config,
        reads,
    }
}

fn local(broker: &BrokerHandle, reads: Loop) -> Over<LocalBroker> {
    let local = LocalBroker::new(broker.topics());
    Over {
        bus: local.bus().expect("there is a bus"),
        admin: Some(KafkaConfig::new(broker.addr().to_string())),
        broker: local,
        reads,
    }
}

fn lanes(topic: &str) -> [String; 2] {
    [topic.to_owned(), format!("{topic}.high")]
}

/// Why and when a loop ends.
#[derive(Default)]
struct End {
    leave: CancellationToken,
    die: Notify,
}

impl<B: Broker> BusUnderTest for Over<B> {
    type Bus = B::Bus;

    fn bus(&self) -> &B::Bus {
        &self.bus
    }

    async fn create(&self, topic: &str) {
        let Some(admin) = &self.admin else {
            return;
        };
        let topics = lanes(topic).map(|name| Topic {
            name,
            partitions: PARTITIONS as i32,
        });
        create_topics(admin, &topics).await.expect("topics");
    }

    async fn read(&self, topic: &str, answers: Answers) {
        let [normal, high] = lanes(topic);
        let config = WorkerConfig {
            broker: self.broker.clone(),
            group: format!("{topic}-readers"),
            high: Some(high),
            normal,
            max_records: 5,
        };
        let end = Arc::new(End::default());
        let stop = end.leave.clone();
        let ended = end.clone();
        let reading: tokio::task::JoinHandle<Result<(), ConsumeError>> = match self.reads {
            Loop::Batches => tokio::spawn(run_batches(config, stop, move |records| {
                handle_all(records.to_vec(), answers.clone(), ended.clone())
            })),
            Loop::Stream => tokio::spawn(run_stream(
                WorkerConfig {
                    max_records: 1,
                    ..config
                },
                stop,
                move |record| {
                    let (answers, ended) = (answers.clone(), ended.clone());
                    async move { handle(&record, &answers, &ended).await }
                },
            )),
        };
        tokio::select! {
            () = end.leave.cancelled() => reading.await.expect("no panic").expect("it reads"),
            () = end.die.notified() => reading.abort(),
        }
    }
}

async fn handle(record: &InputRecord, answers: &Answers, end: &End) -> Handled {
    if end.leave.is_cancelled() {
        return Handled::Redeliver(Redelivery::OutOfTime);
    }
    match answer(answers, record) {
        Next::Done => Handled::Done,
        Next::Redeliver => Handled::Redeliver(Redelivery::Raced),
        Next::Leave => {
            end.leave.cancel();
            Handled::Done
        }
        Next::Die => {
            end.die.notify_one();
            pending().await
        }
    }
}

async fn handle_all(records: Vec<InputRecord>, answers: Answers, end: Arc<End>) -> Vec<Handled> {
    let mut handled = Vec::with_capacity(records.len());
    for record in &records {
        // A record is handled only after the redelivered record before it.
        if handled.last().is_some_and(|h: &Handled| !h.is_done()) {
            handled.push(Handled::Redeliver(Redelivery::Behind));
            continue;
        }
        handled.push(handle(record, &answers, &end).await);
    }
    handled
}

fn broker(config: BrokerConfig) -> BrokerHandle {
    let broker = triad_broker::Broker::start(BrokerConfig {
        listen: loopback(),
        ..config
    });
    broker.expect("the broker starts")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_over_the_embedded_broker() {
    let broker = broker(BrokerConfig::default());
    all(&kafka(broker.addr().to_string(), Loop::Batches)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_over_the_embedded_broker() {
    let broker = broker(BrokerConfig::default());
    all(&kafka(broker.addr().to_string(), Loop::Stream)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_over_the_durable_broker() {
    let directory = tempfile::tempdir().expect("a directory");
    let broker = broker(BrokerConfig {
        topics: TopicsIn::Directory(directory.path().to_owned(), TopicSettings::default()),
        ..BrokerConfig::default()
    });
    all(&kafka(broker.addr().to_string(), Loop::Batches)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_over_the_mock_cluster_of_librdkafka() {
    let mock = MockCluster::new(1).expect("a mock cluster");
    for topic in TOPICS.iter().flat_map(|t| lanes(t)) {
        let made = mock.create_topic(&topic, PARTITIONS as i32, 1);
        made.expect("a topic can be made");
    }
    let mut kafka = kafka(mock.bootstrap_servers(), Loop::Batches);
    kafka.admin = None;
    all(&kafka).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_within_the_process() {
    let broker = broker(BrokerConfig::default());
    all(&local(&broker, Loop::Batches)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_within_the_process() {
    let broker = broker(BrokerConfig::default());
    all(&local(&broker, Loop::Stream)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_within_the_process_over_synced_tables() {
    let directory = tempfile::tempdir().expect("a directory");
    let broker = broker(BrokerConfig {
        topics: TopicsIn::Directory(directory.path().to_owned(), TopicSettings::default()),
        ..BrokerConfig::default()
    });
    all(&local(&broker, Loop::Batches)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_within_the_process_over_memory() {
    let broker = broker(BrokerConfig {
        topics: TopicsIn::Scratch(TopicSettings {
            in_memory: |_| true,
            ..TopicSettings::default()
        }),
        ..BrokerConfig::default()
    });
    all(&local(&broker, Loop::Batches)).await;
}
