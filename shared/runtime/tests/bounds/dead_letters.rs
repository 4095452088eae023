//! What a dead letter keeps, and what is known of letters.

use triad_core::Timestamp;
use triad_runtime::InputRecord;
use triad_runtime::dead_letter::index::{Full, Index, OTHER_CAUSES};
use triad_runtime::dead_letter::letter::Content;
use triad_runtime::dead_letter::replay::ReplayAct;
use triad_runtime::dead_letter::{Cause, Entry, Letter, LetterId, dead_letter};

use crate::support::record;

/// The letter of a record, read again.
fn letter(of: &InputRecord) -> Letter {
    let [letter, _] = dead_letter(of, &Cause::new("too-large", "because"), Timestamp(0));
    match Entry::read(record(letter)) {
        Ok(Entry::Letter(letter)) => letter,
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
fn a_letter_keeps_64_headers_of_16_kib_together() {
    let kept = |count: usize, bytes: usize| {
        // A name of three bytes, and the rest in the value.
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

fn noted(cause: String, offset: i64) -> Entry {
    Entry::Letter(Letter {
        id: LetterId {
            topic: "orders".into(),
            partition: 0,
            offset,
        },
        cause,
        message: String::new(),
        at: Timestamp(0),
        key: None,
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
    assert_eq!(index.note(&noted(String::new(), 1_000_000)), Err(Full));
    let known = index.note(&noted(String::new(), 999_999));
    assert_eq!(known, Ok(false), "what is known is taken all the same");
}
