//! The state that all connections share: topics, groups and the requests that wait for a group.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::BrokerId;
use kafka_protocol::protocol::StrBytes;
use tokio::sync::Notify;
use tokio::time::Instant;
use triad_sqlite::topics::{TopicError, Topics};

use crate::config::BrokerConfig;
use crate::group::coordinator::Coordinator;
use crate::group::messages::{GroupAnswer, GroupAnswers, Millis, Ticket};

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

/// The core, shared by the tasks of the server's thread. No task holds it while it waits.
#[derive(Debug, Clone)]
pub(crate) struct SharedCore(Rc<RefCell<Core>>);

impl SharedCore {
    pub(crate) fn new(config: BrokerConfig, topics: Topics) -> Self {
        Self(Rc::new(RefCell::new(Core::new(config, topics))))
    }

    /// Runs a short function on the core.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Core) -> T) -> T {
        act(&mut self.0.borrow_mut())
    }
}

/// The shared state; see the module.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) config: BrokerConfig,
    pub(crate) topics: Topics,
    pub(crate) groups: Coordinator,
    /// Wakes the task that ticks the groups.
    pub(crate) timer: Arc<Notify>,
    armed: Option<Millis>,
    started: Instant,
    /// Requests that wait for their group, and answers that were not fetched yet.
    tickets: HashMap<Ticket, (Arc<Notify>, Option<GroupAnswer>)>,
}

impl Core {
    pub(crate) fn new(config: BrokerConfig, topics: Topics) -> Self {
        Self {
            groups: Coordinator::new(&config),
            config,
            topics,
            timer: Arc::default(),
            armed: None,
            started: Instant::now(),
            tickets: HashMap::new(),
        }
    }

    /// Milliseconds since the start, the time of the groups.
    pub(crate) fn now(&self) -> Millis {
        Millis::try_from(self.started.elapsed().as_millis()).unwrap_or(Millis::MAX)
    }

    /// A ticket whose answer will wake `signal`.
    pub(crate) fn open_ticket(&mut self, signal: &Arc<Notify>) -> Ticket {
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
                signal.notify_one();
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

/// The protocol's error for a failed call about a topic.
pub(crate) fn error_of(error: &TopicError) -> ResponseError {
    match error {
        TopicError::NoTopic => ResponseError::UnknownTopicOrPartition,
        TopicError::Exists => ResponseError::TopicAlreadyExists,
        TopicError::TooManyPartitions => ResponseError::PolicyViolation,
        TopicError::TooLarge => ResponseError::MessageTooLarge,
        TopicError::Full => ResponseError::KafkaStorageError,
        TopicError::TooManyGroups => ResponseError::CoordinatorLoadInProgress,
        TopicError::ProducerEpoch => ResponseError::InvalidProducerEpoch,
        TopicError::OutOfOrder => ResponseError::OutOfOrderSequenceNumber,
        TopicError::Duplicate => ResponseError::DuplicateSequenceNumber,
        TopicError::Store(error) => {
            tracing::warn!(%error, "a request of a Kafka client failed");
            ResponseError::KafkaStorageError
        }
    }
}
