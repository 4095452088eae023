//! Orders on their way to Submission: those that wait at the same time go together, so that the store
//! writes them in one transaction.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;
use triad_runtime::submission::{Submission, Submitted};
use triad_runtime::{Bus, Clock, DefinitionStore, InputRecord, StateStore};

/// Most orders that are handed to Submission at once.
pub(crate) const GROUP: usize = 64;
/// Groups that are on their way at once: while one waits for the store's sync, others get in line for its next
/// transaction, and the bus is asked for several at once.
const GROUPS: usize = 4;
/// Longest wait for Submission's answer. Its store and its bus have bounds of their own, below this.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// Why there is no answer about orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unanswered {
    /// As many orders wait as may. None of these was taken.
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
    /// The bytes that the records were counted with.
    _memory: Option<Arc<OwnedSemaphorePermit>>,
}

/// The way to Submission. It ends with its last user, once all that waits is answered.
#[derive(Debug)]
pub(crate) struct Queue {
    jobs: mpsc::Sender<Job>,
    room: Arc<Semaphore>,
}

impl Queue {
    /// Starts the tasks that hand over, before this handler. At most `most` orders, and never fewer
    /// than [`GROUP`], wait or are handed over at once.
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

    /// Whether one more order would be taken now.
    pub(crate) fn has_room(&self) -> bool {
        self.room.available_permits() > 0
    }

    /// Submits orders, at most [`GROUP`], and waits for what came of each. If as many wait as may, room
    /// is waited for, `room_within` at most.
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
        // It has a place for each order that has room.
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

/// What waits, shared by the tasks that hand over.
struct JobReceiver {
    next: mpsc::Receiver<Job>,
    /// Taken, and too large for the group that was made then: the first of the next one.
    left: Option<Job>,
}

impl JobReceiver {
    /// All that waits, up to [`GROUP`] orders; `None` at the end. One that is alone goes at once.
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
        // A panic is of these orders alone: their callers are told that they have no answer.
        let answers = AssertUnwindSafe(submission.submit(&records)).catch_unwind();
        let Ok(answers) = answers.await else {
            tracing::error!(orders = records.len(), "submission panicked");
            continue;
        };
        let mut answers = answers.into_iter();
        for (orders, told, ..) in callers {
            // A caller that has gone away is not told.
            let _ = told.send(answers.by_ref().take(orders).collect());
        }
    }
}
