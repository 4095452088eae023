//! What goes wrong between a client and the brokers.

use rdkafka::error::KafkaError as RdError;
use rdkafka::types::RDKafkaConfRes;

/// A Kafka client that cannot be made or asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum KafkaError {
    /// The settings are wrong.
    #[error("the Kafka settings are wrong: {0}")]
    Settings(String),
    /// No broker answers.
    #[error("no Kafka broker answers at {brokers}: {reason}")]
    Unreachable {
        /// The addresses that were tried.
        brokers: String,
        /// Why not.
        reason: String,
    },
    /// A broker is there, and there is no way in: certificates or credentials are wrong.
    #[error("cannot log in to Kafka at {brokers}: {reason}")]
    Login {
        /// The addresses that were tried.
        brokers: String,
        /// Why not, in the client's words.
        reason: String,
    },
    /// A broker answered that it will not.
    #[error("Kafka refused: {0}")]
    Refused(String),
    /// A client has met something after which it cannot be used any more, such as another member
    /// under its name. Who started it has to start it anew.
    #[error("the Kafka client cannot go on: {0}")]
    Fatal(String),
}

/// A client that librdkafka would not make. Its own words quote the value of a setting.
pub(crate) fn unusable(error: &RdError) -> KafkaError {
    KafkaError::Settings(match error {
        RdError::ClientConfig(RDKafkaConfRes::RD_KAFKA_CONF_UNKNOWN, _, name, _) => {
            format!("{name}: there is no such setting")
        }
        RdError::ClientConfig(_, _, name, _) => {
            format!("{name}: its value is none that this setting takes")
        }
        other => other.to_string(),
    })
}
