//! Client settings.

use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;

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
#[derive(Debug, Clone, Default)]
pub struct KafkaConfig {
    /// Bootstrap addresses, `host:port`, comma-separated.
    pub brokers: String,
    /// How to log in.
    pub login: Login,
    /// Further settings of librdkafka, by its own names. They win.
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
