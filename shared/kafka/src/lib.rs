//! The bus on Kafka: the one crate that sees rdkafka.
