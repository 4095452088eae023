//! Writes and reads records as any Kafka client can.

use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use triad_kafka::{KafkaConfig, Polled, Reader, ReaderStart};
use triad_runtime::InputRecord;

use crate::poll::PATIENCE;

/// Longest wait for one answer of a broker.
const ANSWER: Duration = Duration::from_secs(20);

/// A record to write, with arbitrary bytes.
#[derive(Debug, Clone, Default)]
pub struct Raw {
    /// Topic.
    pub topic: String,
    /// Key, if it has one.
    pub key: Option<Vec<u8>>,
    /// Value; `None` is a tombstone.
    pub value: Option<Vec<u8>>,
    /// Headers.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

/// Position of a record: topic, partition, offset.
pub type Place = (String, i32, i64);

/// Writes records in order and returns their positions.
///
/// # Panics
/// If the broker refuses one.
pub async fn write(brokers: &str, records: &[Raw]) -> Vec<Place> {
    write_with(&producer(brokers), records).await
}

/// A producer that can be used for several calls of [`write_with`].
///
/// # Panics
/// If its settings are invalid.
pub fn producer(brokers: &str) -> FutureProducer {
    ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("partitioner", "murmur2_random")
        .set("message.max.bytes", "4000000")
        .set("enable.idempotence", "true")
        .create()
        .expect("the settings are sound")
}

/// Like [`write()`], with an existing producer.
///
/// # Panics
/// If the broker refuses a record.
pub async fn write_with(producer: &FutureProducer, records: &[Raw]) -> Vec<Place> {
    let mut deliveries = Vec::with_capacity(records.len());
    for raw in records {
        let mut record: FutureRecord<'_, Vec<u8>, Vec<u8>> = FutureRecord::to(&raw.topic);
        if let Some(key) = &raw.key {
            record = record.key(key);
        }
        if let Some(value) = &raw.value {
            record = record.payload(value);
        }
        if !raw.headers.is_empty() {
            let headers = raw
                .headers
                .iter()
                .fold(OwnedHeaders::new(), |all, (key, value)| {
                    all.insert(Header {
                        key,
                        value: value.as_ref(),
                    })
                });
            record = record.headers(headers);
        }
        let sent = producer.send_result(record);
        deliveries.push((&raw.topic, sent.map_err(|(e, _)| e).expect("it is queued")));
    }
    let mut places = Vec::with_capacity(deliveries.len());
    for (topic, delivery) in deliveries {
        let delivered = delivery.await.expect("the producer lives");
        let delivered = delivered.map_err(|(e, _)| e).expect("the broker takes it");
        places.push((topic.clone(), delivered.partition, delivered.offset));
    }
    places
}

/// Opens topics at their beginning.
///
/// # Panics
/// If the broker does not answer.
pub fn open(brokers: &str, topics: &[&str]) -> Reader {
    let config = KafkaConfig::new(brokers);
    Reader::open(&config, topics, ReaderStart::Beginning, ANSWER).expect("the topics can be read")
}

/// Reads topics from their beginning until `enough` returns true.
///
/// # Panics
/// If that does not happen in time, with the number of records read.
pub async fn read_until(
    brokers: &str,
    topics: &[&str],
    enough: impl Fn(&[InputRecord]) -> bool,
) -> Vec<InputRecord> {
    let reader = open(brokers, topics);
    let began = Instant::now();
    let mut records = Vec::new();
    while !enough(&records) {
        assert!(
            began.elapsed() < PATIENCE,
            "{} records of {topics:?} are not enough",
            records.len()
        );
        if let Polled::Record(record) = reader.next(Duration::from_millis(200)).await {
            records.push(record);
        }
    }
    records
}

/// Reads all records that the topics contain now.
///
/// # Panics
/// If the broker does not answer, or if a record does not arrive.
pub async fn read_all(brokers: &str, topics: &[&str]) -> Vec<InputRecord> {
    let client: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .create()
        .expect("the settings are sound");
    let mut held = 0;
    for topic in topics {
        let metadata = client
            .fetch_metadata(Some(topic), ANSWER)
            .expect("the broker answers");
        for partition in metadata.topics().iter().flat_map(|t| t.partitions()) {
            let marks = client.fetch_watermarks(topic, partition.id(), ANSWER);
            let (low, high) = marks.expect("the broker answers");
            held += usize::try_from(high - low).expect("offsets grow");
        }
    }
    read_until(brokers, topics, |records| records.len() >= held).await
}

/// A header's value as text.
pub fn header<'a>(record: &'a InputRecord, name: &str) -> Option<&'a str> {
    let (_, value) = record.headers.iter().find(|(n, _)| n == name)?;
    std::str::from_utf8(value.as_deref()?).ok()
}
