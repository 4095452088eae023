//! Numbers of members of consumer groups.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};

use crate::config::KafkaConfig;
use crate::context::{Context, explain};
use crate::error::{KafkaError, unusable};
use crate::first_token::await_token;

/// How many members each consumer group of the cluster has now, by the group's name. A group without members has 0 or
/// is left out. Every broker is asked for all of its groups. Blocks the thread for at most about `within`, for at
/// most 5 s more for a token if the client logs in with tokens, and for at most
/// [`REASON_WITHIN`](crate::REASON_WITHIN) to find out why no broker answers.
///
/// # Errors
/// [`KafkaError::Unreachable`] or [`KafkaError::Login`] if a broker does not answer in time or refuses the login,
/// [`KafkaError::Settings`] if librdkafka refuses the settings.
pub fn group_members(
    config: &KafkaConfig,
    within: Duration,
) -> Result<BTreeMap<String, usize>, KafkaError> {
    let client: BaseConsumer<Context> = config
        .client(&[("group.id", "triad-reader")])
        .create_with_context(config.context())
        .map_err(|e| unusable(&e))?;
    await_token(&client);
    let groups = client
        .fetch_group_list(None, within)
        .map_err(|e| explain(&client, &config.brokers, &e))?;
    let counted = groups.groups().iter();
    Ok(counted
        .map(|group| (group.name().to_owned(), group.members().len()))
        .collect())
}
