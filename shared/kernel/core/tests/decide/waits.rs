//! Waits before another attempt: the wait of one step does not change that of another.

use triad_core::{Action, Direction, Event, Overdue, Timestamp};

use crate::support::{BEGIN, Story, failed};

const MINUTE: u64 = 60_000;

/// Workflow: `slow` waits ten minutes after each failure, `quick` does not wait; `next` follows `quick` alone.
const UNLIKE: &str = r#"{"workflow": "unlike",
  "defaults": {"attempt_timeout": "10s", "retry": {"calls_per_attempt": 2}},
  "steps": [
    {"id": "slow", "agent": "x", "action": "go", "after": [], "attempt_timeout": "1m",
     "supervisor": {"failure_threshold": 3, "delay": "10m", "max_delay": "10m"}, "compensation": {"action": "back"}},
    {"id": "quick", "agent": "y", "action": "go", "after": [], "supervisor": {"failure_threshold": 9},
     "compensation": {"action": "back"}},
    {"id": "next", "agent": "y", "action": "go", "after": ["quick"], "compensation": "none"}]}"#;

/// `slow` has failed and waits ten minutes; the request of `quick` is under way.
fn slow_waits() -> Story {
    let mut s = Story::of(UNLIKE).claimed();
    s.answer("slow", failed());
    s.overdue_now();
    assert_eq!(s.steps()[..2], [("slow", "delayed"), ("quick", "running")]);
    s
}

fn asked(step: &str, direction: Direction, attempt: u32) -> [(String, Direction, u32); 1] {
    [(step.to_owned(), direction, attempt)]
}

#[test]
fn a_deferred_step_does_not_end_the_wait_of_another() {
    let mut s = slow_waits();
    let until = s.step("slow").delayed_until().expect("it waits");
    for attempt in 2..5 {
        s.deferred("quick", 5_000).overdue().claim();
        assert_eq!(s.asks(), asked("quick", Direction::Forward, attempt));
        assert_eq!(s.step("slow").delayed_until(), Some(until));
    }
    s.succeed("quick").succeed("next");
    assert_eq!(s.record("slow").action.failures, 1);
    s.overdue();
    assert!(s.now >= until);
    s.claim();
    assert_eq!(s.asks(), asked("slow", Direction::Forward, 2));
}

#[test]
fn a_retry_without_a_wait_does_not_end_the_wait_of_another() {
    let mut s = slow_waits();
    s.answer("quick", failed());
    s.overdue_now().claim();
    assert_eq!(s.asks(), asked("quick", Direction::Forward, 2));
    assert_eq!(
        s.step("slow").delayed_until(),
        Some(Timestamp(BEGIN + 500 + 10 * MINUTE))
    );
}

#[test]
fn what_comes_after_a_parallel_step_does_not_wait() {
    let mut s = slow_waits();
    s.after(3_000).succeed("quick");
    assert_eq!(s.asks(), asked("next", Direction::Forward, 1));
    assert_eq!(s.state(), "Processing");
    s.succeed("next").overdue().claim().succeed("slow");
    assert_eq!(s.state(), "Processed");
}

#[test]
fn what_becomes_ready_while_nobody_holds_the_order_asks_for_a_claim() {
    let mut s = slow_waits();
    // After the resume no Scheduler claims the order, and the Supervisor's next check is later.
    s.acts(Action::Pause).acts(Action::Resume).sent();
    s.after(1_000).succeed("quick");
    assert_eq!((s.state(), s.announces()), ("Pending", true));
    assert!(s.order.complete_by() <= Some(s.now.plus(s.timing.announce_within)));
    s.claim();
    assert_eq!(s.asks(), asked("next", Direction::Forward, 1));
}

#[test]
fn a_pause_neither_ends_nor_lengthens_a_wait() {
    let mut s = slow_waits();
    let until = s.step("slow").delayed_until();
    s.acts(Action::Pause).after(MINUTE).acts(Action::Resume);
    s.claim();
    assert_eq!(s.asks(), []);
    assert_eq!(s.step("slow").delayed_until(), until);
}

#[test]
fn compensations_keep_their_waits_apart_too() {
    let mut s = Story::of(UNLIKE).claimed();
    s.succeed("slow").succeed("quick").refuse("next");
    s.answer("slow", failed());
    s.overdue_now();
    assert_eq!(
        s.steps()[..2],
        [("slow", "compensation-delayed"), ("quick", "compensating")]
    );
    let until = s.step("slow").delayed_until().expect("it waits");
    s.answer("quick", failed());
    s.overdue_now().claim();
    assert_eq!(s.asks(), asked("quick", Direction::Compensate, 2));
    s.succeed("quick");
    assert_eq!((s.state(), s.asks()), ("Compensating", vec![]));
    s.when(Event::Overdue(Overdue::default()));
    assert_eq!(s.step("slow").delayed_until(), Some(until));
    s.overdue().claim();
    assert!(s.now >= until);
    assert_eq!(s.asks(), asked("slow", Direction::Compensate, 2));
    s.succeed("slow");
    assert_eq!(s.state(), "Compensated");
}
