//! Messages in the topic `dead-letter` decode to what was written, and a replay sends the record unchanged.

use triad_core::{Envelope, Timestamp};
use triad_runtime::InputRecord;
use triad_runtime::dead_letter::index::{Index, MAX_CAUSES, OTHER_CAUSES};
use triad_runtime::dead_letter::letter::{Content, Marker, Unreadable};
use triad_runtime::dead_letter::replay::{
    MALFORMED_EVENT_RECORD, MAX_WHY_BYTES, ReplayAct, ReplayRefusal, UNREADABLE_BATCH, marker,
    replay,
};
use triad_runtime::dead_letter::{
    Cause, Letter, LetterEntry, LetterId, MAX_HEADERS, MAX_VALUE_BYTES, dead_letter,
};

type Headers = Vec<(String, Option<Vec<u8>>)>;

fn header(name: &str, value: &[u8]) -> (String, Option<Vec<u8>>) {
    (name.to_owned(), Some(value.to_vec()))
}

fn record(headers: Headers) -> InputRecord {
    InputRecord {
        topic: "agent.payment.high".into(),
        partition: 3,
        offset: 42,
        timestamp_ms: 7,
        key: Some(vec![0xff, 0]),
        value: Some(b"{oops".to_vec()),
        headers,
    }
}

/// A message as a reader of the topic gets it.
fn stored(message: Envelope) -> InputRecord {
    InputRecord {
        topic: message.topic,
        key: message.key,
        value: Some(message.value),
        headers: message.headers,
        ..InputRecord::default()
    }
}

fn letter_with(record: &InputRecord, code: &'static str) -> Letter {
    let [letter, _] = dead_letter(record, &Cause::new(code, "because"), Timestamp(1_000));
    match LetterEntry::read(stored(letter)) {
        Ok(LetterEntry::Letter(letter)) => letter,
        other => panic!("no letter: {other:?}"),
    }
}

fn letter(record: &InputRecord) -> Letter {
    letter_with(record, "not-a-request")
}

#[test]
fn a_letter_is_read_as_it_was_written() {
    let read = letter(&record(vec![header("app", b"x"), ("none".into(), None)]));
    assert_eq!(read.id.to_string(), "agent.payment.high/3/42");
    assert_eq!(
        (read.cause.as_str(), read.message.as_str()),
        ("not-a-request", "because")
    );
    assert_eq!(read.at, Timestamp(1_000));
    assert_eq!(read.value, Content::Whole(b"{oops".to_vec()));
    assert_eq!(read.headers_of, None);
}

#[test]
fn a_replay_sends_the_record_as_it_came_whatever_its_headers_are_called() {
    let headers = [
        vec![],
        vec![header("traceparent", b"00-1"), ("none".into(), None)],
        vec![header("ce_type", b"theirs"), header("ce_id", b"9")],
        vec![
            header("triad-tombstone", b"true"),
            header("triad-headers", b"9/9"),
        ],
        vec![
            header("triad-truncated-from", b"5"),
            header("triad-topic", b"elsewhere"),
        ],
        vec![header("", &[0xff])],
    ];
    for headers in headers {
        let original = record(headers);
        let sent = replay(&letter(&original), None).unwrap();
        assert_eq!(sent.topic, original.topic);
        assert_eq!(sent.key, original.key);
        assert_eq!(Some(sent.value), original.value);
        assert_eq!(sent.headers, original.headers);
    }
}

#[test]
fn a_letter_of_before_the_header_count_still_reads() {
    let original = record(vec![header("traceparent", b"00-1"), header("ce_id", b"9")]);
    let [message, _] = dead_letter(&original, &Cause::new("c", "m"), Timestamp(1));
    let mut old = stored(message);
    old.headers.retain(|(name, _)| name != "triad-headers");
    let Ok(LetterEntry::Letter(letter)) = LetterEntry::read(old) else {
        panic!("it is a letter")
    };
    assert_eq!(letter.headers, original.headers);
}

#[test]
fn headers_that_were_not_kept_are_counted() {
    let read = letter(&record(vec![header("h", b"x"); MAX_HEADERS + 5]));
    assert_eq!(read.headers.len(), MAX_HEADERS);
    assert_eq!(read.headers_of, Some(MAX_HEADERS + 5));
}

#[test]
fn what_is_not_whole_is_replayed_with_another_value_only() {
    let mut cut = record(vec![]);
    cut.value = Some(vec![b'x'; MAX_VALUE_BYTES + 1]);
    let mut tombstone = record(vec![]);
    tombstone.value = None;
    let refused = [
        (
            letter(&cut),
            ReplayRefusal::Cut {
                kept: MAX_VALUE_BYTES,
                of: MAX_VALUE_BYTES + 1,
            },
        ),
        (letter(&tombstone), ReplayRefusal::Tombstone),
        (
            letter_with(&record(vec![]), MALFORMED_EVENT_RECORD),
            ReplayRefusal::OfAnEvent,
        ),
        (
            letter_with(&tombstone, UNREADABLE_BATCH),
            ReplayRefusal::OfABatch,
        ),
    ];
    for (letter, refusal) in refused {
        assert_eq!(replay(&letter, None), Err(refusal));
        let sent = replay(&letter, Some(b"{}".to_vec())).unwrap();
        assert_eq!(sent.value, b"{}");
    }
}

#[test]
fn nothing_is_sent_to_a_topic_that_triad_does_not_read() {
    for topic in ["status", "dead-letter", "somebody-elses"] {
        let mut foreign = record(vec![]);
        foreign.topic = topic.into();
        let refusal = ReplayRefusal::Elsewhere(topic.into());
        assert_eq!(
            replay(&letter(&foreign), Some(b"{}".to_vec())),
            Err(refusal)
        );
    }
}

#[test]
fn a_marker_says_who_replayed_what_why_and_with_what() {
    let act = ReplayAct::new(" ops ", "the producer is fixed", Timestamp(2_000)).unwrap();
    let of: LetterId = "orders/3/42".parse().unwrap();
    for corrected in [None, Some(b"{}".to_vec())] {
        let message = marker(&of, &act, corrected.clone());
        assert_eq!(message.topic, "dead-letter");
        let wanted = Marker {
            of: of.clone(),
            act: act.clone(),
            corrected,
        };
        assert_eq!(
            LetterEntry::read(stored(message)),
            Ok(LetterEntry::Replayed(wanted))
        );
    }
    assert_eq!(act.by, "ops");
}

#[test]
fn an_act_says_who_and_why_within_bounds() {
    let long = "x".repeat(MAX_WHY_BYTES + 1);
    for (by, why) in [("", "why"), ("ops", " "), ("ops", &long)] {
        assert!(
            ReplayAct::new(by, why, Timestamp(0)).is_err(),
            "{by:?} {why:?}"
        );
    }
}

#[test]
fn what_triad_has_not_written_is_neither_letter_nor_marker() {
    assert_eq!(
        LetterEntry::read(record(vec![])),
        Err(Unreadable("its ce_type"))
    );
    let bare = record(vec![header("ce_type", b"triad.dead-letter")]);
    assert!(LetterEntry::read(bare).is_err());
}

#[test]
fn ids_are_topic_partition_and_offset() {
    let no_numbers = ["orders/x/2", "orders/1/", "orders/-1/2", "orders/1/-2"];
    for bad in ["", "orders", "orders/1", "/1/2"]
        .into_iter()
        .chain(no_numbers)
    {
        assert!(bad.parse::<LetterId>().is_err(), "{bad}");
    }
    let id: LetterId = "orders/1/2".parse().unwrap();
    assert_eq!(
        (id.topic.as_str(), id.partition, id.offset),
        ("orders", 1, 2)
    );
}

fn numbered(offset: i64, cause: &str) -> LetterEntry {
    let mut letter = letter(&record(vec![]));
    letter.id.offset = offset;
    letter.cause = cause.to_owned();
    letter.at = Timestamp(offset.unsigned_abs());
    LetterEntry::Letter(letter)
}

fn replayed(offset: i64) -> LetterEntry {
    let LetterEntry::Letter(letter) = numbered(offset, "") else {
        unreachable!()
    };
    LetterEntry::Replayed(Marker {
        of: letter.id,
        act: ReplayAct::new("ops", "why", Timestamp(50)).unwrap(),
        corrected: None,
    })
}

#[test]
fn letters_are_counted_once_and_by_cause_however_often_and_in_what_order_they_come() {
    let mut index = Index::default();
    let mut note = |entry: &LetterEntry| index.note(entry).unwrap();
    assert!(!note(&replayed(2)), "a marker before its letter");
    assert!(note(&numbered(1, "a")));
    assert!(!note(&numbered(1, "a")), "the same again");
    assert!(note(&numbered(2, "b")) && note(&numbered(3, "b")));
    assert!(!note(&replayed(9)), "a marker of a letter that is gone");
    let groups: Vec<_> = index
        .groups()
        .into_iter()
        .map(|g| (g.cause, g.letters, g.replayed, g.newest.0))
        .collect();
    assert_eq!(
        groups,
        [("b".to_owned(), 2, 1, 3), ("a".to_owned(), 1, 0, 1)]
    );
    let id = |offset| LetterId {
        offset,
        ..letter(&record(vec![])).id
    };
    assert_eq!(index.replayed(&id(2)), Some(Timestamp(50)));
    assert_eq!(index.replayed(&id(3)), None);
    assert!(index.holds(&id(3)) && !index.holds(&id(9)));
    assert!(index.take(&id(2)) && !index.take(&id(2)) && !index.take(&id(9)));
    assert_eq!(index.replayed(&id(2)), Some(Timestamp(50)), "still known");
}

#[test]
fn more_causes_than_are_told_apart_are_counted_together() {
    let mut index = Index::default();
    for offset in 0..1_100 {
        index
            .note(&numbered(offset, &format!("c{offset}")))
            .unwrap();
    }
    let groups = index.groups();
    assert_eq!(groups.len(), MAX_CAUSES + 1);
    assert_eq!(
        (groups[0].cause.as_str(), groups[0].letters),
        (OTHER_CAUSES, 100)
    );
}
