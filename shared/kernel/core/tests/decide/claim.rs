//! Claims of an order, the steps that a claim starts, joins, conditions and inputs.

use serde_json::json;
use triad_core::status::Status;
use triad_core::{Direction, Event, Overdue, StepState};

use crate::support::{BEGIN, FORK, LINE, QUEUE, Story, Then};

const CHOICE: &str = r#"{"workflow": "choice", "steps": [
    {"id": "a", "agent": "x", "action": "go", "when": "details.amount > 5", "compensation": "none"},
    {"id": "b", "agent": "x", "action": "go", "when": "steps.a != null && details.amount > 50", "compensation": "none"},
    {"id": "c", "agent": "x", "action": "go", "input": {"a": "${steps.a}"}, "compensation": "none"}]}"#;

#[test]
fn a_claim_takes_a_pending_order_and_starts_its_first_step() {
    let s = Story::of(LINE).claimed();
    assert_eq!(s.state(), "Processing");
    assert_eq!(s.order.state.locked_by().unwrap().0, "claim-1");
    assert_eq!(s.order.complete_by().unwrap().0, BEGIN + QUEUE + 10_000);
    assert_eq!(s.asks(), [("a".into(), Direction::Forward, 1)]);
    assert_eq!(s.statuses(), [(2, Status::Started)]);
}

#[test]
fn a_second_claim_of_the_same_order_only_repeats_what_the_first_wanted_sent() {
    let mut s = Story::of(LINE).claimed();
    let again = s.claim_event();
    assert_eq!(s.when(again), Then::Repeat);
}

#[test]
fn a_claim_after_the_order_went_on_finds_it_claimed() {
    let mut s = Story::of(LINE).claimed();
    s.succeed("a");
    let again = s.claim_event();
    assert_eq!(s.when(again), Then::Ignored(triad_core::Reason::Claimed));
}

#[test]
fn started_is_told_once_in_a_life() {
    let mut s = Story::of(LINE).claimed();
    s.overdue().claim();
    assert_eq!(s.statuses(), [(2, Status::Started), (3, Status::Retrying)]);
    s.succeed("a");
    assert_eq!(s.order.sequence, 3);
}

#[test]
fn a_request_carries_all_that_the_agent_needs() {
    let mut s = Story::of(LINE).claimed();
    s.succeed("a");
    let request = &s.requests()[0];
    assert_eq!(request.step.as_str(), "b");
    assert_eq!(request.input, json!({"from": {"ref": 1}}));
    assert_eq!(request.idempotency_key.0, "o-1/b/forward");
    assert_eq!((request.allowance, request.attempt.0), (2, 1));
    assert_eq!(request.complete_by.0, BEGIN + QUEUE + 10_000);
    assert_eq!(request.attempt_timeout_ms, 10_000);
    assert_eq!(request.compensates, None);
}

#[test]
fn independent_steps_start_together() {
    let s = Story::of(FORK).claimed();
    let forward = |id: &str| (id.to_owned(), Direction::Forward, 1);
    assert_eq!(s.asks(), [forward("p"), forward("q")]);
    assert_eq!(
        s.order.complete_by().unwrap().0,
        BEGIN + QUEUE + 10_000,
        "the earliest"
    );
}

#[test]
fn a_join_waits_for_all_that_it_comes_after() {
    let mut s = Story::of(FORK).claimed();
    s.succeed("q");
    assert_eq!(s.step("join"), &StepState::Waiting);
    assert_eq!(s.asks(), []);
    s.succeed("p");
    assert_eq!(s.asks(), [("join".into(), Direction::Forward, 1)]);
}

#[test]
fn the_last_reply_finishes_the_order() {
    let mut s = Story::of(LINE).claimed();
    s.sent().succeed("a").succeed("b").succeed("c");
    assert_eq!(s.state(), "Processed");
    assert_eq!(s.statuses(), [(3, Status::Completed)]);
    assert_eq!(s.order.due, None);
}

#[test]
fn a_step_whose_condition_is_false_is_skipped_and_counts_as_done() {
    let mut s = Story::of(CHOICE).claimed();
    s.succeed("a");
    let names: Vec<_> = s.steps().into_iter().map(|(_, n)| n).collect();
    assert_eq!(names, ["completed", "skipped", "running"]);
}

#[test]
fn skipping_all_the_way_reaches_the_first_wanted_step_in_one_write() {
    let s = Story::with_details(CHOICE, json!({"amount": 1})).claimed();
    let names: Vec<_> = s.steps().into_iter().map(|(_, n)| n).collect();
    assert_eq!(names, ["skipped", "skipped", "running"]);
    assert_eq!(s.requests()[0].input, json!({"a": null}));
}

#[test]
fn an_order_whose_steps_are_all_skipped_is_processed_by_its_claim() {
    let none = r#"{"workflow": "w", "steps": [
        {"id": "a", "agent": "x", "action": "go", "when": "false", "compensation": "none"}]}"#;
    let s = Story::of(none).claimed();
    assert_eq!(s.state(), "Processed");
    assert_eq!(s.statuses(), [(2, Status::Started), (3, Status::Completed)]);
}

/// The claim itself ends the order. While its status cannot be sent, another process may acknowledge another wake of
/// the order; after that, only a sweep can send the status.
#[test]
fn an_end_by_a_claim_is_looked_after_until_it_is_known_to_be_told() {
    let none = r#"{"workflow": "w", "steps": [
        {"id": "a", "agent": "x", "action": "go", "when": "false", "compensation": "none"}]}"#;
    let mut s = Story::of(none).claimed();
    assert_eq!(s.order.due, Some(s.now.plus(s.timing.confirm_within)));
    assert_eq!(s.when(Event::Overdue(Overdue::default())), Then::Repeat);
    assert_eq!(s.when(Event::Confirmed), Then::Written);
    assert_eq!((s.order.due, s.statuses()), (None, Vec::new()));
}

#[test]
fn an_input_that_has_no_value_ends_the_order_and_compensates_what_was_done() {
    let w = r#"{"workflow": "w", "steps": [
        {"id": "a", "agent": "x", "action": "go", "compensation": {"action": "compensate"}},
        {"id": "b", "agent": "x", "action": "go", "input": {"n": "${details.missing}"}, "compensation": "none"}]}"#;
    let mut s = Story::of(w).claimed();
    s.succeed("a");
    assert_eq!(s.state(), "Compensating");
    assert_eq!(s.asks(), [("a".into(), Direction::Compensate, 1)]);
    let cause = s.order.state.cause().unwrap();
    assert_eq!(cause.fingerprint(), "definition/b/expression");
}

#[test]
fn a_condition_that_has_no_value_ends_the_order_too() {
    let w = r#"{"workflow": "w", "steps": [
        {"id": "a", "agent": "x", "action": "go", "when": "details.missing", "compensation": "none",
         "supervisor": {"failure_threshold": 0, "then": "error"}}]}"#;
    let s = Story::of(w).claimed();
    assert_eq!(s.state(), "Error");
    assert!(s.alerts());
}

#[test]
fn a_sibling_started_in_the_write_that_gives_up_is_never_asked() {
    let w = r#"{"workflow": "w", "steps": [
        {"id": "a", "agent": "x", "action": "go", "after": [], "compensation": {"action": "compensate"}},
        {"id": "b", "agent": "x", "action": "go", "after": [], "input": "${details.missing}", "compensation": "none"}]}"#;
    let s = Story::of(w).claimed();
    assert_eq!(s.state(), "Compensated");
    assert_eq!(s.step("a"), &StepState::Waiting);
    assert_eq!(s.asks(), []);
}

#[test]
fn the_same_decision_is_made_every_time() {
    let mut s = Story::of(FORK);
    let event = s.claim_event();
    assert_eq!(s.asked(event.clone()), s.asked(event));
    assert_eq!(
        s.asked(Event::Overdue(Overdue::default())),
        s.asked(Event::Overdue(Overdue::default()))
    );
}
