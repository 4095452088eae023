//! Sending, and waiting until the broker has acknowledged.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use rdkafka::error::{KafkaError as RdError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::future_producer::DeliveryFuture;
use rdkafka::producer::{FutureProducer, FutureRecord, Producer};
use triad_core::Envelope;
use triad_runtime::{Bus, BusError};

use crate::config::{KafkaConfig, KafkaError, unusable};
use crate::context::Context;
use crate::tokens::Tokens;

/// Bound: messages that wait to be sent in one process.
const QUEUE_MESSAGES: &str = "100000";
/// Bound: kilobytes that wait to be sent in one process.
const QUEUE_KBYTES: &str = "65536";
/// Tries to put a message into a full queue, and the wait between them.
const FULL_QUEUE_TRIES: u32 = 200;
const FULL_QUEUE_WAIT: Duration = Duration::from_millis(5);

/// The bus on Kafka: an idempotent producer with the Java clients' partitioner.
#[derive(Clone)]
pub struct KafkaBus {
    producer: FutureProducer<Context>,
    tokens: Option<Arc<Tokens>>,
}

impl KafkaBus {
    /// Makes the producer. It connects by itself and keeps trying.
    ///
    /// # Errors
    /// [`KafkaError::Settings`] if librdkafka refuses the settings.
    pub fn new(config: &KafkaConfig) -> Result<Self, KafkaError> {
        let context = config.login.context();
        let tokens = context.tokens.clone();
        let producer = config
            .client(&[
                ("enable.idempotence", "true"),
                ("acks", "all"),
                // What a message waits for company: nothing. Batches form while others are sent.
                ("linger.ms", "0"),
                ("partitioner", "murmur2_random"),
                // Never given up: a message that timed out while a later one of its partition got
                // through would break the order of an order's statuses. A broker that is away is
                // met by waiting; who must not wait puts a bound around the whole publish.
                ("message.timeout.ms", "0"),
                ("queue.buffering.max.messages", QUEUE_MESSAGES),
                ("queue.buffering.max.kbytes", QUEUE_KBYTES),
            ])
            .create_with_context(context)
            .map_err(|e: RdError| unusable(&e))?;
        Ok(Self { producer, tokens })
    }

    /// Waits until all that was sent is acknowledged or has failed.
    pub fn flush(&self, within: Duration) {
        if let Err(e) = self.producer.flush(within) {
            tracing::warn!(error = %e, "messages were left unsent");
        }
    }

    async fn enqueue(&self, message: &Envelope) -> Result<DeliveryFuture, BusError> {
        for _ in 0..FULL_QUEUE_TRIES {
            let mut record: FutureRecord<'_, Vec<u8>, Vec<u8>> =
                FutureRecord::to(&message.topic).payload(&message.value);
            if let Some(key) = &message.key {
                record = record.key(key);
            }
            if !message.headers.is_empty() {
                let empty = OwnedHeaders::new_with_capacity(message.headers.len());
                let headers = message.headers.iter().fold(empty, |all, (key, value)| {
                    all.insert(Header {
                        key,
                        value: value.as_ref(),
                    })
                });
                record = record.headers(headers);
            }
            match self.producer.send_result(record) {
                Ok(delivery) => return Ok(delivery),
                Err((RdError::MessageProduction(RDKafkaErrorCode::QueueFull), _)) => {
                    tokio::time::sleep(FULL_QUEUE_WAIT).await;
                }
                Err((e, _)) => return Err(classify(&e)),
            }
        }
        Err(BusError::Transient("the producer's queue is full".into()))
    }
}

impl Bus for KafkaBus {
    async fn publish(&self, messages: Vec<Envelope>) -> Vec<Result<(), BusError>> {
        if let Some(tokens) = &self.tokens {
            tokens.fresh().await;
        }
        let mut sent = Vec::with_capacity(messages.len());
        for message in &messages {
            sent.push(self.enqueue(message).await);
        }
        join_all(sent.into_iter().map(|delivery| async {
            match delivery?.await {
                Ok(Ok(_)) => Ok(()),
                Ok(Err((e, _))) => Err(classify(&e)),
                Err(_) => Err(BusError::Transient("the producer has stopped".into())),
            }
        }))
        .await
    }
}

fn classify(error: &RdError) -> BusError {
    let text = error.to_string();
    match error.rdkafka_error_code() {
        Some(RDKafkaErrorCode::MessageSizeTooLarge) => BusError::TooLarge(text),
        Some(
            RDKafkaErrorCode::UnknownTopic
            | RDKafkaErrorCode::UnknownTopicOrPartition
            | RDKafkaErrorCode::InvalidTopic
            | RDKafkaErrorCode::TopicAuthorizationFailed
            | RDKafkaErrorCode::ClusterAuthorizationFailed,
        ) => BusError::Permanent(text),
        _ => BusError::Transient(text),
    }
}
