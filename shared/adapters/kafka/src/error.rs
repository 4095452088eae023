//! Errors between a client and the brokers.

use rdkafka::error::KafkaError as RdError;
use rdkafka::types::{RDKafkaConfRes, RDKafkaErrorCode};

/// Why a Kafka client cannot be made or used.
#[derive(Debug, Clone, thiserror::Error)]
pub enum KafkaError {
    /// A setting does not exist or has a value that librdkafka refuses. The text names the setting
    /// and never its value.
    #[error(
        "the Kafka client's settings are wrong: {0}; they are those of --kafka-setting or TRIAD_KAFKA_SETTINGS and the credentials"
    )]
    Settings(String),
    /// No broker answers in time, or a request to the brokers fails for a reason that is neither a login nor a
    /// refusal.
    #[error("no Kafka broker answers at {brokers}: {reason}")]
    Unreachable {
        /// The bootstrap addresses that were tried.
        brokers: String,
        /// The reason, in the client's words.
        reason: String,
    },
    /// A broker is there, but certificates or credentials are wrong, or there is no token.
    #[error("cannot log in to Kafka at {brokers}: {reason}")]
    Login {
        /// The bootstrap addresses that were tried.
        brokers: String,
        /// Why the login failed, in the client's words.
        reason: String,
    },
    /// A broker answered with a refusal, such as that there is no such topic; the text says which.
    #[error("Kafka refused: {0}")]
    Refused(String),
    /// A client has met an error after which it cannot be used any more, such as that another member has its name.
    /// The caller must start a new client.
    #[error("the Kafka client has failed and cannot be used any more: {0}")]
    Fatal(String),
}

/// Makes the error that says that the topic does not exist at the addresses `brokers`, or that the login may
/// not see it: a [`KafkaError::Refused`] that says what to do.
#[must_use]
pub fn no_topic(topic: &str, brokers: &str) -> KafkaError {
    KafkaError::Refused(format!(
        "there is no topic {topic} at {brokers}, or this login may not see it; `triad init` makes the topics"
    ))
}

/// The next step for a topic that the brokers refuse; empty if none is known.
pub(crate) fn advice_about_topic(code: Option<RDKafkaErrorCode>) -> &'static str {
    use RDKafkaErrorCode::{
        ClusterAuthorizationFailed, InvalidTopic, PolicyViolation, TopicAuthorizationFailed,
        UnknownTopic, UnknownTopicOrPartition,
    };
    match code {
        Some(UnknownTopic | UnknownTopicOrPartition) => "; `triad init` makes the topics",
        Some(InvalidTopic) => "; a topic has no such name",
        Some(TopicAuthorizationFailed) => {
            "; who logs in needs the rights to write to it, to read it and to describe it"
        }
        Some(ClusterAuthorizationFailed) => {
            "; who logs in needs the right to make topics, and that of idempotent writes, on the cluster"
        }
        Some(PolicyViolation) => "; the cluster's policy for new topics does not allow it",
        _ => "",
    }
}

/// A refusal of the brokers about a topic.
pub(crate) fn of_topic(topic: &str, error: &RdError) -> KafkaError {
    let advice = advice_about_topic(error.rdkafka_error_code());
    KafkaError::Refused(format!("topic {topic}: {error}{advice}"))
}

/// The error if librdkafka refuses to make a client. Its own text quotes the value of a setting, so it is not used.
pub(crate) fn unusable(error: &RdError) -> KafkaError {
    KafkaError::Settings(match error {
        RdError::ClientConfig(RDKafkaConfRes::RD_KAFKA_CONF_UNKNOWN, _, name, _) => {
            format!("{name}: there is no such setting")
        }
        RdError::ClientConfig(_, _, name, _) => {
            format!("{name}: its value is not valid for this setting")
        }
        other => other.to_string(),
    })
}
