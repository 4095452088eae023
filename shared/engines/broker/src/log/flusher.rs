//! The thread that makes the write-ahead log durable.
//!
//! The server's thread submits encoded records and continues. The flusher takes all submitted records, writes them
//! with one call, syncs once, and reports how far the log is durable. While it syncs, the next round gathers: this is
//! the group commit, whose size adapts to the load.
//!
//! Records without a waiting caller begin no round: they are written with the next round, at the latest [`SOON`]
//! after they were submitted.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{Fault, wal};
use crate::config::FlushPolicy;

/// A position in the write-ahead log, in bytes over all its files since the start.
pub(crate) type Lsn = u64;

/// Longest time in memory for records without a waiting caller: 10 ms, some thirty syncs.
const SOON: Duration = Duration::from_millis(10);
/// A round begins once this many bytes have gathered, even without a waiting caller.
const MAX_GATHERED: usize = 256 << 10;

/// Callback on the flusher's thread: more is durable, or the flusher has failed.
pub(crate) type Progress = Box<dyn Fn() + Send>;

/// When to make a change durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flush {
    /// With the next sync, because a caller waits for it.
    Now,
    /// With another change's sync, or with one that begins within 10 ms; no caller waits for it.
    Soon,
}

/// A file that replaces the current one.
#[derive(Debug)]
pub(crate) struct NextFile {
    pub(crate) wal: wal::Writer,
    /// The file's present name and its final one. The final name means that the file before it is finished.
    pub(crate) names: [PathBuf; 2],
}

impl NextFile {
    /// Finishes the file before it, and renames this one.
    fn take_over(self, before: &wal::Writer) -> io::Result<wal::Writer> {
        before.finish()?;
        wal::rename(&self.names)?;
        Ok(self.wal)
    }
}

#[derive(Debug, Default)]
struct Queue {
    /// Bytes for the current file.
    bytes: Vec<u8>,
    /// When a round is to begin, if there is anything to write.
    at: Option<Instant>,
    /// The next file and its bytes, for when the current one is finished.
    next: Option<(NextFile, Vec<u8>)>,
    /// Whether a next file exists that does not have its final name yet.
    is_rotating: bool,
    stop: bool,
}

#[derive(Debug)]
struct FlusherState {
    queue: Mutex<Queue>,
    work: Condvar,
    durable: AtomicU64,
    fault: Arc<Fault>,
}

impl FlusherState {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Handle of the flusher's thread.
#[derive(Debug)]
pub(crate) struct Flusher {
    shared: Arc<FlusherState>,
    thread: Option<JoinHandle<()>>,
    submitted: Lsn,
}

impl Flusher {
    /// Starts the thread on a file without records.
    pub(crate) fn start(
        wal: wal::Writer,
        policy: FlushPolicy,
        progress: Progress,
        fault: Arc<Fault>,
    ) -> io::Result<Self> {
        let shared = Arc::new(FlusherState {
            queue: Mutex::default(),
            work: Condvar::new(),
            durable: AtomicU64::new(0),
            fault,
        });
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("broker-flush".into())
            .spawn(move || run(&theirs, wal, policy, &progress))?;
        Ok(Self {
            shared,
            thread: Some(thread),
            submitted: 0,
        })
    }

    /// Submits the bytes that `encode` appends; returns the position at which they will be durable.
    pub(crate) fn submit<E>(
        &mut self,
        when: Flush,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Lsn, E> {
        let mut guard = self.shared.queue();
        let queue = &mut *guard;
        let buffer = match &mut queue.next {
            Some((_, bytes)) => bytes,
            None => &mut queue.bytes,
        };
        let before = buffer.len();
        encode(buffer)?;
        self.submitted += (buffer.len() - before) as u64;
        let now = Instant::now();
        let at = match when {
            Flush::Soon if buffer.len() < MAX_GATHERED => now + SOON,
            Flush::Soon | Flush::Now => now,
        };
        // A thread that was woken for an earlier moment needs no wake-up for a later one.
        let is_earlier = queue.at.is_none_or(|set| at < set && set > now);
        if is_earlier {
            queue.at = Some(at);
        }
        drop(guard);
        if is_earlier {
            self.shared.work.notify_one();
        }
        Ok(self.submitted)
    }

    /// Begins a round now, if there is anything to write; returns the position behind it.
    pub(crate) fn hurry(&self) -> Lsn {
        let mut queue = self.shared.queue();
        if queue.at.is_some() {
            queue.at = Some(Instant::now());
            self.shared.work.notify_one();
        }
        drop(queue);
        self.submitted
    }

    /// Whether the last rotation is not complete. Only one may run at a time.
    pub(crate) fn is_rotating(&self) -> bool {
        self.shared.queue().is_rotating
    }

    /// Writes everything submitted from now on to `next`.
    pub(crate) fn rotate(&self, next: NextFile) {
        let mut queue = self.shared.queue();
        queue.next = Some((next, Vec::new()));
        queue.is_rotating = true;
        queue.at = Some(Instant::now());
        drop(queue);
        self.shared.work.notify_one();
    }

    /// The position up to which everything is durable.
    pub(crate) fn durable(&self) -> Lsn {
        self.shared.durable.load(Ordering::Acquire)
    }

    /// The position behind everything submitted so far.
    pub(crate) fn submitted(&self) -> Lsn {
        self.submitted
    }

    /// Bytes submitted and not yet durable.
    pub(crate) fn backlog(&self) -> u64 {
        self.submitted - self.durable()
    }

    /// Finishes what was submitted and ends the thread.
    pub(crate) fn stop(&mut self) {
        self.shared.queue().stop = true;
        self.shared.work.notify_one();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            self.shared
                .fault
                .set(io::Error::other("the thread that writes has panicked"));
        }
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run(shared: &FlusherState, mut wal: wal::Writer, policy: FlushPolicy, progress: &Progress) {
    let mut round = Vec::new();
    while let Some(next) = next_round(shared, &mut round) {
        let done = match next {
            Some(next) => next.take_over(&wal).map(|next| {
                wal = next;
                shared.queue().is_rotating = false;
            }),
            None => wal.append(&round).and_then(|()| match policy {
                FlushPolicy::Sync => wal.sync(),
                FlushPolicy::System => Ok(()),
            }),
        };
        if let Err(error) = done {
            // After a failed sync the kernel may have dropped the pages: a second sync could wrongly succeed. Nothing
            // more is acknowledged.
            shared.fault.set(error);
            progress();
            return;
        }
        shared
            .durable
            .fetch_add(round.len() as u64, Ordering::Release);
        progress();
        round.clear();
        round.shrink_to(4 << 20);
    }
    // Ignored: recovery tolerates bytes behind the last record of an unfinished file.
    if let Err(error) = wal.finish() {
        tracing::warn!(%error, "the write-ahead log keeps its length");
    }
}

/// Waits for the next round and takes its bytes; or returns the next file, once the present one has all its bytes.
/// `None` after the stop, once everything is written.
fn next_round(shared: &FlusherState, round: &mut Vec<u8>) -> Option<Option<NextFile>> {
    let mut queue = shared.queue();
    loop {
        let now = Instant::now();
        let wait = queue.at.map(|at| at.saturating_duration_since(now));
        let is_due = queue.stop || wait.is_some_and(|wait| wait.is_zero());
        if is_due && !queue.bytes.is_empty() {
            std::mem::swap(round, &mut queue.bytes);
            queue.at = queue.next.is_some().then_some(now);
            return Some(None);
        }
        if is_due && let Some((next, bytes)) = queue.next.take() {
            queue.at = (!bytes.is_empty()).then_some(now);
            queue.bytes = bytes;
            return Some(Some(next));
        }
        if queue.stop {
            return None;
        }
        if is_due {
            queue.at = None;
            continue;
        }
        queue = match wait {
            Some(wait) => {
                let waited = shared.work.wait_timeout(queue, wait);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            None => {
                let waited = shared.work.wait(queue);
                waited.unwrap_or_else(PoisonError::into_inner)
            }
        };
    }
}
