//! Retries of transient failures.

use triad_runtime::{Clock, StoreError};
use triad_workflow::Millis;

/// Attempts at one call.
const TRIES: u32 = 6;
/// Wait before the second attempt, doubled before each further one: about six seconds in all.
const FIRST_WAIT_MS: u64 = 200;

/// Repeats a call, after a wait, while its failure is transient.
///
/// # Errors
/// That of the last attempt.
pub(super) async fn patiently<T>(
    clock: &impl Clock,
    call: impl AsyncFn() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let mut tried = 1;
    loop {
        match call().await {
            Err(StoreError::Transient(_)) if tried < TRIES => {
                clock.sleep(wait(tried)).await;
                tried += 1;
            }
            done => return done,
        }
    }
}

/// The wait after so many attempts.
fn wait(tried: u32) -> Millis {
    Millis(FIRST_WAIT_MS << (tried - 1))
}

/// Processes many items, and repeats, after a wait, those with a transient failure. Returns one result for each item.
pub(super) async fn each_patiently<I: Clone, T, E>(
    clock: &impl Clock,
    items: &[I],
    call: impl AsyncFn(Vec<I>) -> Vec<Result<T, E>>,
    may_pass: impl Fn(&E) -> bool,
) -> Vec<Result<T, E>> {
    let mut results = call(items.to_vec()).await;
    for tried in 1..TRIES {
        let open: Vec<usize> = (0..results.len())
            .filter(|at| matches!(&results[*at], Err(e) if may_pass(e)))
            .collect();
        if open.is_empty() {
            break;
        }
        clock.sleep(wait(tried)).await;
        let again = open.iter().map(|at| items[*at].clone()).collect();
        for (at, result) in open.into_iter().zip(call(again).await) {
            results[at] = result;
        }
    }
    results
}
