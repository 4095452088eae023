//! The queue to Submission: orders that wait at the same time are submitted together, so that the store writes them
//! in one transaction.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;
use triad_runtime::submission::{Submission, Submitted};
use triad_runtime::{Bus, Clock, DefinitionStore, InputRecord, StateStore};

/// Most orders in one group.
pub(crate) const GROUP: usize = 64;
/// Concurrent groups: while one waits for the store's sync, others gather for the next transaction, and the bus gets
/// several groups at once.
const GROUPS: usize = 4;
/// Longest wait for Submission's answer. The bounds of its store and its bus are shorter.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// Why there is no answer about orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unanswered {
    /// The queue is full. None of these orders was stored.
    #[error("too many orders wait to be stored")]
    Full,
    /// No answer came in time. The orders may be stored.
    #[error("the store has not answered in time")]
    Late,
    /// The handler panicked, or has ended. The orders may be stored.
    #[error("the handler of orders has failed")]
    Failed,
}

/// Orders of one caller, which stay together in their order: 1 to [`GROUP`].
struct Job {
    records: Vec<InputRecord>,
    told: oneshot::Sender<Vec<Submitted>>,
    _room: OwnedSemaphorePermit,
    /// Memory permit of the bodies with these records.
    _memory: Option<Arc<OwnedSemaphorePermit>>,
}

/// The queue. It closes when its last user is dropped, after all waiting orders are answered.
#[derive(Debug)]
pub(crate) struct Queue {
    jobs: mpsc::Sender<Job>,
    room: Arc<Semaphore>,
}

impl Queue {
    /// Starts the tasks that submit groups to this handler. At most `most` orders, and never fewer than [`GROUP`],
    /// wait or are being submitted at once.
    pub(crate) fn start<S, B, C>(
        submission: &Arc<Submission<S, B, C>>,
        most: usize,
    ) -> (Self, Vec<JoinHandle<()>>)
    where
        S: StateStore + DefinitionStore + Clone,
        B: Bus,
        C: Clock,
    {
        let most = most.clamp(GROUP, Semaphore::MAX_PERMITS);
        let (jobs, next) = mpsc::channel(most);
        let waiting = Arc::new(Mutex::new(JobReceiver { next, left: None }));
        let tasks = (0..GROUPS).map(|_| {
            let (submission, waiting) = (Arc::clone(submission), Arc::clone(&waiting));
            tokio::spawn(hand_over(submission, waiting))
        });
        let tasks = tasks.collect();
        let room = Arc::new(Semaphore::new(most));
        (Self { jobs, room }, tasks)
    }

    /// Whether there is room for one more order.
    pub(crate) fn has_room(&self) -> bool {
        self.room.available_permits() > 0
    }

    /// Submits at most [`GROUP`] orders, and waits for their results. If the queue is full, waits for room, at most
    /// `room_within`.
    ///
    /// # Errors
    /// [`Unanswered`].
    pub(crate) async fn submit(
        &self,
        records: Vec<InputRecord>,
        memory: Option<Arc<OwnedSemaphorePermit>>,
        room_within: Duration,
    ) -> Result<Vec<Submitted>, Unanswered> {
        let room = self.room(records.len(), room_within).await?;
        let (told, answer) = oneshot::channel();
        let job = Job {
            records,
            told,
            _room: room,
            _memory: memory,
        };
        // The channel has a place for each order that has room.
        self.jobs.try_send(job).map_err(|_| Unanswered::Failed)?;
        match tokio::time::timeout(ANSWER_WITHIN, answer).await {
            Ok(answer) => answer.map_err(|_| Unanswered::Failed),
            Err(_) => Err(Unanswered::Late),
        }
    }

    async fn room(
        &self,
        orders: usize,
        within: Duration,
    ) -> Result<OwnedSemaphorePermit, Unanswered> {
        let orders = u32::try_from(orders).map_err(|_| Unanswered::Full)?;
        let room = Arc::clone(&self.room);
        if within.is_zero() {
            return room
                .try_acquire_many_owned(orders)
                .map_err(|_| Unanswered::Full);
        }
        let room = tokio::time::timeout(within, room.acquire_many_owned(orders)).await;
        room.ok().and_then(Result::ok).ok_or(Unanswered::Full)
    }
}

/// Receiver of waiting jobs, shared by the tasks.
struct JobReceiver {
    next: mpsc::Receiver<Job>,
    /// A job that did not fit into the previous group: the first of the next one.
    left: Option<Job>,
}

impl JobReceiver {
    /// All waiting jobs, up to [`GROUP`] orders; `None` at the end. A single job is submitted at once.
    async fn group(&mut self) -> Option<Vec<Job>> {
        let first = match self.left.take() {
            Some(job) => job,
            None => self.next.recv().await?,
        };
        let mut orders = first.records.len();
        let mut group = vec![first];
        while orders < GROUP
            && let Ok(job) = self.next.try_recv()
        {
            orders += job.records.len();
            if orders > GROUP {
                self.left = Some(job);
                break;
            }
            group.push(job);
        }
        Some(group)
    }
}

async fn hand_over<S, B, C>(submission: Arc<Submission<S, B, C>>, waiting: Arc<Mutex<JobReceiver>>)
where
    S: StateStore + DefinitionStore + Clone,
    B: Bus,
    C: Clock,
{
    loop {
        let Some(group) = waiting.lock().await.group().await else {
            return;
        };
        let mut callers = Vec::with_capacity(group.len());
        let mut records = Vec::new();
        for job in group {
            callers.push((job.records.len(), job.told, job._room, job._memory));
            records.extend(job.records);
        }
        // A panic concerns only these orders: their callers get an error.
        let answers = AssertUnwindSafe(submission.submit(&records)).catch_unwind();
        let Ok(answers) = answers.await else {
            tracing::error!(orders = records.len(), "submission panicked");
            continue;
        };
        let mut answers = answers.into_iter();
        for (orders, told, ..) in callers {
            // Ignored: the caller may have gone away.
            let _ = told.send(answers.by_ref().take(orders).collect());
        }
    }
}
