//! The callers whose requests a listener answers.

use triad_operator::operations::Caller;

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
