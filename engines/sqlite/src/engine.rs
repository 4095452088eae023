//! The two threads of a store: one writes, in groups that share a sync, and one reads.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};
use triad_runtime::StoreError;

use crate::error::{OpenError, classify};
use crate::schema::Directory;

/// Bound on the calls that wait for one of the threads; who comes later waits to be let in.
const QUEUE: usize = 1_024;
/// Bound on the calls of one group. A call is a batch, so a group may hold many more orders.
const GROUP: usize = 256;
/// Why a call is not answered: its thread has ended.
const ENDED: &str = "the store has been closed";

/// Tells a caller what came of its writes, once it is known whether they are committed.
type Answer = Box<dyn FnOnce(Result<(), StoreError>) + Send>;
/// Writes of one caller, in the transaction of its group. An error undoes the whole group.
type WriteCall = Box<dyn FnOnce(&Connection) -> rusqlite::Result<Answer> + Send>;
/// Reads of one caller.
type ReadCall = Box<dyn FnOnce(&Connection) + Send>;

/// What a store has written since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// Calls that wrote, each a batch of its caller.
    pub writes: u64,
    /// Groups of such calls that were committed: each with one sync.
    pub groups: u64,
}

#[derive(Debug, Default)]
struct Counters {
    writes: AtomicU64,
    groups: AtomicU64,
}

/// A file that is open, and its threads. They end when it is dropped, which waits for them.
#[derive(Debug)]
pub(crate) struct Engine {
    writes: Option<mpsc::Sender<WriteCall>>,
    reads: Option<mpsc::Sender<ReadCall>>,
    threads: Vec<JoinHandle<()>>,
    counters: Arc<Counters>,
    /// Given back last.
    _directory: Directory,
}

impl Engine {
    pub(crate) fn open(dir: &Path) -> Result<Self, OpenError> {
        let directory = Directory::take(dir)?;
        let (writer, reader) = (directory.writer()?, directory.reader()?);
        let (writes, to_write) = mpsc::channel(QUEUE);
        let (reads, to_read) = mpsc::channel(QUEUE);
        let counters = Arc::new(Counters::default());
        let start = |name: &str, run: Box<dyn FnOnce() + Send>| {
            let thread = std::thread::Builder::new().name(name.to_owned());
            thread.spawn(run).map_err(OpenError::Thread)
        };
        let threads = vec![
            start("store-writer", {
                let counters = counters.clone();
                Box::new(move || write_all(writer, to_write, &counters))
            })?,
            start("store-reader", Box::new(move || read_all(&reader, to_read)))?,
        ];
        Ok(Self {
            writes: Some(writes),
            reads: Some(reads),
            threads,
            counters,
            _directory: directory,
        })
    }

    pub(crate) fn counted(&self) -> Counted {
        Counted {
            writes: self.counters.writes.load(Ordering::Relaxed),
            groups: self.counters.groups.load(Ordering::Relaxed),
        }
    }

    /// Carries out writes in the next group's transaction. Their result is known once the group is
    /// committed and synced. `write` may fail for SQLite's reasons alone, which undoes the group;
    /// what it refuses by itself is part of its answer.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        write: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (told, answer) = oneshot::channel();
        let call: WriteCall = Box::new(move |db| {
            let done = write(db)?;
            // A caller that has gone away is not told.
            Ok(Box::new(move |committed| {
                let _ = told.send(committed.map(|()| done));
            }))
        });
        send(self.writes.as_ref(), call).await?;
        answer.await.unwrap_or_else(|_| Err(ended()))
    }

    /// Reads from what is committed: every write that was answered before is seen.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (told, answer) = oneshot::channel();
        let call: ReadCall = Box::new(move |db| {
            let _ = told.send(read(db).map_err(|e| classify(&e)));
        });
        send(self.reads.as_ref(), call).await?;
        answer.await.unwrap_or_else(|_| Err(ended()))
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        (self.writes, self.reads) = (None, None);
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the store has panicked");
            }
        }
    }
}

fn ended() -> StoreError {
    StoreError::Configuration(ENDED.to_owned())
}

async fn send<T>(to: Option<&mpsc::Sender<T>>, call: T) -> Result<(), StoreError> {
    let to = to.ok_or_else(ended)?;
    to.send(call).await.map_err(|_| ended())
}

/// Takes the calls that wait, in groups, until nobody can send any more.
fn write_all(db: Connection, mut calls: mpsc::Receiver<WriteCall>, counters: &Counters) {
    let mut group = Vec::with_capacity(GROUP);
    while calls.blocking_recv_many(&mut group, GROUP) > 0 {
        counters
            .writes
            .fetch_add(group.len() as u64, Ordering::Relaxed);
        counters.groups.fetch_add(1, Ordering::Relaxed);
        write_group(&db, group.drain(..));
    }
    if let Err((_, e)) = db.close() {
        tracing::warn!(error = %e, "the store did not close in order; its log is read at the next start");
    }
}

/// Carries out a group in one transaction, and then tells everyone what came of it.
fn write_group(db: &Connection, group: impl Iterator<Item = WriteCall>) {
    let mut answers = Vec::with_capacity(GROUP);
    let mut failed = db.execute_batch("BEGIN IMMEDIATE").err();
    let mut unheard = 0_usize;
    for call in group {
        if failed.is_some() {
            unheard += 1;
            continue;
        }
        match call(db) {
            Ok(answer) => answers.push(answer),
            Err(e) => failed = Some(e),
        }
    }
    let failed = failed.or_else(|| db.execute_batch("COMMIT").err());
    let result = match failed {
        None => Ok(()),
        Some(e) => {
            // Some errors have ended the transaction already.
            if !db.is_autocommit()
                && let Err(e) = db.execute_batch("ROLLBACK")
            {
                tracing::error!(error = %e, "a failed group of writes cannot be undone");
            }
            tracing::error!(error = %e, writes = answers.len() + unheard, "a group of writes failed");
            Err(classify(&e))
        }
    };
    for answer in answers {
        answer(result.clone());
    }
}

/// Takes the calls that wait and reads for all of them from one state of the file. The calls are
/// taken before it is looked at, so each sees what was answered before it was made.
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
