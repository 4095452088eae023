//! Checks that a broker answers, and reasons of failures.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError as RdError;

use crate::config::KafkaConfig;
use crate::context::{Context, explain};
use crate::error::{KafkaError, unusable};
use crate::first_token::await_token_for;

/// How long the brokers may take to make topics.
pub(crate) const OPERATION_WITHIN: Duration = Duration::from_secs(10);
/// How long creating topics may take in total, including the time for reaching the brokers.
pub(crate) const REQUEST_WITHIN: Duration = Duration::from_secs(15);
/// Interval between two checks for the reason why no broker answers.
const ASK_WITHIN: Duration = Duration::from_millis(500);
/// Longest search for the reason of a failure.
const REASON_WITHIN: Duration = Duration::from_secs(5);

/// The reason of a failure. An admin client gets no connection events, so another client asks.
pub(crate) async fn why_not(config: &KafkaConfig, error: RdError) -> KafkaError {
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

/// Asks until a broker answers, as [`wait_for_broker`] does, and returns the installation's topics that exist
/// and that the login may see, by their names without its prefix. Blocks the thread as long as that function does.
///
/// # Errors
/// [`KafkaError::Unreachable`] or [`KafkaError::Login`], with the addresses that were tried, or
/// [`KafkaError::Settings`] if librdkafka refuses the settings.
pub fn topics_seen(config: &KafkaConfig, within: Duration) -> Result<BTreeSet<String>, KafkaError> {
    let client: BaseConsumer<Context> = config
        .client(&[("group.id", "triad-reader")])
        .create_with_context(config.context())
        .map_err(|e| unusable(&e))?;
    let ends = Instant::now() + within;
    await_token_for(&client, within);
    loop {
        let left = ends.saturating_duration_since(Instant::now());
        let error = match client.fetch_metadata(None, left.min(ASK_WITHIN)) {
            Ok(seen) => {
                let names = seen.topics().iter().map(|t| t.name());
                let ours = names.filter_map(|name| name.strip_prefix(&*config.prefix));
                return Ok(ours.map(str::to_owned).collect());
            }
            Err(error) => error,
        };
        let reason = explain(&client, &config.brokers, &error);
        if matches!(reason, KafkaError::Login { .. }) || left <= ASK_WITHIN {
            return Err(reason);
        }
    }
}
