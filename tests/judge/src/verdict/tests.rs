//! Small histories written by hand, with the expected judgement.

use std::collections::BTreeMap;

use super::super::history::{
    Cell, Condition, ConditionHeld, Item, Moment, Put, Scalar, Sighting, Sign,
};
use super::*;

/// A process record with this version, with or without a claim.
fn record(version: u64, claim: Option<&str>) -> Item {
    let claim = claim.map_or(Scalar::Null, |c| Scalar::Text(c.into()));
    let number = Scalar::Number;
    let attributes = [
        ("OrderID", Scalar::Text("a".into())),
        ("Version", number(version)),
        ("ProcessState", Scalar::Text("Pending".into())),
        ("LockedBy", claim.clone()),
        ("CompleteBy", Scalar::Null),
        ("FailureCount", number(0)),
    ];
    let attributes = attributes.map(|(name, value)| (name.to_owned(), value));
    Item {
        digest: format!("{version}-{claim:?}"),
        attributes: BTreeMap::from(attributes),
        out: Vec::new(),
    }
}

fn put(item: &Item, condition: Option<Condition>) -> ClientOperation {
    let put = Put {
        cell: Cell::Record,
        item: item.clone(),
        condition,
    };
    ClientOperation::Put {
        puts: vec![put],
        token: None,
    }
}

/// A put that requires this version.
fn on(version: u64, item: &Item) -> ClientOperation {
    let values = [(":v".to_owned(), Scalar::Number(version))];
    let condition = Condition {
        text: "Version = :v".into(),
        values: values.into(),
        ..Condition::default()
    };
    put(item, Some(condition))
}

/// A put that requires that there is no item.
fn new(item: &Item) -> ClientOperation {
    let condition = Condition {
        text: "attribute_not_exists(OrderID)".into(),
        ..Condition::default()
    };
    put(item, Some(condition))
}

const READ: ClientOperation = ClientOperation::Read(Cell::Record);

fn found(item: &Item) -> Answer {
    Answer::Found(Some(item.clone()))
}

/// An operation that begins at `from` and ends at `to`.
fn during(from: u64, to: u64, asked: ClientOperation, answer: Answer) -> Operation {
    let moment = |at| Moment {
        at_us: at,
        event: at,
    };
    Operation {
        object: "order/a".into(),
        began: moment(from),
        ended: moment(to),
        asked,
        answer,
    }
}

fn is_explained(all: &[Operation]) -> bool {
    let judged = judge_all(all.to_vec());
    assert_eq!(judged.undecided.objects, 0, "{judged:?}");
    assert_eq!(judged.objects, 1);
    judged.unexplained.objects + judged.unfounded.objects == 0
}

/// Two writes: version 1, then version 2.
fn written() -> Vec<Operation> {
    vec![
        during(1, 2, new(&record(1, None)), Answer::Done),
        during(3, 4, on(1, &record(2, None)), Answer::Done),
    ]
}

#[test]
fn a_read_finds_what_was_written_last_and_no_older_version() {
    let mut all = written();
    all.push(during(5, 6, READ, found(&record(2, None))));
    assert!(is_explained(&all));
    all.push(during(7, 8, READ, found(&record(1, None))));
    assert!(!is_explained(&all), "a stale read");
}

#[test]
fn a_read_beside_a_write_finds_either_version() {
    for version in [1, 2] {
        let mut all = written();
        all.push(during(2, 5, READ, found(&record(version, None))));
        assert!(is_explained(&all), "{version}");
    }
}

#[test]
fn of_two_writes_on_one_version_one_wins() {
    let (one, two) = (record(2, Some("x")), record(2, Some("y")));
    let mut all = vec![
        during(1, 2, new(&record(1, None)), Answer::Done),
        during(3, 9, on(1, &one), Answer::Done),
        during(
            4,
            8,
            on(1, &two),
            Answer::Refused(vec![ConditionHeld::No(Some(one.clone()))]),
        ),
    ];
    assert!(is_explained(&all));
    all[2].answer = Answer::Done;
    assert!(!is_explained(&all), "a lost update");
}

#[test]
fn an_acknowledged_write_that_nobody_finds_is_no_history() {
    let mut all = written();
    all[1] = during(3, 4, on(1, &record(2, None)), Answer::Done);
    all.push(during(5, 6, READ, found(&record(1, None))));
    assert!(!is_explained(&all));
    // Without an acknowledgement, the write may take effect later.
    all[1].answer = Answer::Unknown;
    assert!(is_explained(&all));
    all.push(during(7, 8, READ, found(&record(2, None))));
    assert!(is_explained(&all), "it has by now");
    all.push(during(9, 10, READ, found(&record(1, None))));
    assert!(!is_explained(&all), "it cannot be compensated");
}

#[test]
fn a_refusal_without_reason_is_no_history() {
    let mut all = written();
    let refused = Answer::Refused(vec![ConditionHeld::No(None)]);
    all.push(during(5, 6, on(2, &record(3, None)), refused));
    assert!(!is_explained(&all));
}

#[test]
fn a_writer_that_sends_no_condition_or_takes_anothers_claim_is_found() {
    let created = during(1, 2, new(&record(1, None)), Answer::Done);
    let plain = |from, version| {
        let next = put(&record(version, None), None);
        during(from, from + 1, next, Answer::Done)
    };
    assert!(is_explained(&[created.clone(), plain(3, 2)]));
    assert!(!is_explained(&[created.clone(), plain(3, 3)]), "a gap");
    let claimed = during(3, 4, on(1, &record(2, Some("x"))), Answer::Done);
    let stolen = during(5, 6, on(2, &record(3, Some("y"))), Answer::Done);
    assert!(!is_explained(&[created, claimed, stolen]));
}

#[test]
fn a_transaction_repeated_with_its_token_takes_effect_once() {
    let with_token = |from| {
        let mut operation = during(from, from + 1, new(&record(1, None)), Answer::Done);
        if let ClientOperation::Put { token, .. } = &mut operation.asked {
            *token = Some("t".into());
        }
        operation
    };
    assert!(is_explained(&[with_token(1), with_token(3)]));
}

#[test]
fn an_effect_before_the_write_that_asked_for_it_is_unfounded() {
    let mut started = record(2, Some("x"));
    started.out = vec!["pack/do/1".into()];
    let seen = |from| {
        let effect = Sighting {
            sign: Sign::Effect,
            attempt: "pack/do/1".into(),
        };
        during(
            from,
            from,
            ClientOperation::Seen(vec![effect]),
            Answer::Done,
        )
    };
    let write = |answer| during(5, 9, on(1, &started), answer);
    let created = during(1, 2, new(&record(1, None)), Answer::Done);
    assert!(is_explained(&[
        created.clone(),
        write(Answer::Done),
        seen(7)
    ]));
    assert!(is_explained(&[
        created.clone(),
        write(Answer::Unknown),
        seen(30)
    ]));
    let judged = judge_all(vec![created, write(Answer::Done), seen(3)]);
    assert_eq!(
        (judged.unfounded.objects, judged.unexplained.objects),
        (1, 0)
    );
    assert_eq!(judged.seen, 1);
}

#[test]
fn a_part_that_began_wrongly_is_searched_again_with_those_before_it() {
    // The two writes overlap and have no condition; the read shows which of them came last.
    let (one, two) = (record(1, None), record(1, None));
    let control = |from, to, item: &Item, digest: &str| {
        let item = Item {
            digest: digest.into(),
            ..item.clone()
        };
        let put = Put {
            cell: Cell::Control,
            item,
            condition: None,
        };
        let asked = ClientOperation::Put {
            puts: vec![put],
            token: None,
        };
        during(from, to, asked, Answer::Done)
    };
    for last in ["one", "two"] {
        let item = Item {
            digest: last.into(),
            ..one.clone()
        };
        let read = during(7, 8, ClientOperation::Read(Cell::Control), found(&item));
        let all = [control(1, 5, &one, "one"), control(2, 6, &two, "two"), read];
        assert!(is_explained(&all), "{last}");
    }
}

/// Concurrent writes of a control record without conditions, with these digests.
fn at_once(digests: impl Iterator<Item = u64>) -> Vec<Operation> {
    let write = |digest: u64| {
        let asked = ClientOperation::Put {
            puts: vec![Put {
                cell: Cell::Control,
                item: control_item(digest),
                condition: None,
            }],
            token: None,
        };
        during(1, 1_000, asked, Answer::Done)
    };
    digests.map(write).collect()
}

fn control_item(digest: u64) -> Item {
    Item {
        digest: digest.to_string(),
        ..record(1, None)
    }
}

fn control_read(from: u64, to: u64, digest: u64) -> Operation {
    let item = Some(control_item(digest));
    during(
        from,
        to,
        ClientOperation::Read(Cell::Control),
        Answer::Found(item),
    )
}

#[test]
fn of_those_that_found_what_was_put_once_two_say_everything() {
    let mut all = at_once(0..2);
    all.extend((0..40).map(|n| control_read(10 + n, 900 - 2 * n, 1)));
    let left = |all: &[Operation]| {
        let told = telling(all);
        let left = told
            .iter()
            .filter(|o| matches!(o.asked, ClientOperation::Read(_)));
        left.map(|o| o.began.at_us).collect::<Vec<_>>()
    };
    assert_eq!(
        left(&all),
        [49],
        "the last to ask was the first to be answered"
    );
    all.push(control_read(2, 12, 1));
    assert_eq!(left(&all), [49, 2]);
    assert!(is_explained(&all));
    // The item 0 would have to be present for a time within the only period of item 1.
    all.push(control_read(20, 30, 0));
    assert!(!is_explained(&all));
    // An item that is put twice may be present for two periods.
    let mut twice = at_once([0, 1, 1].into_iter());
    twice.extend(
        [(2, 12, 1), (20, 30, 0), (40, 50, 1), (41, 60, 1)].map(|(f, t, d)| control_read(f, t, d)),
    );
    assert_eq!(left(&twice), [2, 20, 40, 41]);
    assert!(is_explained(&twice));
}

#[test]
fn a_refused_write_found_what_it_was_refused_for() {
    let (one, two) = (record(1, None), record(2, None));
    let refused = |from, to, version, found: &Item| {
        let held = ConditionHeld::No(Some(found.clone()));
        during(
            from,
            to,
            on(version, &record(9, None)),
            Answer::Refused(vec![held]),
        )
    };
    let mut all = written();
    all.extend([
        refused(5, 20, 1, &two),
        refused(6, 19, 1, &two),
        refused(7, 18, 1, &two),
    ]);
    assert_eq!(
        telling(&all).len(),
        3,
        "the last to ask was the first to be answered"
    );
    assert!(is_explained(&all));
    // The refusal reports an item that satisfies the write's condition.
    all.insert(3, refused(5, 30, 2, &two));
    assert_eq!(telling(&all).len(), 4);
    assert!(!is_explained(&all));
    all[3] = refused(5, 30, 2, &one);
    assert!(!is_explained(&all), "it was gone by then");
}

#[test]
fn a_search_ends_with_its_budget_and_the_budget_is_for_all_searches() {
    let mut all = at_once(0..9);
    all.push(control_read(1_001, 1_002, 99));
    let (budget, longest) = (Budget::of(1_000), &mut 0);
    let end = history(&all, &budget, longest);
    assert!(matches!(end, SearchEnd::Undecided(_)));
    let easy = at_once(0..1);
    assert!(matches!(
        history(&easy, &budget, longest),
        SearchEnd::Undecided(_)
    ));
    assert!(matches!(
        history(&easy, &Budget::of(1_000), longest),
        SearchEnd::Explained
    ));
}

#[test]
fn an_expired_item_may_vanish_and_no_other() {
    let expiring = |at: u64| {
        let mut item = record(1, None);
        let at = Scalar::Number(at);
        item.attributes.insert("ExpiresAt".into(), at);
        item
    };
    let second = 1_000_000;
    for (at, fits) in [(1, true), (9, false)] {
        let created = during(1, 2, new(&expiring(at)), Answer::Done);
        let read = during(2 * second, 2 * second + 1, READ, Answer::Found(None));
        assert_eq!(is_explained(&[created, read]), fits, "{at}");
    }
}

#[test]
fn what_passes_a_bound_is_not_decided() {
    let mut all = written();
    for n in 0..=UNANSWERED as u64 {
        let write = on(n + 50, &record(n + 51, None));
        all.push(during(10 + n, 11 + n, write, Answer::Unknown));
    }
    let judged = judge_all(all);
    assert_eq!(judged.undecided.objects, 1, "{judged:?}");
    let other = during(
        1,
        2,
        ClientOperation::Other("UpdateItem".into()),
        Answer::Done,
    );
    assert_eq!(judge_all(vec![other]).undecided.objects, 1);
}
