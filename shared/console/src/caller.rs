//! Who asks, and what they may.

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

/// SHA-256 of a token.
pub type Digest = [u8; 32];

/// Who is let in, as the server in front of this knows it.
pub trait Keys: Send + Sync {
    /// Whether whoever reaches the listener is let in without a token.
    fn is_open(&self) -> bool;

    /// Whose token has this digest; `None`: it is nobody's, or has a role that is none here.
    fn of(&self, digest: &Digest) -> Option<Caller>;
}
