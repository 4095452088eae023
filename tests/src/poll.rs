//! Waits for a condition with a time limit, in place of sleeps.

use std::time::{Duration, Instant};

/// Interval between two checks of a condition.
const BETWEEN: Duration = Duration::from_millis(50);

/// Longest wait for something that normally happens soon. It only detects hangs, so it is long enough for a machine
/// that runs many tests at once.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// Repeats `look` until it returns a value.
///
/// # Panics
/// With the text `what` if that takes longer than [`PATIENCE`].
pub async fn until<T>(what: &str, look: impl AsyncFnMut() -> Option<T>) -> T {
    until_within(PATIENCE, what, look).await
}

/// Repeats `look` until it returns a value, for work that takes long.
///
/// # Panics
/// With the text `what` if that takes longer than `patience`.
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
