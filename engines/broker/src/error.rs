//! What can go wrong when a broker starts or stops. Faults while it runs are answered to the
//! client that met them, in the protocol's own error codes.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a broker did not start, or stopped in error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address is taken or not ours.
    #[error("cannot listen on {addr}")]
    Listen {
        /// What was asked for.
        addr: SocketAddr,
        /// The system's word on it.
        #[source]
        source: io::Error,
    },
    /// The address is reachable from other machines, and the configuration does not say that this
    /// is wanted.
    #[error("{addr} is not a loopback address; others could reach the broker (allow_remote)")]
    NotLoopback {
        /// What was asked for.
        addr: SocketAddr,
    },
    /// Another process has the data directory.
    #[error("{path} is in use by another broker")]
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// A file that is replaced in one step is not intact, so the disk has lost something.
    #[error("{path} is damaged; restore the data directory, or remove it to start empty")]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// Reading or writing failed.
    #[error("storage failed")]
    Storage(#[from] io::Error),
    /// A setting makes no sense.
    #[error("{0}")]
    Config(String),
    /// The system has no random numbers.
    #[error("the system gives no random numbers")]
    Random,
    /// The broker's thread ended by itself.
    #[error("the broker's thread ended unexpectedly")]
    Thread,
}
