//! The bus on Kafka, and the worker that consumes from it.
//!
//! Owns: client settings, sending and its acknowledgement, the consumer loops with manual
//! commits, topic administration, reading topics to their end. It knows nothing of orders.
//!
//! Architecture invariant: rdkafka's types do not leave this crate.

mod admin;
mod bus;
mod config;
mod consumer;
mod reader;
mod worker;

pub use admin::{Topic, create_topics, wait_for_broker};
pub use bus::KafkaBus;
pub use config::{KafkaConfig, KafkaError};
pub use reader::{Read, Reader, ReaderStart};
pub use worker::{WorkerConfig, run_batches, run_stream};
