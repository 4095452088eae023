//! The loop of handlers that take batches: Submission and the Scheduler.
//!
//! An offset is committed only when the handler has said that the record's effects are
//! acknowledged. A record that must be delivered again is handed to the handler again, after a
//! growing wait, without letting a later one of its partition pass.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};

use rdkafka::consumer::{CommitMode, Consumer};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use triad_runtime::{Handled, InputRecord};

use crate::config::KafkaError;
use crate::consumer::{COMMIT_EVERY, GroupConsumer, commit, store};
use crate::lanes::{Lane, WorkerConfig, join_lanes};
use crate::retry::{tell, wait_for_room, wait_to_retry};

/// Runs a handler that takes batches over both lanes, until `stop`. The batches in hand are
/// finished first.
///
/// A batch holds records of one lane. At most two are in hand, one of each lane: the handler
/// must be fit for that.
///
/// # Errors
/// [`KafkaError`] if the consumers cannot be made; what fails later is retried.
///
/// # Panics
/// If the handler does.
pub async fn run_batches<F, R>(
    config: WorkerConfig,
    stop: CancellationToken,
    handle: F,
) -> Result<(), KafkaError>
where
    F: Fn(Vec<InputRecord>) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Vec<Handled>> + Send,
{
    let mut tasks = JoinSet::new();
    for lane in join_lanes(&config)? {
        let (stop, handle) = (stop.clone(), handle.clone());
        tasks.spawn(async move {
            let stored = AtomicBool::new(false);
            tokio::select! {
                () = consume(&lane, config.max_records, &stop, &handle, &stored) => {}
                () = commit_now_and_then(&lane.consumer, &stored) => {}
            }
            commit(&lane.consumer, CommitMode::Sync);
        });
    }
    // A panic of the handler goes on in the caller; the other lane ends with the set.
    tasks.join_all().await;
    Ok(())
}

async fn consume<F, R>(
    lane: &Lane,
    max_records: usize,
    stop: &CancellationToken,
    handle: &F,
    stored: &AtomicBool,
) where
    F: Fn(Vec<InputRecord>) -> R,
    R: Future<Output = Vec<Handled>>,
{
    loop {
        let first = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            first = lane.next() => first,
        };
        let mut batch = vec![first];
        while batch.len() < max_records
            && let Some(another) = lane.at_hand()
        {
            batch.push(another);
        }
        handle_batch(lane, batch, stop, handle, stored).await;
    }
}

/// Hands a batch to the handler until every record is done.
async fn handle_batch<F, R>(
    lane: &Lane,
    mut batch: Vec<InputRecord>,
    stop: &CancellationToken,
    handle: &F,
    stored: &AtomicBool,
) where
    F: Fn(Vec<InputRecord>) -> R,
    R: Future<Output = Vec<Handled>>,
{
    let mut tries = 0;
    let mut paused = Paused::new(lane);
    loop {
        lane.stand_first();
        let had = batch.len();
        let answers = handle(batch.clone()).await;
        let failed = answers
            .iter()
            .any(|a| matches!(a, Handled::Redeliver(why) if !why.is_for_room()));
        batch = store_done(&lane.consumer, batch, &answers);
        stored.store(true, Ordering::Relaxed);
        if batch.is_empty() {
            return;
        }
        // What one lane cannot get done is no reason for the other one to wait.
        lane.stand_back();
        if batch.len() < had {
            tries = 0;
        }
        let goes_on = match failed {
            true => wait_to_retry(&mut tries, stop).await,
            false => wait_for_room(stop).await,
        };
        if !goes_on {
            return;
        }
        // A consumer that is not polled for some minutes is taken for dead. What was fetched
        // before its partitions were paused comes behind what is in hand.
        paused.pause();
        while batch.len() < MAX_IN_HAND
            && let Some(another) = lane.at_hand()
        {
            batch.push(another);
        }
    }
}

/// Bound: records in hand while some of them cannot be done.
const MAX_IN_HAND: usize = 4_096;

/// A lane's partitions, of which nothing is fetched while records in hand cannot be done.
struct Paused<'a> {
    lane: &'a Lane,
    is_paused: bool,
}

impl<'a> Paused<'a> {
    fn new(lane: &'a Lane) -> Self {
        Self {
            lane,
            is_paused: false,
        }
    }

    /// Those that are assigned now: a rebalance may have brought others.
    fn pause(&mut self) {
        self.is_paused = true;
        let consumer = &self.lane.consumer;
        if let Err(e) = consumer.assignment().and_then(|a| consumer.pause(&a)) {
            tracing::debug!(error = %e, "partitions could not be paused");
        }
    }
}

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        let consumer = &self.lane.consumer;
        if self.is_paused
            && let Err(e) = consumer.assignment().and_then(|a| consumer.resume(&a))
        {
            tracing::warn!(error = %e, "paused partitions could not be resumed");
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
        match answer {
            Handled::Done => {}
            Handled::Redeliver(why) => {
                tell(&record, why);
                stuck.insert(partition.clone());
            }
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

/// Commits what is stored, when there is something new, for ever.
async fn commit_now_and_then(consumer: &GroupConsumer, stored: &AtomicBool) {
    let mut ticks = tokio::time::interval(COMMIT_EVERY);
    loop {
        ticks.tick().await;
        if stored.swap(false, Ordering::Relaxed) {
            commit(consumer, CommitMode::Async);
        }
    }
}
