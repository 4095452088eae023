//! Client settings.

use std::fmt;

use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError as RdError;
use rdkafka::types::RDKafkaConfRes;

use crate::login::Login;

/// Bounds of what a consumer reads at once, in bytes: of an answer, which is librdkafka's bound of a
/// Zstandard batch once it is decompressed, too; of the records that are asked for; and of those of
/// one partition. Of a batch that is larger than it asks for a broker sends all.
const READING: [(&str, &str); 3] = [
    ("receive.message.max.bytes", "33554432"),
    ("fetch.max.bytes", "2097152"),
    ("max.partition.fetch.bytes", "1048576"),
];

/// Where Kafka is, and how to talk to it.
#[derive(Clone, Default)]
pub struct KafkaConfig {
    /// Bootstrap addresses, `host:port`, comma-separated.
    pub brokers: String,
    /// How to log in.
    pub login: Login,
    /// Further settings of librdkafka, by its own names. They win. A value may be a secret:
    /// neither `Debug` nor an error shows it.
    pub extra: Vec<(String, String)>,
}

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

impl fmt::Debug for KafkaConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.extra.iter().map(|(name, _)| &**name).collect();
        f.debug_struct("KafkaConfig")
            .field("brokers", &self.brokers)
            .field("login", &self.login)
            .field("extra", &names)
            .finish()
    }
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

impl KafkaConfig {
    /// Settings for brokers at these addresses.
    #[must_use]
    pub fn new(brokers: impl Into<String>) -> Self {
        Self {
            brokers: brokers.into(),
            login: Login::default(),
            extra: Vec::new(),
        }
    }

    /// A consumer's settings, with the bounds of what is read.
    pub(crate) fn reading(&self, ours: &[(&str, &str)]) -> ClientConfig {
        self.client(&[&READING[..], ours].concat())
    }

    /// A client's settings: ours first, the user's over them.
    pub(crate) fn client(&self, ours: &[(&str, &str)]) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.brokers);
        config.set("client.id", "triad");
        // Why a connection has ended is told at this level.
        config.set_log_level(RDKafkaLogLevel::Info);
        // A broker that comes back is met again within a second.
        config.set("reconnect.backoff.ms", "50");
        config.set("reconnect.backoff.max.ms", "1000");
        for (name, value) in ours {
            config.set(*name, *value);
        }
        self.login.apply(&mut config);
        for (name, value) in &self.extra {
            config.set(name, value);
        }
        config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_a_configuration_nor_an_error_shows_the_value_of_a_setting() {
        for name in ["sasl.password", "security.protocol", "no.such.setting"] {
            let config = KafkaConfig {
                extra: vec![(name.to_owned(), "hidden".to_owned())],
                ..KafkaConfig::new("127.0.0.1:1")
            };
            let shown = format!("{config:?}");
            assert!(shown.contains(name) && !shown.contains("hidden"), "{shown}");
            if let Err(error) = crate::KafkaBus::new(&config) {
                let error = error.to_string();
                assert!(error.contains(name) && !error.contains("hidden"), "{error}");
            } else {
                assert_eq!(name, "sasl.password", "it is refused");
            }
        }
    }
}
