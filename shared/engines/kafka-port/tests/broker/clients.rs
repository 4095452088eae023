//! Clients in Python. Skipped if there is no interpreter with their packages: the interpreter in `TRIAD_PYTHON`, or
//! `.venv/bin/python` at the workspace's root, with the packages of `tests/python-requirements.txt`.

// Included by path: the crate of the workspace's tests depends on this crate.
#[path = "../../../../../tests/src/skipped.rs"]
mod skipped;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::authority::Authority;
use triad_broker::{Broker, BrokerConfig, SaslConfig, SecuredListener};

fn python() -> Option<PathBuf> {
    #[expect(
        clippy::disallowed_methods,
        reason = "this test's one setting, read once"
    )]
    let named = std::env::var("TRIAD_PYTHON").ok().map(PathBuf::from);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../.venv/bin/python");
    named.or_else(|| root.exists().then_some(root))
}

fn run(script: &str, arguments: impl FnOnce() -> Vec<String>) {
    let Some(python) = python() else {
        let why = "no Python. Make .venv from tests/python-requirements.txt";
        skipped::skipped("clients-in-python", why);
        return;
    };
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/broker/clients")
        .join(script);
    let output = Command::new(python).arg(path).args(arguments()).output();
    let output = output.expect("python runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script} failed:\n{said}");
}

fn check(script: &str) {
    let broker = Broker::start(BrokerConfig::default()).expect("a broker");
    run(script, || vec![broker.addr().to_string()]);
}

fn check_login(client: &str) {
    let authority = Authority::new();
    let server = authority.server("127.0.0.1");
    let users = BTreeMap::from([("ada".to_owned(), "made-up".to_owned())]);
    let broker = Broker::start(BrokerConfig {
        secured: Some(SecuredListener {
            listen: ([127, 0, 0, 1], 0).into(),
            certificate: server.certificate,
            key: server.key,
            client_ca: None,
            sasl: Some(SaslConfig {
                users,
                tokens: None,
            }),
        }),
        ..BrokerConfig::default()
    });
    let broker = broker.expect("a broker");
    let dir = tempfile::tempdir().expect("a directory");
    let ca = dir.path().join("ca.pem");
    std::fs::write(&ca, &authority.pem).expect("a file");
    for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512"] {
        let addr = broker.secured_addr().expect("an address").to_string();
        let ca = ca.display().to_string();
        run("with_login.py", || {
            [client, &addr, &ca, mechanism, "ada", "made-up"]
                .map(str::to_owned)
                .into()
        });
    }
}

#[test]
fn kafka_python_works() {
    check("with_kafka_python.py");
}

#[test]
fn confluent_kafka_works() {
    check("with_confluent_kafka.py");
}

#[test]
fn kafka_python_logs_in() {
    check_login("kafka-python");
}

#[test]
fn confluent_kafka_logs_in() {
    check_login("confluent");
}
