//! Unhandled messages of topics.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result};
use triad_core::topics;
use triad_kafka::{HeldRecords, KafkaConfig, topics_seen};
use triad_operator::moving::TOPICS;

/// Longest wait for one answer of a broker.
const ANSWER: Duration = Duration::from_secs(5);

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
