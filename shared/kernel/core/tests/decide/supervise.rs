//! The Supervisor: it counts failures, delays attempts, waits, gives up, and wakes the Scheduler again.

use triad_core::status::Status;
use triad_core::{Attempt, Direction, Event, Overdue, ProcessState, Reason, StepState, Work};
use triad_workflow::Millis;

use crate::support::{FORK, LINE, QUEUE, Story, Then, counted, failed};

const PATIENT: &str = r#"{"workflow": "w", "steps": [
    {"id": "a", "agent": "x", "action": "go", "attempt_timeout": "10s", "compensation": "none",
     "supervisor": {"failure_threshold": 1, "wait": {"delay": "1h", "attempts": 2}, "then": "error"}}]}"#;

#[test]
fn nothing_is_counted_before_complete_by_has_passed_on_every_clock() {
    let mut s = Story::of(&counted(LINE)).claimed();
    s.after(QUEUE + 10_499);
    s.when(Event::Overdue(Overdue::default()));
    assert_eq!(s.record("a").state.unheard_since(), None);
    s.after(1);
    assert_eq!(s.when(Event::Overdue(Overdue::default())), Then::Written);
    assert_eq!(s.record("a").state.unheard_since(), Some(s.now));
    s.after(5_000);
    assert_eq!(s.when(Event::Overdue(Overdue::default())), Then::Written);
    assert_eq!(s.failures("a"), 1);
}

#[test]
fn an_attempt_that_was_taken_and_not_heard_of_is_counted_with_its_whole_allowance_and_released() {
    let mut s = Story::of(&counted(LINE)).claimed();
    s.overdue();
    assert_eq!(s.state(), "Pending");
    assert_eq!(s.order.state.locked_by(), None);
    assert_eq!(s.step("a"), &StepState::Acting(Work::due(Attempt(1))));
    assert_eq!((s.failures("a"), s.calls("a")), (1, 2));
    assert_eq!(s.order.failure_count(), 1);
    assert!(s.announces());
}

#[test]
fn a_release_has_a_new_complete_by() {
    let mut s = Story::of(LINE).claimed();
    s.overdue();
    assert_eq!(s.order.complete_by(), Some(s.now.plus(Millis(60_000))));
}

#[test]
fn an_order_that_is_announced_again_rests_for_as_long_as_is_said_and_for_announce_within_at_least()
{
    for (rest, until) in [
        (0, 60_000),
        (60_000, 60_000),
        (60_001, 60_001),
        (600_000, 600_000),
    ] {
        let mut s = Story::of(LINE);
        s.after(60_500);
        let overdue = Overdue {
            rest: Millis(rest),
            ..Overdue::default()
        };
        assert_eq!(s.when(Event::Overdue(overdue)), Then::Written);
        assert!(s.announces());
        assert_eq!(
            s.order.complete_by(),
            Some(s.now.plus(Millis(until))),
            "{rest}"
        );
    }
}

#[test]
fn two_supervisors_count_one_failure_once() {
    let mut s = Story::of(LINE).claimed();
    s.overdue();
    assert_eq!(
        s.when(Event::Overdue(Overdue::default())),
        Then::Ignored(Reason::NotDue)
    );
    assert_eq!(s.failures("a"), 1);
}

#[test]
fn the_next_claim_starts_the_next_attempt_under_the_same_key() {
    let mut s = Story::of(LINE).claimed();
    s.overdue().claim();
    let request = &s.requests()[0];
    assert_eq!(request.attempt, Attempt(2));
    assert_eq!(request.idempotency_key.0, "o-1/a/forward");
}

#[test]
fn a_delay_grows_to_its_bound() {
    let mut s = Story::of(FORK);
    let mut waits = Vec::new();
    s.claim().succeed("q");
    for _ in 0..3 {
        s.answer("p", failed()).overdue();
        waits.push(s.order.complete_by().unwrap().since(s.now).0);
        assert!(!s.announces(), "sent when the wait is over");
        s.overdue();
        assert!(s.announces());
        s.claim();
    }
    assert_eq!(waits, [4_000, 8_000, 10_000]);
}

#[test]
fn above_the_threshold_it_waits_longer_a_stated_number_of_times() {
    let mut s = Story::of(PATIENT).claimed();
    s.overdue();
    assert!(s.announces(), "the first retry is at once");
    for extra in 0..2 {
        s.claim().overdue();
        let wait = s.order.complete_by().unwrap().since(s.now);
        assert_eq!((extra, wait), (extra, Millis(3_600_000)));
        s.overdue();
    }
    s.claim().overdue();
    assert_eq!(s.state(), "Error");
    assert_eq!(s.failures("a"), 4);
}

#[test]
fn giving_up_by_error_tells_and_alerts() {
    let mut s = Story::of(PATIENT).claimed();
    for _ in 0..3 {
        s.overdue();
        if s.order.complete_by().unwrap().since(s.now) == Millis(3_600_000) {
            s.overdue();
        }
        s.claim();
    }
    s.overdue();
    assert_eq!(s.state(), "Error");
    assert!(s.alerts());
    assert_eq!(s.statuses().last().unwrap().1, Status::Failed);
    assert!(s.order.due.is_some(), "until its messages are confirmed");
}

#[test]
fn giving_up_by_compensation_waits_for_a_scheduler_to_claim_the_compensation() {
    let mut s = Story::of(LINE).claimed();
    s.succeed("a").overdue().claim().overdue();
    assert_eq!(s.state(), "Compensating");
    assert_eq!(s.order.state.locked_by(), None);
    assert_eq!(
        s.steps(),
        [
            ("a", "compensation-due"),
            ("b", "compensation-due"),
            ("c", "waiting")
        ]
    );
    assert!(s.announces());
    assert_eq!(s.asks(), [], "the Supervisor starts nothing");
    s.claim();
    assert_eq!(s.asks(), [("b".into(), Direction::Compensate, 1)]);
}

#[test]
fn a_failure_that_was_reported_is_counted_under_its_own_cause() {
    let mut s = Story::of(LINE).claimed();
    s.answer("a", failed()).overdue();
    assert_eq!(
        s.order.incidents[0].failure.as_ref().unwrap().code,
        "http-503"
    );
    assert_eq!(s.calls("a"), 1, "as reported");
}

#[test]
fn a_release_leaves_running_siblings_running_and_takes_their_replies() {
    let mut s = Story::of(FORK).claimed();
    s.overdue().overdue();
    assert_eq!(s.state(), "Pending");
    assert_eq!(
        s.steps(),
        [("p", "retry-due"), ("q", "running"), ("join", "waiting")]
    );
    s.succeed("q");
    assert_eq!(s.state(), "Pending");
    assert_eq!(s.step("join"), &StepState::Waiting);
    s.claim();
    assert_eq!(s.asks(), [("p".into(), Direction::Forward, 2)]);
}

#[test]
fn a_sibling_refused_while_pending_turns_the_order_round() {
    let mut s = Story::of(FORK).claimed();
    s.overdue().overdue().refuse("q");
    assert_eq!(s.state(), "Compensating");
    assert_eq!(s.order.state.locked_by(), None);
    assert!(s.announces());
    s.claim();
    assert_eq!(s.asks(), [("p".into(), Direction::Compensate, 1)]);
}

#[test]
fn a_sibling_that_fails_while_pending_brings_the_look_forward() {
    let mut s = Story::of(FORK).claimed();
    s.overdue().answer("q", failed());
    assert_eq!(s.order.due, Some(s.now));
    s.overdue();
    assert_eq!((s.failures("p"), s.failures("q")), (1, 1));
}

#[test]
fn a_new_order_that_nobody_claims_is_announced_again_and_again() {
    let mut s = Story::of(LINE);
    for _ in 0..3 {
        s.overdue();
        assert_eq!(s.state(), "Pending");
        assert!(s.announces());
    }
    assert_eq!(s.order.failure_count(), 0, "waiting is no failure");
    s.claim();
}

#[test]
fn a_compensation_that_nobody_claims_is_announced_again() {
    let mut s = Story::of(LINE).claimed();
    s.overdue().claim().overdue();
    assert_eq!(s.state(), "Compensating");
    let before = s.order.complete_by();
    s.overdue();
    assert!(s.announces());
    assert!(s.order.complete_by() > before);
}

#[test]
fn incidents_are_kept_up_to_a_bound() {
    let w = r#"{"workflow": "w", "steps": [
        {"id": "a", "agent": "x", "action": "go", "compensation": "none", "retry": {"calls_per_attempt": 1}, "supervisor": {"failure_threshold": 99}}]}"#;
    let mut s = Story::of(w).claimed();
    for _ in 0..99 {
        s.overdue().claim();
    }
    assert_eq!(s.order.incidents.len(), 99);
    assert!(matches!(s.order.state, ProcessState::Processing(_)));
}
