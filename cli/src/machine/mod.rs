//! What `triad dev` and `triad serve` are made of: a directory, a store in it, and the embedded broker.

pub mod broker;
pub mod directory;
pub mod moved;
pub mod signals;
pub mod stores;

use std::thread::available_parallelism;

/// Threads that work on the runtime's tasks: half as many as there are processors, and one at least. Store and
/// log have threads of their own, and a worker that wakes another one in vain costs more than it brings
/// (`docs/decisions/0045-one-machine-hands-over-without-threads.md`).
pub fn workers() -> usize {
    available_parallelism().map_or(1, |processors| processors.get().div_ceil(2))
}
