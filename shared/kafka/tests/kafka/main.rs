//! Kafka under the loops, over real brokers: the contract of a bus, its bounds, and what others may write.

mod bounds;
mod contract;
mod foreign;
