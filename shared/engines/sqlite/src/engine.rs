//! The two threads of a store: one writes, in groups that share a sync, and one reads. A short read needs neither.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use triad_runtime::StoreError;

use crate::catalogue::TopicWriter;
use crate::error::{OpenError, classify};
use crate::place::Place;
use crate::schema::{self, Directory, Syncs};

/// Most calls that wait for one of the threads; further callers wait for a free slot.
const QUEUE: usize = 1_024;
/// Most calls of one group. A call is a batch, so a group may hold many more orders.
const GROUP: usize = 256;
/// Timeout of a call, from when it is made: callers of a disk that hangs wait no longer.
const CALL_WITHIN: Duration = Duration::from_secs(8);
/// What the error of a write adds that was not answered in time.
const MAY_HAVE: &str = "; the write may have taken effect";
/// Error of a call whose thread has ended.
const ENDED: &str = "the store has been closed";

/// The transaction of a group of writes.
pub(crate) struct Transaction<'a> {
    pub(crate) db: &'a Connection,
    /// The topics, once they have been opened.
    pub(crate) topics: &'a mut Option<TopicWriter>,
}

/// Writes of one caller.
trait WriteCall: Send {
    /// Executes them in the transaction of their group. An error rolls back the whole group.
    fn carry_out(&mut self, group: &mut Transaction<'_>) -> rusqlite::Result<()>;
    /// Sends the result to the caller after the group was committed or rolled back.
    fn answer(self: Box<Self>, committed: Result<(), StoreError>);
}

struct Writes<T, F> {
    write: Option<F>,
    /// Result of the writes, valid if the group is committed.
    done: Option<T>,
    told: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> WriteCall for Writes<T, F>
where
    T: Send,
    F: FnOnce(&mut Transaction<'_>) -> rusqlite::Result<T> + Send,
{
    fn carry_out(&mut self, group: &mut Transaction<'_>) -> rusqlite::Result<()> {
        if let Some(write) = self.write.take() {
            self.done = Some(write(group)?);
        }
        Ok(())
    }

    fn answer(self: Box<Self>, committed: Result<(), StoreError>) {
        let Self { done, told, .. } = *self;
        // The caller may have dropped its receiver.
        let _ = told.send(committed.and_then(|()| done.ok_or_else(ended)));
    }
}

/// Reads of one caller.
type ReadCall = Box<dyn FnOnce(&Connection) + Send>;

/// Numbers of write calls and transactions since a store was opened. Writes of other processes are not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// Write calls, including failed ones; one call may be about several records.
    pub writes: u64,
    /// Transactions that were begun; the calls of one transaction share a sync.
    pub groups: u64,
    /// Transactions that failed. Nothing of them is stored.
    pub failed: u64,
}

#[derive(Debug, Default)]
struct Counters {
    writes: AtomicU64,
    groups: AtomicU64,
    failed: AtomicU64,
}

/// An open file and its threads. Clones share them; dropping the last clone waits for the threads to end.
#[derive(Debug, Clone)]
pub(crate) struct Engine {
    threads: Arc<Threads>,
    within: Duration,
}

struct Threads {
    writes: Option<mpsc::Sender<Box<dyn WriteCall>>>,
    reads: Option<mpsc::Sender<ReadCall>>,
    /// For [`Engine::read_at_once`].
    short_reads: Mutex<Option<Connection>>,
    writer: Option<JoinHandle<()>>,
    reader: Option<JoinHandle<()>>,
    counters: Arc<Counters>,
    place: Arc<Place>,
    /// Released last. A guest has none.
    _directory: Option<Directory>,
}

impl std::fmt::Debug for Threads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Threads").finish_non_exhaustive()
    }
}

impl Engine {
    /// Opens a file for the process that owns it, and creates it if it does not exist.
    pub(crate) fn open(dir: &Path, syncs: Syncs) -> Result<Self, OpenError> {
        let directory = Directory::take(dir)?;
        Self::start(schema::owner(dir, syncs)?, dir, Some(directory))
    }

    /// Opens a file as a guest, beside its owner.
    pub(crate) fn join(dir: &Path) -> Result<Self, OpenError> {
        Self::start(schema::guest(dir)?, dir, None)
    }

    fn start(
        writer: Connection,
        dir: &Path,
        directory: Option<Directory>,
    ) -> Result<Self, OpenError> {
        let reader = schema::reader(dir)?;
        let short_reads = Mutex::new(Some(schema::short_reader(dir)?));
        let (writes, to_write) = mpsc::channel(QUEUE);
        let (reads, to_read) = mpsc::channel(QUEUE);
        let counters = Arc::new(Counters::default());
        let place = Arc::new(Place::of(dir)?);
        let start = |name: &str, run: Box<dyn FnOnce() + Send>| {
            let thread = std::thread::Builder::new().name(name.to_owned());
            thread.spawn(run).map_err(OpenError::Thread)
        };
        let writer = start("store-writer", {
            let (counters, place) = (counters.clone(), place.clone());
            Box::new(move || write_all(writer, to_write, &counters, &place))
        })?;
        let reader = start("store-reader", Box::new(move || read_all(&reader, to_read)))?;
        let threads = Threads {
            writes: Some(writes),
            reads: Some(reads),
            short_reads,
            writer: Some(writer),
            reader: Some(reader),
            counters,
            place,
            _directory: directory,
        };
        Ok(Self {
            threads: Arc::new(threads),
            within: CALL_WITHIN,
        })
    }

    /// The engine of the same file, with `within` as timeout of its calls.
    pub(crate) fn answering_within(mut self, within: Duration) -> Self {
        self.within = within;
        self
    }

    pub(crate) fn counted(&self) -> Counted {
        let counters = &self.threads.counters;
        Counted {
            writes: counters.writes.load(Ordering::Relaxed),
            groups: counters.groups.load(Ordering::Relaxed),
            failed: counters.failed.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn place(&self) -> &Place {
        &self.threads.place
    }

    /// Executes writes in the next group's transaction. The result is returned once the group is committed and
    /// synced. `write` may fail only with errors of SQLite, which roll back the group; its own refusals are part of
    /// its result.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        write: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.write_with(move |group| write(group.db)).await
    }

    /// As [`write`](Self::write), for writes that may also append to topics.
    pub(crate) async fn write_with<T: Send + 'static>(
        &self,
        write: impl FnOnce(&mut Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (call, answer) = call(write);
        let answered = async {
            send(self.threads.writes.as_ref(), call).await?;
            answer.await.unwrap_or_else(|_| Err(ended()))
        };
        self.bounded(answered, MAY_HAVE).await
    }

    /// Queues writes at once, so that calls are executed in the order in which this function is called. The returned
    /// future waits for the result, as [`write_with`](Self::write_with) does. If [`QUEUE`] calls wait already, nothing
    /// is written, and the result is [`StoreError::Transient`].
    pub(crate) fn submit<T, W>(
        &self,
        write: W,
    ) -> impl Future<Output = Result<T, StoreError>> + Send + use<T, W>
    where
        T: Send + 'static,
        W: FnOnce(&mut Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    {
        let (call, answer) = call(write);
        let queued = match self.threads.writes.as_ref().map(|to| to.try_send(call)) {
            Some(Ok(())) => Ok(answer),
            Some(Err(TrySendError::Full(_))) => {
                Err(StoreError::Transient("too many writes are waiting".into()))
            }
            Some(Err(TrySendError::Closed(_))) | None => Err(ended()),
        };
        let engine = self.clone();
        async move {
            let answer = queued?;
            let answered = async { answer.await.unwrap_or_else(|_| Err(ended())) };
            engine.bounded(answered, MAY_HAVE).await
        }
    }

    /// Whether so many writes wait that a reader of requests should not read more of them: half the queue.
    pub(crate) fn is_behind(&self) -> bool {
        let writes = self.threads.writes.as_ref();
        writes.is_some_and(|to| to.capacity() < QUEUE / 2)
    }

    /// Reads committed data: every write that was answered before is visible.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (told, answer) = oneshot::channel();
        let call: ReadCall = Box::new(move |db| {
            let _ = told.send(read(db).map_err(|e| classify(&e)));
        });
        let answered = async {
            send(self.threads.reads.as_ref(), call).await?;
            answer.await.unwrap_or_else(|_| Err(ended()))
        };
        self.bounded(answered, "").await
    }

    /// Reads committed data on the thread of the caller, as [`read`](Self::read) does on another: to wake a thread
    /// and be woken by it takes several times as long as to read a row. `None` if the read would wait for somebody, or
    /// fails; [`read`](Self::read) waits, and says what is wrong. For a few rows that were written lately: on a cold
    /// page of a slow disk it holds up the caller's thread.
    pub(crate) fn read_at_once<T>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Option<T> {
        let db = self.threads.short_reads.try_lock().ok()?;
        read(db.as_ref()?).ok()
    }

    /// A call with a timeout. Its thread may execute it after the timeout all the same.
    async fn bounded<T>(
        &self,
        call: impl Future<Output = Result<T, StoreError>>,
        effect: &str,
    ) -> Result<T, StoreError> {
        let answered = tokio::time::timeout(self.within, call).await;
        answered.unwrap_or_else(|_| {
            let within = self.within;
            let why = format!("the file has not answered within {within:?}{effect}");
            Err(StoreError::Transient(why))
        })
    }
}

impl Drop for Threads {
    /// The writer closes last and alone, and so writes its log into the file and removes it. Two that close at the same
    /// time would each leave that to the other.
    fn drop(&mut self) {
        let short_reads = self.short_reads.get_mut();
        drop(short_reads.unwrap_or_else(PoisonError::into_inner).take());
        self.reads = None;
        wait_for(self.reader.take());
        self.writes = None;
        wait_for(self.writer.take());
    }
}

fn wait_for(thread: Option<JoinHandle<()>>) {
    if thread.is_some_and(|thread| thread.join().is_err()) {
        tracing::error!("a thread of the store has panicked");
    }
}

fn ended() -> StoreError {
    StoreError::Configuration(ENDED.to_owned())
}

/// A call, and the channel of its answer.
fn call<T: Send + 'static>(
    write: impl FnOnce(&mut Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
) -> (Box<dyn WriteCall>, oneshot::Receiver<Result<T, StoreError>>) {
    let (told, answer) = oneshot::channel();
    let call = Box::new(Writes {
        write: Some(write),
        done: None,
        told,
    });
    (call, answer)
}

async fn send<T>(to: Option<&mpsc::Sender<T>>, call: T) -> Result<(), StoreError> {
    let to = to.ok_or_else(ended)?;
    to.send(call).await.map_err(|_| ended())
}

/// Takes waiting calls in groups until all senders are dropped.
fn write_all(
    db: Connection,
    mut calls: mpsc::Receiver<Box<dyn WriteCall>>,
    counters: &Counters,
    place: &Place,
) {
    let mut topics = None;
    let mut group = Vec::with_capacity(GROUP);
    while calls.blocking_recv_many(&mut group, GROUP) > 0 {
        counters
            .writes
            .fetch_add(group.len() as u64, Ordering::Relaxed);
        counters.groups.fetch_add(1, Ordering::Relaxed);
        write_group(&db, &mut topics, &mut group, counters, place);
    }
    // An empty group writes the offsets that consumers have committed since the last one.
    write_group(&db, &mut topics, &mut group, counters, place);
    if let Err((_, e)) = db.close() {
        tracing::warn!(error = %e, "the store was not closed cleanly; its log is read at the next start");
    }
}

/// Executes a group in one transaction, and then sends its result to every caller, including those whose writes were
/// not reached. What was appended to topics can be read before a caller has its answer.
fn write_group(
    db: &Connection,
    topics: &mut Option<TopicWriter>,
    group: &mut Vec<Box<dyn WriteCall>>,
    counters: &Counters,
    place: &Place,
) {
    let result = carry_out(db, topics, group).map_err(|e| {
        // Some errors have rolled the transaction back already.
        if !db.is_autocommit()
            && let Err(e) = db.execute_batch("ROLLBACK")
        {
            tracing::error!(error = %e, "a failed group of writes cannot be rolled back");
        }
        place.explain(&e)
    });
    // After the commit: a file that was deleted before takes writes all the same.
    let result = result.and_then(|()| place.check());
    if let Err(error) = &result {
        counters.failed.fetch_add(1, Ordering::Relaxed);
        tracing::error!(%error, writes = group.len(), "a group of writes failed");
    }
    if let Some(topics) = topics {
        topics.ended(result.is_ok());
    }
    for call in group.drain(..) {
        call.answer(result.clone());
    }
}

fn carry_out(
    db: &Connection,
    topics: &mut Option<TopicWriter>,
    group: &mut [Box<dyn WriteCall>],
) -> rusqlite::Result<()> {
    if group.is_empty() && topics.as_ref().is_none_or(TopicWriter::is_idle) {
        return Ok(());
    }
    // Takes the write lock before any read: no other process writes between a condition and the write that depends on
    // it.
    db.execute_batch("BEGIN IMMEDIATE")?;
    if let Some(topics) = topics {
        topics.write_offsets(db)?;
    }
    let mut transaction = Transaction { db, topics };
    for call in group {
        call.carry_out(&mut transaction)?;
    }
    db.execute_batch("COMMIT")
}

/// Takes the waiting calls and reads for all of them in one snapshot of the file. The calls are taken before the
/// snapshot begins, so each sees every write that was answered before it was made.
fn read_all(db: &Connection, mut calls: mpsc::Receiver<ReadCall>) {
    let mut group = Vec::with_capacity(GROUP);
    while calls.blocking_recv_many(&mut group, GROUP) > 0 {
        let is_one = db.execute_batch("BEGIN").is_ok();
        for call in group.drain(..) {
            call(db);
        }
        if is_one && let Err(e) = db.execute_batch("COMMIT") {
            tracing::error!(error = %e, "a group of reads did not end");
        }
    }
}
