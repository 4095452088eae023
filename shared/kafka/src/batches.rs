//! The loop of handlers that take batches: Submission and the Scheduler.
//!
//! An offset is committed only when the handler has said that the record's effects are
//! acknowledged. A record that must be delivered again is handed to the handler again, after a
//! growing wait, without letting a later one of its partition pass.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};

use rdkafka::consumer::CommitMode;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use triad_runtime::{Handled, InputRecord};

use crate::config::KafkaError;
use crate::consumer::{COMMIT_EVERY, GroupConsumer, commit, store};
use crate::lanes::{Lane, WorkerConfig, join_lanes};
use crate::retry::{wait_to_retry, warn};

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
    loop {
        lane.stand_first();
        let answers = handle(batch.clone()).await;
        batch = store_done(&lane.consumer, batch, &answers);
        stored.store(true, Ordering::Relaxed);
        if batch.is_empty() {
            return;
        }
        // What one lane cannot get done is no reason for the other one to wait.
        lane.stand_back();
        if !wait_to_retry(&mut tries, stop).await {
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
            warn(&record, why);
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
