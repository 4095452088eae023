//! The loop of handlers that take batches: Submission and the Scheduler.
//!
//! An offset is committed only when the handler has reported that the record's effects are acknowledged. A record to
//! redeliver is handed to the handler again, after a growing wait, and no later record of its partition passes it.
//! Its partition is paused meanwhile; the others continue, and the consumer is polled all the time: after five
//! minutes without a poll the broker takes it for dead, and the next consumer would be stuck with the same record.
//!
//! Records for which a handler panics: see [`delivery`].

use std::collections::{HashMap, HashSet, VecDeque};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use triad_runtime::{Handled, InputRecord, delivery};

use crate::assignment::Partition;
use crate::broker::{Broker, Consumer};
use crate::commits::{COMMIT_EVERY, Commits};
use crate::dead_lettering::{Aside, Item, Letter};
use crate::error::ConsumeError;
use crate::lanes::{Lane, WorkerConfig, join_lanes};
use crate::retry::log_redelivery;
use crate::stuck::{Stuck, Why};

/// Interval of polls of a consumer while a handler works.
const POLL_EVERY: Duration = Duration::from_secs(30);

/// Runs the handler `handle`, which takes batches, over both lanes until `stop` is cancelled. Batches in hand are
/// finished first.
///
/// A batch holds 1 to [`WorkerConfig::max_records`] records of one lane. At most two batches are in hand, one
/// of each lane, so the handler may be called twice at the same time. The records are shared with the
/// handler, and not copied. The handler answers one [`Handled`] for each record, in their order; a record
/// without an answer counts as one to redeliver, and an answer without a record is ignored.
///
/// If the handler panics, the records of its batch are handed to it one by one, and a record with which alone
/// it panics is dead-lettered.
///
/// # Errors
/// [`ConsumeError::Join`] if a consumer cannot be made, [`ConsumeError::Fatal`] if one cannot be used any
/// more or the task of a lane panics. An error of one lane ends the other lane at once. All other failures
/// are retried.
pub async fn run_batches<B, F, R>(
    config: WorkerConfig<B>,
    stop: CancellationToken,
    handle: F,
) -> Result<(), ConsumeError>
where
    B: Broker,
    F: Fn(Arc<Vec<InputRecord>>) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Vec<Handled>> + Send,
{
    let aside = Aside::new(&config.broker);
    let mut tasks = JoinSet::new();
    for lane in join_lanes(&config)? {
        let stop = stop.clone();
        let mut lane = InHand {
            lane,
            max_records: config.max_records.max(1),
            handle: handle.clone(),
            aside: aside.clone(),
            stuck: Stuck::default(),
            fresh: VecDeque::new(),
            gone: HashSet::new(),
            commits: Commits::default(),
            oldest: None,
        };
        tasks.spawn(async move {
            let ended = lane.run(&stop).await;
            lane.lane.consumer().commit_and_wait();
            ended
        });
    }
    first_end(tasks).await
}

/// Waits for the lanes; an error of one cancels the other.
pub(crate) async fn first_end(
    mut lanes: JoinSet<Result<(), ConsumeError>>,
) -> Result<(), ConsumeError> {
    while let Some(ended) = lanes.join_next().await {
        ended.map_err(|e| ConsumeError::Fatal(format!("a loop ended: {e}")))??;
    }
    Ok(())
}

/// One lane and its items in hand.
struct InHand<B: Broker, F> {
    lane: Lane<B::Consumer>,
    max_records: usize,
    handle: F,
    aside: Aside<B>,
    stuck: Stuck,
    /// Items read while a handler was working.
    fresh: VecDeque<Item>,
    /// Partitions revoked while the handler had the batch.
    gone: HashSet<Partition>,
    commits: Commits,
    /// When the oldest record in the handler was written, in milliseconds since 1970.
    oldest: Option<i64>,
}

impl<B, F, R> InHand<B, F>
where
    B: Broker,
    F: Fn(Arc<Vec<InputRecord>>) -> R + Clone,
    R: Future<Output = Vec<Handled>>,
{
    async fn run(&mut self, stop: &CancellationToken) -> Result<(), ConsumeError> {
        let mut commits = tokio::time::interval(COMMIT_EVERY);
        commits.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let due = self.stuck.next_at();
            let first = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                _ = commits.tick() => {
                    self.commits.commit(self.lane.consumer());
                    self.measure();
                    continue;
                }
                () = sleep_until(due) => None,
                first = next(&mut self.fresh, &self.lane) => Some(first?),
            };
            let batch = self.collect(first);
            if !batch.is_empty() {
                self.work(batch).await;
            }
        }
    }

    fn measure(&self) {
        let waiting = || self.stuck.oldest().into_iter().chain(self.oldest).min();
        self.lane.measure(waiting);
    }

    /// A batch: items due for redelivery, then new ones.
    fn collect(&mut self, first: Option<Item>) -> Vec<Item> {
        self.drop_revoked();
        let mut batch = self.stuck.take_due(Instant::now(), self.max_records);
        let mut next = match batch.len() >= self.max_records {
            true => {
                // The item read first is the first of the new items.
                first
                    .into_iter()
                    .for_each(|item| self.fresh.push_front(item));
                None
            }
            false => first,
        };
        while let Some(item) = next {
            batch.extend(self.stuck.put_behind(item));
            next = match batch.len() < self.max_records {
                true => self.next_of(&mut batch),
                false => None,
            };
        }
        batch
    }

    /// The next item of a batch, without waiting. Removes items of revoked partitions from the batch.
    fn next_of(&mut self, batch: &mut Vec<Item>) -> Option<Item> {
        if let Some(item) = self.fresh.pop_front() {
            return Some(item);
        }
        let next = self.lane.at_hand();
        let gone = self.drop_revoked();
        batch.retain(|item| !gone.contains(&item.partition()));
        next
    }

    /// Drops all waiting items of revoked partitions, and returns these partitions: their new consumer, which may be
    /// this one again, reads all of it again. Call it after every poll of the consumer and before keeping the polled
    /// item: that was read after the revocation. Otherwise a record would be handled, and its offset committed,
    /// although earlier ones were dropped.
    fn drop_revoked(&mut self) -> Vec<Partition> {
        let gone = self.lane.consumer().assignment().take_revoked();
        self.stuck.forget(&gone);
        self.fresh.retain(|item| !gone.contains(&item.partition()));
        for partition in &gone {
            // The partition may have been assigned again, and may still be paused for items that are dropped now.
            self.lane.pause(partition, false);
        }
        gone
    }

    /// Hands a batch to the handler once, and keeps the items to redeliver.
    async fn work(&mut self, batch: Vec<Item>) {
        self.lane.take_precedence();
        let mut items = Vec::with_capacity(batch.len());
        let mut records = Vec::with_capacity(batch.len());
        for item in batch {
            match item {
                Item::Record(record) => {
                    records.push(record);
                    items.push(None);
                }
                Item::Letter(letter) => items.push(Some(letter)),
            }
        }
        self.oldest = records.iter().map(|record| record.timestamp_ms).min();
        let records = Arc::new(records);
        let mut answers = match records.is_empty() {
            true => Vec::new(),
            false => self.handled(&records).await,
        }
        .into_iter();
        let records = Arc::try_unwrap(records).unwrap_or_else(|shared| (*shared).clone());
        let mut records = records.into_iter();
        let mut worked = Vec::with_capacity(items.len());
        for item in items {
            match item {
                Some(letter) => {
                    let answer = self.aside.put(&letter).await;
                    worked.push((Item::Letter(letter), Answer::from(answer)));
                }
                None => {
                    let answer = answers.next();
                    let answer = answer.map_or(Answer::Redeliver(Why::Failed), Answer::from);
                    worked.extend(records.next().map(|r| (Item::Record(r), answer)));
                }
            }
        }
        self.oldest = None;
        self.record_results(worked);
    }

    /// The handler's results. The consumer is polled while the handler works.
    async fn handled(&mut self, records: &Arc<Vec<InputRecord>>) -> Vec<Handled> {
        let (handle, aside) = (self.handle.clone(), self.aside.clone());
        let handle = |records, _| handle(records);
        let put_aside = |at: usize, cause| {
            let (letter, aside) = (Letter::of(records[at].clone(), cause), &aside);
            async move { aside.put(&letter).await }
        };
        let working = delivery::deliver(records, handle, put_aside);
        let mut working = pin!(working);
        let mut polls = tokio::time::interval(POLL_EVERY.min(COMMIT_EVERY));
        let mut polled = Instant::now();
        let answers = loop {
            tokio::select! {
                biased;
                answers = &mut working => break answers,
                _ = polls.tick() => {
                    self.commits.commit(self.lane.consumer());
                    self.measure();
                    if polled.elapsed() >= POLL_EVERY {
                        polled = Instant::now();
                        let next = self.lane.at_hand();
                        let gone = self.drop_revoked();
                        self.gone.extend(gone);
                        self.fresh.extend(next);
                    }
                }
            }
        };
        for (record, answer) in records.iter().zip(&answers) {
            if let Handled::Redeliver(why) = answer {
                log_redelivery(record, why);
            }
        }
        answers
    }

    /// Stores the offsets of finished items, and keeps the first unfinished item of each partition and every later
    /// one; nothing of revoked partitions.
    fn record_results(&mut self, mut worked: Vec<(Item, Answer)>) {
        let gone = std::mem::take(&mut self.gone);
        worked.retain(|(item, _)| !gone.contains(&item.partition()));
        let mut left: HashMap<Partition, (Why, Vec<Item>)> = HashMap::new();
        let mut done: HashMap<Partition, i64> = HashMap::new();
        for (item, answer) in worked {
            let partition = item.partition();
            if let Some((_, behind)) = left.get_mut(&partition) {
                behind.push(item);
                continue;
            }
            match answer {
                Answer::Done => {
                    done.insert(partition, item.next());
                }
                Answer::Redeliver(why) => {
                    left.insert(partition, (why, vec![item]));
                }
            }
        }
        let now = Instant::now();
        for (partition, next) in &done {
            self.lane.consumer().store(partition, *next);
            self.commits.stored();
            if !left.contains_key(partition) && self.stuck.done(partition, now) {
                self.lane.pause(partition, false);
            }
        }
        if !left.is_empty() {
            // Redeliveries of one lane do not make the other lane wait.
            self.lane.release_precedence();
        }
        for (partition, (why, items)) in left {
            let moved = done.contains_key(&partition);
            if self
                .stuck
                .put_back(partition.clone(), items, moved, &why, now)
            {
                self.lane.pause(&partition, true);
            }
        }
    }
}

/// Result of an item.
enum Answer {
    Done,
    Redeliver(Why),
}

impl From<Handled> for Answer {
    fn from(handled: Handled) -> Self {
        match handled {
            Handled::Done => Self::Done,
            Handled::Redeliver(why) if why.is_for_room() => Self::Redeliver(Why::NoRoom),
            Handled::Redeliver(_) => Self::Redeliver(Why::Failed),
        }
    }
}

async fn next<C: Consumer>(
    fresh: &mut VecDeque<Item>,
    lane: &Lane<C>,
) -> Result<Item, ConsumeError> {
    match fresh.pop_front() {
        Some(item) => Ok(item),
        None => lane.next().await,
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
