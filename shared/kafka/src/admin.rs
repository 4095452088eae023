//! Topics, and whether anybody is there.

use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::consumer::{Consumer, StreamConsumer};
use rdkafka::error::RDKafkaErrorCode;

use crate::config::{KafkaConfig, KafkaError};
use crate::login::{Context, await_token};

/// A topic to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    /// Its name.
    pub name: String,
    /// Its partitions.
    pub partitions: i32,
}

/// Makes the topics that are missing.
///
/// # Errors
/// [`KafkaError`] of the first topic that could not be made.
pub async fn create_topics(config: &KafkaConfig, topics: &[Topic]) -> Result<(), KafkaError> {
    let admin: AdminClient<Context> = config
        .client(&[])
        .create_with_context(config.login.context())
        .map_err(|e| KafkaError::Settings(e.to_string()))?;
    let new: Vec<NewTopic<'_>> = topics
        .iter()
        .map(|t| NewTopic::new(&t.name, t.partitions, TopicReplication::Fixed(-1)))
        .collect();
    let options = AdminOptions::new().operation_timeout(Some(Duration::from_secs(10)));
    let results =
        admin
            .create_topics(&new, &options)
            .await
            .map_err(|e| KafkaError::Unreachable {
                brokers: config.brokers.clone(),
                reason: e.to_string(),
            })?;
    for result in results {
        match result {
            Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
            Err((topic, code)) => {
                return Err(KafkaError::Refused(format!("topic {topic}: {code}")));
            }
        }
    }
    Ok(())
}

/// Asks for the cluster's metadata once, blocking for at most `within`.
///
/// # Errors
/// [`KafkaError::Unreachable`] with the addresses that were tried.
pub fn wait_for_broker(config: &KafkaConfig, within: Duration) -> Result<(), KafkaError> {
    let client: StreamConsumer<Context> = config
        .client(&[("group.id", "triad-reader")])
        .create_with_context(config.login.context())
        .map_err(|e| KafkaError::Settings(e.to_string()))?;
    await_token(&client);
    client
        .fetch_metadata(None, within)
        .map(|_| ())
        .map_err(|e| KafkaError::Unreachable {
            brokers: config.brokers.clone(),
            reason: e.to_string(),
        })
}
