//! The contract of a control store. Every implementation is tested with it.
//!
//! Each function checks one behaviour and panics if the store does not have it. `prefix` separates the keys of one
//! run from those of another: it must be new. [`all`] runs all functions.

use serde_json::json;
use triad_core::Timestamp;
use triad_runtime::{ControlRecord, ControlStore, ControlWrite, Written};
use triad_workflow::Millis;

use super::TimedStore;

/// Margin in checks of times: a store may round a time to seconds, and takes some time to answer.
const MARGIN: Millis = Millis(3_000);
/// Lifetime of the records that expire in these tests.
const LIFE: Millis = Millis(20_000);

fn write(key: &str, expected: Option<u64>, token: u64) -> ControlWrite {
    ControlWrite {
        key: key.to_owned(),
        value: json!({"token": token}),
        expected,
        expires: None,
        token,
    }
}

async fn read<S: ControlStore>(store: &S, key: &str) -> Option<ControlRecord> {
    let found = store.read(key.to_owned(), true).await;
    found.expect("the store works")
}

fn record(version: u64, token: u64) -> ControlRecord {
    ControlRecord {
        version,
        value: json!({"token": token}),
    }
}

/// Checks that a record is written only if its version is the expected one, and that a write which is repeated with
/// the same token is answered as written. All ids begin with `prefix`, which must be valid in an id and new to this
/// store.
///
/// # Panics
/// If the store behaves differently, a call fails, or `prefix` is not valid in an id.
pub async fn writes_on_the_version_and_knows_its_own_write<S: ControlStore>(
    store: &S,
    prefix: &str,
) {
    let key = format!("{prefix}/version");
    assert_eq!(read(store, &key).await, None);
    for (expected, token, result) in [
        (Some(1), 9, Written::Conflict),
        (None, 1, Written::Written),
        (None, 2, Written::Conflict),
        (None, 1, Written::Written),
        (Some(1), 3, Written::Written),
        (Some(1), 4, Written::Conflict),
        (Some(1), 3, Written::Written),
        (Some(7), 5, Written::Conflict),
    ] {
        let done = store.write(write(&key, expected, token)).await;
        assert_eq!(done, Ok(result), "{expected:?}, token {token}");
    }
    assert_eq!(read(store, &key).await, Some(record(2, 3)));
}

/// Checks that of several writes on the same version, made one after the other, exactly one is written. All ids begin
/// with `prefix`, which must be valid in an id and new to this store.
///
/// # Panics
/// If the store behaves differently, a call fails, or `prefix` is not valid in an id.
pub async fn lets_one_of_many_win<S: ControlStore>(store: &S, prefix: &str) {
    let key = format!("{prefix}/race");
    let mut won = Vec::new();
    for token in 1..9 {
        if store.write(write(&key, None, token)).await == Ok(Written::Written) {
            won.push(token);
        }
    }
    assert_eq!(won.len(), 1);
    assert_eq!(read(store, &key).await, Some(record(1, won[0])));
}

/// Checks that a record that has expired is not read any more, and that a new one can be created in its place,
/// whether or not the store has deleted it. All ids begin with `prefix`, which must be valid in an id and new to this
/// store.
///
/// # Panics
/// If the store behaves differently, a call fails, or `prefix` is not valid in an id.
pub async fn takes_an_expired_record_as_none<T: TimedStore>(timed: &T, prefix: &str) {
    let store = timed.keeping(Millis(0));
    let expiring = |name: &str, at: Timestamp| ControlWrite {
        expires: Some(at),
        ..write(&format!("{prefix}/{name}"), None, 1)
    };
    let ends = timed.now().plus(LIFE);
    let first = expiring("expires", ends);
    let key = first.key.clone();
    assert_eq!(store.write(first).await, Ok(Written::Written));
    timed.pass(Millis(LIFE.0 - MARGIN.0)).await;
    assert_eq!(read(&store, &key).await, Some(record(1, 1)));
    let early = store.write(write(&key, None, 2)).await;
    assert_eq!(early, Ok(Written::Conflict), "it still stands");
    timed.pass(Millis(2 * MARGIN.0)).await;
    assert_eq!(read(&store, &key).await, None);
    let made = store.write(write(&key, None, 3)).await;
    assert_eq!(made, Ok(Written::Written));
    assert_eq!(read(&store, &key).await, Some(record(1, 3)));
    timed.pass(LIFE).await;
    assert_eq!(read(&store, &key).await, Some(record(1, 3)), "for good");
}

/// Runs every function of this contract. All ids begin with `prefix`, which must be valid in an id and new to this
/// store.
///
/// # Panics
/// If one of these functions panics: a behaviour is missing, a call fails, or `prefix` is not valid in an id.
pub async fn all<T: TimedStore>(timed: &T, prefix: &str) {
    let store = timed.keeping(Millis(0));
    writes_on_the_version_and_knows_its_own_write(&store, prefix).await;
    lets_one_of_many_win(&store, prefix).await;
    takes_an_expired_record_as_none(timed, prefix).await;
}
