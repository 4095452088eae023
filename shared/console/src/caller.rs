//! Who sends a request, and what they may do.

/// What a caller may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// To look at everything.
    Read,
    /// To look, and to act.
    Operate,
}

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The name that is written beside what they do; `None` of somebody who reached a listener that asks
    /// nobody's name: they say it with each act.
    pub name: Option<String>,
    /// What they may.
    pub role: Role,
}

/// The SHA-256 of a token's bytes.
pub type Digest = [u8; 32];

/// The callers that are let in, as the server that has the listener knows them.
pub trait Keys: Send + Sync {
    /// Whether whoever reaches the listener is let in without a token.
    fn is_open(&self) -> bool;

    /// The caller whose token has this digest. `None`: there is no such token, or its owner may neither read
    /// nor operate.
    fn of(&self, digest: &Digest) -> Option<Caller>;
}
