//! Settings of a broker, in one struct, checked once at the start.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use triad_sqlite::topics::{TopicSettings, Topics};

use crate::error::Error;
use crate::sasl::SaslConfig;

/// Bound: users of a secured listener.
const MAX_USERS: usize = 1_000;

/// Where the topics are that a broker serves.
#[derive(Debug, Clone)]
pub enum TopicsIn {
    /// In a temporary directory, without syncs, with these settings: they end with the broker.
    Scratch(TopicSettings),
    /// In a file in this directory, which is made if it is missing, with these settings. A record is acknowledged once
    /// it is synced.
    Directory(PathBuf, TopicSettings),
    /// In a store of this process, whose owner also maintains them.
    Opened(Topics),
}

impl Default for TopicsIn {
    fn default() -> Self {
        Self::Scratch(TopicSettings::default())
    }
}

/// A second listener that requires TLS. The plain listener is unchanged.
///
/// With [`SecuredListener::client_ca`] a client logs in with its certificate; with [`SecuredListener::sasl`] it logs
/// in with a user name and a password, or with a token; both can be required. A client has 10 s for handshake and
/// login together, and none of its requests may be larger than 64 KiB before it has logged in. A client that has
/// logged in may do everything: there are no permissions.
#[derive(Clone)]
pub struct SecuredListener {
    /// Address to listen on; port 0 takes a free one. The certificate must be for this address, because the metadata
    /// names it to the clients.
    pub listen: SocketAddr,
    /// The broker's certificate, and the certificates between it and its root, in PEM.
    pub certificate: String,
    /// The certificate's private key, in PEM, not encrypted.
    pub key: String,
    /// Certificates (PEM) that must sign a client's certificate. `None`: clients need no certificate.
    pub client_ca: Option<String>,
    /// The SASL users and tokens. `None`: SASL is not offered.
    pub sasl: Option<SaslConfig>,
}

impl fmt::Debug for SecuredListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the key: configurations end up in logs.
        f.debug_struct("SecuredListener")
            .field("listen", &self.listen)
            .field("client_ca", &self.client_ca.is_some())
            .field("sasl", &self.sasl)
            .finish_non_exhaustive()
    }
}

/// How to run a broker. `BrokerConfig::default()` is an in-memory broker on a free loopback port.
///
/// Every limit is a bound on memory or disk. A request beyond one is answered with the protocol's
/// own error, or waits.
#[derive(Debug, Clone)]
pub struct BrokerConfig {
    /// Address of the plain listener: one address, not all of the machine; port 0 takes a free one.
    /// Default `127.0.0.1:0`.
    pub listen: SocketAddr,
    /// The SASL users and tokens of the plain listener. Names and tokens are sent unencrypted, so the listener must
    /// be on a loopback address. Default none: every client that reaches it is served.
    pub login: Option<SaslConfig>,
    /// A second listener, with TLS and login. Default none.
    pub secured: Option<SecuredListener>,
    /// Whether addresses that other machines can reach are allowed. The plain listener has no
    /// authentication. Default no.
    pub allow_remote: bool,
    /// Where the topics are. Default: in a temporary directory.
    pub topics: TopicsIn,
    /// Whether a topic is created when a client asks for the metadata of one that is missing.
    /// Default yes.
    pub auto_create_topics: bool,
    /// Partitions of a topic that is created without a number of partitions, at least 1. Default 1.
    pub default_partitions: i32,
    /// For tests: while this directory has a file with a topic's name, produce requests to that topic are refused
    /// with `TOPIC_AUTHORIZATION_FAILED`, as by an access list. Default none.
    pub refuse_topics: Option<PathBuf>,
    /// How long a group that was empty waits for more members before its first rebalance. Default
    /// 20 ms: short, so that a consumer starts at once.
    pub group_initial_delay: Duration,
    /// The shortest and the longest session time-out that a group's member may ask for. Both are inclusive.
    /// Default 100 ms and 30 min.
    pub group_session: (Duration, Duration),
    /// Most consumer groups with members. Default 10,000.
    pub max_groups: usize,
    /// Most members of one consumer group. Default 1,000.
    pub max_group_members: usize,
    /// Most connections at once, at least 1, each with a buffer of 64 KiB; one more is closed at
    /// once. Default 1,024.
    pub max_connections: usize,
    /// Most unanswered requests of one connection, at least 1. While it has as many, no further
    /// request is read from it. Default 64.
    pub max_in_flight: usize,
    /// Largest request, in bytes. A larger one closes its connection. Default 32 MiB.
    pub max_request_bytes: usize,
    /// Most bytes of records in one answer to a fetch; a single batch that is larger is still sent
    /// whole. Default 8 MiB.
    pub max_fetch_bytes: usize,
}

impl Default for BrokerConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            login: None,
            secured: None,
            allow_remote: false,
            topics: TopicsIn::default(),
            auto_create_topics: true,
            default_partitions: 1,
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
    /// Whether produce requests to a topic are refused now.
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
        let sasl: Vec<_> = self.login.iter().chain(sasl).collect();
        let wrong = [
            (
                addresses.clone().all(|a| !a.ip().is_unspecified()),
                "listen: one address and not all, because it is the one that clients are told",
            ),
            (
                self.default_partitions > 0,
                "default_partitions: at least 1",
            ),
            (self.max_in_flight > 0, "max_in_flight: at least 1"),
            (self.max_connections > 0, "max_connections: at least 1"),
            (
                sasl.iter()
                    .all(|s| !s.users.is_empty() || s.tokens.is_some()),
                "login, secured.sasl: at least one user or a check of tokens",
            ),
            (
                sasl.iter().all(|s| s.users.len() <= MAX_USERS),
                "login.users, secured.sasl.users: at most 1,000",
            ),
            (
                !sasl.iter().any(|s| s.users.keys().any(String::is_empty)),
                "login.users, secured.sasl.users: no name may be empty",
            ),
            (
                self.login.is_none() || self.listen.ip().is_loopback(),
                "login: on a loopback address alone, for the plain listener has no TLS",
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
