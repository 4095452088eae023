//! The broker's state and who waits for what. Owned by the server's one thread, so there are no
//! locks; every call is short and does no waiting.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use kafka_protocol::messages::BrokerId;
use kafka_protocol::protocol::StrBytes;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::config::BrokerConfig;
use crate::error::Error;
use crate::group::coordinator::Coordinator;
use crate::group::messages::{Answer, Answers, Millis, Ticket};
use crate::log::flusher::Lsn;
use crate::log::meta::LogId;
use crate::log::store::Store;

/// The only node's id.
pub(crate) const NODE: BrokerId = BrokerId(1);

/// Where a listener is, as its clients are told: who came through the secured one must not be sent
/// to the plain one.
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

/// Who is at the other end of a connection, and through which listener.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) peer: SocketAddr,
    pub(crate) endpoint: Endpoint,
}

/// Wakes a connection's task.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    pub(crate) notify: Notify,
    /// The connection is gone.
    pub(crate) closed: Cell<bool>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) config: BrokerConfig,
    pub(crate) store: Store,
    pub(crate) groups: Coordinator,
    /// Wakes the task that ticks the groups.
    pub(crate) timer: Rc<Notify>,
    armed: Option<Millis>,
    started: Instant,
    /// Who wants to know when a log grows. At most one entry a connection and log.
    readers: HashMap<LogId, Vec<Rc<Signal>>>,
    /// Who wants to know when a position is durable, in rising order. Bounded by connections
    /// times requests in flight.
    writers: VecDeque<(Lsn, Rc<Signal>)>,
    /// Who reads in a group's name through a line. Bounded by the groups that are read so.
    attending: BTreeMap<String, Vec<Weak<()>>>,
    /// Requests that wait for their group, and the answers that were not yet picked up.
    tickets: HashMap<Ticket, (Rc<Signal>, Option<Answer>)>,
}

impl Core {
    pub(crate) fn open(config: BrokerConfig, progress: Arc<Notify>) -> Result<Self, Error> {
        Ok(Self {
            store: Store::open(&config, progress)?,
            groups: Coordinator::new(&config),
            config,
            timer: Rc::default(),
            armed: None,
            started: Instant::now(),
            readers: HashMap::new(),
            writers: VecDeque::new(),
            attending: BTreeMap::new(),
            tickets: HashMap::new(),
        })
    }

    /// Milliseconds since the start: the groups' time.
    pub(crate) fn now(&self) -> Millis {
        Millis::try_from(self.started.elapsed().as_millis()).unwrap_or(Millis::MAX)
    }

    /// Wakes those who poll a log.
    pub(crate) fn log_grew(&mut self, log: LogId) {
        if let Some(readers) = self.readers.get_mut(&log) {
            for reader in readers.drain(..) {
                reader.notify.notify_one();
            }
        }
    }

    /// Wakes `signal` once when the log grows.
    pub(crate) fn watch_log(&mut self, log: LogId, signal: &Rc<Signal>) {
        let readers = self.readers.entry(log).or_default();
        readers.retain(|r| !r.closed.get());
        if !readers.iter().any(|r| Rc::ptr_eq(r, signal)) {
            readers.push(Rc::clone(signal));
        }
    }

    /// Wakes and forgets those who poll a log that is going away.
    pub(crate) fn log_gone(&mut self, log: LogId) {
        self.log_grew(log);
        self.readers.remove(&log);
    }

    /// Wakes `signal` when everything up to `lsn` is durable.
    pub(crate) fn watch_durable(&mut self, lsn: Lsn, signal: &Rc<Signal>) {
        self.writers.push_back((lsn, Rc::clone(signal)));
    }

    /// The flusher got further (or failed): show it to readers and writers.
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
            if let Some((_, signal)) = self.writers.pop_front() {
                signal.notify.notify_one();
            }
        }
    }

    /// Has somebody shown as a member of a group for as long as `attending` is there.
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

    /// How many attend a group.
    pub(crate) fn attendants(&self, group: &str) -> usize {
        let all = self.attending.get(group).into_iter().flatten();
        all.filter(|one| one.strong_count() > 0).count()
    }

    /// The groups that somebody attends.
    pub(crate) fn attended(&self) -> impl Iterator<Item = &String> {
        let groups = self.attending.keys();
        groups.filter(|group| self.attendants(group) > 0)
    }

    /// A ticket whose answer will wake `signal`.
    pub(crate) fn open_ticket(&mut self, signal: &Rc<Signal>) -> Ticket {
        let ticket = self.groups.ticket();
        self.tickets.insert(ticket, (Rc::clone(signal), None));
        ticket
    }

    /// The answer, if there is one by now.
    pub(crate) fn redeem(&mut self, ticket: Ticket) -> Option<Answer> {
        self.tickets.get(&ticket)?.1.as_ref()?;
        self.tickets.remove(&ticket)?.1
    }

    pub(crate) fn drop_ticket(&mut self, ticket: Ticket) {
        self.tickets.remove(&ticket);
    }

    /// Hands answers to those who wait, and lets the timer know if it must wake earlier.
    pub(crate) fn deliver(&mut self, answers: Answers) {
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

    /// Lets time pass for the groups; returns when to come again.
    pub(crate) fn tick(&mut self) -> Option<Instant> {
        let mut answers = Answers::new();
        let now = self.now();
        self.groups.tick(now, &mut answers);
        self.armed = Some(0);
        self.deliver(answers);
        self.armed = self.groups.next_deadline();
        self.armed
            .map(|at| self.started + std::time::Duration::from_millis(at))
    }
}
