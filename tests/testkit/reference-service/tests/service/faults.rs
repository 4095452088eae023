//! Faults over HTTP, and the contract while they occur.

use std::time::Duration;

use crate::support::{Client, start};
use axum::http::Method;
use serde_json::json;
use triad_reference_service::{Config, FaultPlan, Faults, Handle, KeyStatus};

fn plan(plan: FaultPlan) -> Config {
    Config {
        faults: Faults {
            seed: 3,
            default: plan,
            ..Faults::default()
        },
        ..Config::default()
    }
}

/// Polls until `condition` holds, for at most ten seconds.
async fn eventually(service: &Handle, condition: impl Fn(&Handle) -> bool) {
    let poll = async {
        while !condition(service) {
            tokio::task::yield_now().await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(10), poll).await;
    assert!(waited.is_ok(), "{:?}", service.summary());
}

#[tokio::test]
async fn a_lost_answer_has_had_its_effect_and_a_retry_finds_it() {
    let lossy = FaultPlan {
        transient: 1.0,
        transient_after_effect: 1.0,
        retry_after_s: Some(2),
        ..FaultPlan::default()
    };
    let (service, client) = start(plan(lossy)).await;
    let lost = client.forward("k", json!({})).await;
    assert!([429, 500, 503].contains(&lost.status.as_u16()));
    assert_eq!(lost.headers["retry-after"], "2");
    assert_eq!(service.summary().total.applied, 1);
    service.set_faults(Faults::default()).unwrap();
    assert_eq!(client.forward("k", json!({})).await.status, 200);
    assert_eq!(service.summary().total.applied, 1);
}

#[tokio::test]
async fn a_declined_key_stays_declined_without_effect_until_the_settings_change() {
    let declining = FaultPlan {
        permanent: 1.0,
        ..FaultPlan::default()
    };
    let (service, client) = start(plan(declining)).await;
    for _ in 0..3 {
        let declined = client.forward("k", json!({})).await;
        assert_eq!(declined.code(), (422, "declined".to_owned()));
    }
    assert_eq!(service.summary().total.applied, 0);
    assert_eq!(client.compensation("u", "other").await.status, 200);
    service.set_faults(Faults::default()).unwrap();
    assert_eq!(client.forward("k", json!({})).await.status, 200);
}

#[tokio::test]
async fn a_key_that_took_effect_is_never_declined_afterwards() {
    let (service, client) = start(Config::default()).await;
    client.forward("k", json!({})).await;
    let declining = FaultPlan {
        permanent: 1.0,
        ..FaultPlan::default()
    };
    service.set_faults(plan(declining).faults).unwrap();
    assert_eq!(client.forward("k", json!({})).await.status, 200);
}

#[tokio::test]
async fn down_and_garbage_are_set_by_service_at_run_time() {
    let (service, client) = start(Config::default()).await;
    let faults = json!({"services": {"payment": {"down": true}, "stock": {"garbage": 1.0}}});
    let set = client
        .send(Method::PUT, "/_faults", &[], faults.to_string())
        .await;
    assert_eq!(set.status, 200);
    let down = client.forward("k", json!({})).await;
    assert_eq!(down.code(), (503, "down".to_owned()));
    assert_eq!(down.headers["retry-after"], "1");
    let key = [("idempotency-key", "k")];
    let garbage = client
        .send(Method::POST, "/stock/reserve", &key, "{}")
        .await;
    assert_eq!(garbage.status, 200);
    assert!(serde_json::from_slice::<serde_json::Value>(&garbage.body).is_err());
    let shown = client.send(Method::GET, "/_faults", &[], "").await;
    assert_eq!(shown.json()["services"]["payment"]["down"], true);
    let summary = service.summary();
    assert_eq!(summary.services["payment"].failed, 1);
    assert_eq!(summary.services["payment"].applied, 0);
}

#[tokio::test]
async fn a_stalled_forward_call_whose_caller_hung_up_lands_after_its_compensation_without_effect() {
    let slow = FaultPlan {
        latency_ms: 1_500,
        ..FaultPlan::default()
    };
    let (service, client) = start(plan(slow)).await;
    let caller = client.clone();
    let call = tokio::spawn(async move { caller.forward("k", json!({})).await.status });
    eventually(&service, |service| service.summary().total.calls == 1).await;
    call.abort();
    service.set_faults(Faults::default()).unwrap();
    assert_eq!(
        client.compensation("u", "k").await.json()["reversed"],
        false
    );
    eventually(&service, |service| service.summary().total.refused == 1).await;
    let keys = service.ledger();
    assert_eq!(keys[0].status, KeyStatus::Tombstoned);
    assert_eq!((keys[0].calls, keys[0].applied), (1, 0));
}

#[tokio::test]
async fn a_stop_ends_a_stall() {
    let stalling = FaultPlan {
        stall: 1.0,
        stall_ms: 600_000,
        ..FaultPlan::default()
    };
    let (service, client) = start(plan(stalling)).await;
    let caller = client.clone();
    let call = tokio::spawn(async move { caller.forward("k", json!({})).await.status });
    eventually(&service, |service| service.summary().total.calls == 1).await;
    let bounded = tokio::time::timeout(Duration::from_secs(10), service.shutdown());
    assert!(bounded.await.is_ok());
    assert!(call.await.is_ok());
}

/// Makes a fixed series of calls, one after the other; returns the statuses.
async fn series(client: &Client) -> Vec<u16> {
    let mut statuses = Vec::new();
    for n in 0..40 {
        for _ in 0..3 {
            let answered = client.forward(&format!("k{n}"), json!({"n": n})).await;
            statuses.push(answered.status.as_u16());
        }
    }
    statuses
}

#[tokio::test]
async fn a_run_can_be_repeated_and_effects_stay_single() {
    let mixed = FaultPlan {
        transient: 0.4,
        permanent: 0.2,
        garbage: 0.1,
        ..FaultPlan::default()
    };
    let (one, first) = start(plan(mixed.clone())).await;
    let (two, second) = start(plan(mixed)).await;
    let statuses = series(&first).await;
    assert_eq!(statuses, series(&second).await);
    for status in [200, 422, 429, 500, 503] {
        assert!(statuses.contains(&status), "{status} never came up");
    }
    assert_eq!(one.summary(), two.summary());
    assert_eq!(one.ledger(), two.ledger());
    assert!(one.ledger().iter().all(|key| key.applied <= 1));
    assert_eq!(one.summary().total.calls, 120);
}
