//! Settings of a broker. One struct, checked once at the start.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::error::Error;
use crate::sasl::SaslConfig;

/// Bound: users of a secured listener.
const MAX_USERS: usize = 1_000;

/// When an acknowledged record is safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FlushPolicy {
    /// When it is written and synced (`fdatasync`): it survives power loss. Many producers share
    /// one sync.
    #[default]
    Sync,
    /// When it is written and left to the system: it survives the death of the process, not that of
    /// the machine.
    System,
}

/// A second listener that asks for TLS, beside the plain one, which stays as it is.
///
/// With [`SecuredListener::client_ca`] the client's certificate is its login, with
/// [`SecuredListener::sasl`] a user name and password or a token is; both can be asked for.
/// A client has 10 s for the handshake and the login together, and no request of it may be larger
/// than 64 KiB before. Any certificate of that CA, user and token may do everything: nothing is
/// authorized here.
#[derive(Clone)]
pub struct SecuredListener {
    /// Where to listen; port 0 takes a free one. The certificate must be for this address, because
    /// it is the one that clients are told.
    pub listen: SocketAddr,
    /// The broker's certificate, and those between it and its root, in PEM.
    pub certificate: String,
    /// The certificate's private key, in PEM, not encrypted.
    pub key: String,
    /// Certificates (PEM) from which a client's certificate must descend. `None`: clients need
    /// none.
    pub client_ca: Option<String>,
    /// Who may log in by SASL. `None`: nobody logs in by SASL.
    pub sasl: Option<SaslConfig>,
}

impl fmt::Debug for SecuredListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Never the key: configurations end up in logs.
        f.debug_struct("SecuredListener")
            .field("listen", &self.listen)
            .field("client_ca", &self.client_ca.is_some())
            .field("sasl", &self.sasl)
            .finish_non_exhaustive()
    }
}

/// How to run a broker. `BrokerConfig::default()` is an in-memory broker on a free loopback port.
///
/// Every limit is a bound on memory or disk; what meets it gets the protocol's own error or waits.
#[derive(Debug, Clone)]
pub struct BrokerConfig {
    /// Where to listen; port 0 takes a free one. Default `127.0.0.1:0`.
    pub listen: SocketAddr,
    /// A second listener, with TLS and login. Default none.
    pub secured: Option<SecuredListener>,
    /// Whether addresses that other machines can reach are allowed. The plain listener has no
    /// authentication. Default no.
    pub allow_remote: bool,
    /// The directory that keeps everything. Default none: nothing survives the process, and records
    /// beyond the first 256 KiB of a partition go to unnamed temporary files.
    pub data: Option<PathBuf>,
    /// When an acknowledged record is safe. It matters only with [`BrokerConfig::data`]. Default
    /// [`FlushPolicy::Sync`].
    pub flush: FlushPolicy,
    /// Create a topic when a client asks for the metadata of one that is missing. Default yes.
    pub auto_create_topics: bool,
    /// Partitions of a topic for which nobody said a number, from 1 to
    /// [`BrokerConfig::max_partitions`]. Default 1.
    pub default_partitions: i32,
    /// Bound: partitions of all topics. One that has data on disk keeps a file open, so the
    /// process must be allowed that many. Default 1,000.
    pub max_partitions: usize,
    /// Bound: one record batch in bytes, unless the topic's `max.message.bytes` says otherwise.
    /// Default 1,048,588, which is Kafka's.
    pub max_batch_bytes: usize,
    /// A segment file is finished at this size in bytes, at least 64 KiB. Default 64 MiB.
    pub segment_bytes: u64,
    /// A checkpoint is made when the write-ahead log has grown by so many bytes, at least 64 KiB.
    /// At most twice as much is read at the start after a crash. Default 32 MiB.
    pub checkpoint_bytes: u64,
    /// Delete a partition's oldest finished segments while the rest is at least this large, in
    /// bytes, unless the topic's `retention.bytes` says otherwise. Default none: nothing is ever
    /// deleted unasked.
    pub retention_bytes: Option<u64>,
    /// Bound: all records on disk, in bytes. Produce requests beyond it get
    /// `KAFKA_STORAGE_ERROR`, which clients retry; unread data is never dropped. Default 16 GiB.
    pub max_total_bytes: u64,
    /// For tests: while this directory holds a file of a topic's name, what is produced to that topic
    /// is refused with `TOPIC_AUTHORIZATION_FAILED`, as by an access list. Default none.
    pub refuse_topics: Option<PathBuf>,
    /// How long a group that was empty waits for more members before its first rebalance. Short,
    /// so that a consumer starts at once. Default 20 ms.
    pub group_initial_delay: Duration,
    /// Session timeouts that members may ask for, shortest and longest. Default 100 ms to 30 min.
    pub group_session: (Duration, Duration),
    /// Bound: groups, with members or with offsets. Default 10,000.
    pub max_groups: usize,
    /// Bound: members of a group. Default 1,000.
    pub max_group_members: usize,
    /// Bound: connections, at least 1, each with a buffer of 64 KiB; one more is closed at once.
    /// Default 1,024.
    pub max_connections: usize,
    /// Bound: unanswered requests of one connection, at least 1; at the bound no more are read.
    /// Default 64.
    pub max_in_flight: usize,
    /// Bound: one request in bytes, at least [`BrokerConfig::max_batch_bytes`]; a larger one closes
    /// its connection. Default 32 MiB.
    pub max_request_bytes: usize,
    /// Bound: records in one fetch answer in bytes (a larger single batch still comes whole).
    /// Default 8 MiB.
    pub max_fetch_bytes: usize,
}

impl Default for BrokerConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            secured: None,
            allow_remote: false,
            data: None,
            flush: FlushPolicy::default(),
            auto_create_topics: true,
            default_partitions: 1,
            max_partitions: 1_000,
            max_batch_bytes: 1_048_588,
            segment_bytes: 64 << 20,
            checkpoint_bytes: 32 << 20,
            retention_bytes: None,
            max_total_bytes: 16 << 30,
            refuse_topics: None,
            group_initial_delay: Duration::from_millis(20),
            group_session: (Duration::from_millis(100), Duration::from_secs(30 * 60)),
            max_groups: 10_000,
            max_group_members: 1_000,
            max_connections: 1_024,
            max_in_flight: 64,
            max_request_bytes: 32 << 20,
            max_fetch_bytes: 8 << 20,
        }
    }
}

impl BrokerConfig {
    /// Whether what is produced to a topic is refused just now.
    pub(crate) fn refuses(&self, topic: &str) -> bool {
        let refused = self.refuse_topics.as_ref();
        refused.is_some_and(|dir| dir.join(topic).is_file())
    }

    /// Refuses settings that cannot work, all of them in one message.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let secured = self.secured.as_ref();
        let addresses = std::iter::once(self.listen).chain(secured.map(|s| s.listen));
        for addr in addresses.clone() {
            if !self.allow_remote && !addr.ip().is_loopback() {
                return Err(Error::NotLoopback { addr });
            }
        }
        let sasl = secured.and_then(|s| s.sasl.as_ref());
        let most = i32::try_from(self.max_partitions).unwrap_or(i32::MAX);
        let wrong = [
            (
                addresses.clone().all(|a| !a.ip().is_unspecified()),
                "listen: one address and not all, because it is the one that clients are told",
            ),
            (
                (1..=most).contains(&self.default_partitions),
                "default_partitions: 1 to max_partitions",
            ),
            (
                self.segment_bytes >= 1 << 16,
                "segment_bytes: at least 64 KiB",
            ),
            (
                self.checkpoint_bytes >= 1 << 16,
                "checkpoint_bytes: at least 64 KiB",
            ),
            (
                self.max_batch_bytes >= 1 << 10,
                "max_batch_bytes: at least 1 KiB",
            ),
            (
                self.max_request_bytes >= self.max_batch_bytes,
                "max_request_bytes: at least max_batch_bytes",
            ),
            (self.max_in_flight > 0, "max_in_flight: at least 1"),
            (self.max_connections > 0, "max_connections: at least 1"),
            (
                sasl.is_none_or(|s| !s.users.is_empty() || s.tokens.is_some()),
                "secured.sasl: at least one user or a check of tokens",
            ),
            (
                sasl.is_none_or(|s| s.users.len() <= MAX_USERS),
                "secured.sasl.users: at most 1,000",
            ),
            (
                sasl.is_none_or(|s| !s.users.keys().any(String::is_empty)),
                "secured.sasl.users: no name may be empty",
            ),
        ];
        let wrong: Vec<_> = wrong
            .iter()
            .filter(|(good, _)| !good)
            .map(|(_, what)| *what)
            .collect();
        if wrong.is_empty() {
            Ok(())
        } else {
            Err(Error::Config(wrong.join("; ")))
        }
    }
}
