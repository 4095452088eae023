//! Who sends a request, and what they may do.

/// What a caller may do. The roles are ordered: `Operate` includes `Read`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// The caller may neither look nor act here; it may submit orders.
    Submit,
    /// The caller may look at everything, and not act.
    Read,
    /// The caller may look at everything, and act.
    Operate,
}

/// Who sends a request, and what they may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The name that is written beside the caller's acts. `None` if the caller has reached an open listener
    /// without a token; each of its acts must then come with a name.
    pub name: Option<String>,
    /// What the caller may do.
    pub role: Role,
}

/// The SHA-256 digest of a token's bytes.
pub type Digest = [u8; 32];

/// The callers whose requests a listener answers. The server that owns the listener implements it.
pub trait Keys: Send + Sync {
    /// Whether a request without a token is answered too. If true, every client that can reach the listener may
    /// read and operate.
    fn is_open(&self) -> bool;

    /// The caller whose token has this SHA-256 digest. `None` if there is no such token.
    fn of(&self, digest: &Digest) -> Option<Caller>;
}
