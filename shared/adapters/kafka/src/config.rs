//! Client settings.

use std::fmt;

use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;

use crate::context::Context;
use crate::login::Login;
use crate::names;

/// Bounds of one fetch by a consumer, in bytes: of an answer (also librdkafka's bound of a decompressed Zstandard
/// batch), of the requested records, and of those of one partition. A broker sends a whole batch even if it is larger
/// than requested.
const READING: [(&str, &str); 3] = [
    ("receive.message.max.bytes", "33554432"),
    ("fetch.max.bytes", "2097152"),
    ("max.partition.fetch.bytes", "1048576"),
];

/// Where Kafka is, how to log in, and further settings of the client.
#[derive(Clone, Default)]
pub struct KafkaConfig {
    /// Bootstrap addresses: `host:port`, separated by commas.
    pub brokers: String,
    /// What the names of the installation's topics begin with in Kafka. Everywhere else in Triad topics have their names
    /// without it. Default: empty.
    pub prefix: String,
    /// How to log in. The default has neither encryption nor credentials.
    pub login: Login,
    /// Further settings of librdkafka, by its own names (`CONFIGURATION.md` of librdkafka). They
    /// override Triad's own. A value may be a secret: neither `Debug` nor an error shows it.
    pub extra: Vec<(String, String)>,
}

impl fmt::Debug for KafkaConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.extra.iter().map(|(name, _)| &**name).collect();
        f.debug_struct("KafkaConfig")
            .field("brokers", &self.brokers)
            .field("prefix", &self.prefix)
            .field("login", &self.login)
            .field("extra", &names)
            .finish()
    }
}

impl KafkaConfig {
    /// Settings for brokers at these addresses, without login and without further settings.
    #[must_use]
    pub fn new(brokers: impl Into<String>) -> Self {
        Self {
            brokers: brokers.into(),
            prefix: String::new(),
            login: Login::default(),
            extra: Vec::new(),
        }
    }

    /// The name of a topic in Kafka.
    #[must_use]
    pub fn in_kafka(&self, topic: &str) -> String {
        names::with(&self.prefix, topic).into_owned()
    }

    /// The topic with this name in Kafka. A name without the prefix stays as it is.
    #[must_use]
    pub fn topic(&self, name: String) -> String {
        names::without(&self.prefix, name)
    }

    /// What a client of these settings has beside them.
    pub(crate) fn context(&self) -> Context {
        self.login.context(&self.prefix)
    }

    /// Settings of a consumer, with the bounds of a fetch.
    pub(crate) fn reading(&self, ours: &[(&str, &str)]) -> ClientConfig {
        self.client(&[&READING[..], ours].concat())
    }

    /// Settings of a client: Triad's first, then the user's, which override them.
    pub(crate) fn client(&self, ours: &[(&str, &str)]) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.brokers);
        config.set("client.id", "triad");
        // librdkafka logs the reason of a closed connection at this level.
        config.set_log_level(RDKafkaLogLevel::Info);
        // Reconnects within a second after a broker is back.
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
