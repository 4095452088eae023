//! The bus on Kafka, and the consumers that read from it.
//!
//! Owns: client settings, publishing and its acknowledgement, group consumers with manual commits for the
//! [loops](triad_consume), topic administration, reading topics to their end. It has no rule about orders.
//!
//! Architecture invariant: rdkafka's types do not leave this crate.

mod admin;
mod broker;
mod bus;
mod config;
mod consumer;
mod context;
mod error;
mod events;
mod first_token;
mod groups;
mod held;
mod login;
mod member;
mod names;
mod native;
mod overdue;
mod reader;
mod root_certificates;
mod skip_unreadable;
mod source;
mod stall;
mod tokens;
mod topics;

pub use admin::{topics_seen, wait_for_broker};
pub use broker::GroupConsumer;
pub use bus::{KafkaBus, PUBLISH_WITHIN, PUBLISH_WITHIN_WHEN_LATE};
pub use config::KafkaConfig;
pub use context::REASON_WITHIN;
pub use error::{KafkaError, no_topic};
pub use groups::group_members;
pub use held::HeldRecords;
pub use login::{Credentials, Login};
pub use member::Member;
pub use reader::{Polled, Reader, ReaderStart};
pub use tokens::{Token, TokenError, TokenSource};
pub use topics::{Topic, TopicDifference, WantedTopic, compare_topics, create_topics, make_topics};
