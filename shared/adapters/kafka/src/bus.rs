//! Publishes messages, and waits for their acknowledgement for a bounded time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use futures::future::join_all;
use rdkafka::error::{KafkaError as RdError, RDKafkaErrorCode};
use rdkafka::message::{Header, Message, OwnedHeaders};
use rdkafka::producer::future_producer::DeliveryFuture;
use rdkafka::producer::{FutureProducer, FutureRecord, Producer as _, PurgeConfig};
use tokio::time::Instant;
use triad_core::Envelope;
use triad_runtime::{Bus, BusError};

use crate::config::KafkaConfig;
use crate::context::Context;
use crate::error::{KafkaError, advice_about_topic, unusable};
use crate::overdue::{Overdue, State, Waiting};
use crate::tokens::Tokens;

/// Bound: messages that wait to be sent in one process.
const QUEUE_MESSAGES: &str = "100000";
/// Bound: kilobytes that wait to be sent in one process.
const QUEUE_KBYTES: &str = "65536";
/// Wait before a message is enqueued again after the queue was full.
const FULL_QUEUE_WAIT: Duration = Duration::from_millis(5);

/// Longest time for which a publish waits while the brokers acknowledge none of its messages: 10 s. A message that is
/// not acknowledged by then has failed as [`BusError::Late`], and may still be sent. If the same message is published
/// again meanwhile, that publish waits for the first message, and no second one is sent.
pub const PUBLISH_WITHIN: Duration = Duration::from_secs(10);
/// Takes the place of [`PUBLISH_WITHIN`] for a topic that has a message which is already late: 1 s.
/// Only the topic's partitions without a leader need longer, and messages for its other partitions
/// must not wait for those.
pub const PUBLISH_WITHIN_WHEN_LATE: Duration = Duration::from_secs(1);

/// The bus on Kafka: an idempotent producer with the partitioner of the Java clients (murmur2).
/// Clones share the producer.
///
/// A publish waits for [`PUBLISH_WITHIN`] at most for room in the queue, and ends once none of its
/// messages has been acknowledged for so long. After what librdkafka calls a fatal error (the brokers have
/// lost what was sent, or know another producer under its id) a new producer takes the place of the old one.
#[derive(Clone)]
pub struct KafkaBus(Arc<Shared>);

struct Shared {
    config: KafkaConfig,
    producer: RwLock<Producer>,
    overdue: Overdue,
}

#[derive(Clone)]
struct Producer {
    client: FutureProducer<Context>,
    /// The names of topics in Kafka.
    names: Context,
    tokens: Option<Arc<Tokens>>,
}

impl KafkaBus {
    /// Makes the producer. It connects later, and keeps trying.
    ///
    /// # Errors
    /// [`KafkaError::Settings`] if librdkafka refuses the settings.
    pub fn new(config: &KafkaConfig) -> Result<Self, KafkaError> {
        Ok(Self(Arc::new(Shared {
            config: config.clone(),
            producer: RwLock::new(Producer::new(config)?),
            overdue: Overdue::default(),
        })))
    }

    /// Blocks the thread until every message is acknowledged or has failed, for at most `within`.
    /// Messages that are left then are logged, and stay with the producer.
    pub fn flush(&self, within: Duration) {
        if let Err(e) = self.0.present().client.flush(within) {
            tracing::warn!(error = %e, "messages were left unsent");
        }
    }
}

impl Shared {
    fn present(&self) -> Producer {
        let producer = self.producer.read();
        producer.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A usable producer: a new one if the present one has met a fatal error.
    fn sound(&self) -> Result<Producer, BusError> {
        let present = self.present();
        let Some(reason) = present.fatal() else {
            return Ok(present);
        };
        let mut slot = self
            .producer
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if slot.fatal().is_some() {
            tracing::error!(reason, "the producer has failed; a new one replaces it");
            let next = Producer::new(&self.config)
                .map_err(|e| BusError::Transient(format!("no new producer: {e}")))?;
            let before = std::mem::replace(&mut *slot, next);
            before
                .client
                .purge(PurgeConfig::default().queue().inflight());
            self.overdue.clear();
        }
        Ok(slot.clone())
    }
}

impl Producer {
    fn new(config: &KafkaConfig) -> Result<Self, KafkaError> {
        let context = config.context();
        let (tokens, names) = (context.tokens.clone(), context.clone());
        let client = config
            .client(&[
                ("enable.idempotence", "true"),
                ("acks", "all"),
                // No lingering: batches form while other messages are sent.
                ("linger.ms", "0"),
                ("partitioner", "murmur2_random"),
                // No time-out: if a message timed out while a later one of its partition was sent, the order of an
                // order's statuses would break. See `overdue`.
                ("message.timeout.ms", "0"),
                ("queue.buffering.max.messages", QUEUE_MESSAGES),
                ("queue.buffering.max.kbytes", QUEUE_KBYTES),
            ])
            .create_with_context(context)
            .map_err(|e: RdError| unusable(&e))?;
        Ok(Self {
            client,
            names,
            tokens,
        })
    }

    /// The reason if the producer cannot send any more.
    fn fatal(&self) -> Option<String> {
        let (code, reason) = self.client.client().fatal_error()?;
        Some(format!("{code}: {reason}"))
    }

    async fn enqueue(
        &self,
        message: &Envelope,
        until: Instant,
    ) -> Result<DeliveryFuture, BusError> {
        let topic = self.names.in_kafka(&message.topic);
        loop {
            let mut record: FutureRecord<'_, Vec<u8>, Vec<u8>> =
                FutureRecord::to(&topic).payload(&message.value);
            if let Some(key) = &message.key {
                record = record.key(key);
            }
            let count = message.sent_headers().count();
            if count > 0 {
                let empty = OwnedHeaders::new_with_capacity(count);
                let headers = message.sent_headers().fold(empty, |all, (key, value)| {
                    all.insert(Header {
                        key,
                        value: value.as_deref(),
                    })
                });
                record = record.headers(headers);
            }
            match self.client.send_result(record) {
                Ok(delivery) => return Ok(delivery),
                Err((RdError::MessageProduction(RDKafkaErrorCode::QueueFull), _))
                    if Instant::now() < until =>
                {
                    tokio::time::sleep(FULL_QUEUE_WAIT).await;
                }
                Err((e, _)) => return Err(classify(&e, &topic)),
            }
        }
    }
}

impl Shared {
    /// Enqueues a message, or finds it among the overdue ones.
    async fn begin(
        &self,
        producer: &Producer,
        message: Envelope,
        state: State,
        until: Instant,
    ) -> Result<Waiting, BusError> {
        let known = match state {
            State::Well => None,
            State::Late | State::Full => self.overdue.take(&message),
        };
        let delivery = match known {
            Some(delivery) => delivery,
            None if state == State::Full => {
                return Err(BusError::Late(format!(
                    "topic {}: too many messages are not acknowledged yet",
                    message.topic
                )));
            }
            None => producer.enqueue(&message, until).await?,
        };
        Ok(Waiting::new(message, delivery, self.overdue.clone()))
    }
}

impl Bus for KafkaBus {
    async fn publish(&self, messages: Vec<Envelope>) -> Vec<Result<(), BusError>> {
        let shared = &*self.0;
        let producer = match shared.sound() {
            Ok(producer) => producer,
            Err(e) => return vec![Err(e); messages.len()],
        };
        if let Some(tokens) = &producer.tokens {
            tokens.fresh().await;
        }
        let mut patience = Patience::new(&shared.overdue);
        let mut sent = Vec::with_capacity(messages.len());
        // One bound for all messages: with one for each, a full queue would delay the call many times.
        let began = Instant::now();
        for message in messages {
            let (state, within) = patience.of(&message.topic);
            let waiting = shared
                .begin(&producer, message, state, began + within)
                .await;
            sent.push((waiting, within));
        }
        let moved = Mutex::new(Instant::now());
        join_all(sent.into_iter().map(|(waiting, within)| {
            let moved = &moved;
            async move { acknowledged(waiting?, within, moved).await }
        }))
        .await
    }
}

/// Waits for one acknowledgement, until no message of the publish has made progress (`moved`) for so long.
async fn acknowledged(
    mut waiting: Waiting,
    within: Duration,
    moved: &Mutex<Instant>,
) -> Result<(), BusError> {
    let lock = || moved.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let until = *lock() + within;
        match tokio::time::timeout_at(until, waiting.delivered()).await {
            Ok(delivered) => {
                *lock() = Instant::now();
                return match delivered {
                    Some(Ok(Ok(_))) => Ok(()),
                    Some(Ok(Err((e, sent)))) => Err(classify(&e, sent.topic())),
                    Some(Err(_)) | None => {
                        Err(BusError::Transient("the producer has stopped".into()))
                    }
                };
            }
            Err(_) if *lock() + within > Instant::now() => {}
            Err(_) => {
                let topic = waiting.topic();
                let late = format!("topic {topic}: the brokers have not acknowledged it in time");
                return Err(BusError::Late(late));
            }
        }
    }
}

/// How long a publish waits for the messages of each topic.
struct Patience<'a> {
    overdue: &'a Overdue,
    /// State of each topic of the publish, looked up once.
    known: HashMap<String, State>,
}

impl<'a> Patience<'a> {
    fn new(overdue: &'a Overdue) -> Self {
        Self {
            overdue,
            known: HashMap::new(),
        }
    }

    fn of(&mut self, topic: &str) -> (State, Duration) {
        let state = match self.known.get(topic) {
            Some(state) => *state,
            None => {
                let state = self.overdue.state(topic);
                self.known.insert(topic.to_owned(), state);
                state
            }
        };
        let within = match state {
            State::Well => PUBLISH_WITHIN,
            State::Late | State::Full => PUBLISH_WITHIN_WHEN_LATE,
        };
        (state, within)
    }
}

fn classify(error: &RdError, topic: &str) -> BusError {
    use RDKafkaErrorCode::{
        ClusterAuthorizationFailed, InvalidTopic, MessageSizeTooLarge, TopicAuthorizationFailed,
        UnknownTopic, UnknownTopicOrPartition,
    };
    match error.rdkafka_error_code() {
        Some(MessageSizeTooLarge) => BusError::TooLarge(format!(
            "topic {topic}: {error}; its setting max.message.bytes says how large one may be"
        )),
        Some(
            UnknownTopic
            | UnknownTopicOrPartition
            | InvalidTopic
            | TopicAuthorizationFailed
            | ClusterAuthorizationFailed,
        ) => {
            let advice = advice_about_topic(error.rdkafka_error_code());
            BusError::Permanent(format!("topic {topic}: {error}{advice}"))
        }
        _ => BusError::Transient(format!("topic {topic}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use rdkafka::mocking::MockCluster;

    use super::*;
    use crate::native;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_producer_that_cannot_go_on_is_replaced() {
        let mock = MockCluster::new(1).expect("a mock cluster");
        mock.create_topic("t", 1, 1).expect("a topic");
        let config = KafkaConfig::new(mock.bootstrap_servers());
        let bus = KafkaBus::new(&config).expect("sound settings");
        let message = Envelope {
            topic: "t".into(),
            key: None,
            value: b"v".to_vec(),
            headers: Vec::new(),
            trace: None,
        };
        let other = bus.clone();
        assert_eq!(bus.publish(vec![message.clone()]).await, [Ok(())]);
        native::end(bus.0.present().client.client());
        assert!(bus.0.present().fatal().is_some());
        assert_eq!(bus.publish(vec![message.clone()]).await, [Ok(())]);
        assert!(other.0.present().fatal().is_none());
        assert_eq!(other.publish(vec![message]).await, [Ok(())]);
    }
}
