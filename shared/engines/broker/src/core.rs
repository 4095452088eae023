//! The broker's state and its waiting requests, under one lock. Every call is short and does not wait.
//!
//! Three kinds of threads take the lock: the server's, for its clients; the flusher's, to report how far the log is
//! durable; and those of the users of an [in-process client](crate::InProcessClient). So a message between two
//! handlers of this process needs no switch of threads.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use kafka_protocol::messages::BrokerId;
use kafka_protocol::protocol::StrBytes;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::config::BrokerConfig;
use crate::error::Error;
use crate::group::coordinator::Coordinator;
use crate::group::messages::{GroupAnswer, GroupAnswers, Millis, Ticket};
use crate::log::flusher::{Lsn, Progress};
use crate::log::meta::LogId;
use crate::log::store::Store;

/// The only node's id.
pub(crate) const NODE: BrokerId = BrokerId(1);

/// A listener's address as sent to its clients: a client of the secured listener must not be directed to the plain
/// one.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    pub(crate) host: StrBytes,
    pub(crate) port: i32,
}

impl From<SocketAddr> for Endpoint {
    fn from(addr: SocketAddr) -> Self {
        Self {
            host: StrBytes::from_string(addr.ip().to_string()),
            port: i32::from(addr.port()),
        }
    }
}

/// The client of a connection, and its listener.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) peer: SocketAddr,
    pub(crate) endpoint: Endpoint,
}

/// Wakes the task of a connection or of a reader.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    pub(crate) notify: Notify,
    closed: AtomicBool,
}

impl Signal {
    /// The waiting side is gone.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }
}

/// A party that waits until something is durable.
#[derive(Debug)]
enum Waiter {
    Task(Arc<Signal>),
    Thread(SyncSender<()>),
}

impl Waiter {
    fn wake(&self) {
        match self {
            Self::Task(signal) => signal.notify.notify_one(),
            // The waiting thread may have given up. The channel has room for one message.
            Self::Thread(waits) => drop(waits.try_send(())),
        }
    }
}

/// The core of a broker, shared by all threads that use it. It is removed once the broker has stopped.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedCore(Arc<Mutex<Option<Core>>>);

impl SharedCore {
    pub(crate) fn open(config: BrokerConfig) -> Result<Self, Error> {
        let shared = Self::default();
        let flushed = Arc::downgrade(&shared.0);
        let progress = move || {
            if let Some(shared) = flushed.upgrade() {
                Self(shared).with(Core::flushed);
            }
        };
        let core = Core::open(config, Box::new(progress))?;
        *shared.lock() = Some(core);
        Ok(shared)
    }

    /// Runs a short function on the core; `None` once the broker has stopped.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Core) -> T) -> Option<T> {
        self.lock().as_mut().map(act)
    }

    /// Removes the core. Waiting parties are notified.
    pub(crate) fn take(&self) -> Option<Core> {
        let core = self.lock().take()?;
        let readers = core.readers.values().flatten();
        readers.for_each(|reader| reader.notify.notify_one());
        core.writers.iter().for_each(|(_, waiter)| waiter.wake());
        Some(core)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Core>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The broker's state; see the module.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) config: BrokerConfig,
    pub(crate) store: Store,
    pub(crate) groups: Coordinator,
    /// Wakes the task that ticks the groups.
    pub(crate) timer: Arc<Notify>,
    armed: Option<Millis>,
    started: Instant,
    /// Signals to wake when a log grows. At most one entry for each connection and log.
    readers: HashMap<LogId, Vec<Arc<Signal>>>,
    /// Parties to wake when a position is durable, in rising order. Bounded by connections times requests in flight,
    /// and by the waiting threads of in-process clients.
    writers: VecDeque<(Lsn, Waiter)>,
    /// In-process readers by group. Bounded by the number of groups that are read in-process.
    attending: BTreeMap<String, Vec<Weak<()>>>,
    /// Requests that wait for their group, and answers that were not fetched yet.
    tickets: HashMap<Ticket, (Arc<Signal>, Option<GroupAnswer>)>,
}

impl Core {
    pub(crate) fn open(config: BrokerConfig, progress: Progress) -> Result<Self, Error> {
        Ok(Self {
            store: Store::open(&config, progress)?,
            groups: Coordinator::new(&config),
            config,
            timer: Arc::default(),
            armed: None,
            started: Instant::now(),
            readers: HashMap::new(),
            writers: VecDeque::new(),
            attending: BTreeMap::new(),
            tickets: HashMap::new(),
        })
    }

    /// Milliseconds since the start, the time of the groups.
    pub(crate) fn now(&self) -> Millis {
        Millis::try_from(self.started.elapsed().as_millis()).unwrap_or(Millis::MAX)
    }

    /// Wakes the pollers of a log.
    pub(crate) fn log_grew(&mut self, log: LogId) {
        if let Some(readers) = self.readers.get_mut(&log) {
            for reader in readers.drain(..) {
                reader.notify.notify_one();
            }
        }
    }

    /// Wakes `signal` once when the log grows.
    pub(crate) fn watch_log(&mut self, log: LogId, signal: &Arc<Signal>) {
        let readers = self.readers.entry(log).or_default();
        readers.retain(|r| !r.is_closed());
        if !readers.iter().any(|r| Arc::ptr_eq(r, signal)) {
            readers.push(Arc::clone(signal));
        }
    }

    /// Wakes and removes the pollers of a deleted log.
    pub(crate) fn log_gone(&mut self, log: LogId) {
        self.log_grew(log);
        self.readers.remove(&log);
    }

    /// Wakes `signal` when everything up to `lsn` is durable.
    pub(crate) fn watch_durable(&mut self, lsn: Lsn, signal: &Arc<Signal>) {
        self.writers
            .push_back((lsn, Waiter::Task(Arc::clone(signal))));
    }

    /// Notifies `waits` when everything up to `lsn` is durable.
    pub(crate) fn tell_durable(&mut self, lsn: Lsn, waits: SyncSender<()>) {
        self.writers.push_back((lsn, Waiter::Thread(waits)));
    }

    /// Called when the flusher made progress or failed: makes it visible to readers and writers.
    pub(crate) fn flushed(&mut self) {
        for log in self.store.advance() {
            self.log_grew(log);
        }
        let durable = if self.store.failed() {
            Lsn::MAX
        } else {
            self.store.durable_to()
        };
        while let Some((lsn, _)) = self.writers.front()
            && *lsn <= durable
        {
            if let Some((_, waiter)) = self.writers.pop_front() {
                waiter.wake();
            }
        }
    }

    /// Shows a reader as a member of a group while `attending` is alive.
    pub(crate) fn attend(&mut self, group: &str, attending: Weak<()>) {
        self.attending.retain(|_, all| {
            all.retain(|one| one.strong_count() > 0);
            !all.is_empty()
        });
        self.attending
            .entry(group.to_owned())
            .or_default()
            .push(attending);
    }

    /// Number of readers that attend a group.
    pub(crate) fn attendants(&self, group: &str) -> usize {
        let all = self.attending.get(group).into_iter().flatten();
        all.filter(|one| one.strong_count() > 0).count()
    }

    /// The groups with attending readers.
    pub(crate) fn attended(&self) -> impl Iterator<Item = &String> {
        let groups = self.attending.keys();
        groups.filter(|group| self.attendants(group) > 0)
    }

    /// A ticket whose answer will wake `signal`.
    pub(crate) fn open_ticket(&mut self, signal: &Arc<Signal>) -> Ticket {
        let ticket = self.groups.ticket();
        self.tickets.insert(ticket, (Arc::clone(signal), None));
        ticket
    }

    /// Takes the answer, if there is one.
    pub(crate) fn redeem(&mut self, ticket: Ticket) -> Option<GroupAnswer> {
        self.tickets.get(&ticket)?.1.as_ref()?;
        self.tickets.remove(&ticket)?.1
    }

    pub(crate) fn drop_ticket(&mut self, ticket: Ticket) {
        self.tickets.remove(&ticket);
    }

    /// Delivers answers to their waiting requests, and wakes the timer if it must tick earlier.
    pub(crate) fn deliver(&mut self, answers: GroupAnswers) {
        for (ticket, answer) in answers {
            if let Some((signal, slot)) = self.tickets.get_mut(&ticket) {
                *slot = Some(answer);
                signal.notify.notify_one();
            }
        }
        let next = self.groups.next_deadline();
        if next.is_some_and(|next| self.armed.is_none_or(|armed| next < armed)) {
            self.timer.notify_one();
        }
    }

    /// Advances the groups' time; returns when to tick again.
    pub(crate) fn tick(&mut self) -> Option<Instant> {
        let mut answers = GroupAnswers::new();
        let now = self.now();
        self.groups.tick(now, &mut answers);
        self.armed = Some(0);
        self.deliver(answers);
        self.armed = self.groups.next_deadline();
        self.armed
            .map(|at| self.started + std::time::Duration::from_millis(at))
    }
}
