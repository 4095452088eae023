//! The loop of handlers that take single records, many at once: the agents.
//!
//! Every record has its own task, so that one slow record does not delay the others of its partition. An offset is
//! committed when all records before it are done.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use triad_runtime::dead_letter::Cause;
use triad_runtime::{Handled, InputRecord, delivery};

use crate::batches::first_end;
use crate::broker::{Broker, Consumer};
use crate::commits::{COMMIT_EVERY, Commits};
use crate::dead_lettering::{Aside, Item, Letter};
use crate::error::ConsumeError;
use crate::lanes::{Lane, Side, WorkerConfig, join_lanes};
use crate::progress::UnderWay;
use crate::retry::{log_redelivery, wait_to_retry};

/// Longest wait at shutdown for records under way: 12 s, so that a call of 10 s which has just begun may finish.
/// Unfinished records are redelivered.
pub const LAST_WAIT: Duration = Duration::from_secs(12);

/// Interval of polls of a consumer while no permit is free.
const POLL_EVERY: Duration = Duration::from_secs(30);

/// Runs the handler `handle`, which takes single records, over both lanes until `stop` is cancelled. Records under
/// way then have [`LAST_WAIT`] to finish; unfinished ones are redelivered later.
///
/// At most [`WorkerConfig::max_records`] records are under way at once. Normal ones are at most seven eighths
/// of these, but at least one, so that a high record finds room however slow normal ones are, unless
/// [`WorkerConfig::max_records`] is 1. A record for which the handler panics is dead-lettered. The record is shared
/// with the handler, and not copied.
///
/// # Errors
/// [`ConsumeError::Join`] if a consumer cannot be made, [`ConsumeError::Fatal`] if one cannot be used any
/// more or the task of a lane panics. An error of one lane ends the other lane at once. All other failures
/// are retried.
pub async fn run_stream<B, F, R>(
    config: WorkerConfig<B>,
    stop: CancellationToken,
    handle: F,
) -> Result<(), ConsumeError>
where
    B: Broker,
    F: Fn(Arc<InputRecord>) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Handled> + Send + 'static,
{
    let room = Room::of(config.max_records);
    let aside = Aside::new(&config.broker);
    let mut tasks = JoinSet::new();
    for lane in join_lanes(&config)? {
        let each = Each {
            handle: handle.clone(),
            aside: aside.clone(),
            stop: stop.clone(),
        };
        tasks.spawn(consume(lane, room.clone(), stop.clone(), each));
    }
    first_end(tasks).await
}

async fn consume<B, F, R>(
    lane: Lane<B::Consumer>,
    room: Room,
    stop: CancellationToken,
    each: Each<B, F>,
) -> Result<(), ConsumeError>
where
    B: Broker,
    F: Fn(Arc<InputRecord>) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Handled> + Send + 'static,
{
    let under_way = Arc::new(UnderWay::default());
    let ended = Arc::new(Notify::new());
    let tasks = TaskTracker::new();
    let start_all = async {
        // Items read while no permit was free.
        let mut fresh: VecDeque<Item> = VecDeque::new();
        let drop_revoked = |fresh: &mut VecDeque<Item>| {
            let gone = lane.consumer().assignment().take_revoked();
            under_way.forget(&gone);
            fresh.retain(|item| !gone.contains(&item.partition()));
            gone
        };
        'next: loop {
            let item = match fresh.pop_front() {
                Some(item) => item,
                None => match lane.next().await {
                    Ok(item) => item,
                    Err(e) => return e,
                },
            };
            drop_revoked(&mut fresh);
            under_way.begin(&item);
            let mut enter = pin!(room.enter(lane.side));
            let permit = loop {
                tokio::select! {
                    permit = &mut enter => break permit,
                    () = tokio::time::sleep(POLL_EVERY) => {
                        let new = lane.at_hand();
                        let gone = drop_revoked(&mut fresh);
                        fresh.extend(new);
                        // The partition's new consumer reads it again.
                        if gone.contains(&item.partition()) {
                            continue 'next;
                        }
                    }
                }
            };
            let (each, under_way, ended) = (each.clone(), under_way.clone(), ended.clone());
            tasks.spawn(async move {
                let (item, is_done) = each.until_done(item).await;
                if is_done {
                    under_way.end(&item);
                    ended.notify_one();
                }
                drop(permit);
            });
        }
    };
    let ended = tokio::select! {
        biased;
        () = stop.cancelled() => Ok(()),
        fatal = start_all => Err(fatal),
        () = commit_now_and_then(&lane, &under_way, &ended) => Ok(()),
    };
    tasks.close();
    let _ = tokio::time::timeout(LAST_WAIT, tasks.wait()).await;
    under_way.store(lane.consumer());
    lane.consumer().commit_and_wait();
    ended
}

/// Handler and dead letters, shared by the tasks of a lane's records.
#[derive(Clone)]
struct Each<B: Broker, F> {
    handle: F,
    aside: Aside<B>,
    stop: CancellationToken,
}

impl<B, F, R> Each<B, F>
where
    B: Broker,
    F: Fn(Arc<InputRecord>) -> R,
    R: Future<Output = Handled>,
{
    /// Hands a record to the handler until it is done; false if the worker stops before.
    async fn until_done(&self, item: Item) -> (Item, bool) {
        let letter = match item {
            Item::Letter(_) => item,
            Item::Record(record) => {
                let record = Arc::new(record);
                let worked = self.until_handled(&record).await;
                let record = Arc::try_unwrap(record).unwrap_or_else(|shared| (*shared).clone());
                match worked {
                    Worked::Done => return (Item::Record(record), true),
                    Worked::Stopped => return (Item::Record(record), false),
                    Worked::Panicked(cause) => Item::Letter(Box::new(Letter::of(record, cause))),
                }
            }
        };
        let mut tries = 0;
        while let Item::Letter(about) = &letter
            && let Handled::Redeliver(why) = self.aside.put(about).await
        {
            log_redelivery(&about.record, &why);
            if !wait_to_retry(&mut tries, &self.stop).await {
                return (letter, false);
            }
        }
        (letter, true)
    }

    async fn until_handled(&self, record: &Arc<InputRecord>) -> Worked {
        let mut tries = 0;
        loop {
            let handle = || (self.handle)(record.clone());
            match delivery::catch(std::slice::from_ref(&**record), handle).await {
                Ok(Handled::Done) => return Worked::Done,
                Ok(Handled::Redeliver(why)) => log_redelivery(record, &why),
                Err(cause) => return Worked::Panicked(cause),
            }
            if !wait_to_retry(&mut tries, &self.stop).await {
                return Worked::Stopped;
            }
        }
    }
}

/// Result of a record.
enum Worked {
    Done,
    /// The worker is stopping.
    Stopped,
    /// The handler panicked: the cause for the record's dead letter.
    Panicked(Cause),
}

/// Commits the offsets before which all is done, in an endless loop.
async fn commit_now_and_then(lane: &Lane<impl Consumer>, under_way: &UnderWay, ended: &Notify) {
    let mut ticks = tokio::time::interval(COMMIT_EVERY);
    let mut commits = Commits::default();
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = poll_soon(lane.consumer(), ended) => {}
        }
        if under_way.store(lane.consumer()) {
            commits.stored();
        }
        commits.commit(lane.consumer());
        lane.measure(|| under_way.oldest());
    }
}

/// Waits until a commit is due.
async fn poll_soon(consumer: &impl Consumer, ended: &Notify) {
    let Some(span) = consumer.commits_after() else {
        return std::future::pending().await;
    };
    ended.notified().await;
    tokio::time::sleep(span).await;
}

/// Limit on the records under way.
#[derive(Clone)]
struct Room {
    all: Arc<Semaphore>,
    normal: Arc<Semaphore>,
}

/// Held while a record is under way.
struct Permit {
    _all: Option<OwnedSemaphorePermit>,
    _normal: Option<OwnedSemaphorePermit>,
}

impl Room {
    fn of(max_records: usize) -> Self {
        let all = max_records.max(1);
        let kept = all.div_ceil(8);
        Self {
            all: Arc::new(Semaphore::new(all)),
            normal: Arc::new(Semaphore::new((all - kept).max(1))),
        }
    }

    async fn enter(&self, side: Side) -> Permit {
        // The share of the lane first: a normal record that waits for it holds no permit that a high one could use.
        let normal = match side {
            Side::Normal => self.normal.clone().acquire_owned().await.ok(),
            Side::High => None,
        };
        // Never fails, because neither semaphore is ever closed.
        let all = self.all.clone().acquire_owned().await.ok();
        Permit {
            _all: all,
            _normal: normal,
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn take(room: &Room, side: Side) -> Option<Permit> {
        room.enter(side).now_or_never()
    }

    #[test]
    fn normal_records_leave_an_eighth_to_high_ones() {
        let room = Room::of(16);
        let normal: Vec<_> = (0..16).map_while(|_| take(&room, Side::Normal)).collect();
        let high: Vec<_> = (0..16).map_while(|_| take(&room, Side::High)).collect();
        assert_eq!((normal.len(), high.len()), (14, 2));
        drop(normal);
        let high_alone: Vec<_> = (0..16).map_while(|_| take(&room, Side::High)).collect();
        assert_eq!(high_alone.len(), 14, "high records may use all of it");
        assert!(take(&room, Side::Normal).is_none());
    }

    #[test]
    fn the_smallest_room_still_takes_normal_records() {
        for max in [0, 1, 2] {
            assert!(take(&Room::of(max), Side::Normal).is_some(), "{max}");
        }
    }
}
