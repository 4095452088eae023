//! Waiting for a condition, for a bounded time, instead of sleeping.

use std::time::{Duration, Instant};

/// Between two looks at a condition.
const BETWEEN: Duration = Duration::from_millis(50);

/// How long a test waits for what should happen soon. A bound against hanging, not a measure:
/// machines that run many tests at once are slow.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// Looks until `look` finds something.
///
/// # Panics
/// With `what` when nothing was found within [`PATIENCE`].
pub async fn until<T>(what: &str, look: impl AsyncFnMut() -> Option<T>) -> T {
    until_within(PATIENCE, what, look).await
}

/// Looks until `look` finds something, for work that takes long.
///
/// # Panics
/// With `what` when nothing was found within `patience`.
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
