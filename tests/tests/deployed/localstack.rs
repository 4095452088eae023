//! LocalStack's initialisation script, run against the embedded engines.

use std::path::{Path, PathBuf};
use std::process::Output;

use tokio::process::Command;
use triad_broker::{Broker, BrokerConfig};
use triad_embedded::Embedded;
use triad_tests::engines::loopback;
use triad_tests::process::binary;
use triad_tests::topics::read_all;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

async fn sh(command: &mut Command) -> Output {
    let done = command.output().await.expect("it starts");
    assert!(done.status.success(), "{done:?}");
    done
}

#[tokio::test]
async fn the_hook_makes_tables_topics_and_workflow_and_may_be_run_again() {
    let broker = Broker::start(BrokerConfig {
        listen: loopback(),
        auto_create_topics: false,
        ..BrokerConfig::default()
    })
    .expect("the broker starts");
    let tables = Embedded::start(loopback(), None).expect("the tables start");
    let brokers = broker.addr().to_string();
    let url = format!("http://{}", tables.addr());
    let cli = binary("triad");
    let path = format!("{}:/usr/bin:/bin", cli.parent().unwrap().display());
    let command = |program: &Path| {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", &path)
            .env("TRIAD_BROKERS", &brokers)
            .env("TRIAD_DYNAMODB_ENDPOINT", &url)
            .env("TRIAD_WORKFLOWS", root().join("examples/workflows"));
        command
    };
    for _ in 0..2 {
        sh(&mut command(&root().join("localstack/init/init.sh"))).await;
    }
    let known = sh(command(&cli).args(["workflows", "--prefix", "triad-"])).await;
    let known = String::from_utf8(known.stdout).unwrap();
    assert!(known.contains("three-steps"), "{known}");
    // If a topic were missing the test would fail, because the broker does not create topics.
    let topics = [
        "orders",
        "orders.high",
        "agent.payment",
        "agent.carrier.high",
        "dead-letter",
    ];
    assert!(read_all(&brokers, &topics).await.is_empty());
    broker.shutdown().await.unwrap();
}
