//! What follows a failure: another way to do a step's work, and policies for failures with certain codes.

use serde_json::{Value, json};
use triad_core::children::{ChildEnd, ChildState};
use triad_core::{Action, Event, Failure, FailureKind, Overdue, Reason, ReplyOutcome};

use crate::support::{Story, Then};

/// `b` has two other ways to do its work; the second is not tried after `no-such-address`.
const WAYS: &str = r#"{"workflow": "ways",
  "defaults": {"attempt_timeout": "10s", "retry": {"calls_per_attempt": 2}},
  "steps": [
    {"id": "a", "agent": "x", "action": "do-a", "compensation": {"action": "compensate-a"}},
    {"id": "b", "agent": "x", "action": "do-b", "input": {"of": "${steps.a.ref}", "sum": "${details.amount}"},
     "supervisor": {"by_code": {"fraud": {"then": "error"}}},
     "compensation": {"action": "compensate-b", "input": "${input}"},
     "on_failure": [
       {"agent": "y", "unless": ["fraud"]},
       {"agent": "z", "input": {"other": "${details.amount + 1}"}, "unless": ["no-such-address", "fraud"]}]},
    {"id": "c", "agent": "y", "action": "do-c", "input": "${steps.b}", "compensation": "none"}]}"#;

/// An order whose step `b` has begun.
fn begun() -> Story {
    let mut s = Story::of(WAYS).claimed();
    s.succeed("a");
    s
}

fn failed(code: &str) -> ChildEnd {
    ChildEnd::NoEffect {
        cause: Failure::new(FailureKind::Permanent, code, "no"),
    }
}

/// The child order that is asked for: its id, its workflow, and its details.
fn asked(s: &Story) -> Option<(String, String, Value)> {
    let sent = s.messages().pop()?;
    let order: Value = serde_json::from_slice(&sent.value).ok()?;
    let text = |key: &str| order[key].as_str().map(str::to_owned);
    Some((
        text("order_id")?,
        text("workflow")?,
        order["details"].clone(),
    ))
}

#[test]
fn each_way_is_tried_when_the_one_before_it_has_left_no_effect() {
    let mut s = begun();
    let expected = |s: &Story, id: &str, way: &str, input: Value| {
        let order = asked(s).expect("a child order");
        let wanted = (
            id.to_owned(),
            format!("ways.b.{way}"),
            json!({"input": input}),
        );
        assert_eq!(order, wanted);
    };
    expected(&s, "o-1:b", "way-1", json!({"of": 1, "sum": 7}));
    s.child_ends("b", 0, failed("out-of-stock"));
    assert_eq!(s.state(), "Processing");
    expected(&s, "o-1:b~1", "way-2", json!({"of": 1, "sum": 7}));
    s.child_ends("b", 0, failed("timed-out"));
    expected(&s, "o-1:b~2", "way-3", json!({"other": 8}));
    // The end of the first order, told again, is not that of the second.
    let mut stray = s.child_end("b", 0, failed("out-of-stock"));
    if let Event::ChildEnded(end) = &mut stray {
        end.parent.attempt = 0;
    }
    assert_eq!(s.when(stray), Then::Ignored(Reason::NotAwaited));
    let brought = json!({"booking": "B"});
    s.child_ends(
        "b",
        0,
        ChildEnd::Processed {
            output: brought.clone(),
        },
    );
    assert_eq!(s.requests()[0].input, brought);
    let lines = s.order.incidents.iter();
    let codes = lines.filter_map(|line| line.failure.as_ref().map(|f| f.code.as_str()));
    assert_eq!(codes.collect::<Vec<_>>(), ["out-of-stock", "timed-out"]);
}

#[test]
fn after_the_last_way_or_a_code_that_rules_it_out_the_step_has_failed() {
    let mut s = begun();
    for code in ["one", "two", "three"] {
        assert_eq!(s.state(), "Processing");
        s.child_ends("b", 0, failed(code));
    }
    assert_eq!(s.asks().len(), 1, "a is compensated, and no child order");
    s.succeed("a");
    assert_eq!(s.state(), "Compensated");
    let mut s = begun();
    s.child_ends("b", 0, failed("out-of-stock"));
    s.child_ends("b", 0, failed("no-such-address"));
    assert_eq!(s.state(), "Compensating");
    // By its code, a failure stops the order for an operator; a new run begins with the first way.
    let mut s = begun();
    s.child_ends("b", 0, failed("out-of-stock"));
    s.child_ends("b", 0, failed("fraud"));
    assert_eq!(s.state(), "Error");
    s.resubmit().claim();
    let (id, workflow, _) = asked(&s).expect("a child order");
    assert_eq!(
        (id.as_str(), workflow.as_str()),
        ("o-1:b~2", "ways.b.way-1")
    );
}

#[test]
fn the_way_that_is_taken_is_asked_for_again_and_compensated() {
    let mut s = begun();
    s.child_ends("b", 0, failed("out-of-stock"));
    s.overdue_now().claim();
    let (id, workflow, _) = asked(&s).expect("a child order");
    assert_eq!(
        (id.as_str(), workflow.as_str()),
        ("o-1:b~1", "ways.b.way-2")
    );
    s.acts(Action::Cancel).claim();
    assert_eq!(s.children_asked(), [("o-1:b~1".to_owned(), true)]);
    // While the order is not claimed, the next way waits for the claim.
    let mut s = begun();
    s.overdue_now();
    s.child_ends("b", 0, failed("out-of-stock"));
    let children = s.record("b").children.as_ref().expect("they are known");
    assert_eq!(children.all[0].state, ChildState::Waiting);
    s.claim();
    assert_eq!(s.children_asked(), [("o-1:b~1".to_owned(), false)]);
}

/// `busy` is met with two more attempts, 5 s and 10 s later, `declined` with none, and all else with one at once.
const CODES: &str = r#"{"workflow": "codes", "steps": [
    {"id": "a", "agent": "x", "action": "go", "attempt_timeout": "10s", "compensation": "none", "retry": {"calls_per_attempt": 2},
     "supervisor": {"failure_threshold": 1, "by_code": {
       "busy": {"failure_threshold": 2, "delay": "5s"}, "declined": {"failure_threshold": 0, "then": "error"}}}}]}"#;

fn fails(s: &mut Story, code: &str) {
    let outcome = ReplyOutcome::Failed {
        failure: Failure::new(FailureKind::Transient, code, "no"),
        maybe_applied: false,
    };
    s.answer("a", outcome);
    s.after(500);
    s.when(Event::Overdue(Overdue::default()));
}

#[test]
fn failures_with_a_code_of_their_own_are_counted_by_themselves() {
    let mut s = Story::of(CODES).claimed();
    let max = s.workflow.steps[0].max_attempts();
    assert_eq!((max, s.workflow.worst_case_calls()), (4, 8));
    for wait in [5_000, 10_000] {
        fails(&mut s, "busy");
        let until = s.record("a").state.delayed_until().expect("it waits");
        assert_eq!(until.since(s.now).0, wait);
        s.overdue_now().claim();
    }
    fails(&mut s, "internal");
    assert_eq!(s.step("a").name(), "retry-due");
    let record = s.record("a");
    assert_eq!(
        (record.failures_like("busy"), record.failures_like("x")),
        (2, 1)
    );
    let stored = serde_json::to_value(record).expect("JSON");
    assert_eq!(stored["failures_by_code"], json!({"busy": 2}));
    let read: triad_core::StepRecord = serde_json::from_value(stored).expect("a record");
    assert_eq!(&read, record);
    s.claim();
    fails(&mut s, "internal");
    assert_eq!(s.claim().state(), "Compensated");
}

#[test]
fn a_code_says_what_follows_the_last_failure_and_a_new_run_counts_from_zero() {
    let mut s = Story::of(CODES).claimed();
    fails(&mut s, "busy");
    s.overdue_now().claim();
    fails(&mut s, "declined");
    assert_eq!(s.state(), "Error");
    s.resubmit().claim();
    assert!(s.record("a").failures_by_code.is_empty());
    for _ in 0..2 {
        fails(&mut s, "busy");
        assert_eq!(s.state(), "Pending");
        s.overdue_now().claim();
    }
    fails(&mut s, "busy");
    assert_eq!(s.claim().state(), "Compensated");
}
