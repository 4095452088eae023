//! Cryptographically random bytes.

use ring::rand::{SecureRandom, SystemRandom};
use triad_operator::operations::Problem;

/// The error when the system gives no random numbers, without which no session can be made safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the system gives no random numbers")]
pub struct NoRandom;

/// Random bytes from the operating system.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], NoRandom> {
    let mut bytes = [0; N];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| NoRandom)?;
    Ok(bytes)
}

impl From<NoRandom> for Problem {
    fn from(e: NoRandom) -> Self {
        Self::internal(e.to_string())
    }
}
