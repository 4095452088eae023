//! Steps whose transient failures the Scheduler retries at once, without the Supervisor.

use triad_core::status::Status;
use triad_core::{Action, Direction};

use crate::support::{Story, done, failed, timed_out};

const EAGER: &str = r#"{"workflow": "eager",
  "defaults": {"attempt_timeout": "10s", "retry": {"calls_per_attempt": 1}, "supervisor": {"failure_threshold": 2, "retry_at_once": true}},
  "steps": [
    {"id": "a", "agent": "x", "action": "do-a", "compensation": {"action": "compensate-a", "failure_threshold": 1}},
    {"id": "b", "agent": "x", "action": "do-b", "compensation": "none"}]}"#;

/// The step of the other workflow, with a longer wait after the threshold.
const PATIENT: &str = r#"{"workflow": "patient",
  "defaults": {"attempt_timeout": "10s", "retry": {"calls_per_attempt": 1},
    "supervisor": {"failure_threshold": 1, "retry_at_once": true, "wait": {"delay": "1m", "attempts": 1}}},
  "steps": [{"id": "a", "agent": "x", "action": "do-a", "compensation": "none"}]}"#;

#[test]
fn a_transient_failure_is_counted_and_retried_in_the_same_write() {
    let mut s = Story::of(EAGER).claimed();
    s.sent().answer("a", failed());
    assert_eq!((s.state(), s.failures("a")), ("Processing", 1));
    assert_eq!(s.asks(), [("a".to_owned(), Direction::Forward, 2)]);
    assert_eq!(s.statuses(), [(3, Status::Retrying)]);
    s.succeed("a").succeed("b");
    assert_eq!(s.state(), "Processed");
    assert_eq!(s.order.attempts(), 3);
}

#[test]
fn the_threshold_is_the_same_and_what_is_above_it_is_the_supervisors() {
    let mut s = Story::of(EAGER).claimed();
    s.answer("a", failed()).answer("a", failed());
    assert_eq!((s.failures("a"), s.state()), (2, "Processing"));
    s.sent().answer("a", failed());
    assert_eq!((s.failures("a"), s.asks()), (2, vec![]), "not counted yet");
    s.overdue();
    assert_eq!((s.failures("a"), s.state()), (3, "Compensating"));
    assert_eq!(s.order.attempts(), 3);
}

#[test]
fn a_time_out_and_a_wait_before_the_next_attempt_are_the_supervisors() {
    let mut s = Story::of(EAGER).claimed();
    s.sent().answer("a", timed_out());
    assert_eq!((s.failures("a"), s.asks()), (0, vec![]));
    let mut s = Story::of(PATIENT).claimed();
    s.answer("a", failed()).sent();
    assert_eq!(s.failures("a"), 1);
    s.answer("a", failed());
    assert_eq!(
        (s.failures("a"), s.asks()),
        (1, vec![]),
        "a minute comes first"
    );
}

#[test]
fn of_an_order_that_nobody_holds_nothing_is_started() {
    let mut s = Story::of(EAGER).claimed();
    s.acts(Action::Pause).sent().answer("a", failed());
    assert_eq!((s.failures("a"), s.asks()), (0, vec![]));
}

#[test]
fn a_compensation_is_retried_so_too_within_its_own_threshold() {
    let mut s = Story::of(EAGER).claimed();
    s.succeed("a").refuse("b");
    assert_eq!(s.state(), "Compensating");
    s.sent().answer("a", failed());
    assert_eq!(s.asks(), [("a".to_owned(), Direction::Compensate, 2)]);
    assert_eq!(s.record("a").compensation.failures, 1);
    s.sent().answer("a", failed());
    assert_eq!(s.asks(), []);
    s.overdue();
    assert_eq!(s.state(), "CompensationFailed");
    assert_eq!(
        s.order.attempts(),
        4,
        "one at each action, two at the compensation"
    );
}

#[test]
fn attempts_of_earlier_rounds_are_counted_on() {
    let mut s = Story::of(EAGER).claimed();
    s.succeed("a").refuse("b");
    s.answer("a", done());
    assert_eq!((s.state(), s.order.attempts()), ("Compensated", 3));
    s.resubmit().claim().succeed("a").succeed("b");
    assert_eq!((s.state(), s.order.attempts()), ("Processed", 5));
}
