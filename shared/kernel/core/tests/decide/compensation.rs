//! Compensation: order, retries, failure, nothing to compensate.

use serde_json::json;
use triad_core::inspect::calls;
use triad_core::status::Status;
use triad_core::{Direction, Event, Overdue, Reason, ReplyOutcome, StepState};

use crate::support::{FORK, LINE, ONCE, Story, Then, counted, done, failed, refused};

#[test]
fn compensation_runs_in_the_reverse_order_of_completion() {
    let mut s = Story::of(LINE).claimed();
    s.succeed("a").succeed("b").refuse("c");
    assert_eq!(s.asks(), [("b".into(), Direction::Compensate, 1)]);
    s.succeed("b");
    assert_eq!(s.asks(), [("a".into(), Direction::Compensate, 1)]);
    s.succeed("a");
    assert_eq!(s.state(), "Compensated");
}

#[test]
fn steps_that_ran_in_parallel_are_compensated_in_parallel() {
    let mut s = Story::of(FORK).claimed();
    s.succeed("q").succeed("p").refuse("join");
    let both = [
        ("q".into(), Direction::Compensate, 1),
        ("p".into(), Direction::Compensate, 1),
    ];
    assert_eq!(s.asks(), both);
    s.succeed("p");
    assert_eq!(s.state(), "Compensating");
    s.succeed("q");
    assert_eq!(s.state(), "Compensated");
}

#[test]
fn an_ambiguous_step_is_compensated_before_what_it_came_after() {
    let mut s = Story::of(LINE).claimed();
    s.succeed("a").answer("b", refused(true));
    assert_eq!(s.asks(), [("b".into(), Direction::Compensate, 1)]);
    s.succeed("b");
    assert_eq!(s.asks(), [("a".into(), Direction::Compensate, 1)]);
}

#[test]
fn a_sibling_that_still_runs_is_ambiguous_and_its_late_reply_changes_nothing() {
    let mut s = Story::of(FORK).claimed();
    let late = s.reply("q", done());
    s.refuse("p");
    assert_eq!(s.asks(), [("q".into(), Direction::Compensate, 1)]);
    assert_eq!(
        s.when(Event::Reply(late)),
        Then::Ignored(Reason::NotAwaited)
    );
}

#[test]
fn a_compensation_request_names_the_key_that_it_compensates_and_gets_the_output() {
    let mut s = Story::of(LINE).claimed();
    s.succeed("a").refuse("b");
    let request = &s.requests()[0];
    assert_eq!(request.idempotency_key.0, "o-1/a/compensate");
    assert_eq!(request.compensates.as_ref().unwrap().0, "o-1/a/forward");
    assert_eq!(request.input, json!({"of": {"ref": 1}}));
}

#[test]
fn the_compensation_of_an_ambiguous_step_gets_null_for_its_output() {
    let mut s = Story::of(LINE).claimed();
    s.answer("a", refused(true));
    assert_eq!(s.requests()[0].input, json!({"of": null}));
}

#[test]
fn a_step_with_nothing_to_compensate_is_left_as_it_is() {
    let w = r#"{"workflow": "w", "steps": [
        {"id": "a", "agent": "x", "action": "go", "compensation": "none"},
        {"id": "b", "agent": "x", "action": "go", "compensation": "none"}]}"#;
    let mut s = Story::of(w).claimed();
    s.succeed("a").refuse("b");
    assert_eq!(s.state(), "Compensated");
    assert_eq!(s.steps(), [("a", "completed"), ("b", "refused")]);
}

#[test]
fn with_nothing_to_compensate_both_statuses_go_out_in_order() {
    let mut s = Story::of(LINE).claimed();
    s.sent().refuse("a");
    assert_eq!(s.state(), "Compensated");
    assert_eq!(
        s.statuses(),
        [(3, Status::Compensating), (4, Status::Compensated)]
    );
    assert!(!s.alerts(), "an orderly end");
}

#[test]
fn with_nothing_to_compensate_the_supervisors_turn_is_finished_by_the_next_claim() {
    let w = r#"{"workflow": "w", "steps": [
        {"id": "a", "agent": "x", "action": "go", "compensation": "none", "supervisor": {"failure_threshold": 0}}]}"#;
    let mut s = Story::of(w).claimed();
    s.overdue();
    assert_eq!(s.state(), "Compensating");
    s.claim();
    assert_eq!(s.state(), "Compensated");
}

#[test]
fn in_a_line_one_compensation_is_out_at_a_time() {
    let mut s = Story::of(LINE).claimed();
    s.succeed("a").succeed("b").refuse("c");
    let running = s
        .order
        .steps
        .iter()
        .filter(|r| r.state.name() == "compensating");
    assert_eq!(running.count(), 1);
    let again = s.claim_event();
    assert_eq!(s.when(again), Then::Ignored(Reason::Claimed));
}

#[test]
fn a_failed_compensation_is_retried_under_the_same_key() {
    let mut s = Story::of(LINE).claimed();
    s.succeed("a").refuse("b").answer("a", failed());
    assert!(s.step("a").is_failed());
    assert_eq!(s.order.due, Some(s.now));
    s.overdue();
    assert_eq!(s.order.failure_count(), 1);
    s.claim();
    let request = &s.requests()[0];
    assert_eq!(
        (request.attempt.0, request.idempotency_key.0.as_str()),
        (2, "o-1/a/compensate")
    );
    s.succeed("a");
    assert_eq!(s.state(), "Compensated");
}

#[test]
fn a_compensation_that_was_taken_and_not_heard_of_is_counted_with_its_whole_allowance() {
    let mut s = Story::of(&counted(LINE)).claimed();
    s.succeed("a").refuse("b").overdue();
    assert_eq!((s.calls("a"), s.compensation_calls("a")), (1, 2));
}

#[test]
fn above_its_threshold_a_failing_compensation_ends_in_compensation_failed_with_an_alert() {
    let mut s = Story::of(LINE).claimed();
    s.succeed("a")
        .refuse("b")
        .overdue()
        .claim()
        .answer("a", failed())
        .overdue();
    assert_eq!(s.state(), "CompensationFailed");
    assert!(s.alerts());
    assert_eq!(s.statuses().last().unwrap().1, Status::CompensationFailed);
    assert_eq!(
        s.order.state.cause().unwrap().fingerprint(),
        "transient/a/http-503"
    );
}

#[test]
fn a_compensation_whose_input_has_no_value_ends_in_compensation_failed() {
    let w = r#"{"workflow": "w", "steps": [
        {"id": "a", "agent": "x", "action": "go", "compensation": {"action": "compensate", "input": {"r": "${output.missing}"}}},
        {"id": "b", "agent": "x", "action": "go", "compensation": "none"}]}"#;
    let mut s = Story::of(w).claimed();
    s.succeed("a").refuse("b");
    assert_eq!(s.state(), "CompensationFailed");
    assert!(s.alerts());
}

#[test]
fn an_ambiguous_steps_compensation_without_a_value_is_told_by_its_own_cause() {
    let w = r#"{"workflow": "w", "steps": [
        {"id": "a", "agent": "x", "action": "go", "compensation": {"action": "compensate", "input": {"r": "${output.reference}"}}}]}"#;
    let mut s = Story::of(w).claimed();
    s.answer("a", refused(true));
    assert_eq!(s.state(), "CompensationFailed");
    let cause = s.order.state.cause().unwrap();
    assert_eq!(cause.fingerprint(), "definition/a/expression");
}

#[test]
fn a_finished_order_is_confirmed_once_and_then_leaves_the_due_index() {
    let mut s = Story::of(LINE).claimed();
    s.refuse("a");
    assert_eq!(s.when(Event::Overdue(Overdue::default())), Then::Repeat);
    assert_eq!(s.when(Event::Confirmed), Then::Written);
    assert_eq!(s.order.due, None);
    assert_eq!(s.messages(), []);
    assert_eq!(s.when(Event::Confirmed), Then::Ignored(Reason::Finished));
    assert_eq!(
        s.when(Event::Overdue(Overdue::default())),
        Then::Ignored(Reason::Finished)
    );
}

/// The input of a step's compensation as operators see it, or why it has none.
fn shown(s: &Story, step: usize) -> Result<serde_json::Value, String> {
    let calls = calls(&s.ctx(), &s.order, step).unwrap();
    let mut compensations = calls
        .into_iter()
        .filter(|c| c.direction == Direction::Compensate);
    let input = compensations.next().expect("it can be compensated").input;
    input.map_err(|e| e.to_string())
}

#[test]
fn the_compensation_that_is_shown_has_the_output_before_and_after_it_was_made() {
    let mut s = Story::of(LINE).claimed();
    let unknown = "expression `output`: the output of the step is not known";
    assert_eq!(shown(&s, 0), Err(unknown.to_owned()));
    s.succeed("a");
    let known = Ok(json!({"of": {"ref": 1}}));
    assert_eq!(shown(&s, 0), known);
    s.refuse("b");
    assert_eq!(shown(&s, 0), known);
    s.succeed("a");
    assert_eq!(s.state(), "Compensated");
    assert_eq!(shown(&s, 0), known);
    assert_eq!(s.step("a").output(), Some(&json!({"ref": 1}).into()));
    assert!(
        matches!(s.step("a"), StepState::Compensated { applied, .. } if applied.position == Some(0))
    );
}

#[test]
fn null_for_an_output_is_shown_only_where_it_is_sent() {
    let mut s = Story::of(LINE).claimed();
    s.answer("a", refused(true));
    assert_eq!(shown(&s, 0), Ok(s.requests()[0].input.clone()));

    let once = ONCE.replace(
        r#""compensate-once""#,
        r#""compensate-once", "input": {"of": "${output.ref}"}"#,
    );
    let mut s = Story::of(&once).claimed();
    s.succeed("a").silent();
    let unknown = "expression `output.ref`: the output of the step is not known";
    assert_eq!(shown(&s, 1), Err(unknown.to_owned()));
}

/// The work of `a` is done. That its answer lacks what `b` reads is no reason to compensate it.
#[test]
fn an_input_that_reads_what_an_answer_lacks_stops_the_order_and_compensates_nothing() {
    let workflow = LINE.replacen("${steps.a}", "${steps.a.reference}", 1);
    for output in [
        json!("OK"),
        json!(null),
        json!({"_left_out": {"reference": "9000 bytes"}}),
    ] {
        let mut s = Story::of(&workflow).claimed();
        s.answer("a", ReplyOutcome::Succeeded { output });
        assert_eq!(s.state(), "Error");
        assert_eq!(s.steps()[0], ("a", "completed"));
        assert!(s.alerts());
        assert_eq!(s.correct("b", json!({"from": "by hand"})), Then::Written);
        s.claim();
        let asked: Vec<String> = s.asks().into_iter().map(|(step, ..)| step).collect();
        assert_eq!(asked, ["b"], "it goes on with the operator's input");
    }
}

/// What the order itself says is wrong, and what was done for it is compensated, as the policy says.
#[test]
fn an_input_that_reads_what_the_details_lack_follows_the_policy() {
    let workflow = LINE.replacen("${steps.a}", "${details.missing}", 1);
    let mut s = Story::of(&workflow).claimed();
    s.succeed("a");
    assert_eq!(s.state(), "Compensating");
}

/// The answers fit the record one by one. That together they are more than an input may have is their shape too.
#[test]
fn an_input_that_answers_make_too_large_stops_the_order_and_compensates_nothing() {
    let many = [r#""${steps.a}""#; 20].join(", ");
    let workflow = LINE.replacen(
        r#"{"from": "${steps.a}"}"#,
        &format!(r#"{{"all": [{many}]}}"#),
        1,
    );
    let mut s = Story::of(&workflow).claimed();
    let output = json!("x".repeat(8_000));
    s.answer("a", ReplyOutcome::Succeeded { output });
    assert_eq!((s.state(), s.steps()[0]), ("Error", ("a", "completed")));
}
