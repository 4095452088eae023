//! Shared parts of `triad dev` and `triad serve`: a directory, and the store and the topics in it.

pub mod directory;
pub mod signals;
pub mod stores;
pub mod writable;

use std::thread::available_parallelism;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use triad_bootstrap::{AwsAccount, Wiring};
use triad_core::topics::{GROUPS, is_between_handlers};
use triad_sqlite::topics::{LocalBroker, TopicSettings};

use crate::store::Store;

/// The clients of a run on one machine.
pub type Wired = Wiring<Store, LocalBroker>;

/// How one machine keeps its topics: those between handlers are in memory.
pub fn topic_settings() -> TopicSettings {
    TopicSettings {
        in_memory: is_between_handlers,
        own_groups: Some(GROUPS.to_owned()),
        ..TopicSettings::default()
    }
}

/// The account of AWS of this process's agents: that of the user, or none in a program without the feature `aws`.
pub fn aws() -> AwsAccount {
    #[cfg(feature = "aws")]
    return triad_bootstrap::Account::of_user().into();
    #[cfg(not(feature = "aws"))]
    AwsAccount::default()
}

/// Worker threads of the runtime: half the number of processors, at least one. The store and the log have their own
/// threads, and a needless wake-up of another worker costs more than it gains
/// (`docs/decisions/0045-one-machine-hands-over-without-threads.md`).
pub fn workers() -> usize {
    available_parallelism().map_or(1, |processors| processors.get().div_ceil(2))
}

/// Limit of open files, as far as the system permits: up to 5,120 connections and the files of the log. The default
/// on most systems is 1,024.
const OPEN_FILES: u64 = 65_536;

/// Raises the limit of open files to what connections and log files may need.
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
        tracing::warn!(%error, wanted, "the limit of open files could not be raised");
    }
}
