//! The durable ledger: restarts, incomplete lines, and damage.

use std::io::Write;

use crate::support::start;
use serde_json::{Value, json};
use triad_reference_service::{Config, KeyStatus, LedgerError, ReferenceService, StartError};

fn config(dir: &tempfile::TempDir) -> Config {
    Config {
        ledger: Some(dir.path().join("ledger.jsonl")),
        ..Config::default()
    }
}

fn append(config: &Config, bytes: &[u8]) {
    let path = config.ledger.as_ref().unwrap();
    let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
}

#[tokio::test]
async fn a_restart_knows_every_effect_and_every_count() {
    let dir = tempfile::tempdir().unwrap();
    let (service, client) = start(config(&dir)).await;
    let first = client.forward("k1", json!({"amount": 5})).await;
    client.forward("k1", json!({"amount": 5})).await;
    client.forward("k2", json!({})).await;
    client.compensation("u2", "k2").await;
    client.compensation("u3", "k3").await;
    let (keys, summary) = (service.ledger(), service.summary());
    service.shutdown().await;

    let (service, client) = start(config(&dir)).await;
    assert_eq!((service.ledger(), service.summary()), (keys, summary));
    assert_eq!(
        client.forward("k1", json!({"amount": 5})).await.body,
        first.body
    );
    assert_eq!(client.forward("k1", json!({"amount": 6})).await.status, 422);
    assert_eq!(client.forward("k2", json!({})).await.status, 409);
    assert_eq!(client.forward("k3", json!({})).await.status, 409);
    assert_eq!(
        client.compensation("u2", "k2").await.json()["reversed"],
        true
    );
    let total = service.summary().total;
    assert_eq!((total.applied, total.compensated), (2, 1));
}

#[tokio::test]
async fn every_answered_call_is_in_the_file_before_its_answer() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(&dir);
    let (_service, client) = start(config.clone()).await;
    for n in 1..=3 {
        client.forward(&format!("k{n}"), json!({})).await;
        let text = std::fs::read_to_string(config.ledger.as_ref().unwrap()).unwrap();
        let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        assert_eq!(text.lines().count(), n);
        assert_eq!(last["key"], format!("k{n}"));
        assert_eq!(
            (&last["kind"], &last["direction"]),
            (&json!("applied"), &json!("forward"))
        );
        assert!(last["at_ms"].as_i64().unwrap() > 0);
    }
}

#[tokio::test]
async fn a_torn_last_line_is_cut_and_the_file_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(&dir);
    let (service, client) = start(config.clone()).await;
    client.forward("k1", json!({})).await;
    service.shutdown().await;
    append(&config, br#"{"at_ms":1,"service":"payment","act"#);

    let (service, client) = start(config.clone()).await;
    assert_eq!(service.summary().total.applied, 1);
    client.forward("k2", json!({})).await;
    service.shutdown().await;

    let (service, _) = start(config).await;
    assert_eq!(service.summary().total.applied, 2);
    assert!(
        service
            .ledger()
            .iter()
            .all(|key| key.status == KeyStatus::Applied)
    );
}

#[tokio::test]
async fn a_damaged_line_is_named_and_nothing_is_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(&dir);
    let (service, client) = start(config.clone()).await;
    client.forward("k1", json!({})).await;
    service.shutdown().await;
    append(&config, b"not json\n");
    let Err(StartError::Ledger(LedgerError::Corrupt { line, .. })) =
        ReferenceService::start(config.clone()).await
    else {
        panic!("a damaged ledger must not be used");
    };
    assert_eq!(line, 2);
    let text = std::fs::read_to_string(config.ledger.unwrap()).unwrap();
    assert!(text.ends_with("not json\n"));
}

#[tokio::test]
async fn a_ledger_in_use_and_one_beyond_the_bound_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(&dir);
    let (service, client) = start(config.clone()).await;
    client.forward("k1", json!({})).await;
    client.forward("k2", json!({})).await;
    assert!(matches!(
        ReferenceService::start(config.clone()).await,
        Err(StartError::Ledger(LedgerError::InUse { .. }))
    ));
    service.shutdown().await;
    let small = Config {
        max_keys: 1,
        ..config
    };
    assert!(matches!(
        ReferenceService::start(small).await,
        Err(StartError::Ledger(LedgerError::Full { .. }))
    ));
}
