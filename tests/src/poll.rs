//! Bounded waits for a condition, instead of sleeps.

use std::time::{Duration, Instant};

/// Interval between two checks of a condition.
const BETWEEN: Duration = Duration::from_millis(50);

/// Longest wait for an event that should happen soon. It detects hangs and measures nothing: machines that run many
/// tests at once are slow.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// Repeats `look` until it finds something.
///
/// # Panics
/// With `what` if nothing was found within [`PATIENCE`].
pub async fn until<T>(what: &str, look: impl AsyncFnMut() -> Option<T>) -> T {
    until_within(PATIENCE, what, look).await
}

/// Repeats `look` until it finds something, for work that takes long.
///
/// # Panics
/// With `what` if nothing was found within `patience`.
pub async fn until_within<T>(
    patience: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Option<T>,
) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(
            began.elapsed() < patience,
            "waited {patience:?} in vain until {what}"
        );
        tokio::time::sleep(BETWEEN).await;
    }
}
