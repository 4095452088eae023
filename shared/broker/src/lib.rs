//! A small single-node broker that speaks the Kafka protocol, for local runs and tests.
//!
//! It is Kafka-protocol-compatible, for one machine; production runs on Kafka. Any client that
//! speaks Kafka 2.1 or later can produce (idempotently, too), fetch, use consumer groups of the
//! classic protocol, and administer topics. There are no transactions, no replication, no
//! authentication, no log compaction.
//!
//! | module | owns |
//! |---|---|
//! | `server` | connections, frames, what a request must look like |
//! | `apis` | one handler a request |
//! | `group` | the group state machine and committed offsets |
//! | `log` | durability: write-ahead log, segments, checkpoints, recovery |
//! | `core` | the state of it all, and who waits for what |
//!
//! Each bound on memory or disk is a field of [`BrokerConfig`] or a constant with the word "Bound"
//! in its comment. Unix only, because of positioned reads.

mod apis;
mod broker;
mod config;
mod core;
mod error;
mod group;
mod log;
mod server;

pub use broker::{Broker, BrokerHandle};
pub use config::{BrokerConfig, FlushPolicy};
pub use error::Error;
