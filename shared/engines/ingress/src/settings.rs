//! Settings of the HTTP interface, read once at the start.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use triad_console::tokens::TokensError;
use triad_console::{Answers, Hidden};
use triad_core::Timing;
use triad_operator::operations::Operations;

use crate::ready::Writable;
use crate::tls::{TlsError, TlsFiles};

/// Address, access and bounds.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The address to listen on; port 0 takes any free one. Any address but a loopback one needs
    /// [`tokens`](Self::tokens).
    pub listen: SocketAddr,
    /// The file of tokens, in the form of `NewToken::line`, one a line. It is checked every [`Limits::files_every`],
    /// and read again when it has changed. Invalid content leaves the earlier tokens in force, and a file without
    /// tokens refuses every request. `None`: every client that reaches the address may submit and read.
    pub tokens: Option<PathBuf>,
    /// Certificate and key of the server. `None`: plain HTTP.
    pub tls: Option<TlsFiles>,
    /// The time spans of the installation. Answers compute an order's next events from them, so they must be those of
    /// the handlers.
    pub timing: Timing,
    /// Answers the requests of operators on the same listener. `None`: they are answered with 404.
    pub operators: Option<Arc<dyn Answers>>,
    /// Executes what applications do to their orders, events and cancellations, whatever operators may. `None`: these
    /// paths are answered with 404.
    pub operations: Option<Arc<dyn Operations>>,
    /// The fields of payloads whose values are never shown. Default: none.
    pub hidden: Hidden,
    /// Storage that every order needs; `/readyz` writes to each. The store is read there in any case.
    pub written: Vec<Arc<dyn Writable>>,
    /// The bounds on sizes, numbers and times.
    pub limits: Limits,
}

impl Settings {
    /// Plain HTTP on an address, without tokens, with the default bounds.
    #[must_use]
    pub fn on(listen: SocketAddr) -> Self {
        Self {
            listen,
            tokens: None,
            tls: None,
            timing: Timing::default(),
            operators: None,
            operations: None,
            hidden: Hidden::default(),
            written: Vec::new(),
            limits: Limits::default(),
        }
    }
}

/// The bounds of one server. The size of one order is
/// [`MAX_SUBMISSION_BYTES`](triad_core::submission::MAX_SUBMISSION_BYTES).
#[derive(Debug, Clone)]
pub struct Limits {
    /// Most connections; further ones wait in the system's queue. 0 counts as 1. Default: 4,096.
    pub connections: usize,
    /// Most orders that wait to be stored or are being stored; further ones are answered with 429. Less
    /// than 64 counts as 64. Default: 1,024.
    pub orders: usize,
    /// Most bytes of the bodies of orders in memory, as far as they have arrived; requests beyond it are answered
    /// with 429. Default: 64 MiB.
    pub body_bytes: usize,
    /// The same limit for the bodies of operators' requests. Default: 32 MiB.
    pub operator_body_bytes: usize,
    /// Largest batch, in bytes, inclusive. Default: 4 MiB.
    pub batch_bytes: usize,
    /// Most lines of a batch, inclusive; blank lines are not counted. Default: 1,000.
    pub batch_lines: usize,
    /// Largest request line and headers, in bytes, of 100 headers at most. Default: 32 KiB.
    pub header_bytes: usize,
    /// Longest time from a request's beginning, or from the end of the one before it, until its headers have arrived.
    /// A connection that is idle for so long is closed. Default: 10 s.
    pub header_within: Duration,
    /// Longest time until a request's whole body has arrived, and longest time for which a client may read nothing of
    /// an answer. Default: 30 s.
    pub body_within: Duration,
    /// Longest time that a request may ask for with `?wait`. Default: 60 s.
    pub wait: Duration,
    /// Longest time for requests under way after the server begins to stop; more than a day counts as a day. Default:
    /// 10 s.
    pub stop_within: Duration,
    /// How often each request that waits for the end of an order reads the order's record, for ends without a
    /// notification. If more than 256 requests wait, each reads less often: about 256 reads happen in this time.
    /// Default: 1 s.
    pub look_every: Duration,
    /// How often the files of tokens and TLS are checked. Default: 2 s.
    pub files_every: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4_096,
            orders: 1_024,
            body_bytes: 64 * 1024 * 1024,
            operator_body_bytes: 32 * 1024 * 1024,
            batch_bytes: 4 * 1024 * 1024,
            batch_lines: 1_000,
            header_bytes: 32 * 1024,
            header_within: Duration::from_secs(10),
            body_within: Duration::from_secs(30),
            wait: Duration::from_secs(60),
            stop_within: Duration::from_secs(10),
            look_every: Duration::from_secs(1),
            files_every: Duration::from_secs(2),
        }
    }
}

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address is not a loopback one, and there are no tokens.
    #[error(
        "{0} can be reached from other machines: name a file of tokens, or listen on 127.0.0.1"
    )]
    Open(IpAddr),
    /// The address cannot be listened on.
    #[error("{address} cannot be listened on: {why}")]
    Listen {
        /// The address that was asked for.
        address: SocketAddr,
        /// Why it cannot be listened on, in the system's words.
        why: std::io::Error,
    },
    /// The file of tokens cannot be used.
    #[error("the file of tokens {file}: {why}")]
    Tokens {
        /// The file of tokens that was named.
        file: PathBuf,
        /// Why the file cannot be used.
        why: TokensError,
    },
    /// The files of TLS cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
}
