//! The Kafka port of one machine: a single node that speaks the Kafka protocol over topics of a
//! [store](triad_sqlite::topics).
//!
//! Clients that write the current record format (that of Kafka 0.11 and later) can produce, fetch, use consumer groups
//! of the classic protocol, and administer topics; the tests do so with librdkafka and kafka-python. There are no
//! transactions, no replication, no authorization, no log compaction.
//!
//! Clients of the plain listener need a login where one is set; a second one can ask for TLS, client certificates,
//! SCRAM or tokens ([`SecuredListener`]).
//!
//! | module | owns |
//! |---|---|
//! | `server` | connections, TLS, the login gate |
//! | `sasl` | users, tokens, and the mechanisms' messages |
//! | `apis` | one handler a request |
//! | `batch` | record batches, read and written |
//! | `group` | the group state machine |
//! | `core` | the shared state, and the requests that wait for a group |
//!
//! | asked for | answer |
//! |---|---|
//! | Produce (acks 0, 1, all; idempotent), InitProducerId, Fetch, ListOffsets, OffsetForLeaderEpoch | served |
//! | groups: Find, Join, Sync, Heartbeat, Leave, List, Describe, Delete; OffsetCommit, Fetch, Delete | served |
//! | Metadata, DescribeCluster, DescribeConfigs, Create/DeleteTopics, CreatePartitions | served |
//! | a transactional id | `TRANSACTIONAL_ID_AUTHORIZATION_FAILED`, which clients take as final |
//! | record formats before magic 2 | `UNSUPPORTED_FOR_MESSAGE_FORMAT` |
//! | SaslHandshake 1, SaslAuthenticate | served by a listener with SASL, and not offered otherwise |
//! | fetch sessions | answered with session 0: the client sends its whole request each time |
//! | `cleanup.policy=compact` | accepted and shown, without effect |
//! | `retention.ms`, `retention.bytes`, `max.message.bytes` of a topic | effective |
//! | any other API | not offered by ApiVersions; a request closes the connection |
//!
//! A group's committed offsets are durable, its membership is not: after a restart the members join again, as after
//! any lost session.
//!
//! Each bound on memory is a field of [`BrokerConfig`] or a constant with the word "Bound" in its comment.

mod apis;
mod batch;
mod broker;
mod config;
mod core;
mod error;
mod group;
mod sasl;
mod server;
mod wire;

pub use broker::{Broker, BrokerHandle};
pub use config::{BrokerConfig, SecuredListener, TopicsIn};
pub use error::Error;
pub use sasl::msk::MskTokenForm;
pub use sasl::{Grant, SaslConfig, TokenCheck, TokenRefused};
