//! The high lane takes precedence, in the worker's loops and in whole workers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::groups::GroupInfo;
use rdkafka::{Offset, TopicPartitionList};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use triad_broker::{Broker, BrokerConfig, BrokerHandle};
use triad_consume::{WorkerConfig, run_batches, run_stream};
use triad_kafka::{KafkaConfig, Topic, create_topics};
use triad_reference_service::{FaultPlan, Faults};
use triad_runtime::{Handled, InputRecord, Redelivery};
use triad_tests::cli::triad;
use triad_tests::dev::Dev;
use triad_tests::engines::{Engines, loopback, workflow};
use triad_tests::orders::{lines, orders};
use triad_tests::poll::{PATIENCE, until};
use triad_tests::process::{Process, command};
use triad_tests::topics::{Raw, read_all, write};

const GROUP: &str = "test";
const HIGH: &str = "work.high";
const NORMAL: &str = "work";

/// A broker with both lanes of a topic. Each has one partition, so that one fetch returns all its records.
struct Lanes {
    broker: BrokerHandle,
    /// The records whose handling has begun, and those whose handling is done.
    begun: watch::Sender<Vec<&'static str>>,
    done: watch::Sender<Vec<&'static str>>,
}

impl Lanes {
    async fn new() -> Arc<Self> {
        let broker = Broker::start(BrokerConfig {
            listen: loopback(),
            ..BrokerConfig::default()
        })
        .unwrap();
        let topic = |name: &str| Topic {
            name: name.to_owned(),
            partitions: 1,
        };
        let config = KafkaConfig::new(broker.addr().to_string());
        create_topics(&config, &[topic(HIGH), topic(NORMAL)])
            .await
            .unwrap();
        Arc::new(Self {
            broker,
            begun: watch::Sender::default(),
            done: watch::Sender::default(),
        })
    }

    fn brokers(&self) -> String {
        self.broker.addr().to_string()
    }

    fn config(&self, max_records: usize) -> WorkerConfig<KafkaConfig> {
        WorkerConfig {
            broker: KafkaConfig::new(self.brokers()),
            group: GROUP.to_owned(),
            high: Some(HIGH.to_owned()),
            normal: NORMAL.to_owned(),
            max_records,
        }
    }

    async fn write(&self, topic: &str, count: usize) {
        let raw = |n: usize| Raw {
            topic: topic.to_owned(),
            value: Some(n.to_string().into_bytes()),
            ..Raw::default()
        };
        let all: Vec<_> = (0..count).map(raw).collect();
        write(&self.brokers(), &all).await;
    }

    fn begin(&self, records: &[InputRecord]) {
        let lanes = records.iter().map(lane);
        self.begun.send_modify(|begun| begun.extend(lanes));
    }

    fn end(&self, records: &[InputRecord]) {
        let lanes = records.iter().map(lane);
        self.done.send_modify(|done| done.extend(lanes));
    }

    /// Waits until this many records of a lane are done.
    async fn done(&self, lane: &str, count: usize) {
        let mut done = self.done.subscribe();
        let enough = done.wait_for(|done| count_of(done, lane) >= count);
        let waited = tokio::time::timeout(PATIENCE, enough).await;
        waited
            .unwrap_or_else(|_| panic!("{count} records of {lane} are not done"))
            .unwrap();
    }

    /// Waits until a lane's group has committed this offset.
    async fn committed(&self, group: &str, topic: &str, offset: i64) {
        until(&format!("{group} has committed {offset}"), async || {
            (committed(&self.brokers(), group, topic) == Some(offset)).then_some(())
        })
        .await;
    }
}

fn lane(record: &InputRecord) -> &'static str {
    if record.topic == HIGH { HIGH } else { NORMAL }
}

fn count_of(all: &[&str], lane: &str) -> usize {
    all.iter().filter(|l| **l == lane).count()
}

/// The offset that a group has committed for partition 0 of a topic.
fn committed(brokers: &str, group: &str, topic: &str) -> Option<i64> {
    let client: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("group.id", group)
        .create()
        .unwrap();
    let mut asked = TopicPartitionList::new();
    asked.add_partition(topic, 0);
    let found = client.committed_offsets(asked, PATIENCE).unwrap();
    match found.find_partition(topic, 0).unwrap().offset() {
        Offset::Offset(offset) => Some(offset),
        _ => None,
    }
}

/// Runs a handler of batches until the guard is dropped.
fn batches<R>(
    lanes: &Arc<Lanes>,
    max_records: usize,
    handle: impl Fn(Arc<Vec<InputRecord>>) -> R + Clone + Send + Sync + 'static,
) -> DropGuard
where
    R: Future<Output = Vec<Handled>> + Send + 'static,
{
    let stop = CancellationToken::new();
    tokio::spawn(run_batches(lanes.config(max_records), stop.clone(), handle));
    stop.drop_guard()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn high_records_go_before_all_normal_ones_but_the_batch_in_hand() {
    const IN_HAND: usize = 20;
    let lanes = Lanes::new().await;
    lanes.write(NORMAL, 500).await;
    lanes.write(HIGH, 100).await;
    let normal_before_last_high = watch::Sender::new(0);
    let handle = {
        let (lanes, before) = (lanes.clone(), normal_before_last_high.clone());
        move |records: Arc<Vec<InputRecord>>| {
            let (lanes, before) = (lanes.clone(), before.clone());
            async move {
                lanes.begin(&records);
                if lane(&records[0]) == NORMAL {
                    // The running normal batch ends only after a high record has been handled.
                    lanes.done(HIGH, 1).await;
                } else {
                    // Gives another normal batch the chance to begin, which must not happen.
                    for _ in 0..200 {
                        tokio::task::yield_now().await;
                    }
                    before.send_replace(count_of(&lanes.begun.borrow(), NORMAL));
                }
                lanes.end(&records);
                vec![Handled::Done; records.len()]
            }
        }
    };
    let _running = batches(&lanes, IN_HAND, handle);
    lanes.done(HIGH, 100).await;
    lanes.done(NORMAL, 500).await;
    let before = *normal_before_last_high.borrow();
    assert!(before <= IN_HAND, "{before} normal records went first");
    lanes.committed(GROUP, NORMAL, 500).await;
    lanes.committed("test.high", HIGH, 100).await;
}

/// One lane's records are all redelivered until the end; the other lane's records must be handled meanwhile.
async fn a_stuck_lane_leaves_the_other_alone(stuck: &'static str, other: &'static str) {
    let lanes = Lanes::new().await;
    lanes.write(stuck, 30).await;
    lanes.write(other, 1000).await;
    let healed = watch::Sender::new(false);
    let handle = {
        let (lanes, healed) = (lanes.clone(), healed.clone());
        move |records: Arc<Vec<InputRecord>>| {
            let (lanes, healed) = (lanes.clone(), healed.clone());
            async move {
                if lane(&records[0]) == stuck && !*healed.borrow() {
                    lanes.begin(&records);
                    return vec![Handled::Redeliver(Redelivery::Raced); records.len()];
                }
                if lane(&records[0]) == other {
                    // Waits until a record of the stuck lane has been delivered.
                    let mut begun = lanes.begun.subscribe();
                    begun.wait_for(|b| count_of(b, stuck) > 0).await.unwrap();
                }
                lanes.end(&records);
                vec![Handled::Done; records.len()]
            }
        }
    };
    let _running = batches(&lanes, 10, handle);
    let group = |topic: &str| topic.replace("work", GROUP);
    lanes.done(other, 1000).await;
    lanes.committed(&group(other), other, 1000).await;
    assert_eq!(
        committed(&lanes.brokers(), &group(stuck), stuck).unwrap_or(0),
        0
    );
    healed.send_replace(true);
    lanes.done(stuck, 30).await;
    lanes.committed(&group(stuck), stuck, 30).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_normal_record_that_cannot_be_handled_holds_up_no_high_one() {
    a_stuck_lane_leaves_the_other_alone(NORMAL, HIGH).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_high_record_that_cannot_be_handled_holds_up_no_normal_one() {
    a_stuck_lane_leaves_the_other_alone(HIGH, NORMAL).await;
}

/// A second member joins the group of the normal lane, waits until both have partitions, and leaves.
async fn another_member_comes_and_goes(lanes: &Lanes) {
    let other: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", lanes.brokers())
        .set("group.id", GROUP)
        .set("enable.auto.commit", "false")
        .set("partition.assignment.strategy", "range,roundrobin")
        .create()
        .unwrap();
    other.subscribe(&[NORMAL]).unwrap();
    until("both are in the group", async || {
        // The records that this poll may read are not committed, so they are redelivered.
        other.poll(Duration::ZERO);
        let groups = other.fetch_group_list(Some(GROUP), PATIENCE).unwrap();
        let of_two = |g: &GroupInfo| g.state() == "Stable" && g.members().len() == 2;
        groups.groups().iter().any(of_two).then_some(())
    })
    .await;
}

/// The partition must be read again after it was revoked and reassigned: librdkafka keeps it paused, and the
/// redelivery for which it was paused no longer exists.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_that_comes_back_while_its_records_cannot_be_handled_is_read_again() {
    let lanes = Lanes::new().await;
    lanes.write(NORMAL, 30).await;
    let healed = watch::Sender::new(false);
    let handle = {
        let (lanes, healed) = (lanes.clone(), healed.clone());
        move |records: Arc<Vec<InputRecord>>| {
            let (lanes, healed) = (lanes.clone(), healed.clone());
            async move {
                lanes.begin(&records);
                if !*healed.borrow() {
                    return vec![Handled::Redeliver(Redelivery::Raced); records.len()];
                }
                lanes.end(&records);
                vec![Handled::Done; records.len()]
            }
        }
    };
    let _running = batches(&lanes, 10, handle);
    // More than one batch has been handled, so a redelivery is pending and the partition is paused.
    let mut begun = lanes.begun.subscribe();
    begun.wait_for(|b| b.len() > 10).await.unwrap();
    another_member_comes_and_goes(&lanes).await;
    healed.send_replace(true);
    lanes.committed(GROUP, NORMAL, 30).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_hangs_on_a_high_record_slows_the_normal_lane_but_does_not_stop_it() {
    let lanes = Lanes::new().await;
    lanes.write(HIGH, 1).await;
    let handle = {
        let lanes = lanes.clone();
        move |records: Arc<Vec<InputRecord>>| {
            let lanes = lanes.clone();
            async move {
                lanes.begin(&records);
                if lane(&records[0]) == HIGH {
                    std::future::pending::<()>().await;
                }
                lanes.end(&records);
                vec![Handled::Done; records.len()]
            }
        }
    };
    let _running = batches(&lanes, 10, handle);
    let mut begun = lanes.begun.subscribe();
    begun.wait_for(|begun| begun.len() == 1).await.unwrap();
    lanes.write(NORMAL, 1).await;
    lanes.done(NORMAL, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_normal_requests_leave_room_for_high_ones() {
    let lanes = Lanes::new().await;
    lanes.write(NORMAL, 100).await;
    let released = watch::Sender::new(false);
    let handle = {
        let (lanes, released) = (lanes.clone(), released.clone());
        move |record: Arc<InputRecord>| {
            let (lanes, mut released) = (lanes.clone(), released.subscribe());
            async move {
                let records = [InputRecord::clone(&record)];
                lanes.begin(&records);
                if lane(&records[0]) == NORMAL {
                    released.wait_for(|r| *r).await.unwrap();
                }
                lanes.end(&records);
                Handled::Done
            }
        }
    };
    let stop = CancellationToken::new();
    let _running = stop.clone().drop_guard();
    tokio::spawn(run_stream(lanes.config(8), stop, handle));
    let mut begun = lanes.begun.subscribe();
    begun.wait_for(|b| b.len() == 7).await.unwrap();
    lanes.write(HIGH, 20).await;
    lanes.done(HIGH, 20).await;
    assert_eq!(count_of(&lanes.begun.borrow(), NORMAL), 7);
    lanes.committed("test.high", HIGH, 20).await;
    assert_eq!(committed(&lanes.brokers(), GROUP, NORMAL).unwrap_or(0), 0);
    released.send_replace(true);
    lanes.done(NORMAL, 100).await;
    lanes.committed(GROUP, NORMAL, 100).await;
}

/// The kinds of message in the Scheduler's high lane.
async fn kinds(brokers: &str) -> BTreeSet<String> {
    let messages = read_all(brokers, &["scheduler.high"]).await;
    let kind = |r: &InputRecord| {
        let message: Value = serde_json::from_slice(r.value.as_deref().unwrap()).unwrap();
        message["type"].as_str().unwrap().to_owned()
    };
    messages.iter().map(kind).collect()
}

#[tokio::test]
async fn an_order_of_the_high_lane_is_wholly_in_it() {
    let dev = Dev::start(&[]).await;
    dev.services(json!({"payment": {"transient": 1.0}})).await;
    let all = lines(&orders("urgent", 10));
    let submitted = dev.triad_reading(&["submit", "-", "--priority", "high"], all.as_bytes());
    let _ = submitted.await.good();
    // Both a failed attempt and a deferral by an open breaker lead to another request.
    until("the Supervisor asks for an order again", async || {
        kinds(&dev.kafka).await.contains("wake").then_some(())
    })
    .await;
    dev.services(json!({})).await;
    dev.all_finished(10).await;
    let wanted = ["accepted", "reply", "wake"].map(str::to_owned);
    assert_eq!(kinds(&dev.kafka).await, BTreeSet::from(wanted));
    let normal = read_all(&dev.kafka, &["orders", "scheduler", "agent.payment"]).await;
    assert!(normal.is_empty(), "{normal:?}");
}

const SLOW: &str = "workflow: slow
defaults: { attempt_timeout: 10m, retry: { calls_per_attempt: 1 } }
steps:
  - { id: only, agent: inventory, action: reserve, compensation: none }
  - { id: then, agent: payment, action: charge, compensation: none }
";
const QUICK: &str = "workflow: quick
steps: [{ id: only, agent: payment, action: charge, compensation: none }]
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_service_holds_up_no_other_ones_requests_and_each_agent_has_its_group() {
    let never = FaultPlan {
        latency_ms: 600_000,
        ..FaultPlan::default()
    };
    let faults = Faults {
        services: [("inventory".to_owned(), never)].into(),
        ..Faults::default()
    };
    let engines = Engines::start(SLOW, faults).await;
    engines.store.publish(&workflow(QUICK)).await;
    let brokers = engines.brokers();
    let agents: serde_json::Map<String, Value> = ["inventory", "payment"]
        .map(|name| {
            let url = format!("http://{}/{name}", engines.service.addr());
            let config = json!({"base_url": url, "call_timeout": "10m"});
            (name.to_owned(), config)
        })
        .into_iter()
        .collect();
    let mut variables = engines.variables(&brokers);
    variables.retain(|(name, _)| *name != "TRIAD_AGENTS");
    let mut worker = command("triad-worker");
    worker
        .envs(variables)
        .env("TRIAD_AGENTS", Value::Object(agents).to_string());
    let _running = Process::start(worker);

    let order = |id: String, workflow: &str| Raw {
        topic: "orders".to_owned(),
        key: Some(id.clone().into_bytes()),
        value: Some(
            json!({"order_id": id, "workflow": workflow})
                .to_string()
                .into_bytes(),
        ),
        ..Raw::default()
    };
    // The Scheduler starts no more orders than the service can answer in time; before the first answer, that is the
    // size of the first window.
    let slow: Vec<_> = (0..300)
        .map(|n| order(format!("slow-{n}"), "slow"))
        .collect();
    write(&brokers, &slow).await;
    engines
        .all_in("Processing", triad_core::window::FIRST as usize)
        .await;
    write(&brokers, &[order("quick".to_owned(), "quick")]).await;
    engines.all_in("Processed", 1).await;
    assert_eq!(engines.state("quick").await, Some("Processed"));
    let started = engines.count("Processing").await;
    assert_eq!(started, triad_core::window::FIRST as usize);

    let partitions = 0..triad_tests::engines::PARTITIONS;
    until("the group of the agent payment has committed", async || {
        let client: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", &brokers)
            .set("group.id", "triad-agent.payment")
            .create()
            .unwrap();
        let mut asked = TopicPartitionList::new();
        for partition in partitions.clone() {
            asked.add_partition("agent.payment", partition);
        }
        let found = client.committed_offsets(asked, PATIENCE).unwrap();
        let elements = found.elements();
        let done = elements.iter().any(|e| e.offset() == Offset::Offset(1));
        done.then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_priority_benchmark_runs_and_tells_the_lanes_apart() {
    let arguments = ["bench", "--priority", "--orders", "50", "--json"];
    let said = triad(&arguments, &[], b"").await.good().json_lines();
    let rows = said[0]["rows"].as_array().unwrap();
    assert_eq!(
        (rows.len(), &said[0]["good"]),
        (4, &json!(true)),
        "{said:?}"
    );
    for row in rows {
        assert!(row["orders"].as_u64().unwrap() > 0, "{row}");
        assert!(row["p99_ms"].as_f64() >= row["p50_ms"].as_f64(), "{row}");
    }
}
