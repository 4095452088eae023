//! The Kafka adapter over real brokers: the contract of a bus, its time limits, and records that Triad did not write.

mod bounds;
mod contract;
mod foreign;
mod prefix;
