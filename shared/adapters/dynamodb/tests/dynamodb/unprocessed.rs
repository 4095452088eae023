//! Keys that a throttled table leaves unprocessed are requested again, after increasing waits.

use serde_json::json;
use triad_runtime::{StateStore, StoreError};
use triad_workflow::Millis;

use crate::support::{Service, Sleeps, ids};

/// Reads two orders from a table that processes no key in the first `until` calls; returns which orders were found,
/// the number of calls, and the waits.
async fn read(until: usize) -> (Vec<bool>, usize, Vec<Millis>) {
    let service = Service::new(move |call, (_, request)| match call <= until {
        true => json!({"Responses": {}, "UnprocessedKeys": request["RequestItems"]}),
        false => json!({"Responses": {}, "UnprocessedKeys": {}}),
    });
    let clock = Sleeps::default();
    let store = service.store(clock.clone()).await;
    let found = store.load(ids(["a", "b"])).await;
    let transient = |r: &Result<_, StoreError>| matches!(r, Err(StoreError::Transient(_)));
    let failed = found.iter().map(transient).collect();
    (failed, service.asked().len(), clock.slept())
}

#[tokio::test]
async fn every_call_but_the_first_comes_after_a_wait_within_its_bound() {
    let (failed, calls, waits) = read(3).await;
    assert_eq!((failed, calls), (vec![false, false], 4));
    assert_eq!(waits.len(), 3);
    for (wait, bound) in waits.iter().zip([50, 100, 200]) {
        assert!(wait.0 <= bound, "{waits:?}");
    }
}

#[tokio::test]
async fn after_eight_calls_the_read_has_failed_for_now() {
    let (failed, calls, waits) = read(usize::MAX).await;
    assert_eq!((failed, calls), (vec![true, true], 8));
    assert_eq!(waits.len(), 7);
    assert!(
        waits.iter().map(|wait| wait.0).sum::<u64>() <= 3_200,
        "{waits:?}"
    );
}
