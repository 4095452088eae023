//! The content of a dead letter, and the index of dead letters.

use triad_core::{Envelope, Timestamp, topics};
use triad_runtime::InputRecord;
use triad_runtime::dead_letter::index::{Index, IndexFull, OTHER_CAUSES};
use triad_runtime::dead_letter::letter::Content;
use triad_runtime::dead_letter::replay::ReplayAct;
use triad_runtime::dead_letter::{Cause, Letter, LetterEntry, LetterId, dead_letter, send};

use crate::support::{World, record as record_of};

/// The dead letter of a record, after encoding and decoding.
fn letter(of: &InputRecord) -> Letter {
    let [letter, _] = dead_letter(of, &Cause::new("too-large", "because"), Timestamp(0));
    match LetterEntry::read(record_of(letter)) {
        Ok(LetterEntry::Letter(letter)) => letter,
        other => panic!("no letter: {other:?}"),
    }
}

#[test]
fn a_letter_keeps_900_kib_of_a_value() {
    let of = |bytes: usize| {
        letter(&InputRecord {
            value: Some(vec![b'x'; bytes]),
            ..InputRecord::default()
        })
        .value
    };
    let most = 900 * 1024;
    assert_eq!(of(most), Content::Whole(vec![b'x'; most]));
    let cut = Content::Cut {
        beginning: vec![b'x'; most],
        of: most + 1,
    };
    assert_eq!(of(most + 1), cut);
}

#[test]
fn a_letter_keeps_32_kib_of_a_key() {
    let of = |bytes: usize| {
        let letter = letter(&InputRecord {
            key: Some(vec![b'k'; bytes]),
            ..InputRecord::default()
        });
        (letter.key.map(|key| key.len()), letter.key_of)
    };
    let most = 32 * 1024;
    assert_eq!(of(most), (Some(most), None));
    assert_eq!(of(most + 1), (Some(most), Some(most + 1)));
}

#[test]
fn a_letter_is_below_what_a_producer_sends_whatever_the_record_is() {
    let header = |n| (format!("{n:0256}"), Some(Vec::new()));
    let worst = InputRecord {
        topic: "t".repeat(249),
        partition: i32::MAX,
        offset: i64::MAX,
        key: Some(vec![b'k'; 5_000_000]),
        value: Some(vec![b'v'; 5_000_000]),
        headers: (0..64).map(header).collect(),
        ..InputRecord::default()
    };
    let cause = Cause::new("a-cause-with-a-long-name", "x".repeat(5_000));
    let [letter, alert] = dead_letter(&worst, &cause, Timestamp(u64::MAX));
    assert_eq!(
        letter
            .headers
            .iter()
            .filter(|(_, v)| v == &Some(Vec::new()))
            .count(),
        64
    );
    let size = |message: &Envelope| {
        // Each header takes two lengths beside its content, and each record an envelope.
        let headers = message.headers.iter();
        let headers = headers.map(|(name, v)| name.len() + v.as_ref().map_or(0, Vec::len) + 10);
        message.key.as_ref().map_or(0, Vec::len)
            + message.value.len()
            + headers.sum::<usize>()
            + 100
    };
    // The limit is librdkafka's message.max.bytes.
    assert!(size(&letter) < 1_000_000, "{}", size(&letter));
    assert!(size(&alert) < 4_096, "{}", size(&alert));
}

#[test]
fn of_a_letter_that_its_topic_does_not_take_8_kib_are_sent() {
    let world = World::new();
    let most = 8 * 1024 + 1024;
    world.inner().faults.small_topic = Some((topics::DEAD_LETTER, most));
    let of = |key: usize, value: usize| InputRecord {
        topic: "orders".into(),
        key: Some(vec![b'k'; key]),
        value: Some(vec![b'v'; value]),
        headers: vec![("h".into(), None)],
        ..InputRecord::default()
    };
    let cause = Cause::new("not-json", "because");
    let sent = |record: InputRecord| {
        let letter = dead_letter(&record, &cause, Timestamp(0));
        let unsent = world.run(send(&world, vec![((), letter)]));
        assert_eq!(unsent, [], "too large is not to mean again");
        let all = std::mem::take(&mut world.inner().sent);
        let [letter, alert] = <[Envelope; 2]>::try_from(all).expect("a letter and its alert");
        assert_eq!(alert.topic, topics::ALERTS);
        match LetterEntry::read(record_of(letter)) {
            Ok(LetterEntry::Letter(letter)) => letter,
            other => panic!("no letter: {other:?}"),
        }
    };
    let whole = sent(of(1024, 8 * 1024));
    assert_eq!((whole.key_of, whole.headers_of), (None, None));
    let cut = sent(of(1025, 950_000));
    assert_eq!(cut.key.map(|key| key.len()), Some(1024));
    assert_eq!((cut.key_of, cut.headers_of), (Some(1025), Some(1)));
    let beginning = vec![b'v'; 8 * 1024];
    assert_eq!(
        cut.value,
        Content::Cut {
            beginning,
            of: 950_000
        }
    );
}

#[test]
fn a_letter_keeps_64_headers_of_16_kib_together() {
    let kept = |count: usize, bytes: usize| {
        // The header's name has three bytes; its value has the rest.
        let header = |n| (format!("h{n:02}"), Some(vec![b'x'; bytes - 3]));
        let headers = (0..count).map(header).collect();
        let letter = letter(&InputRecord {
            headers,
            ..InputRecord::default()
        });
        (letter.headers.len(), letter.headers_of)
    };
    assert_eq!(kept(64, 10), (64, None));
    assert_eq!(kept(65, 10), (64, Some(65)));
    assert_eq!(kept(2, 8 * 1024), (2, None));
    assert_eq!(kept(1, 16 * 1024), (1, None));
    assert_eq!(kept(1, 16 * 1024 + 1), (0, Some(1)));
}

#[test]
fn who_replays_has_128_bytes_and_a_reason_1024() {
    let act = |by: usize, why: usize| {
        ReplayAct::new(&"b".repeat(by), &"w".repeat(why), Timestamp(0)).is_ok()
    };
    assert!(act(128, 1_024));
    assert!(!act(129, 1_024) && !act(128, 1_025));
}

fn noted(cause: String, offset: i64) -> LetterEntry {
    LetterEntry::Letter(Letter {
        id: LetterId {
            topic: "orders".into(),
            partition: 0,
            offset,
        },
        cause,
        message: String::new(),
        at: Timestamp(0),
        key: None,
        key_of: None,
        value: Content::Tombstone,
        headers: Vec::new(),
        headers_of: None,
    })
}

#[test]
fn a_thousand_causes_are_counted_apart() {
    let mut index = Index::default();
    for n in 0..1_000 {
        assert_eq!(index.note(&noted(format!("c{n}"), n)), Ok(true));
    }
    let others = |index: &Index| {
        let groups = index.groups();
        let others = groups.iter().filter(|g| g.cause == OTHER_CAUSES);
        (groups.len(), others.map(|g| g.letters).sum::<usize>())
    };
    assert_eq!(others(&index), (1_000, 0));
    for n in 1_000..1_003 {
        assert_eq!(index.note(&noted(format!("c{n}"), n)), Ok(true));
    }
    assert_eq!(others(&index), (1_001, 3));
}

#[test]
fn an_index_holds_a_million_letters() {
    let mut index = Index::default();
    for offset in 0..1_000_000 {
        assert_eq!(index.note(&noted(String::new(), offset)), Ok(true));
    }
    assert_eq!(index.note(&noted(String::new(), 1_000_000)), Err(IndexFull));
    let known = index.note(&noted(String::new(), 999_999));
    assert_eq!(known, Ok(false), "what is known is taken all the same");
}
