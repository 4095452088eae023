//! The consumer loops of a long-running process: two lanes, the order within a partition, redelivery,
//! dead letters and committed offsets.
//!
//! They run over any [`Broker`]: Kafka, or the log of one machine. What a broker must do for them is in
//! [`Broker`] and [`Consumer`]; what a handler may rely on is in [`run_batches`] and [`run_stream`].
//! Nothing here knows of orders.

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
