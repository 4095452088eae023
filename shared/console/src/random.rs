//! Random numbers that nobody can guess.

use ring::rand::{SecureRandom, SystemRandom};

/// The system gives no random numbers, without which nobody can be told from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the system gives no random numbers")]
pub struct NoRandom;

/// Random bytes of the system.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], NoRandom> {
    let mut bytes = [0; N];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| NoRandom)?;
    Ok(bytes)
}
