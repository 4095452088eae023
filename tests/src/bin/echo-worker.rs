//! A worker's loop that says which records its handler is given, and dies of some, to test what the
//! next one does: `echo-worker batches|stream BROKERS TOPIC`, until it is killed or its standard
//! input ends.

use std::io::{Write, stdout};
use std::sync::Arc;

use tokio::io::AsyncReadExt;
use tokio_util::sync::CancellationToken;
use triad_consume::{ConsumeError, WorkerConfig, run_batches, run_stream};
use triad_kafka::KafkaConfig;
use triad_runtime::{Handled, InputRecord};

#[tokio::main]
async fn main() -> Result<(), ConsumeError> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let mut args = std::env::args().skip(1);
    let mut arg = || args.next().unwrap_or_default();
    let (reads, brokers, topic) = (arg(), arg(), arg());
    let mut kafka = KafkaConfig::new(brokers);
    // The group notices soon that a member is dead.
    kafka.extra = vec![
        ("session.timeout.ms".into(), "1000".into()),
        ("heartbeat.interval.ms".into(), "200".into()),
    ];
    let config = WorkerConfig {
        broker: kafka,
        group: "echo".to_owned(),
        high: format!("{topic}.high"),
        normal: topic,
        max_records: 10,
    };
    let stop = CancellationToken::new();
    let ends = stop.clone();
    tokio::spawn(async move {
        let _ = tokio::io::stdin().read_to_end(&mut Vec::new()).await;
        ends.cancel();
    });
    match reads.as_str() {
        "batches" => {
            let handle = |records: Arc<Vec<InputRecord>>| async move {
                records.iter().filter_map(take).collect()
            };
            run_batches(config, stop, handle).await
        }
        _ => {
            let handle = |record: Arc<InputRecord>| async move {
                match take(&record) {
                    Some(handled) => handled,
                    None => std::future::pending().await,
                }
            };
            run_stream(config, stop, handle).await
        }
    }
}

/// Nothing for a record that waits for what never comes.
fn take(record: &InputRecord) -> Option<Handled> {
    let value = String::from_utf8_lossy(record.value.as_deref().unwrap_or_default());
    // A line is out before the process may die.
    let mut out = stdout().lock();
    let _ = writeln!(out, "{value}").and_then(|()| out.flush());
    match &*value {
        "die" => std::process::abort(),
        "wait" => None,
        _ => Some(Handled::Done),
    }
}
