//! Tokens, and their renewal.
//!
//! librdkafka's own timer requests a new token, checking once a second, when four fifths of its lifetime are over on
//! the wall clock. A sandbox that was frozen meanwhile wakes up with an expired token: publishes then wait until the
//! timer has had a new one ([`Tokens::fresh`]), instead of opening connections that the brokers refuse.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use triad_core::Timestamp;
use triad_runtime::Clock;
use triad_runtime::system::SystemClock;

/// Longest wait for a token; after it, publishes use the old one.
pub(crate) const TOKEN_WITHIN: Duration = Duration::from_secs(5);
/// A token with less remaining lifetime counts as expired, because the brokers' clocks may differ.
const TOKEN_MARGIN_MS: u64 = 10_000;

/// Where a client gets the tokens that it logs in with
/// ([`Credentials::Tokens`](crate::Credentials::Tokens)).
pub trait TokenSource: Send + Sync {
    /// Makes a new token. It is called from a thread of librdkafka's client or of an async runtime:
    /// it may block for a while, and must not use the runtime of that thread.
    ///
    /// # Errors
    /// [`TokenError`] if there is no token. librdkafka asks again after ten seconds.
    fn token(&self) -> Result<Token, TokenError>;
}

/// Why a [`TokenSource`] has no token: the reason, for people. It must not hold a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TokenError(pub String);

/// A token for SASL `OAUTHBEARER` (RFC 7628), with its owner and its expiry.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// The token, as sent to the brokers. A secret.
    pub value: String,
    /// The name of the token's owner; librdkafka uses it in its logs.
    pub principal: String,
    /// The moment from which the brokers refuse the token. It is renewed when four fifths of the
    /// time until then have passed.
    pub expires: Timestamp,
}

/// Tokens of one client.
pub(crate) struct Tokens {
    source: Arc<dyn TokenSource>,
    /// Expiry of the present token; 0 before the first one.
    expires: watch::Sender<u64>,
}

impl Tokens {
    pub(crate) fn new(source: Arc<dyn TokenSource>) -> Self {
        Self {
            source,
            expires: watch::Sender::new(0),
        }
    }

    pub(crate) fn renew(&self) -> Result<Token, TokenError> {
        let token = self.source.token()?;
        self.expires.send_replace(token.expires.0);
        Ok(token)
    }

    /// Whether there has been a token.
    pub(crate) fn is_begun(&self) -> bool {
        *self.expires.borrow() != 0
    }

    /// Waits for a token that is valid on the wall clock, for a bounded time.
    pub(crate) async fn fresh(&self) {
        let mut expires = self.expires.subscribe();
        let alive = |ends: &u64| *ends > SystemClock.now().0 + TOKEN_MARGIN_MS;
        let waited = tokio::time::timeout(TOKEN_WITHIN, expires.wait_for(alive)).await;
        if waited.is_err() {
            tracing::warn!("no new token for Kafka; it is tried with the old one");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// The first token is expired, every later one is valid for an hour.
    #[derive(Default)]
    struct Dying(AtomicU64);

    impl TokenSource for Dying {
        fn token(&self) -> Result<Token, TokenError> {
            let hours = self.0.fetch_add(1, Ordering::Relaxed);
            Ok(Token {
                value: "t".into(),
                principal: "p".into(),
                expires: Timestamp(SystemClock.now().0 + hours * 3_600_000),
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_to_be_sent_waits_for_a_token_that_is_alive() {
        let tokens = Tokens::new(Arc::new(Dying::default()));
        // Tried twice: without a token, and with an expired one; the wait is limited in both cases.
        for _ in 0..2 {
            let began = tokio::time::Instant::now();
            tokens.fresh().await;
            assert_eq!(began.elapsed(), TOKEN_WITHIN);
            tokens.renew().unwrap();
        }
        let began = tokio::time::Instant::now();
        tokens.fresh().await;
        assert!(began.elapsed().is_zero());
    }
}
