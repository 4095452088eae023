//! Limits on the calls of a run: attempts, probes, waits and operators' runs together make no more calls than the
//! workflow declares.

use triad_core::{Action, Direction, Event, budget};

use crate::support::{Story, Then, deferred_until, done, failed, failed_cleanly, found};

/// Five calls per run, three per attempt, and a long `defer_for`; three calls per run for the compensation.
const TOTAL: &str = r#"{"workflow": "w", "defaults": {"attempt_timeout": "10s", "supervisor": {"failure_threshold": 9}}, "steps": [
    {"id": "a", "agent": "x", "action": "go", "retry": {"calls_per_attempt": 3, "calls_per_run": 5},
     "compensation": {"action": "compensate", "retry": {"calls_per_attempt": 2, "calls_per_run": 3}}},
    {"id": "b", "agent": "x", "action": "go", "compensation": "none"}]}"#;

/// Four calls per run, including probes.
const ASKED: &str = r#"{"workflow": "w", "steps": [
    {"id": "a", "agent": "x", "action": "go", "retry": {"calls_per_attempt": 1, "calls_per_run": 4}, "attempt_timeout": "10s",
     "probe": {"action": "ask"}, "supervisor": {"failure_threshold": 9}, "compensation": {"action": "compensate"}}]}"#;

fn allowance(s: &Story) -> u32 {
    s.requests()[0].allowance
}

#[test]
fn the_last_attempt_gets_what_is_left() {
    let mut s = Story::of(TOTAL).claimed();
    assert_eq!(allowance(&s), 3);
    s.answer_after(3, "a", failed_cleanly()).overdue().claim();
    assert_eq!(allowance(&s), 2);
}

#[test]
fn when_the_total_is_used_up_the_patience_ends_below_the_threshold() {
    let mut s = Story::of(TOTAL).claimed();
    s.answer_after(3, "a", failed_cleanly()).overdue().claim();
    s.answer_after(2, "a", failed_cleanly()).overdue();
    assert_eq!((s.state(), s.calls("a")), ("Compensating", 5));
    assert_eq!(s.failures("a"), 2);
    let cause = s.order.state.cause().unwrap();
    assert_eq!(
        cause.fingerprint(),
        "transient/a/http-503",
        "the last failure"
    );
}

#[test]
fn an_attempt_that_was_taken_and_not_heard_of_has_used_all_that_it_was_allowed() {
    let mut s = Story::of(TOTAL).claimed();
    s.overdue();
    assert_eq!(s.calls("a"), 3);
    s.claim().overdue();
    assert_eq!(s.calls("a"), 5, "what was left, and no more");
    assert_eq!(s.state(), "Compensating");
}

#[test]
fn the_allowance_stays_the_same_while_the_attempt_is_out() {
    let mut s = Story::of(TOTAL).claimed();
    s.answer_after(3, "a", failed()).overdue().claim();
    let (sent, repeated) = (s.requests(), s.requests());
    assert_eq!(sent, repeated);
    let step = &s.workflow.steps[0];
    assert_eq!(
        budget::allowance(step, s.record("a"), Direction::Forward),
        2
    );
}

#[test]
fn calls_before_being_deferred_count() {
    let mut s = Story::of(TOTAL).claimed();
    let until = s.now;
    s.answer_after(3, "a", deferred_until(until, false))
        .overdue()
        .claim();
    assert_eq!((allowance(&s), s.failures("a")), (2, 0));
    s.answer_after(2, "a", deferred_until(until, false))
        .overdue();
    assert_eq!(s.state(), "Pending", "the Supervisor lets it wait on");
    s.claim();
    assert_eq!(s.state(), "Compensated", "the Scheduler finds nothing left");
    assert_eq!(s.order.state.cause().unwrap().code, "breaker-open");
}

#[test]
fn an_operator_sees_it_where_no_failure_was_ever_reported() {
    let mut s = Story::of(TOTAL).claimed();
    s.answer_after(5, "a", failed_cleanly());
    s.order.steps[0].error = None;
    s.overdue();
    assert_eq!(s.order.state.cause().unwrap().code, "no-reply");
    let mut s = Story::of(TOTAL);
    s.order.steps[0].action.calls = 5;
    s.claim();
    assert_eq!(s.order.state.cause().unwrap().code, "budget");
}

#[test]
fn questions_count_with_the_calls_that_they_are_about() {
    let mut s = Story::of(ASKED).claimed();
    assert_eq!(allowance(&s), 1);
    s.overdue().claim();
    assert_eq!((s.asks()[0].1, allowance(&s)), (Direction::Probe, 3));
    s.answer_after(2, "a", found(false));
    assert_eq!((s.asks()[0].1, allowance(&s)), (Direction::Forward, 1));
    s.overdue();
    assert_eq!(
        (s.state(), s.calls("a")),
        ("Error", 4),
        "nobody may be asked"
    );
    assert_eq!(s.order.state.cause().unwrap().code, "in-doubt");
}

#[test]
fn a_question_gets_what_is_left_too() {
    let mut s = Story::of(ASKED).claimed();
    s.overdue()
        .claim()
        .answer_after(2, "a", failed())
        .overdue()
        .claim();
    assert_eq!((s.asks()[0].1, allowance(&s)), (Direction::Probe, 1));
}

#[test]
fn an_answer_that_leaves_no_call_ends_the_order() {
    let mut s = Story::of(ASKED).claimed();
    s.overdue().claim().answer_after(3, "a", found(false));
    assert_eq!(s.asks(), []);
    assert_eq!(s.state(), "Compensated");
    assert_eq!(s.steps()[0], ("a", "refused"), "it did not happen");
}

#[test]
fn the_compensation_has_a_total_of_its_own() {
    let mut s = Story::of(TOTAL).claimed();
    s.answer_after(3, "a", done()).refuse("b");
    assert_eq!((allowance(&s), s.requests()[0].counted), (2, true));
    s.answer_after(2, "a", failed()).overdue().claim();
    assert_eq!(allowance(&s), 1);
    s.overdue();
    assert_eq!(
        (s.state(), s.compensation_calls("a")),
        ("CompensationFailed", 3)
    );
    assert_eq!(s.calls("a"), 3);
    assert_eq!(s.record("a").compensation.failures, 2, "of ten");
}

#[test]
fn a_compensation_that_is_deferred_until_no_call_is_left_is_not_compensated() {
    let mut s = Story::of(TOTAL).claimed();
    s.succeed("a").refuse("b");
    let until = s.now;
    s.answer_after(2, "a", deferred_until(until, false))
        .overdue()
        .claim();
    s.answer_after(1, "a", deferred_until(until, false))
        .overdue()
        .claim();
    assert_eq!((s.state(), s.asks()), ("CompensationFailed", vec![]));
    assert_eq!(
        s.order.state.cause().unwrap().fingerprint(),
        "transient/a/budget"
    );
    assert!(s.alerts());
}

#[test]
fn only_declared_totals_and_what_may_not_be_repeated_are_counted_in_the_ledger() {
    let s = Story::of(TOTAL).claimed();
    assert!(s.requests()[0].counted);
    let s = Story::of(ASKED).claimed();
    assert!(s.requests()[0].counted);
    let s = Story::of(crate::support::LINE).claimed();
    assert!(!s.requests()[0].counted);
    let request = serde_json::to_value(&s.requests()[0]).unwrap();
    assert_eq!(
        request.get("counted"),
        None,
        "old agents know no such field"
    );
}

#[test]
fn a_new_round_has_its_calls_again() {
    let w = TOTAL.replace(
        "\"failure_threshold\": 9",
        "\"failure_threshold\": 9, \"then\": \"error\"",
    );
    let mut s = Story::of(&w).claimed();
    s.overdue().claim().overdue();
    assert_eq!((s.state(), s.calls("a")), ("Error", 5));
    s.acts(Action::Resubmit { input: None }).claim();
    assert_eq!((s.calls("a"), allowance(&s)), (0, 3));
}

#[test]
fn a_failed_compensation_that_is_tried_again_has_its_calls_again() {
    let mut s = Story::of(TOTAL).claimed();
    s.succeed("a").refuse("b").overdue().claim().overdue();
    assert_eq!(
        (s.state(), s.compensation_calls("a")),
        ("CompensationFailed", 3)
    );
    s.acts(Action::RetryCompensation).claim();
    assert_eq!((s.compensation_calls("a"), allowance(&s)), (0, 2));
}

#[test]
fn a_reply_that_is_met_again_is_not_counted_again() {
    let mut s = Story::of(TOTAL).claimed();
    let reply = s.reply("a", failed_cleanly());
    assert_eq!(s.when(Event::Reply(reply.clone())), Then::Written);
    assert_eq!(s.when(Event::Reply(reply)), Then::Repeat);
    assert_eq!(s.calls("a"), 1);
}
