//! Errors of a broker's start and stop. Faults while it runs are answered to the client, in the protocol's error
//! codes.

use std::io;
use std::net::SocketAddr;

use triad_runtime::StoreError;
use triad_sqlite::OpenError;

/// Why a broker did not start, or stopped in error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address is taken, or does not belong to this machine.
    #[error("cannot listen on {addr}")]
    Listen {
        /// The address that was asked for.
        addr: SocketAddr,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// Other machines could reach the address, and
    /// [`BrokerConfig::allow_remote`](crate::BrokerConfig::allow_remote) is not set.
    #[error("{addr} is not a loopback address; others could reach the broker (allow_remote)")]
    NotLoopback {
        /// The address that was asked for.
        addr: SocketAddr,
    },
    /// The topics cannot be opened: the directory is in use, or the file damaged, unreadable or of another program.
    #[error(transparent)]
    Topics(#[from] OpenError),
    /// The topics cannot be read or written at the start.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The system gave the broker no thread, no sockets or no temporary directory.
    #[error("the system does not give what the broker needs")]
    System(#[from] io::Error),
    /// Settings are out of their bounds, and the text names all of them; or a certificate or key of the
    /// secured listener cannot be used.
    #[error("{0}")]
    Config(String),
    /// The operating system gives no random numbers.
    #[error("the system gives no random numbers")]
    Random,
    /// The broker's thread ended without an error, for instance because it panicked.
    #[error("the broker's thread ended unexpectedly")]
    Thread,
}
