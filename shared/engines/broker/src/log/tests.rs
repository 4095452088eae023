//! Storage as a whole: the state after each kind of stop.
//!
//! A crash is simulated by dropping the store without closing it: submitted records reach the write-ahead log, and
//! nothing else happens. Torn writes are simulated in the files.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::Duration;

use kafka_protocol::error::ResponseError;

use super::batch::{self, BatchHeader, testing};
use super::flusher::Flush;
use super::meta::LogId;
use super::partition::ReadResult;
use super::segment::now;
use super::store::{Accepted, AppendVisibility, Store};
use crate::config::BrokerConfig;
use crate::error::Error;
use crate::offsets::Committed;

const NOBODY: (i64, i16, i32) = (-1, -1, -1);

fn config(dir: &Path) -> BrokerConfig {
    BrokerConfig {
        data: Some(dir.into()),
        segment_bytes: 1 << 16,
        ..BrokerConfig::default()
    }
}

fn open(dir: &Path) -> Store {
    try_open(dir).unwrap()
}

fn try_open(dir: &Path) -> Result<Store, Error> {
    Store::open(&config(dir), Box::new(|| {}))
}

fn topic(store: &mut Store) -> LogId {
    if store.topics.get("t").is_none() {
        store.create_topic("t", 1, BTreeMap::new()).unwrap();
    }
    store.topics.log("t", 0).unwrap()
}

fn append(
    store: &mut Store,
    producer: (i64, i16, i32),
    value: &[u8],
) -> Result<Accepted, ResponseError> {
    let log = topic(store);
    let bytes = testing::batch(producer, 1000, &[value]);
    let header = batch::validate(&bytes, 2 << 20).unwrap();
    store.append(log, &header, &bytes, None, AppendVisibility::First)
}

/// As [`append`], by a sender that can restore the batch.
fn append_restorable(store: &mut Store, value: &[u8]) -> Result<Accepted, ResponseError> {
    let log = topic(store);
    let bytes = testing::batch(NOBODY, 1000, &[value]);
    let header = batch::validate(&bytes, 2 << 20).unwrap();
    store.append(log, &header, &bytes, None, AppendVisibility::Soon)
}

/// Waits until everything appended may be read.
fn write_all(store: &mut Store) {
    let log = topic(store);
    while store.log(log).is_some_and(|l| l.high_watermark < l.next) {
        store.advance();
        std::thread::yield_now();
    }
}

/// All values with their offsets, fetched in steps of at most `max_bytes`.
fn values(store: &mut Store, max_bytes: usize) -> Vec<(i64, Vec<u8>)> {
    write_all(store);
    let log = topic(store);
    let log = store.log(log).unwrap();
    let mut offset = log.start;
    let mut all = Vec::new();
    while offset < log.next {
        let mut bytes = Vec::new();
        assert!(
            matches!(log.read(offset, max_bytes, true, &mut bytes).unwrap(), ReadResult::Bytes(n) if n > 0)
        );
        let mut rest = &bytes[..];
        while let Some(header) = BatchHeader::parse(rest) {
            assert!(header.base_offset >= offset);
            all.push((
                header.base_offset,
                only_value(&rest[batch::HEADER_BYTES..header.size]),
            ));
            offset = header.last_offset() + 1;
            rest = &rest[header.size..];
        }
    }
    all
}

/// The value of a batch's only record, which has no key and no headers.
fn only_value(mut record: &[u8]) -> Vec<u8> {
    let mut number = || batch::varint(&mut record).unwrap();
    let (_length, _attributes, _timestamp, _offset, _no_key) =
        (number(), number(), number(), number(), number());
    let length = usize::try_from(number()).unwrap();
    record[..length].to_vec()
}

fn value(i: usize, length: usize) -> Vec<u8> {
    let mut value = i.to_be_bytes().to_vec();
    value.resize(length, 0xee);
    value
}

fn fill(store: &mut Store, range: std::ops::Range<usize>) {
    for i in range {
        let accepted = append(store, NOBODY, &value(i, 100)).unwrap();
        assert_eq!(accepted.base_offset, i64::try_from(i).unwrap());
    }
}

fn check(store: &mut Store, count: usize) {
    // One batch at a time only for few records, because that takes many reads.
    let smallest = if count < 2000 { 1 } else { 5000 };
    for max_bytes in [smallest, 1 << 20] {
        let all = values(store, max_bytes);
        let expected = |i| (i64::try_from(i).unwrap(), value(i, 100));
        assert_eq!(all.len(), count);
        assert!(
            all.into_iter()
                .enumerate()
                .all(|(i, found)| found == expected(i))
        );
    }
}

fn newest_wal(dir: &Path) -> PathBuf {
    let mut wals: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| super::wal::generation_of(p).is_some())
        .collect();
    wals.sort();
    wals.pop().unwrap()
}

fn cut(file: &Path, bytes: u64) {
    let file = OpenOptions::new().write(true).open(file).unwrap();
    file.set_len(file.metadata().unwrap().len() - bytes)
        .unwrap();
}

fn lengthen(file: &Path, by: &[u8]) {
    let bytes = [fs::read(file).unwrap(), by.to_vec()].concat();
    fs::write(file, bytes).unwrap();
}

fn flip(file: &Path, from_end: usize) {
    let mut bytes = fs::read(file).unwrap();
    let at = bytes.len() - from_end;
    bytes[at] ^= 0x10;
    fs::write(file, bytes).unwrap();
}

#[test]
fn everything_is_read_back_from_memory_and_from_many_segments() {
    let mut store = Store::open(
        &BrokerConfig {
            segment_bytes: 1 << 16,
            ..BrokerConfig::default()
        },
        Box::new(|| {}),
    )
    .unwrap();
    fill(&mut store, 0..3000);
    check(&mut store, 3000);
}

#[test]
fn everything_survives_crashes_and_clean_ends_alike() {
    let dir = tempfile::tempdir().unwrap();
    let mut written = 0;
    for round in 0..6 {
        let mut store = open(dir.path());
        check(&mut store, written);
        fill(&mut store, written..written + 1500);
        written += 1500;
        check(&mut store, written);
        if round % 2 == 0 {
            store.close().unwrap();
        }
    }
}

#[test]
fn a_torn_tail_is_cut_off_and_its_offset_is_used_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    fill(&mut store, 0..10);
    drop(store);
    for damage in [
        |f: &Path| cut(f, 1),
        |f: &Path| cut(f, 50),
        |f: &Path| flip(f, 20),
        // As a killed process leaves it: earlier bytes, or none, are behind the tear.
        |f: &Path| {
            cut(f, 50);
            lengthen(f, &fs::read(f).unwrap());
        },
        |f: &Path| {
            cut(f, 50);
            lengthen(f, &[0; 1 << 16]);
        },
    ] {
        damage(&newest_wal(dir.path()));
        let mut store = open(dir.path());
        check(&mut store, 9);
        fill(&mut store, 9..10);
        drop(store);
        let mut store = open(dir.path());
        check(&mut store, 10);
        // Leaves ten records in the write-ahead log again for the next kind of damage.
        store
            .change(super::meta::MetaRecord::TopicDeleted { name: "t".into() })
            .unwrap();
        fill(&mut store, 0..10);
    }
}

#[test]
fn what_nobody_waits_for_becomes_durable_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    fill(&mut store, 0..1);
    let began = store.durable_to();
    let lsn = store.commit_offsets("g", Vec::new(), Flush::Soon).unwrap();
    assert!(lsn > began);
    while store.durable_to() < lsn {
        store.advance();
        std::thread::yield_now();
    }
}

#[test]
fn damage_before_the_last_write_ahead_log_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    fill(&mut store, 0..10);
    drop(store);
    let wal = newest_wal(dir.path());
    flip(&wal, 20);
    let generation = super::wal::generation_of(&wal).unwrap();
    fs::write(super::wal::path_of(dir.path(), generation + 1), b"").unwrap();
    assert!(matches!(try_open(dir.path()), Err(Error::Damaged { path }) if path == wal));
}

#[test]
fn a_damaged_snapshot_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).close().unwrap();
    flip(&dir.path().join("snapshot"), 5);
    assert!(matches!(try_open(dir.path()), Err(Error::Damaged { .. })));
}

#[test]
fn a_damaged_segment_serves_what_is_intact_and_never_reuses_offsets() {
    for damage in [|f: &Path| cut(f, 10), |f: &Path| flip(f, 10)] {
        let dir = tempfile::tempdir().unwrap();
        let mut store = open(dir.path());
        fill(&mut store, 0..10);
        store.close().unwrap();
        let log = fs::read_dir(dir.path().join("logs"))
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path();
        let segment = fs::read_dir(log).unwrap().next().unwrap().unwrap().path();
        damage(&segment);
        let mut store = open(dir.path());
        let accepted = append(&mut store, NOBODY, &value(10, 100)).unwrap();
        assert_eq!(accepted.base_offset, 10);
        let offsets: Vec<_> = values(&mut store, 1000)
            .into_iter()
            .map(|(o, _)| o)
            .collect();
        assert_eq!(offsets, [0, 1, 2, 3, 4, 5, 6, 7, 8, 10]);
    }
}

#[test]
fn a_directory_has_one_owner() {
    let dir = tempfile::tempdir().unwrap();
    let _store = open(dir.path());
    assert!(matches!(try_open(dir.path()), Err(Error::Locked { .. })));
}

#[test]
fn duplicates_are_known_after_a_crash_and_after_a_clean_end() {
    for clean in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let mut store = open(dir.path());
        let first = append(&mut store, (5, 0, 0), &value(0, 100)).unwrap();
        append(&mut store, (5, 0, 1), &value(1, 100)).unwrap();
        if clean {
            store.close().unwrap()
        } else {
            drop(store)
        }
        let mut store = open(dir.path());
        let again = append(&mut store, (5, 0, 0), &value(0, 100)).unwrap();
        assert_eq!(again.base_offset, first.base_offset);
        let gap = append(&mut store, (5, 0, 3), &value(3, 100)).unwrap_err();
        assert_eq!(gap, ResponseError::OutOfOrderSequenceNumber);
        check(&mut store, 2);
    }
}

#[test]
fn topics_offsets_and_producer_ids_survive() {
    for clean in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let mut store = open(dir.path());
        let configs = BTreeMap::from([("segment.bytes".to_owned(), "70000".to_owned())]);
        store.create_topic("kept", 2, configs.clone()).unwrap();
        store.add_partitions("kept", 1).unwrap();
        store.create_topic("gone", 1, BTreeMap::new()).unwrap();
        store
            .change(super::meta::MetaRecord::TopicDeleted {
                name: "gone".into(),
            })
            .unwrap();
        let position = Committed {
            topic: "kept".into(),
            partition: 2,
            offset: 77,
            leader_epoch: 0,
            metadata: "note".into(),
        };
        store
            .commit_offsets("g", vec![position.clone()], Flush::Now)
            .unwrap();
        let (id, _) = store.new_producer_id().unwrap();
        let cluster = store.cluster_id.clone();
        if clean {
            store.close().unwrap()
        } else {
            drop(store)
        }
        let mut store = open(dir.path());
        let kept = store.topics.get("kept").unwrap();
        assert_eq!((kept.logs.len(), &kept.configs), (3, &configs));
        assert!(store.topics.get("gone").is_none());
        assert_eq!(store.offsets.get("g", "kept", 2), Some(&position));
        assert_eq!(store.cluster_id, cluster);
        assert!(store.new_producer_id().unwrap().0 > id);
    }
}

#[test]
fn an_empty_log_begins_where_another_ended_also_after_a_crash_and_a_clean_end() {
    for crash in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let mut store = open(dir.path());
        let log = topic(&mut store);
        store.begin_at(log, 500).unwrap();
        let end = |store: Store| match crash {
            true => drop(store),
            false => store.close().unwrap(),
        };
        end(store);
        let mut store = open(dir.path());
        assert_eq!(append(&mut store, NOBODY, b"a").unwrap().base_offset, 500);
        store.begin_at(log, 900).unwrap();
        end(store);
        let mut store = open(dir.path());
        assert_eq!(append(&mut store, NOBODY, b"b").unwrap().base_offset, 501);
        let all = values(&mut store, 1 << 20);
        assert_eq!(all, [(500, b"a".to_vec()), (501, b"b".to_vec())]);
    }
}

#[test]
fn a_topic_made_again_is_empty_even_if_the_old_ones_deletion_is_replayed() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    fill(&mut store, 0..3000);
    store
        .change(super::meta::MetaRecord::TopicDeleted { name: "t".into() })
        .unwrap();
    fill(&mut store, 0..5);
    drop(store);
    check(&mut open(dir.path()), 5);
}

#[test]
fn a_deleted_topics_files_go_when_the_deletion_is_durable() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    fill(&mut store, 0..3000);
    write_all(&mut store);
    let logs = || fs::read_dir(dir.path().join("logs")).unwrap().count();
    assert_eq!(logs(), 1);
    let lsn = store
        .change(super::meta::MetaRecord::TopicDeleted { name: "t".into() })
        .unwrap();
    assert_eq!(logs(), 1);
    while store.durable_to() < lsn {
        store.advance();
        std::thread::yield_now();
    }
    assert_eq!(logs(), 0);
}

#[test]
fn checkpoints_under_load_keep_the_write_ahead_log_short() {
    let dir = tempfile::tempdir().unwrap();
    let config = BrokerConfig {
        checkpoint_bytes: 1 << 16,
        ..config(dir.path())
    };
    let mut store = Store::open(&config, Box::new(|| {})).unwrap();
    let mut written = 0;
    let deep = |store: &Store| store.durable_to() > 0 && newest_generation(dir.path()) > 5;
    while !deep(&store) {
        fill(&mut store, written..written + 100);
        written += 100;
        write_all(&mut store);
    }
    drop(store);
    check(&mut open(dir.path()), written);
}

#[test]
fn a_checkpoint_that_cannot_be_written_is_told_and_nothing_acknowledged_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let config = BrokerConfig {
        checkpoint_bytes: 1 << 16,
        ..config(dir.path())
    };
    let mut store = Store::open(&config, Box::new(|| {})).unwrap();
    let fault = store.fault();
    let blocked = dir.path().join("wal-next");
    fs::create_dir(&blocked).unwrap();
    let mut count = 0;
    while append(&mut store, NOBODY, &value(count, 100)).is_ok() {
        count += 1;
    }
    assert!(fault.why().is_some_and(|why| why.contains("directory")));
    fs::remove_dir(&blocked).unwrap();
    assert!(
        append(&mut store, NOBODY, &value(count, 100)).is_err(),
        "only a start goes on"
    );
    assert!(store.write_nothing().is_err());
    drop(store);
    check(&mut open(dir.path()), count);
}

fn newest_generation(dir: &Path) -> u64 {
    super::wal::generation_of(&newest_wal(dir)).unwrap()
}

#[test]
fn retention_deletes_whole_old_segments_and_the_start_moves() {
    let dir = tempfile::tempdir().unwrap();
    let keep = || BrokerConfig {
        retention_bytes: Some(200_000),
        ..config(dir.path())
    };
    let mut store = Store::open(&keep(), Box::new(|| {})).unwrap();
    for i in 0..5000 {
        append(&mut store, NOBODY, &value(i, 100)).unwrap();
    }
    write_all(&mut store);
    let log = topic(&mut store);
    let log = store.log(log).unwrap();
    let start = log.start;
    assert!(start > 0);
    assert!((200_000..400_000).contains(&log.bytes()), "{}", log.bytes());
    assert_eq!(
        log.read(start - 1, 1000, true, &mut Vec::new()).unwrap(),
        ReadResult::OutOfRange
    );
    drop(store);
    let mut store = open(dir.path());
    let log = topic(&mut store);
    assert_eq!(store.log(log).unwrap().start, start);
    assert_eq!(
        values(&mut store, 10_000).len(),
        5000 - usize::try_from(start).unwrap()
    );
}

/// A store with retention, for one group of handlers, with this many records.
fn aging(dir: &Path, count: usize) -> Store {
    let config = BrokerConfig {
        retention_bytes: Some(200_000),
        retention: Some(HOUR),
        own_groups: Some("triad-".into()),
        ..config(dir)
    };
    let mut store = Store::open(&config, Box::new(|| {})).unwrap();
    for i in 0..count {
        append(&mut store, NOBODY, &value(i, 100)).unwrap();
    }
    write_all(&mut store);
    store
}

const HOUR: Duration = Duration::from_secs(3600);

/// Commits that the group has handled everything before this offset.
fn done(store: &mut Store, group: &str, offset: i64) {
    let at = Committed {
        topic: "t".into(),
        partition: 0,
        offset,
        leader_epoch: -1,
        metadata: String::new(),
    };
    store.commit_offsets(group, vec![at], Flush::Now).unwrap();
}

fn start(store: &mut Store) -> i64 {
    let log = topic(store);
    store.log(log).unwrap().start
}

#[test]
fn what_the_handlers_have_not_done_is_deleted_neither_for_its_bytes_nor_for_its_age() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = aging(dir.path(), 0);
    topic(&mut store);
    done(&mut store, "triad-submission", 0);
    done(&mut store, "triad-other", 9_999);
    done(&mut store, "foreign", 9_999);
    for i in 0..5000 {
        append(&mut store, NOBODY, &value(i, 100)).unwrap();
    }
    write_all(&mut store);
    store.expire(now() + 10 * HOUR).unwrap();
    assert_eq!(start(&mut store), 0, "nothing is done");
    done(&mut store, "triad-submission", 3_000);
    store.expire(now() + 10 * HOUR).unwrap();
    let kept = start(&mut store);
    assert!((2_500..=3_000).contains(&kept), "{kept}");
    // By bytes, at the next segment.
    done(&mut store, "triad-submission", 5_000);
    for i in 5000..6000 {
        append(&mut store, NOBODY, &value(i, 100)).unwrap();
    }
    let kept = start(&mut store);
    assert!((3_500..=5_000).contains(&kept), "{kept}");
    drop(store);
    assert_eq!(start(&mut open(dir.path())), kept);
}

#[test]
fn what_is_done_is_deleted_at_its_age_also_where_nothing_follows() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = aging(dir.path(), 10);
    let now = now();
    store.expire(now + 10 * HOUR).unwrap();
    assert_eq!(start(&mut store), 0, "none of the handlers reads it");
    done(&mut store, "triad-submission", 10);
    let files = |store: &mut Store| {
        let log = topic(store);
        let dir = store.log(log).unwrap().dir().unwrap().to_owned();
        fs::read_dir(dir).unwrap().count()
    };
    for (at, begins) in [(now + HOUR / 8, 0), (now + HOUR, 0), (now + 2 * HOUR, 10)] {
        store.expire(at).unwrap();
        assert_eq!(start(&mut store), begins, "{at:?}");
    }
    assert_eq!(
        files(&mut store),
        1,
        "the file is there until that is durable"
    );
    append(&mut store, NOBODY, &value(10, 100)).unwrap();
    write_all(&mut store);
    assert_eq!(files(&mut store), 0);
    let left = [(10, value(10, 100))];
    assert_eq!(values(&mut store, 1 << 20), left);
    drop(store);
    // Since the last checkpoint a whole active segment has been created and deleted.
    assert_eq!(values(&mut open(dir.path()), 1 << 20), left);
}

#[test]
fn a_topics_own_age_takes_the_place_of_the_usual_one() {
    let dir = tempfile::tempdir().unwrap();
    for (own, begins) in [("-1", 0), ("60000", 5)] {
        let mut store = aging(&dir.path().join(own), 0);
        let configs = BTreeMap::from([("retention.ms".to_owned(), own.to_owned())]);
        store.create_topic("t", 1, configs).unwrap();
        for i in 0..5 {
            append(&mut store, NOBODY, &value(i, 100)).unwrap();
        }
        write_all(&mut store);
        let now = now();
        store.expire(now + HOUR / 2).unwrap();
        store.expire(now + HOUR).unwrap();
        assert_eq!(start(&mut store), begins, "{own}");
    }
}

#[test]
fn the_bound_on_all_records_refuses_and_never_drops() {
    let config = BrokerConfig {
        max_total_bytes: 2000,
        ..BrokerConfig::default()
    };
    let mut store = Store::open(&config, Box::new(|| {})).unwrap();
    let mut accepted = 0;
    let refused = loop {
        match append(&mut store, NOBODY, &value(accepted, 100)) {
            Ok(_) => accepted += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(refused, ResponseError::KafkaStorageError);
    check(&mut store, accepted);
}

#[test]
fn timestamps_are_found_across_segments_and_the_tail() {
    let mut store = Store::open(
        &BrokerConfig {
            segment_bytes: 1 << 16,
            ..BrokerConfig::default()
        },
        Box::new(|| {}),
    )
    .unwrap();
    let id = topic(&mut store);
    for i in 0..2000_i64 {
        let bytes = testing::batch(NOBODY, i * 10, &[b"x", b"y"]);
        let header = batch::validate(&bytes, 1 << 20).unwrap();
        store
            .append(id, &header, &bytes, None, AppendVisibility::First)
            .unwrap();
    }
    let log = store.log(id).unwrap();
    for i in [0, 1, 999, 1998, 1999] {
        assert_eq!(log.find_timestamp(i * 10).unwrap(), Some((i * 2, i * 10)));
        assert_eq!(
            log.find_timestamp(i * 10 + 1).unwrap(),
            Some((i * 2 + 1, i * 10 + 1))
        );
    }
    assert_eq!(log.find_timestamp(19_992).unwrap(), None);
}

#[test]
fn what_can_be_brought_back_is_read_at_once_and_kept_with_what_follows() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let first = append(&mut store, NOBODY, &value(0, 100)).unwrap();
    assert!(first.lsn > 0, "it waits for the disk");
    write_all(&mut store);
    let soon = append_restorable(&mut store, &value(1, 100)).unwrap();
    assert_eq!((soon.base_offset, soon.lsn), (1, 0), "it does not");
    let log = topic(&mut store);
    let readable = |store: &mut Store| store.log(log).unwrap().high_watermark;
    assert_eq!(readable(&mut store), 2);
    let last = append(&mut store, NOBODY, &value(2, 100)).unwrap();
    assert_eq!(readable(&mut store), 2, "not before it is durable");
    let behind = append_restorable(&mut store, &value(3, 100)).unwrap();
    assert_eq!((behind.base_offset, behind.lsn), (3, 0));
    assert_eq!(readable(&mut store), 2, "nor what lies behind it");
    while store.durable_to() < last.lsn {
        store.advance();
    }
    write_all(&mut store);
    drop(store);
    check(&mut open(dir.path()), 4);
}
