//! The bus on Kafka, and the worker that consumes from it.
//!
//! Owns: client settings, sending and its acknowledgement, the consumer loops with manual
//! commits, topic administration, reading topics to their end. It knows nothing of orders.
//!
//! Architecture invariant: rdkafka's types do not leave this crate.

mod admin;
mod batches;
mod bus;
mod config;
mod consumer;
mod context;
mod held;
mod lanes;
mod login;
mod member;
mod progress;
mod reader;
mod retry;
mod roots;
mod stream;
mod tokens;

pub use admin::{Topic, create_topics, wait_for_broker};
pub use batches::run_batches;
pub use bus::KafkaBus;
pub use config::{KafkaConfig, KafkaError};
pub use held::HeldRecords;
pub use lanes::{LONGEST_YIELD, WorkerConfig};
pub use login::{Credentials, Login};
pub use member::Member;
pub use reader::{Read, Reader, ReaderStart};
pub use stream::run_stream;
pub use tokens::{Token, TokenSource};
