//! Errors of a broker's start and stop. Faults while it runs are answered to the client, in the protocol's error
//! codes.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

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
    /// Another broker uses the data directory.
    #[error("{path} is in use by another broker")]
    Locked {
        /// The directory that is in use.
        path: PathBuf,
    },
    /// A file that is only replaced as a whole is not intact, so the disk has lost data.
    #[error("{path} is damaged; restore the data directory, or remove it to start empty")]
    Damaged {
        /// The file that is damaged.
        path: PathBuf,
    },
    /// Reading or writing the data directory failed, or the system gave the broker no thread or no sockets.
    #[error("storage failed")]
    Storage(#[from] io::Error),
    /// A write to the data directory failed while the broker ran, for the reason given here. Acknowledged records are
    /// kept; the broker accepts writes only after a new start.
    #[error(
        "the log cannot be written: {0}; what was acknowledged is kept, and a start goes on with it once the log can be written"
    )]
    Failed(String),
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
