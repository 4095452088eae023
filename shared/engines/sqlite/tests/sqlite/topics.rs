//! Topics as tables: what is read back, in this run and after the next start.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use triad_consume::{Broker as _, Consumer as _, Polled};
use triad_sqlite::SqliteStore;
use triad_sqlite::topics::{
    Found, LocalBroker, NewRecord, Position, Sequence, StoredRecord, TopicError, TopicSettings,
    Topics,
};
use triad_workflow::Millis;

use crate::common::Hand;

async fn open(dir: &Path) -> (SqliteStore<Hand>, Topics) {
    let store = SqliteStore::open(dir, Hand::at(10_000), Millis(0)).unwrap();
    let topics = store.open_topics(TopicSettings::default()).await.unwrap();
    (store, topics)
}

fn record(time: i64, value: &str) -> NewRecord {
    NewRecord {
        timestamp_ms: time,
        key: Some(b"k".to_vec()),
        value: Some(value.as_bytes().to_vec()),
        headers: Vec::new(),
    }
}

async fn append(topics: &Topics, topic: &str, record: NewRecord) -> i64 {
    let appended = topics.append(topic, 0, vec![record], None).await;
    appended.unwrap().base
}

/// All records from an offset on, read in parts of this many bytes.
async fn all(topics: &Topics, topic: &str, from: i64, part: usize) -> Vec<StoredRecord> {
    let (mut offset, mut found) = (from, Vec::new());
    loop {
        let at = Position {
            partition: 0,
            offset,
            max_bytes: part,
        };
        let read = topics.read(topic, &[at], part, true, None).await.unwrap();
        let Found::Records(records) = &read[0].found else {
            panic!("{read:?}");
        };
        let Some(last) = records.last() else {
            return found;
        };
        let bytes: usize = records.iter().map(|r| r.bytes()).sum();
        assert!(bytes <= part || records.len() == 1, "{bytes} of {part}");
        offset = last.offset + 1;
        found.extend(records.iter().map(|r| (**r).clone()));
    }
}

/// An import keeps all topics in their tables; the process that goes on keeps some of them in memory.
#[tokio::test]
async fn what_lies_in_the_table_of_a_topic_in_memory_is_moved_there() {
    let dir = tempfile::tempdir().unwrap();
    let (store, topics) = open(dir.path()).await;
    topics.create("t", 1, BTreeMap::new()).await.unwrap();
    for value in ["a", "b"] {
        append(&topics, "t", record(1, value)).await;
    }
    drop((store, topics));
    let settings = TopicSettings {
        in_memory: |topic| topic == "t",
        ..TopicSettings::default()
    };
    for left in [&["a", "b"][..], &[]] {
        let store = SqliteStore::open(dir.path(), Hand::at(10_000), Millis(0)).unwrap();
        let topics = store.open_topics(settings.clone()).await.unwrap();
        let start = topics.marks("t", 0).unwrap().start;
        let found = all(&topics, "t", start, 1_000).await;
        let values: Vec<_> = found.iter().map(|found| found.value()).collect();
        let wanted: Vec<_> = left.iter().map(|value| Some(value.as_bytes())).collect();
        assert_eq!(values, wanted, "the second start finds an empty table");
    }
}

#[tokio::test]
async fn what_was_appended_is_read_in_its_order_from_memory_and_from_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let (store, topics) = open(dir.path()).await;
    topics.create("t", 1, BTreeMap::new()).await.unwrap();
    let odd = NewRecord {
        timestamp_ms: -1,
        key: Some(vec![0xff, 0]),
        value: None,
        headers: vec![
            ("a".into(), Some(b"text \"quoted\"".to_vec())),
            ("a".into(), None),
            (String::new(), Some(vec![0x80, 0x81])),
            ("empty".into(), Some(Vec::new())),
        ],
    };
    let mut sent = vec![odd];
    // More than what is kept in memory of a partition.
    sent.extend((0..100).map(|n| record(n, &format!("{n} {}", "x".repeat(2_000)))));
    for (offset, record) in (0..).zip(&sent) {
        assert_eq!(append(&topics, "t", record.clone()).await, offset);
    }
    let fits = |found: &[StoredRecord], from: usize| {
        assert_eq!(found.len(), sent.len() - from);
        for (found, sent) in found.iter().zip(&sent[from..]) {
            assert_eq!(*found, sent.clone().at(found.offset));
            assert_eq!(found.key(), sent.key.as_deref());
            assert_eq!(found.value(), sent.value.as_deref());
            let headers = found.headers();
            let headers = headers.map(|(name, value)| (name.to_owned(), value.map(<[u8]>::to_vec)));
            assert_eq!(headers.collect::<Vec<_>>(), sent.headers);
        }
    };
    for (from, part) in [(0, 1), (0, 10_000), (0, usize::MAX), (95, 10_000), (101, 1)] {
        let found = all(&topics, "t", i64::try_from(from).unwrap(), part).await;
        fits(&found, from);
    }
    drop((store, topics));
    let (_store, topics) = open(dir.path()).await;
    fits(&all(&topics, "t", 0, 10_000).await, 0);
    assert_eq!(append(&topics, "t", record(1, "next")).await, 101);
}

#[tokio::test]
async fn the_first_record_since_a_time_is_found_however_clocks_went() {
    let dir = tempfile::tempdir().unwrap();
    let (_store, topics) = open(dir.path()).await;
    topics.create("t", 1, BTreeMap::new()).await.unwrap();
    let times = [5, 3, 8, 8, 2, 20, 9];
    for time in times {
        append(&topics, "t", record(time, "x")).await;
    }
    for wanted in 0..25 {
        let expected = times.iter().position(|time| *time >= wanted);
        let expected = expected.map(|at| (i64::try_from(at).unwrap(), times[at]));
        let found = topics.first_since("t", 0, wanted).await;
        assert_eq!(found, Ok(expected), "since {wanted}");
    }
    let nowhere = topics.first_since("none", 0, 1).await;
    assert_eq!(nowhere, Err(TopicError::NoTopic));
}

#[tokio::test]
async fn a_producer_that_repeats_is_known_after_a_start() {
    let dir = tempfile::tempdir().unwrap();
    let sequence = |first| {
        Some(Sequence {
            producer: 7,
            epoch: 0,
            first,
            more: 0,
        })
    };
    let (store, topics) = open(dir.path()).await;
    topics.create("t", 1, BTreeMap::new()).await.unwrap();
    for first in 0..3 {
        let sent = topics.append("t", 0, vec![record(1, "x")], sequence(first));
        assert_eq!(sent.await.map(|at| at.base), Ok(i64::from(first)));
    }
    drop((store, topics));
    let (_store, topics) = open(dir.path()).await;
    let again = topics.append("t", 0, vec![record(1, "x")], sequence(1));
    assert_eq!(
        again.await.map(|at| at.base),
        Ok(1),
        "it is not appended twice"
    );
    let gap = topics.append("t", 0, vec![record(1, "x")], sequence(5));
    assert_eq!(gap.await, Err(TopicError::OutOfOrder));
    let next = topics.append("t", 0, vec![record(1, "x")], sequence(3));
    assert_eq!(next.await.map(|at| at.base), Ok(3));
}

#[tokio::test]
async fn a_topic_that_was_deleted_leaves_nothing_to_one_of_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let (_store, topics) = open(dir.path()).await;
    let first = topics.create("t", 1, BTreeMap::new()).await.unwrap();
    assert_eq!(
        topics.create("t", 1, BTreeMap::new()).await,
        Err(TopicError::Exists)
    );
    for _ in 0..1_200 {
        let many = topics.append("t", 0, vec![record(1, "x")], None);
        many.await.unwrap();
    }
    topics.delete("t").await.unwrap();
    assert_eq!(topics.marks("t", 0), None);
    let second = topics.create("t", 1, BTreeMap::new()).await.unwrap();
    assert_ne!(first, second);
    assert_eq!(append(&topics, "t", record(1, "new")).await, 0);
    let mut rounds = 0;
    while topics.delete_old(triad_core::Timestamp(1)).await.unwrap() {
        rounds += 1;
    }
    assert!(
        (2..10).contains(&rounds),
        "a bounded number at a time: {rounds}"
    );
    let db = rusqlite::Connection::open(triad_sqlite::file(dir.path())).unwrap();
    let count = |sql| db.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(count("SELECT count(*) FROM records"), 1);
    assert_eq!(count("SELECT count(*) FROM partitions"), 1);
    let shown = "SELECT count(*) FROM messages WHERE Topic = 't' AND Value = 'new' AND Offset = 0";
    assert_eq!(count(shown), 1, "any client of SQLite can read it");
}

#[tokio::test]
async fn topics_have_at_most_as_many_partitions_as_the_settings_say() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(dir.path(), Hand::at(10_000), Millis(0)).unwrap();
    let settings = TopicSettings {
        max_partitions: 3,
        ..TopicSettings::default()
    };
    let topics = store.open_topics(settings).await.unwrap();
    topics.create("t", 2, BTreeMap::new()).await.unwrap();
    let refused = Err(TopicError::TooManyPartitions);
    assert_eq!(topics.add_partitions("t", 2).await, refused);
    topics.add_partitions("t", 1).await.unwrap();
    assert!(topics.marks("t", 2).is_some());
    let refused = Err(TopicError::TooManyPartitions);
    assert_eq!(topics.create("u", 1, BTreeMap::new()).await, refused);
    topics.delete("t").await.unwrap();
    assert!(
        topics.create("u", 3, BTreeMap::new()).await.is_ok(),
        "there is room again"
    );
}

/// The loops of the handlers drop a call that waits every few milliseconds. These headers are no text, and so slow to
/// read.
#[tokio::test]
async fn a_read_of_the_file_goes_on_when_the_call_that_began_it_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let (store, topics) = open(dir.path()).await;
    topics.create("t", 2, BTreeMap::new()).await.unwrap();
    for n in 0..20 {
        let mut record = record(1, &n.to_string());
        record.headers = vec![("long".into(), Some(vec![0x80; 20_000]))];
        append(&topics, "t", record).await;
    }
    drop((store, topics));
    let (_store, topics) = open(dir.path()).await;
    let consumer = LocalBroker::new(topics).join("g", "t").unwrap();
    let mut found = Vec::new();
    let until = Instant::now() + Duration::from_secs(20);
    while found.len() < 20 && Instant::now() < until {
        let next = tokio::time::timeout(Duration::from_micros(10), consumer.next());
        let Some(next) = next.await.ok().or_else(|| consumer.at_hand()) else {
            continue;
        };
        let Polled::Record(record) = next else {
            panic!("{next:?}");
        };
        found.push(record.offset);
    }
    assert_eq!(found, Vec::from_iter(0..20));
}

/// A file that is copied after a stop is whole without its log.
#[tokio::test]
async fn the_log_is_in_the_file_after_a_stop() {
    for _ in 0..50 {
        let dir = tempfile::tempdir().unwrap();
        let (store, topics) = open(dir.path()).await;
        topics.create("t", 1, BTreeMap::new()).await.unwrap();
        drop((store, topics));
        assert!(!dir.path().join("triad.sqlite-wal").exists());
    }
}
