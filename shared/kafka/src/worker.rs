//! The worker's consumer loops: the same handlers as the Lambda shell, with manual commits.
//!
//! An offset is committed only when the handler has said that the record's effects are
//! acknowledged. A record that must be delivered again is handed to the handler again, after a
//! growing wait, without letting a later one of its partition pass.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::FutureExt;
use rdkafka::consumer::CommitMode;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use triad_core::agent::backoff;
use triad_runtime::system::SystemEntropy;
use triad_runtime::{Entropy, Handled, InputRecord};
use triad_workflow::Millis;

use crate::config::{KafkaConfig, KafkaError};
use crate::consumer::{COMMIT_EVERY, GroupConsumer, commit, join, record, store};

/// Bounds of the waits between deliveries of the same record.
const RETRY: (Millis, Millis) = (Millis(100), Millis(10_000));

/// What a consumer loop reads.
#[derive(Debug, Clone)]
pub struct WorkerConfig {
    /// Where Kafka is.
    pub kafka: KafkaConfig,
    /// Consumer group.
    pub group: String,
    /// Topics; of records that are at hand together, those of earlier topics go first.
    pub topics: Vec<String>,
    /// Records handed to the handler at once, or under way at once.
    pub max_records: usize,
}

/// Runs a handler that takes batches, until `stop`. The batch in hand is finished first.
///
/// # Errors
/// [`KafkaError`] if the consumer cannot be made; what fails later is retried.
pub async fn run_batches<F, R>(
    config: WorkerConfig,
    stop: CancellationToken,
    handle: F,
) -> Result<(), KafkaError>
where
    F: Fn(Vec<InputRecord>) -> R,
    R: Future<Output = Vec<Handled>>,
{
    let consumer = join(&config.kafka, &config.group, &config.topics)?;
    let mut last_commit = Instant::now();
    let mut uncommitted = false;
    loop {
        let batch = tokio::select! {
            batch = next_batch(&consumer, &config) => batch,
            () = tokio::time::sleep(COMMIT_EVERY), if uncommitted => Vec::new(),
            () = stop.cancelled() => break,
        };
        if !batch.is_empty() {
            handle_batch(&consumer, batch, &stop, &handle).await;
            uncommitted = true;
        }
        if uncommitted && last_commit.elapsed() >= COMMIT_EVERY {
            commit(&consumer, CommitMode::Async);
            last_commit = Instant::now();
            uncommitted = false;
        }
    }
    commit(&consumer, CommitMode::Sync);
    Ok(())
}

/// The records that are at hand, at least one.
async fn next_batch(consumer: &GroupConsumer, config: &WorkerConfig) -> Vec<InputRecord> {
    let mut batch = Vec::new();
    let mut next = consumer.recv().await;
    loop {
        match next {
            Ok(message) => batch.push(record(&message)),
            Err(e) => {
                tracing::warn!(error = %e, brokers = config.kafka.brokers, "records cannot be read for now");
                if batch.is_empty() {
                    tokio::time::sleep(RETRY.0.as_duration()).await;
                }
                break;
            }
        }
        if batch.len() >= config.max_records {
            break;
        }
        match consumer.recv().now_or_never() {
            Some(another) => next = another,
            None => break,
        }
    }
    let lane = |r: &InputRecord| config.topics.iter().position(|t| *t == r.topic);
    batch.sort_by_key(lane);
    batch
}

/// Hands a batch to the handler until every record is done.
async fn handle_batch<F, R>(
    consumer: &GroupConsumer,
    mut batch: Vec<InputRecord>,
    stop: &CancellationToken,
    handle: &F,
) where
    F: Fn(Vec<InputRecord>) -> R,
    R: Future<Output = Vec<Handled>>,
{
    let mut tries = 0;
    loop {
        let answers = handle(batch.clone()).await;
        batch = store_done(consumer, batch, &answers);
        if batch.is_empty() || !wait_to_retry(&mut tries, stop).await {
            return;
        }
    }
}

/// Stores the offsets of what is done; returns what is left: of each partition the first record
/// that must be delivered again, and every later one.
fn store_done(
    consumer: &GroupConsumer,
    batch: Vec<InputRecord>,
    answers: &[Handled],
) -> Vec<InputRecord> {
    let mut stuck: HashSet<(String, i32)> = HashSet::new();
    let mut done: HashMap<(String, i32), i64> = HashMap::new();
    let mut left = Vec::new();
    for (record, answer) in batch.into_iter().zip(answers) {
        let partition = (record.topic.clone(), record.partition);
        if let Handled::Again(why) = answer {
            tracing::warn!(
                topic = record.topic,
                partition = record.partition,
                offset = record.offset,
                why,
                "record to be handled again"
            );
            stuck.insert(partition.clone());
        }
        if stuck.contains(&partition) {
            left.push(record);
        } else {
            done.insert(partition, record.offset + 1);
        }
    }
    for ((topic, partition), next) in done {
        store(consumer, &topic, partition, next);
    }
    left
}

/// Waits before another try; false if the worker is to stop instead.
async fn wait_to_retry(tries: &mut u32, stop: &CancellationToken) -> bool {
    *tries = tries.saturating_add(1);
    let wait = backoff(*tries, RETRY.0, RETRY.1, SystemEntropy.next_u64());
    tokio::select! {
        () = tokio::time::sleep(wait.as_duration()) => true,
        () = stop.cancelled() => false,
    }
}

/// Runs a handler that takes single records, many at once, until `stop`: one slow record does
/// not hold up the others of its partition. An offset is committed when all before it are done.
///
/// # Errors
/// [`KafkaError`] if the consumer cannot be made; what fails later is retried.
pub async fn run_stream<F, R>(
    config: WorkerConfig,
    stop: CancellationToken,
    handle: F,
) -> Result<(), KafkaError>
where
    F: Fn(InputRecord) -> R + Clone + Send + 'static,
    R: Future<Output = Handled> + Send,
{
    let consumer = Arc::new(join(&config.kafka, &config.group, &config.topics)?);
    let room = Arc::new(Semaphore::new(config.max_records));
    let under_way = Arc::new(UnderWay::default());
    let tasks = TaskTracker::new();
    let mut ticks = tokio::time::interval(COMMIT_EVERY);
    loop {
        let batch = tokio::select! {
            batch = next_batch(&consumer, &config) => batch,
            _ = ticks.tick() => {
                under_way.store(&consumer);
                commit(&*consumer, CommitMode::Async);
                continue;
            }
            () = stop.cancelled() => break,
        };
        for record in batch {
            let permit = tokio::select! {
                permit = room.clone().acquire_owned() => permit,
                () = stop.cancelled() => break,
            };
            let Ok(permit) = permit else { break };
            under_way.begin(&record);
            let (handle, stop, under_way) = (handle.clone(), stop.clone(), under_way.clone());
            tasks.spawn(async move {
                let mut tries = 0;
                loop {
                    match handle(record.clone()).await {
                        Handled::Done => {
                            under_way.end(&record);
                            break;
                        }
                        Handled::Again(why) => {
                            tracing::warn!(
                                topic = record.topic,
                                partition = record.partition,
                                offset = record.offset,
                                why,
                                "record to be handled again"
                            );
                        }
                    }
                    if !wait_to_retry(&mut tries, &stop).await {
                        break;
                    }
                }
                drop(permit);
            });
        }
    }
    tasks.close();
    // What is under way has deadlines of its own; the process does not wait for all of them.
    let _ = tokio::time::timeout(Duration::from_secs(5), tasks.wait()).await;
    under_way.store(&consumer);
    commit(&*consumer, CommitMode::Sync);
    Ok(())
}

/// Which records of each partition are under way.
#[derive(Debug, Default)]
struct UnderWay(Mutex<BTreeMap<(String, i32), Progress>>);

#[derive(Debug, Default)]
struct Progress {
    open: BTreeSet<i64>,
    /// One more than the highest offset seen.
    next: i64,
    /// What was stored last.
    stored: i64,
}

impl UnderWay {
    fn begin(&self, record: &InputRecord) {
        let mut all = self.lock();
        let key = (record.topic.clone(), record.partition);
        let progress = all.entry(key).or_default();
        progress.open.insert(record.offset);
        // After a rebalance a partition may come back at an earlier offset.
        progress.next = record.offset + 1;
    }

    fn end(&self, record: &InputRecord) {
        let mut all = self.lock();
        if let Some(progress) = all.get_mut(&(record.topic.clone(), record.partition)) {
            progress.open.remove(&record.offset);
        }
    }

    /// Stores, for each partition, the offset before which all is done.
    fn store(&self, consumer: &GroupConsumer) {
        for ((topic, partition), progress) in self.lock().iter_mut() {
            let done = progress.open.first().copied().unwrap_or(progress.next);
            if done != progress.stored {
                store(consumer, topic, *partition, done);
                progress.stored = done;
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<(String, i32), Progress>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
