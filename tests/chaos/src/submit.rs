//! Sends the load, with a limit on the orders under way.

use std::time::Duration;

use anyhow::{Context, Result};
use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{DeliveryFuture, FutureProducer, FutureRecord};
use tokio::sync::watch;
use triad_runtime::dead_letter::LetterId;

use super::load::{Sort, Submission};
use triad_tests::topics::Raw;

/// How long the producer retries a record before it counts as not sent: longer than the broker is ever stopped.
const DELIVERY: Duration = Duration::from_secs(300);

/// A record that the broker has acknowledged.
#[derive(Debug, Clone)]
pub struct Sent {
    /// What was sent.
    pub submission: Submission,
    /// Position of the record.
    pub place: LetterId,
}

/// Sends the whole load, or the part before `ended` closes. At most `in_flight` orders have been sent and have not
/// ended.
///
/// # Errors
/// For the first record that was not acknowledged in time; it is unknown whether the broker has stored it.
pub async fn submit(
    brokers: &str,
    load: Vec<Submission>,
    in_flight: usize,
    mut ended: watch::Receiver<usize>,
) -> Result<Vec<Sent>> {
    let producer = producer(brokers)?;
    let mut under_way: Vec<(Submission, DeliveryFuture)> = Vec::with_capacity(load.len());
    let mut orders = 0;
    for submission in load {
        if submission.sort == Sort::Order {
            let room = ended.wait_for(|ended| orders < ended + in_flight);
            if room.await.is_err() {
                // The run no longer counts ended orders, so no more are sent; the checks examine the orders sent so
                // far.
                break;
            }
            orders += 1;
        }
        let delivery = send(&producer, &submission.raw)?;
        under_way.push((submission, delivery));
    }
    let mut sent = Vec::with_capacity(under_way.len());
    for (submission, delivery) in under_way {
        let delivered = delivery.await.context("the producer has ended")?;
        let at = delivered.map_err(|(e, _)| e).with_context(|| {
            let Submission { sort, order, .. } = &submission;
            format!("{sort:?} {order:?} was not acknowledged")
        })?;
        let place = LetterId {
            topic: submission.raw.topic.clone(),
            partition: at.partition,
            offset: at.offset,
        };
        sent.push(Sent { submission, place });
    }
    Ok(sent)
}

fn producer(brokers: &str) -> Result<FutureProducer> {
    ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("partitioner", "murmur2_random")
        .set("message.max.bytes", "4000000")
        .set("enable.idempotence", "true")
        .set("message.timeout.ms", DELIVERY.as_millis().to_string())
        .set("reconnect.backoff.max.ms", "1000")
        .create()
        .context("the producer's settings")
}

fn send(producer: &FutureProducer, raw: &Raw) -> Result<DeliveryFuture> {
    let mut record: FutureRecord<'_, Vec<u8>, Vec<u8>> = FutureRecord::to(&raw.topic);
    if let Some(key) = &raw.key {
        record = record.key(key);
    }
    if let Some(value) = &raw.value {
        record = record.payload(value);
    }
    let headers = raw.headers.iter();
    let headers = headers.fold(OwnedHeaders::new(), |all, (key, value)| {
        let value = value.as_ref();
        all.insert(Header { key, value })
    });
    let sent = producer.send_result(record.headers(headers));
    sent.map_err(|(e, _)| e).context("the producer is full")
}
