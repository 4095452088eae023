//! Kafka under the loops, over real brokers: the contract of a bus, its bounds, and foreign records.

mod bounds;
mod contract;
mod foreign;
