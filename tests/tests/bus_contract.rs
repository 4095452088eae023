//! The contract of a bus on Kafka's protocol: the production producer and the worker's loops over
//! the embedded broker, in memory and durable, and over librdkafka's own mock cluster.

use std::future::pending;
use std::sync::Arc;

use rdkafka::mocking::MockCluster;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use triad_broker::{Broker, BrokerConfig};
use triad_consume::{ConsumeError, WorkerConfig, run_batches, run_stream};
use triad_kafka::{KafkaBus, KafkaConfig, Topic, create_topics};
use triad_runtime::{Handled, InputRecord, Redelivery};
use triad_sim::contract::bus::{Answers, BusUnderTest, Next, PARTITIONS, TOPICS, all, answer};
use triad_tests::engines::loopback;

/// Which of the worker's loops reads.
#[derive(Clone, Copy)]
enum Loop {
    Batches,
    Stream,
}

/// A broker, and what reads it.
struct Kafka {
    config: KafkaConfig,
    bus: KafkaBus,
    reads: Loop,
    /// The topics are there: a mock cluster does not let clients make them.
    has_topics: bool,
}

impl Kafka {
    fn new(brokers: String, reads: Loop) -> Self {
        let config = KafkaConfig::new(brokers);
        let bus = KafkaBus::new(&config).expect("the settings are sound");
        Self {
            config,
            bus,
            reads,
            has_topics: false,
        }
    }
}

fn lanes(topic: &str) -> [String; 2] {
    [topic.to_owned(), format!("{topic}.high")]
}

/// How a reader ends.
#[derive(Default)]
struct End {
    leave: CancellationToken,
    die: Notify,
}

impl BusUnderTest for Kafka {
    type Bus = KafkaBus;

    fn bus(&self) -> &KafkaBus {
        &self.bus
    }

    async fn create(&self, topic: &str) {
        if self.has_topics {
            return;
        }
        let topics = lanes(topic).map(|name| Topic {
            name,
            partitions: PARTITIONS as i32,
        });
        create_topics(&self.config, &topics).await.expect("topics");
    }

    async fn read(&self, topic: &str, answers: Answers) {
        let [normal, high] = lanes(topic);
        let config = WorkerConfig {
            broker: self.config.clone(),
            group: format!("{topic}-readers"),
            high,
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
        Next::Again => Handled::Redeliver(Redelivery::Raced),
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
        // What stands behind a record that comes again is not looked at.
        if handled.last().is_some_and(|h: &Handled| !h.is_done()) {
            handled.push(Handled::Redeliver(Redelivery::Behind));
            continue;
        }
        handled.push(handle(record, &answers, &end).await);
    }
    handled
}

fn broker(config: BrokerConfig) -> triad_broker::BrokerHandle {
    let broker = Broker::start(BrokerConfig {
        listen: loopback(),
        ..config
    });
    broker.expect("the broker starts")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_over_the_embedded_broker() {
    let broker = broker(BrokerConfig::default());
    all(&Kafka::new(broker.addr().to_string(), Loop::Batches)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_over_the_embedded_broker() {
    let broker = broker(BrokerConfig::default());
    all(&Kafka::new(broker.addr().to_string(), Loop::Stream)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_over_the_durable_broker() {
    let directory = tempfile::tempdir().expect("a directory");
    let broker = broker(BrokerConfig {
        data: Some(directory.path().to_owned()),
        ..BrokerConfig::default()
    });
    all(&Kafka::new(broker.addr().to_string(), Loop::Batches)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_over_the_mock_cluster_of_librdkafka() {
    let mock = MockCluster::new(1).expect("a mock cluster");
    for topic in TOPICS.iter().flat_map(|t| lanes(t)) {
        let made = mock.create_topic(&topic, PARTITIONS as i32, 1);
        made.expect("a topic can be made");
    }
    let mut kafka = Kafka::new(mock.bootstrap_servers(), Loop::Batches);
    kafka.has_topics = true;
    all(&kafka).await;
}
