//! The bus on Kafka, and the worker that consumes from it.
//!
//! Owns: client settings, sending and its acknowledgement, the consumer loops with manual
//! commits, topic administration, reading topics to their end. It knows nothing of orders.
//!
//! Architecture invariant: rdkafka's types do not leave this crate.

mod admin;
mod aside;
mod batches;
mod bus;
mod config;
mod consumer;
mod context;
mod error;
mod events;
mod first_token;
mod groups;
mod held;
mod lanes;
mod login;
mod member;
mod native;
mod overdue;
mod progress;
mod reader;
mod retry;
mod roots;
mod skip;
mod source;
mod stall;
mod stream;
mod stuck;
mod tokens;
mod watch;

pub use admin::{Topic, create_topics, topics_seen, wait_for_broker};
pub use aside::{HANDLER_PANICKED, MAX_PANICS};
pub use batches::run_batches;
pub use bus::{KafkaBus, PUBLISH_WITHIN, PUBLISH_WITHIN_WHEN_LATE};
pub use config::KafkaConfig;
pub use context::REASON_WITHIN;
pub use error::{KafkaError, no_topic};
pub use groups::group_members;
pub use held::HeldRecords;
pub use lanes::{LONGEST_YIELD, WorkerConfig};
pub use login::{Credentials, Login};
pub use member::Member;
pub use reader::{Read, Reader, ReaderStart};
pub use stream::run_stream;
pub use tokens::{Token, TokenSource};
