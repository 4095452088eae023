//! What `triad dev` and `triad serve` are made of: a directory, a store in it, and the embedded broker.

pub mod broker;
pub mod directory;
pub mod signals;
pub mod stores;
pub mod writable;

use std::thread::available_parallelism;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Threads that work on the runtime's tasks: half as many as there are processors, and one at least. Store and
/// log have threads of their own, and a worker that wakes another one in vain costs more than it brings
/// (`docs/decisions/0045-one-machine-hands-over-without-threads.md`).
pub fn workers() -> usize {
    available_parallelism().map_or(1, |processors| processors.get().div_ceil(2))
}

/// Files that a process on one machine may have open, as far as the system permits: its connections (5,120 at most) and
/// the files of the log. A process begins with 1,024 on most systems.
const OPEN_FILES: u64 = 65_536;

/// Has the system permit as many open files as there may be connections and files of the log.
pub fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit
        .maximum
        .map_or(OPEN_FILES, |most| most.min(OPEN_FILES));
    if limit.current.is_none_or(|current| current >= wanted) {
        return;
    }
    let raised = Rlimit {
        current: Some(wanted),
        maximum: limit.maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, wanted, "the limit of open files stays as it is");
    }
}
