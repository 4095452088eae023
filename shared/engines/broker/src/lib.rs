//! A small single-node broker that speaks the Kafka protocol, for local runs and tests.
//!
//! It is Kafka-protocol-compatible, for one machine; production runs on Kafka. Clients that write
//! the current record format (that of Kafka 0.11 and later) can produce, fetch, use consumer groups
//! of the classic protocol, and administer topics; the tests do so with librdkafka and
//! kafka-python. There are no transactions, no replication, no authorization, no log compaction.
//!
//! Clients of the plain listener need a login where one is set; a second one can ask for TLS, client certificates,
//! SCRAM or tokens ([`SecuredListener`]).
//!
//! | module | owns |
//! |---|---|
//! | `server` | connections, TLS, the login gate |
//! | `sasl` | users, tokens, and the mechanisms' messages |
//! | `apis` | one handler a request |
//! | `group` | the group state machine and committed offsets |
//! | `log` | durability: write-ahead log, segments, checkpoints, recovery |
//! | `in_process` | the client for the process that the broker runs in |
//! | `core` | the state, and the requests that wait |
//!
//! | asked for | answer |
//! |---|---|
//! | Produce (acks 0, 1, all; idempotent), InitProducerId, Fetch, ListOffsets, OffsetForLeaderEpoch | served |
//! | groups: Find, Join, Sync, Heartbeat, Leave, List, Describe, Delete; OffsetCommit, Fetch, Delete | served |
//! | Metadata, DescribeCluster, DescribeConfigs, Create/DeleteTopics, CreatePartitions | served |
//! | a transactional id | `TRANSACTIONAL_ID_AUTHORIZATION_FAILED`, which clients take as final |
//! | record formats before magic 2 | `UNSUPPORTED_FOR_MESSAGE_FORMAT` |
//! | SaslHandshake 1, SaslAuthenticate | served by a secured listener with SASL, and not offered otherwise |
//! | fetch sessions | answered with session 0: the client sends its whole request each time |
//! | `cleanup.policy=compact` | accepted and shown, without effect |
//! | `retention.ms`, `retention.bytes`, `segment.bytes`, `max.message.bytes` of a topic | effective |
//! | a timestamp within a compressed batch | the batch's first offset |
//! | any other API | not offered by ApiVersions; a request closes the connection |
//!
//! A group's committed offsets are durable, its membership is not: after a restart the members
//! join again, as after any lost session.
//!
//! Each bound on memory or disk is a field of [`BrokerConfig`] or a constant with the word "Bound"
//! in its comment. Unix only, because of positioned reads.

mod apis;
mod broker;
mod config;
mod core;
mod error;
mod group;
mod in_process;
mod log;
mod offsets;
mod sasl;
mod server;
mod wire;

pub use broker::{Broker, BrokerHandle};
pub use config::{BrokerConfig, FlushPolicy, SecuredListener};
pub use error::Error;
pub use in_process::{
    Attending, Committing, InProcessClient, LineError, PartitionBatch, PartitionRead, PendingRead,
    Position, ReadRequest, TopicShape,
};
pub use log::flusher::Flush;
pub use sasl::msk::MskTokenForm;
pub use sasl::{Grant, SaslConfig, TokenCheck, TokenRefused};
