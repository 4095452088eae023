//! Clients while the broker is restarted.

use std::path::Path;
use std::process::Command;

use crate::client::{
    PATIENCE, admin, consumer, create_topic, eventually, options, producer, run, take,
};
use crate::process::{Process, free_port};
use rdkafka::consumer::{CommitMode, Consumer};
use rdkafka::message::Message;
use rdkafka::producer::FutureRecord;
use rdkafka::{Offset, TopicPartitionList};
use triad_broker::{Broker, BrokerConfig, TopicsIn};
use triad_sqlite::topics::TopicSettings;

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
        Broker::start(BrokerConfig {
            topics: TopicsIn::Directory(dir.path().into(), TopicSettings::default()),
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

/// The disk is simulated by a limit on file sizes, which is taken back while the broker runs.
#[test]
fn a_broker_whose_disk_was_full_goes_on_by_itself_once_there_is_room() {
    let dir = tempfile::tempdir().expect("a directory");
    let program = Path::new(env!("CARGO_BIN_EXE_triad-broker"));
    let listen = free_port();
    let bootstrap = listen.to_string();
    let broker = Process::start(program, listen, Some(dir.path()));
    let limit = |bytes: &str| {
        let pid = broker.id().to_string();
        let limited = Command::new("prlimit")
            .args(["--pid", &pid, &format!("--fsize={bytes}:unlimited")])
            .status();
        assert!(limited.expect("prlimit runs").success());
    };
    create_topic(&bootstrap, "t", 1);
    limit("3145728");
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
    limit("unlimited");
    let last = "there is room".to_owned();
    eventually("it takes more", || {
        let record = FutureRecord::<(), _>::to("t").partition(0).payload(&last);
        run(sender.send(record, PATIENCE)).ok()
    });
    let reader = consumer(&bootstrap, "g", &[]);
    reader.subscribe(&["t"]).expect("a subscription");
    // What was not acknowledged may be there too, because its client may have tried once more.
    let mut left = acknowledged.iter().chain([&last]).peekable();
    eventually("all that was acknowledged is read in its order", || {
        let record = reader.poll(std::time::Duration::from_millis(100))?.ok()?;
        let value = record.payload().expect("a value");
        if left.peek().is_some_and(|next| next.as_bytes() == value) {
            left.next();
        }
        left.peek().is_none().then_some(())
    });
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
