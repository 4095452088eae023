//! A small single-node broker that speaks the Kafka protocol, for local runs and tests.
