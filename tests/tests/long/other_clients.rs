//! Other clients with `triad dev`: confluent-kafka, kafka-python, kafkajs and boto3. Each Kafka client uses every
//! codec.
//!
//! The Python clients run in `.venv` at the root of the repository, or in the Python that `TRIAD_PYTHON` names;
//! kafkajs runs in Node with the packages in `tests/node`. Without them the tests are skipped, with a note.
//! `tests/verify.sh --all` installs both.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tokio::process::Command;
use triad_tests::dev::Dev;
use triad_tests::poll::PATIENCE;
use triad_tests::skipped::skipped;

/// Number of codecs, including no compression: each client sends one order for each.
const CODECS: usize = 5;

#[expect(
    clippy::disallowed_methods,
    reason = "which Python to use is a setting of the test run alone"
)]
fn python() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let python = match std::env::var("TRIAD_PYTHON") {
        Ok(named) => PathBuf::from(named),
        Err(_) => root.join(".venv/bin/python"),
    };
    if python.exists() {
        return Some(python);
    }
    let why = format!(
        "no Python at {}; run `python3 -m venv .venv && \
         .venv/bin/pip install -r tests/python-requirements.txt` or set TRIAD_PYTHON",
        python.display()
    );
    skipped("clients-in-python", &why);
    None
}

/// Runs a client until it ends; returns its line of JSON.
async fn ran(program: &OsStr, script: &str, args: &[&str]) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(script);
    let run = Command::new(program)
        .arg(script)
        .args(args)
        .kill_on_drop(true)
        .output();
    let ran = tokio::time::timeout(PATIENCE, run).await;
    let ran = ran.expect("the client ends").expect("it starts");
    let err = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{err}");
    serde_json::from_slice(&ran.stdout).expect("one line of JSON")
}

/// Asserts that every order has its statuses from `received` to `completed`, without gaps.
fn assert_told(found: &Value) {
    let statuses = found["statuses"].as_object().unwrap();
    assert_eq!(statuses.len(), CODECS, "{found}");
    for told in statuses.values() {
        // The same message may arrive twice, so duplicates are removed before the comparison.
        let mut told = told.as_array().unwrap().clone();
        told.dedup();
        for (place, status) in told.iter().enumerate() {
            assert_eq!(status[0], place + 1, "a gap: {told:?}");
        }
        assert_eq!(told.first().unwrap()[1], "received", "{told:?}");
        assert_eq!(told.last().unwrap()[1], "completed", "{told:?}");
    }
}

async fn orders_through(client: &str) {
    let Some(python) = python() else { return };
    let dev = Dev::on_tables(&[]).await;
    let args = [client, &dev.kafka, &dev.dynamodb];
    let found = ran(python.as_os_str(), "python/clients.py", &args).await;
    assert_told(&found);
    let records = found["records"].as_object().unwrap();
    assert_eq!(records.len(), CODECS, "{found}");
    for record in records.values() {
        assert_eq!(record["ProcessState"], "Processed");
        assert_eq!(record["LockedBy"]["NULL"], true);
        assert_eq!(record["CompleteBy"]["NULL"], true);
        assert_eq!(record["FailureCount"], 0);
        assert!(record["Version"].as_u64() > Some(1));
        assert_eq!(record["details"], true);
    }
}

#[tokio::test]
async fn orders_go_through_confluent_kafka() {
    orders_through("confluent").await;
}

#[tokio::test]
async fn orders_go_through_kafka_python() {
    orders_through("kafka-python").await;
}

#[tokio::test]
async fn orders_go_through_kafkajs() {
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("node/node_modules");
    if !installed.exists() {
        skipped("kafkajs", "run `npm ci --prefix tests/node`");
        return;
    }
    let dev = Dev::on_tables(&[]).await;
    assert_told(&ran(OsStr::new("node"), "node/clients.mjs", &[&dev.kafka]).await);
}

/// The example of an agent in Python, which another team runs beside Triad.
#[tokio::test]
async fn an_order_runs_through_an_agent_in_python() {
    let Some(python) = python() else { return };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let example = root.join("examples/kafka-agent");
    let dir = tempfile::tempdir().unwrap();
    let workflow = example.join("workflow.yaml");
    let workflow = workflow.to_str().unwrap();
    let dev = Dev::on_tables(&["--workflow", workflow, "--external-agent", "ledger"]).await;
    let mut agent = Command::new(python);
    agent
        .arg(example.join("agent.py"))
        .args([&dev.kafka, "ledger"]);
    let _agent = agent
        .arg(dir.path().join("effects.json"))
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let orders = dir.path().join("orders.jsonl");
    let order = |id: &str, amount: u32| {
        let details = serde_json::json!({ "amount": amount });
        serde_json::json!({"order_id": id, "workflow": "booking", "details": details}).to_string()
    };
    std::fs::write(
        &orders,
        [order("small", 400), order("large", 600)].join("\n"),
    )
    .unwrap();
    dev.submit(&orders).await;
    let mut ended: Vec<String> = dev
        .all_finished(2)
        .await
        .iter()
        .map(|order| {
            format!(
                "{} {}",
                order["order_id"].as_str().unwrap(),
                order["state"].as_str().unwrap()
            )
        })
        .collect();
    ended.sort();
    assert_eq!(ended, ["large Compensated", "small Processed"]);
    let effects = std::fs::read_to_string(dir.path().join("effects.json")).unwrap();
    let effects: Value = serde_json::from_str(&effects).unwrap();
    let keys: Vec<&String> = effects.as_object().unwrap().keys().collect();
    let wanted = [
        "large/book/compensate",
        "large/book/forward",
        "small/book/forward",
        "small/charge/forward",
    ];
    assert_eq!(keys, wanted);
}
