//! The consumer loops of a long-running process: two lanes, the order within a partition, redelivery,
//! dead letters and committed offsets.
//!
//! They run over any [`Broker`]: Kafka, or the log of a single machine. [`Broker`] and [`Consumer`] define a broker's
//! duties; [`run_batches`] and [`run_stream`] define the guarantees for a handler. This crate does not depend on
//! orders.

mod assignment;
mod batches;
mod broker;
mod commits;
mod dead_lettering;
mod error;
mod lanes;
mod polled;
mod progress;
mod retry;
mod stream;
mod stuck;

pub use assignment::{Assignment, Partition};
pub use batches::run_batches;
pub use broker::{Broker, Consumer};
pub use commits::{COMMIT_EVERY, COMMIT_WITHIN};
pub use error::ConsumeError;
pub use lanes::{LONGEST_YIELD, WorkerConfig};
pub use polled::{Polled, Unreadable};
pub use stream::{LAST_WAIT, run_stream};
