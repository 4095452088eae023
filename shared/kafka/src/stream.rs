//! The loop of handlers that take single records, many at once: the agents.
//!
//! Every record is a task of its own, so that one slow record does not hold up the others of its
//! partition. An offset is committed when all before it are done.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::consumer::CommitMode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use triad_runtime::{Handled, InputRecord};

use crate::config::KafkaError;
use crate::consumer::{COMMIT_EVERY, commit};
use crate::lanes::{Lane, Side, WorkerConfig, join_lanes};
use crate::progress::UnderWay;
use crate::retry::{tell, wait_to_retry};

/// Longest wait, at the end, for what is under way. It has deadlines of its own, and what is not
/// done then comes again.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// Runs a handler that takes single records over both lanes, until `stop`.
///
/// Of the records that may be under way at once, normal ones are at most seven eighths (but one
/// at least): however slow they are, a high one finds room.
///
/// # Errors
/// [`KafkaError`] if the consumers cannot be made; what fails later is retried.
pub async fn run_stream<F, R>(
    config: WorkerConfig,
    stop: CancellationToken,
    handle: F,
) -> Result<(), KafkaError>
where
    F: Fn(InputRecord) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Handled> + Send + 'static,
{
    let room = Room::of(config.max_records);
    let mut tasks = JoinSet::new();
    for lane in join_lanes(&config)? {
        tasks.spawn(consume(lane, room.clone(), stop.clone(), handle.clone()));
    }
    tasks.join_all().await;
    Ok(())
}

async fn consume<F, R>(lane: Lane, room: Room, stop: CancellationToken, handle: F)
where
    F: Fn(InputRecord) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Handled> + Send + 'static,
{
    let under_way = Arc::new(UnderWay::default());
    let tasks = TaskTracker::new();
    let start_all = async {
        loop {
            let record = lane.next().await;
            under_way.begin(&record);
            let permit = room.enter(lane.side).await;
            let (handle, stop, under_way) = (handle.clone(), stop.clone(), under_way.clone());
            tasks.spawn(async move {
                if until_done(&record, &stop, handle).await {
                    under_way.end(&record);
                }
                drop(permit);
            });
        }
    };
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = start_all => {}
        () = commit_now_and_then(&lane, &under_way) => {}
    }
    tasks.close();
    let _ = tokio::time::timeout(LAST_WAIT, tasks.wait()).await;
    under_way.store(&lane.consumer);
    commit(&lane.consumer, CommitMode::Sync);
}

/// Hands a record to the handler until it is done; false if the worker is to stop before.
async fn until_done<F, R>(record: &InputRecord, stop: &CancellationToken, handle: F) -> bool
where
    F: Fn(InputRecord) -> R,
    R: Future<Output = Handled>,
{
    let mut tries = 0;
    loop {
        match handle(record.clone()).await {
            Handled::Done => return true,
            Handled::Redeliver(why) => tell(record, &why),
        }
        if !wait_to_retry(&mut tries, stop).await {
            return false;
        }
    }
}

/// Commits the offsets before which all is done, for ever.
async fn commit_now_and_then(lane: &Lane, under_way: &UnderWay) {
    let mut ticks = tokio::time::interval(COMMIT_EVERY);
    loop {
        ticks.tick().await;
        if under_way.store(&lane.consumer) {
            commit(&lane.consumer, CommitMode::Async);
        }
    }
}

/// How many records may be under way at once.
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
        // Its own share first: a normal record that waits for it keeps no place from a high one.
        let normal = match side {
            Side::Normal => self.normal.clone().acquire_owned().await.ok(),
            Side::High => None,
        };
        // Neither semaphore is ever closed.
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
