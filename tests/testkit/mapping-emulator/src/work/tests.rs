use std::time::Duration;

use super::*;

const NOW: Timestamp = Timestamp(1_000_000);

fn record(partition: i32, offset: i64) -> InputRecord {
    InputRecord {
        topic: "t".into(),
        partition,
        offset,
        timestamp_ms: 999_000,
        ..InputRecord::default()
    }
}

fn batch(n: i64) -> Vec<InputRecord> {
    (0..n).map(|offset| record(0, offset)).collect()
}

fn failure() -> Verdict {
    Verdict::Failure("told to".into())
}

fn from(partition: &str, offset: i64) -> Verdict {
    Verdict::From([(partition.to_owned(), offset)].into())
}

fn offsets(records: &[InputRecord]) -> Vec<i64> {
    records.iter().map(|r| r.offset).collect()
}

/// The offsets of each invocation, the offsets that were done, and those that were given up with the reason.
type Course = (Vec<Vec<i64>>, Vec<i64>, Vec<(Vec<i64>, Why)>);

/// Handles a batch with a function.
fn run(
    settings: &Settings,
    records: Vec<InputRecord>,
    mut function: impl FnMut(&[InputRecord]) -> Verdict,
) -> Course {
    let mut work = Work::new(records, settings);
    let (mut handed, mut done, mut given_up) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(next) = work.next() {
        assert!(handed.len() < 1000, "it never ends");
        handed.push(offsets(next));
        let verdict = function(next);
        let resolved = work.resolve(verdict, NOW);
        done.extend(offsets(&resolved.done));
        given_up.extend(resolved.given_up.map(|g| (offsets(&g.records), g.why)));
    }
    (handed, done, given_up)
}

#[test]
fn a_batch_that_fails_comes_again_as_a_whole_until_it_succeeds() {
    let mut left = 3;
    let (handed, done, _) = run(&Settings::default(), batch(3), |_| {
        left -= 1;
        if left == 0 {
            Verdict::Success
        } else {
            failure()
        }
    });
    assert_eq!(handed, vec![vec![0, 1, 2]; 3]);
    assert_eq!(done, [0, 1, 2]);
}

#[test]
fn a_partial_answer_lets_go_of_what_is_before_the_failed_record_of_its_partition_alone() {
    let records = vec![record(0, 5), record(0, 6), record(1, 5), record(0, 7)];
    let mut work = Work::new(records, &Settings::default());
    let resolved = work.resolve(from("t-0", 6), NOW);
    assert_eq!(resolved.done, [record(0, 5), record(1, 5)]);
    assert!(resolved.again);
    assert_eq!(work.next().unwrap(), [record(0, 6), record(0, 7)]);
    assert_eq!(work.resolve(Verdict::Success, NOW).done.len(), 2);
    assert!(work.next().is_none());
}

#[test]
fn halving_finds_the_one_bad_record_and_gives_up_it_alone() {
    let settings = Settings {
        bisect: true,
        retries: Some(2),
        ..Settings::default()
    };
    // The function fails as a whole, or names the bad record and all records after it.
    for partial in [false, true] {
        let (handed, mut done, given_up) = run(&settings, batch(8), |next| {
            match (next.iter().any(|r| r.offset == 5), partial) {
                (false, _) => Verdict::Success,
                (true, false) => failure(),
                (true, true) => from("t-0", 5),
            }
        });
        assert_eq!(
            given_up,
            [(vec![5], Why::RetryAttemptsExhausted)],
            "{handed:?}"
        );
        // One invocation and two retries. If the function names records, one of these invocations had the bad record
        // at the head of a longer batch.
        let alone = handed.iter().filter(|h| **h == [5]).count();
        assert_eq!(alone, if partial { 2 } else { 3 }, "{handed:?}");
        assert!(done.is_sorted(), "in the partition's order: {done:?}");
        done.push(5);
        done.sort_unstable();
        assert_eq!(done, (0..8).collect::<Vec<_>>());
    }
}

#[test]
fn without_halving_a_batch_is_given_up_as_a_whole() {
    let settings = Settings {
        retries: Some(1),
        ..Settings::default()
    };
    let (handed, done, given_up) = run(&settings, batch(2), |_| failure());
    assert_eq!(handed.len(), 2);
    assert_eq!(
        (done.len(), given_up),
        (0, vec![(vec![0, 1], Why::RetryAttemptsExhausted)])
    );
}

#[test]
fn no_retries_and_endless_ones_are_not_the_same() {
    let settings = Settings {
        retries: Some(0),
        ..Settings::default()
    };
    let (handed, ..) = run(&settings, batch(1), |_| failure());
    assert_eq!(handed.len(), 1);
    let mut work = Work::new(batch(1), &Settings::default());
    for _ in 0..10_000 {
        assert!(work.resolve(failure(), NOW).again);
    }
}

#[test]
fn an_old_record_is_given_up_when_it_fails_and_one_without_a_time_is_not() {
    let settings = |age| Settings {
        record_age: Some(Duration::from_millis(age)),
        ..Settings::default()
    };
    let resolved = Work::new(batch(1), &settings(999)).resolve(failure(), NOW);
    assert_eq!(resolved.given_up.unwrap().why, Why::EventAgeExceeded);
    assert!(
        Work::new(batch(1), &settings(1000))
            .resolve(failure(), NOW)
            .again
    );
    let timeless = InputRecord {
        timestamp_ms: -1,
        ..record(0, 0)
    };
    assert!(
        Work::new(vec![timeless], &settings(1))
            .resolve(failure(), NOW)
            .again
    );
    let done = Work::new(batch(1), &settings(1)).resolve(Verdict::Success, NOW);
    assert_eq!(done.done.len(), 1, "age alone is no failure");
}

#[test]
fn what_is_too_large_is_halved_and_one_record_that_is_too_large_given_up() {
    let mut work = Work::new(batch(2), &Settings::default());
    assert_eq!(work.too_large(), Resolved::default());
    let resolved = work.too_large();
    assert_eq!(resolved.given_up.unwrap().why, Why::PayloadTooLarge);
    assert_eq!(offsets(work.next().unwrap()), [1]);
}

#[test]
fn a_failure_is_counted_anew_when_another_record_is_at_the_head() {
    let settings = Settings {
        retries: Some(2),
        ..Settings::default()
    };
    // For each record at the head, the first answer names it as failed, and the second one completes it alone.
    let mut head = -1;
    let (_, done, given_up) = run(&settings, batch(3), |next| {
        if next[0].offset != head {
            head = next[0].offset;
            return from("t-0", head);
        }
        match next.get(1) {
            Some(second) => from("t-0", second.offset),
            None => Verdict::Success,
        }
    });
    assert_eq!((done, given_up), (vec![0, 1, 2], vec![]));
}
