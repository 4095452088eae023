//! The real clock and the real source of random numbers. Handlers read both only through the ports.

use std::time::{SystemTime, UNIX_EPOCH};

use triad_core::Timestamp;
use triad_workflow::Millis;

use crate::ports::{Clock, Entropy};

/// This machine's wall clock, with Tokio's timer for [`Clock::sleep`]. That method panics outside of a Tokio
/// runtime that has a timer. A wall clock before 1970 is read as 0.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one home of the wall clock"
    )]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    async fn sleep(&self, span: Millis) {
        tokio::time::sleep(span.as_duration()).await;
    }
}

/// Random numbers of the thread's generator (`rand`), which the operating system seeds. They are
/// used for ids, tokens and jitter, and for no secret.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn next_u64(&self) -> u64 {
        rand::random()
    }
}
