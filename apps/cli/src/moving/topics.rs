//! Unhandled messages of topics.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, Result};
use triad_broker::{BrokerHandle, Flush, InProcessClient, Position};
use triad_core::{Envelope, topics};
use triad_kafka::{HeldRecords, KafkaBus, KafkaConfig, Topic, create_topics, topics_seen};
use triad_operator::moving::TOPICS;
use triad_runtime::{Bus as _, InputRecord};

/// Longest wait for one answer of a broker.
const ANSWER: Duration = Duration::from_secs(5);
/// Messages in one batch.
const BATCH: usize = 500;

/// The existing topics among those whose messages are moved.
///
/// # Errors
/// If no broker answers.
pub async fn moved(kafka: &KafkaConfig) -> Result<Vec<&'static str>> {
    let there = existing_topics(kafka).await?;
    Ok(TOPICS.into_iter().filter(|t| there.contains(*t)).collect())
}

async fn existing_topics(kafka: &KafkaConfig) -> Result<BTreeSet<String>> {
    let kafka = kafka.clone();
    // `topics_seen` blocks.
    let look = tokio::task::spawn_blocking(move || topics_seen(&kafka, ANSWER));
    Ok(look.await.context("nothing was done")??)
}

/// The records of a topic that its consumer group has not committed.
///
/// # Errors
/// If no broker answers, or there is no such topic.
pub async fn untaken(kafka: &KafkaConfig, topic: &str) -> Result<HeldRecords> {
    let group = topics::group(&kafka.prefix, topic);
    let (kafka, topic) = (kafka.clone(), topic.to_owned());
    // `HeldRecords::unread` blocks.
    let open = move || HeldRecords::unread(&kafka, &topic, &group, ANSWER);
    let opened = tokio::task::spawn_blocking(open).await;
    Ok(opened.context("nothing was done")??)
}

/// Copies unhandled records to another broker in this process: of the topics that handlers read those that are not
/// committed, of the dead letters all. The new topics have the same partitions and continue with the original
/// offsets: a dead letter is named after the offset of its record, and no other record may get that offset. Returns
/// the number of records.
///
/// # Errors
/// If one of the brokers does not answer, or takes no record.
pub async fn copy(
    from: &KafkaConfig,
    to: &BrokerHandle,
    mut progress: impl FnMut(u64),
) -> Result<u64> {
    let there = existing_topics(from).await?;
    let (line, to) = (to.line(), KafkaConfig::new(to.addr().to_string()));
    let bus = KafkaBus::new(&to)?;
    let mut copied = 0;
    for topic in there.iter().filter(|topic| is_copied(topic)) {
        let mut held = match topic.as_str() {
            topics::DEAD_LETTER => HeldRecords::open(from, topic, None, None, ANSWER)?,
            _ => untaken(from, topic).await?,
        };
        let partitions = i32::try_from(held.partitions()).unwrap_or(i32::MAX);
        let name = topic.clone();
        create_topics(&to, &[Topic { name, partitions }]).await?;
        go_on(&line, topic, held.next_offsets()).await?;
        loop {
            let batch = next(&mut held).await?;
            if batch.is_empty() {
                break;
            }
            copied += batch.len() as u64;
            let sent = bus.publish(batch).await;
            sent.into_iter().collect::<Result<Vec<()>, _>>()?;
            progress(copied);
        }
    }
    Ok(copied)
}

/// Starts a new topic's partitions at these offsets, and the handlers' group, too.
async fn go_on(line: &InProcessClient, topic: &str, next: &BTreeMap<i32, i64>) -> Result<()> {
    line.begin_at(topic, next).await?;
    if topic == topics::DEAD_LETTER {
        return Ok(());
    }
    let positions = next.iter().map(|(partition, offset)| Position {
        partition: *partition,
        offset: *offset,
    });
    let group = topics::group("", topic);
    let committing = line.commit(&group, topic, positions.collect(), Flush::Now)?;
    Ok(committing.wait(ANSWER)?)
}

fn is_copied(topic: &str) -> bool {
    topics::is_input(topic) || topic == topics::DEAD_LETTER
}

async fn next(held: &mut HeldRecords) -> Result<Vec<Envelope>> {
    let mut batch = Vec::new();
    while batch.len() < BATCH {
        match held.next().await? {
            Some(record) => batch.push(message(record)),
            None => break,
        }
    }
    Ok(batch)
}

fn message(record: InputRecord) -> Envelope {
    Envelope {
        topic: record.topic,
        key: record.key,
        value: record.value.unwrap_or_default(),
        headers: record.headers,
        trace: None,
    }
}
