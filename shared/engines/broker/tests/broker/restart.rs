//! Clients while the broker is restarted.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::client::{
    PATIENCE, admin, consumer, create_topic, eventually, options, producer, run, take,
};
use crate::process::{Process, free_port};
use rdkafka::consumer::{CommitMode, Consumer};
use rdkafka::message::Message;
use rdkafka::producer::FutureRecord;
use rdkafka::{Offset, TopicPartitionList};
use triad_broker::{Broker, BrokerConfig, PartitionRead, ReadRequest};

fn send(bootstrap: &str, value: &str) {
    let record = FutureRecord::<(), _>::to("t").partition(0).payload(value);
    run(producer(bootstrap, &[("enable.idempotence", "true")]).send(record, PATIENCE))
        .expect("a delivery");
}

fn payloads(messages: &[impl Message]) -> Vec<&str> {
    let text = |m| std::str::from_utf8(Message::payload(m).expect("a value")).expect("text");
    messages.iter().map(text).collect()
}

#[test]
fn records_topics_and_offsets_are_there_after_a_clean_end() {
    let dir = tempfile::tempdir().expect("a directory");
    let start = || {
        let data = Some(dir.path().into());
        Broker::start(BrokerConfig {
            data,
            ..BrokerConfig::default()
        })
        .expect("a broker")
    };
    let broker = start();
    let bootstrap = broker.addr().to_string();
    create_topic(&bootstrap, "t", 2);
    send(&bootstrap, "one");
    send(&bootstrap, "two");
    let mut position = TopicPartitionList::new();
    position
        .add_partition_offset("t", 0, Offset::Offset(1))
        .expect("an offset");
    consumer(&bootstrap, "g", &[])
        .commit(&position, CommitMode::Sync)
        .expect("a commit");
    run(broker.shutdown()).expect("a clean end");

    let broker = start();
    let bootstrap = broker.addr().to_string();
    let reader = consumer(&bootstrap, "g", &[]);
    reader.subscribe(&["t"]).expect("a subscription");
    assert_eq!(payloads(&take(&reader, 1)), ["two"]);
    send(&bootstrap, "three");
    let got = take(&reader, 1);
    assert_eq!((payloads(&got), got[0].offset()), (vec!["three"], 2));
    let deleted = run(admin(&bootstrap).delete_topics(&["t"], &options())).expect("an answer");
    assert!(deleted[0].is_ok());
    drop(reader);
    run(broker.shutdown()).expect("a clean end");
}

#[test]
fn a_group_member_goes_on_after_the_broker_was_killed() {
    let dir = tempfile::tempdir().expect("a directory");
    let program = Path::new(env!("CARGO_BIN_EXE_triad-broker"));
    let listen = free_port();
    let bootstrap = listen.to_string();
    let broker = Process::start(program, listen, Some(dir.path()));
    create_topic(&bootstrap, "t", 1);
    let settings = [
        ("reconnect.backoff.ms", "10"),
        ("reconnect.backoff.max.ms", "50"),
    ];
    let reader = consumer(&bootstrap, "g", &settings);
    reader.subscribe(&["t"]).expect("a subscription");
    send(&bootstrap, "before");
    assert_eq!(payloads(&take(&reader, 1)), ["before"]);
    reader
        .commit_consumer_state(CommitMode::Sync)
        .expect("a commit");
    drop(broker);
    let _broker = Process::start(program, listen, Some(dir.path()));
    send(&bootstrap, "after");
    // The client first reports the lost connection as an error event, which is skipped.
    let got = eventually("the next message arrives", || {
        reader
            .poll(std::time::Duration::from_millis(100))?
            .ok()
            .map(|m| m.detach())
    });
    assert_eq!(payloads(&[got]), ["after"]);
}

/// The disk is simulated by a limit on file sizes: the log's write fails, and succeeds after a restart without the
/// limit.
#[test]
fn a_disk_that_is_full_ends_the_broker_and_a_start_with_room_goes_on_with_all_that_was_acknowledged()
 {
    let dir = tempfile::tempdir().expect("a directory");
    let program = env!("CARGO_BIN_EXE_triad-broker");
    let listen = free_port();
    let bootstrap = listen.to_string();
    let mut limited = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 3072; exec \"$@\"", "sh"])
        .args([program, "--listen", &bootstrap, "--data"])
        .arg(dir.path())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the broker");
    create_topic(&bootstrap, "t", 1);
    let sender = producer(&bootstrap, &[("message.timeout.ms", "1000")]);
    let mut acknowledged = Vec::new();
    for number in 0..100 {
        let value = format!("{number} {}", "x".repeat(200_000));
        let record = FutureRecord::<(), _>::to("t").partition(0).payload(&value);
        if run(sender.send(record, PATIENCE)).is_err() {
            break;
        }
        acknowledged.push(value);
    }
    assert!((1..100).contains(&acknowledged.len()));
    let ended = eventually("it ends", || limited.try_wait().expect("a child"));
    let mut said = String::new();
    let mut stderr = limited.stderr.take().expect("a pipe");
    stderr.read_to_string(&mut said).expect("text");
    assert_eq!(ended.code(), Some(1), "{said}");
    assert!(said.contains("File too large"), "{said}");
    let data = Some(dir.path().into());
    let config = BrokerConfig {
        data,
        ..BrokerConfig::default()
    };
    let broker = Broker::start(config).expect("a broker");
    let all = broker.line().read(ReadRequest {
        topic: "t".into(),
        positions: vec![(0, 0)],
        max_bytes: usize::MAX,
    });
    let parts = all.at_hand().expect("records").expect("they can be read");
    let PartitionRead::Batches { bytes, .. } = &parts[0] else {
        panic!("{parts:?}");
    };
    let is_kept = |value: &&String| {
        let value = value.as_bytes();
        bytes.windows(value.len()).any(|bytes| bytes == value)
    };
    let kept = acknowledged.iter().filter(is_kept).count();
    assert_eq!(kept, acknowledged.len());
    run(broker.line().try_write()).expect("it takes more");
    run(broker.shutdown()).expect("a clean end");
}

#[test]
fn memory_is_forgotten() {
    let broker = Broker::start(BrokerConfig::default()).expect("a broker");
    let bootstrap = broker.addr().to_string();
    create_topic(&bootstrap, "t", 1);
    send(&bootstrap, "gone");
    run(broker.shutdown()).expect("a clean end");
    let broker = Broker::start(BrokerConfig::default()).expect("a broker");
    let client = consumer(&broker.addr().to_string(), "g", &[]);
    let metadata = client.fetch_metadata(None, PATIENCE).expect("metadata");
    assert!(metadata.topics().is_empty());
}
