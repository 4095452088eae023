//! The program of the reference service, killed without warning.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use axum::http::Method;
use serde_json::{Value, json};

use crate::support::Client;

/// A child process that is killed when the test ends.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // Fails if the process has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn spawn(ledger: &Path) -> (Killed, Client) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_triad-reference-service"))
        .args(["--listen", "127.0.0.1:0", "--ledger"])
        .arg(ledger)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    let base = line
        .trim()
        .strip_prefix("listening on ")
        .unwrap()
        .to_owned();
    (Killed(child), Client::at(base))
}

#[tokio::test]
async fn a_kill_under_load_loses_no_acknowledged_effect() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = dir.path().join("ledger.jsonl");
    let (mut child, client) = spawn(&ledger);
    let (told, mut acknowledged) = tokio::sync::mpsc::unbounded_channel();
    let callers = (0..4).map(|caller| {
        let (client, told) = (client.clone(), told.clone());
        tokio::spawn(async move {
            for n in 0..100_000 {
                let key = format!("k{caller}-{n}");
                let Some(answered) = client.try_forward(&key, json!({"n": n})).await else {
                    return;
                };
                assert_eq!(answered.status, 200);
                told.send((key, n, answered.body)).unwrap();
            }
        })
    });
    let callers: Vec<_> = callers.collect();
    drop(told);
    let mut effects = Vec::new();
    while let Some(effect) = acknowledged.recv().await {
        effects.push(effect);
        if effects.len() == 500 {
            child.0.kill().unwrap();
        }
    }
    for caller in callers {
        caller.await.unwrap();
    }
    drop(child);

    let (_child, client) = spawn(&ledger);
    for (key, n, body) in &effects {
        assert_eq!(client.forward(key, json!({"n": n})).await.body, body);
    }
    let summary = client.send(Method::GET, "/_ledger/summary", &[], "").await;
    let total: Value = summary.json()["total"].clone();
    assert_eq!(total["replayed"], effects.len());
    // Each caller may have one effect in place whose answer the kill has lost.
    let applied = total["applied"].as_u64().unwrap() as usize;
    assert!(
        (effects.len()..=effects.len() + 4).contains(&applied),
        "{total}"
    );
}
