//! Clients in other languages, if there is a Python that has them: the interpreter in
//! `TRIAD_PYTHON`, or `.venv/bin/python` at the workspace's root, with the packages of
//! `tests/python-requirements.txt`.

use std::path::{Path, PathBuf};
use std::process::Command;

use triad_broker::{Broker, BrokerConfig};

fn python() -> Option<PathBuf> {
    #[expect(
        clippy::disallowed_methods,
        reason = "this test's one setting, read once"
    )]
    let named = std::env::var("TRIAD_PYTHON").ok().map(PathBuf::from);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv/bin/python");
    named.or_else(|| root.exists().then_some(root))
}

fn check(script: &str) {
    let Some(python) = python() else {
        eprintln!("SKIPPED: {script}: no Python. Make .venv from tests/python-requirements.txt");
        return;
    };
    let broker = Broker::start(BrokerConfig::default()).expect("a broker");
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/clients")
        .join(script);
    let output = Command::new(python)
        .arg(path)
        .arg(broker.addr().to_string())
        .output();
    let output = output.expect("python runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script} failed:\n{said}");
}

#[test]
fn kafka_python_works() {
    check("with_kafka_python.py");
}

#[test]
fn confluent_kafka_works() {
    check("with_confluent_kafka.py");
}
