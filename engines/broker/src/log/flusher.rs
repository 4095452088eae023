//! The one thread that makes the write-ahead log durable.
//!
//! The server's thread submits encoded records and goes on; the flusher takes all that has come in
//! meanwhile, writes it with one call, syncs once, and reports how far the log is durable. While
//! it syncs, the next round gathers: this is the group commit, and its size adapts by itself.

use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::Notify;

use crate::config::FlushPolicy;

/// A position in the write-ahead log, in bytes over all its files since the start.
pub(crate) type Lsn = u64;

#[derive(Debug, Default)]
struct Queue {
    /// For the current file.
    bytes: Vec<u8>,
    /// The next file and what goes there, once the current one is finished.
    next: Option<(File, Vec<u8>)>,
    stop: bool,
}

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    work: Condvar,
    durable: AtomicU64,
    failed: AtomicBool,
    progress: Arc<Notify>,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Handle on the flusher's thread.
#[derive(Debug)]
pub(crate) struct Flusher {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    submitted: Lsn,
}

impl Flusher {
    /// Starts the thread on an empty file. `progress` is notified whenever more is durable.
    pub(crate) fn start(
        file: File,
        policy: FlushPolicy,
        progress: Arc<Notify>,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            work: Condvar::new(),
            durable: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            progress,
        });
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("broker-flush".into())
            .spawn(move || run(&theirs, file, policy))?;
        Ok(Self {
            shared,
            thread: Some(thread),
            submitted: 0,
        })
    }

    /// Hands over what `encode` appends; returns the position at which it will be durable.
    pub(crate) fn submit<E>(
        &mut self,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Lsn, E> {
        let mut guard = self.shared.queue();
        let queue = &mut *guard;
        let was_idle = queue.bytes.is_empty() && queue.next.is_none();
        let buffer = match &mut queue.next {
            Some((_, bytes)) => bytes,
            None => &mut queue.bytes,
        };
        let before = buffer.len();
        encode(buffer)?;
        self.submitted += (buffer.len() - before) as u64;
        drop(guard);
        if was_idle {
            self.shared.work.notify_one();
        }
        Ok(self.submitted)
    }

    /// Lets everything submitted from now on go to `file`. At most one change is outstanding;
    /// returns false (and drops nothing) if the previous one is not through.
    pub(crate) fn rotate(&self, file: File) -> bool {
        let mut queue = self.shared.queue();
        if queue.next.is_some() {
            return false;
        }
        queue.next = Some((file, Vec::new()));
        drop(queue);
        self.shared.work.notify_one();
        true
    }

    /// Everything up to here is durable.
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

    /// A write or a sync failed; nothing is acknowledged from then on.
    pub(crate) fn failed(&self) -> bool {
        self.shared.failed.load(Ordering::Acquire)
    }

    /// Finishes what was submitted and ends the thread.
    pub(crate) fn stop(&mut self) {
        self.shared.queue().stop = true;
        self.shared.work.notify_one();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            self.shared.failed.store(true, Ordering::Release);
        }
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run(shared: &Shared, mut file: File, policy: FlushPolicy) {
    let mut round = Vec::new();
    loop {
        {
            let mut queue = shared.queue();
            while queue.bytes.is_empty() {
                if let Some((next, bytes)) = queue.next.take() {
                    file = next;
                    queue.bytes = bytes;
                } else if queue.stop {
                    return;
                } else {
                    queue = shared
                        .work
                        .wait(queue)
                        .unwrap_or_else(PoisonError::into_inner);
                }
            }
            std::mem::swap(&mut round, &mut queue.bytes);
        }
        let done = file.write_all(&round).and_then(|()| match policy {
            FlushPolicy::Sync => file.sync_data(),
            FlushPolicy::System => Ok(()),
        });
        if let Err(error) = done {
            // After a failed sync the kernel may have dropped the pages: trying again could
            // report a success that is none. Nothing more is acknowledged.
            tracing::error!(%error, "the write-ahead log cannot be written; refusing all writes");
            shared.failed.store(true, Ordering::Release);
            shared.progress.notify_one();
            return;
        }
        shared
            .durable
            .fetch_add(round.len() as u64, Ordering::Release);
        shared.progress.notify_one();
        round.clear();
        round.shrink_to(4 << 20);
    }
}
