//! Topic administration, and checks that a broker answers.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError as RdError, RDKafkaErrorCode};

use crate::config::KafkaConfig;
use crate::context::{Context, explain};
use crate::error::{KafkaError, advice_about_topic, unusable};
use crate::first_token::{await_token_for, give_token};

/// How long the brokers may take to make topics.
const OPERATION_WITHIN: Duration = Duration::from_secs(10);
/// How long creating topics may take in total, including the time for reaching the brokers.
const REQUEST_WITHIN: Duration = Duration::from_secs(15);
/// Interval between two checks for the reason why no broker answers.
const ASK_WITHIN: Duration = Duration::from_millis(500);
/// Longest search for the reason of a failure.
const REASON_WITHIN: Duration = Duration::from_secs(5);

/// A topic that [`create_topics`] is to create: its name and its number of partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    /// The topic's name.
    pub name: String,
    /// How many partitions it is to have; 1 or more.
    pub partitions: i32,
}

/// Creates the topics that are missing, with the brokers' default replication. A topic that exists is left as
/// it is, whatever number of partitions it has. Takes at most about 20 s.
///
/// # Errors
/// [`KafkaError::Refused`] for the first topic that cannot be created (others may be created);
/// [`KafkaError::Settings`], [`KafkaError::Unreachable`] or [`KafkaError::Login`] if the brokers
/// cannot be asked.
pub async fn create_topics(config: &KafkaConfig, topics: &[Topic]) -> Result<(), KafkaError> {
    let admin: AdminClient<Context> = config
        .client(&[])
        .create_with_context(config.login.context())
        .map_err(|e| unusable(&e))?;
    let new: Vec<NewTopic<'_>> = topics
        .iter()
        .map(|t| NewTopic::new(&t.name, t.partitions, TopicReplication::Fixed(-1)))
        .collect();
    give_token(admin.inner(), &config.brokers)?;
    let options = AdminOptions::new()
        .operation_timeout(Some(OPERATION_WITHIN))
        .request_timeout(Some(REQUEST_WITHIN));
    let results = match admin.create_topics(&new, &options).await {
        Ok(results) => results,
        Err(error) => return Err(why_not(config, error).await),
    };
    for result in results {
        match result {
            Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
            Err((topic, code)) => {
                let advice = advice_about_topic(Some(code));
                return Err(KafkaError::Refused(format!(
                    "topic {topic} cannot be made: {code}{advice}"
                )));
            }
        }
    }
    Ok(())
}

/// The reason of a failure. An admin client gets no connection events, so another client asks.
async fn why_not(config: &KafkaConfig, error: RdError) -> KafkaError {
    let (brokers, config) = (config.brokers.clone(), config.clone());
    let look = tokio::task::spawn_blocking(move || wait_for_broker(&config, REASON_WITHIN));
    match look.await {
        Ok(Err(reason)) => reason,
        _ => KafkaError::Unreachable {
            brokers,
            reason: error.to_string(),
        },
    }
}

/// Asks for the cluster's metadata until a broker answers. Blocks the thread for at most `within`, and then
/// for [`REASON_WITHIN`](crate::REASON_WITHIN) at most to find out why no broker answers. It ends at once if
/// the brokers refuse the login.
///
/// # Errors
/// [`KafkaError::Unreachable`] or [`KafkaError::Login`], with the addresses that were tried, or
/// [`KafkaError::Settings`] if librdkafka refuses the settings.
pub fn wait_for_broker(config: &KafkaConfig, within: Duration) -> Result<(), KafkaError> {
    topics_seen(config, within).map(drop)
}

/// Asks until a broker answers, as [`wait_for_broker`] does, and returns the names of the topics that exist
/// and that the login may see. Blocks the thread as long as that function does.
///
/// # Errors
/// [`KafkaError::Unreachable`] or [`KafkaError::Login`], with the addresses that were tried, or
/// [`KafkaError::Settings`] if librdkafka refuses the settings.
pub fn topics_seen(config: &KafkaConfig, within: Duration) -> Result<BTreeSet<String>, KafkaError> {
    let client: BaseConsumer<Context> = config
        .client(&[("group.id", "triad-reader")])
        .create_with_context(config.login.context())
        .map_err(|e| unusable(&e))?;
    let ends = Instant::now() + within;
    await_token_for(&client, within);
    loop {
        let left = ends.saturating_duration_since(Instant::now());
        let error = match client.fetch_metadata(None, left.min(ASK_WITHIN)) {
            Ok(seen) => return Ok(seen.topics().iter().map(|t| t.name().to_owned()).collect()),
            Err(error) => error,
        };
        let reason = explain(&client, &config.brokers, &error);
        if matches!(reason, KafkaError::Login { .. }) || left <= ASK_WITHIN {
            return Err(reason);
        }
    }
}
