//! Steps that may not be repeated: while their effect is in doubt no second call is made, and a service that has a
//! probe is probed.

use serde_json::{Value, json};
use triad_core::order::IncidentKind;
use triad_core::{
    Attempt, Direction, Event, FailureKind, Reason, ReplyOutcome, StepState, Timestamp,
};

use crate::support::{
    ONCE, PROBED, QUEUE, Story, Then, deferred_until, done, failed, failed_cleanly, found, refused,
};

/// An order whose step `once`, which may not be repeated, is running.
fn once() -> Story {
    let mut s = Story::of(ONCE).claimed();
    s.succeed("a").sent();
    s
}

/// An order whose step `pay`, which has a probe, is running.
fn paying() -> Story {
    let mut s = Story::of(PROBED).claimed();
    s.succeed("a").sent();
    s
}

/// An agent took the attempt at `pay` and sent no reply; the service is being probed.
fn probing() -> Story {
    let mut s = paying();
    s.overdue().claim().sent();
    s
}

/// A workflow with `once` or `pay` in parallel with a step that can fail.
fn beside(step: &str) -> String {
    format!(
        r#"{{"workflow": "w", "defaults": {{"attempt_timeout": "10s", "supervisor": {{"failure_threshold": 1}}}}, "steps": [
        {{"id": "first", "agent": "x", "action": "go", "compensation": {{"action": "compensate"}}}},
        {{"id": "s", "agent": "x", "action": "go", {step}}},
        {{"id": "q", "agent": "y", "action": "go", "after": ["first"], "attempt_timeout": "60s", "compensation": {{"action": "compensate"}}}}]}}"#
    )
}

/// Checks that the order is in Error, and stays there until an operator resolves the doubt.
#[track_caller]
fn is_stopped_in_doubt(s: &Story, step: &str) {
    assert_eq!(s.state(), "Error");
    assert!(s.alerts());
    assert_eq!(s.asks(), []);
    let cause = s.order.state.cause().unwrap();
    assert_eq!(cause.fingerprint(), format!("ambiguous/{step}/in-doubt"));
    assert!(s.record(step).in_doubt.is_some());
}

#[test]
fn an_attempt_at_it_is_one_call_whatever_the_defaults_say() {
    let mut s = Story::of(ONCE).claimed();
    s.succeed("a");
    let request = &s.requests()[0];
    assert_eq!((request.allowance, request.counted), (1, true));
}

#[test]
fn an_attempt_taken_and_not_heard_of_stops_the_order_for_an_operator_whatever_the_threshold() {
    let mut s = once();
    s.overdue();
    is_stopped_in_doubt(&s, "once");
    assert_eq!((s.failures("once"), s.calls("once")), (1, 1));
    assert_eq!(s.steps()[0], ("a", "completed"), "nothing is compensated");
}

#[test]
fn an_answer_that_was_lost_stops_the_order_at_once() {
    for outcome in [failed(), refused(true)] {
        let mut s = once();
        s.answer("once", outcome);
        is_stopped_in_doubt(&s, "once");
        assert_eq!(s.timeline(), [IncidentKind::AttemptFailed]);
        assert_eq!(s.failures("once"), 1);
    }
}

#[test]
fn a_failure_without_effect_is_retried_under_the_same_key() {
    let mut s = once();
    s.answer("once", failed_cleanly()).overdue().claim();
    let request = &s.requests()[0];
    assert_eq!(request.attempt, Attempt(2));
    assert_eq!(request.idempotency_key.0, "o-1/once/forward");
    s.succeed("once");
    assert_eq!(s.steps()[2], ("c", "running"));
}

#[test]
fn being_deferred_after_a_doubtful_call_is_a_failed_attempt_that_stops_the_order() {
    let mut s = once();
    s.answer("once", deferred_until(s.now, true));
    is_stopped_in_doubt(&s, "once");
    assert_eq!(s.steps()[1], ("once", "failed"), "nothing is out");
    assert_eq!(s.timeline(), [IncidentKind::AttemptFailed]);
    assert_eq!(s.failures("once"), 1);
}

#[test]
fn a_clean_refusal_of_it_turns_the_order_round() {
    let mut s = once();
    s.refuse("once");
    assert_eq!(s.steps()[1], ("once", "refused"));
    assert_eq!(s.asks(), [("a".into(), Direction::Compensate, 1)]);
}

#[test]
fn being_deferred_without_a_call_is_no_doubt() {
    let mut s = once();
    s.deferred("once", 60_000);
    assert_eq!(s.steps()[1], ("once", "deferred"));
    s.overdue().claim();
    assert_eq!(s.asks(), [("once".into(), Direction::Forward, 2)]);
    assert_eq!(s.failures("once"), 0);
}

#[test]
fn once_completed_it_is_compensated_as_any_step() {
    let mut s = once();
    s.succeed("once").refuse("c");
    assert_eq!(s.asks(), [("once".into(), Direction::Compensate, 1)]);
}

#[test]
fn an_order_that_begins_compensation_over_another_step_does_not_compensate_what_is_in_doubt() {
    let may_not = r#""at_most_once": true, "compensation": {"action": "compensate"}"#;
    let probe = r#""probe": {"action": "ask"}, "compensation": {"action": "compensate"}"#;
    for step in [may_not, probe] {
        let mut s = Story::of(&beside(step)).claimed();
        s.succeed("first").refuse("q");
        assert_eq!(s.state(), "CompensationFailed");
        assert_eq!(s.asks(), []);
        assert_eq!(
            s.steps(),
            [
                ("first", "compensation-due"),
                ("s", "not-compensated"),
                ("q", "refused")
            ],
            "what came before waits for it"
        );
        let cause = s.order.state.cause().unwrap();
        assert_eq!(cause.fingerprint(), "ambiguous/s/in-doubt");
        assert!(s.alerts());
    }
}

#[test]
fn the_rest_is_compensated_before_an_operator_is_asked_about_what_is_in_doubt() {
    let may_not = r#""at_most_once": true, "compensation": {"action": "compensate"}"#;
    let mut s = Story::of(&beside(may_not)).claimed();
    s.succeed("first").answer("q", refused(true));
    assert_eq!(s.state(), "Compensating");
    assert_eq!(s.asks(), [("q".into(), Direction::Compensate, 1)]);
    s.succeed("q");
    assert_eq!(s.state(), "CompensationFailed");
    let cause = s.order.state.cause().unwrap();
    assert_eq!(cause.fingerprint(), "ambiguous/s/in-doubt");
}

#[test]
fn in_doubt_with_nothing_to_compensate_it_stays_ambiguous() {
    let mut s = Story::of(&beside(r#""at_most_once": true, "compensation": "none""#)).claimed();
    s.succeed("first").refuse("q").succeed("first");
    assert_eq!(s.state(), "Compensated");
    assert_eq!(s.steps()[1], ("s", "ambiguous"));
}

#[test]
fn after_an_attempt_taken_and_not_heard_of_the_service_is_asked_under_the_key_of_the_effect() {
    let mut s = paying();
    s.overdue().claim();
    assert_eq!(s.asks(), [("pay".into(), Direction::Probe, 2)]);
    let request = &s.requests()[0];
    assert_eq!(request.action, "find-pay");
    assert_eq!(request.agent.as_str(), "y");
    assert_eq!(request.idempotency_key.0, "o-1/pay/forward");
    assert_eq!(request.compensates, None);
    assert_eq!(request.input, json!({"sum": 7}), "the effect's own");
    assert_eq!(request.complete_by, Timestamp(s.now.0 + QUEUE + 4_000));
    assert_eq!((request.allowance, request.counted), (3, true));
    assert_eq!(s.steps()[1], ("pay", "probing"));
}

#[test]
fn an_effect_that_happened_completes_its_step() {
    let mut s = probing();
    s.answer("pay", found(true));
    let StepState::Completed {
        attempt,
        position,
        output,
        ..
    } = s.step("pay")
    else {
        panic!("{:?}", s.step("pay"))
    };
    assert_eq!((attempt.0, *position), (2, 1));
    assert_eq!(output.value(), Some(&json!({"ref": 9})));
    assert!(s.record("pay").in_doubt.is_none());
    assert_eq!(s.asks(), [("c".into(), Direction::Forward, 1)]);
    assert_eq!(s.requests()[0].input, json!({"paid": {"ref": 9}}));
}

#[test]
fn what_the_service_said_is_in_the_timeline() {
    for (applied, note) in [(true, "applied"), (false, "not applied")] {
        let mut s = probing();
        s.answer("pay", found(applied));
        let line = s.order.incidents.last().unwrap();
        assert_eq!(line.what, IncidentKind::Probed);
        assert_eq!(line.note.as_deref(), Some(note));
        assert_eq!(line.step.as_ref().unwrap().as_str(), "pay");
        assert_eq!((line.attempt, line.calls), (Some(Attempt(2)), Some(1)));
    }
}

#[test]
fn an_effect_that_happened_without_an_output_has_null_for_it() {
    let mut s = probing();
    let output = json!({"applied": true});
    s.answer("pay", ReplyOutcome::Succeeded { output });
    let StepState::Completed { output, .. } = s.step("pay") else {
        panic!("{:?}", s.step("pay"))
    };
    assert!(output.is_null());
}

#[test]
fn an_effect_that_did_not_happen_is_tried_again_at_once() {
    let mut s = probing();
    s.answer("pay", found(false));
    assert_eq!(s.state(), "Processing");
    assert_eq!(s.asks(), [("pay".into(), Direction::Forward, 3)]);
    assert!(s.record("pay").in_doubt.is_none());
    assert_eq!(s.requests()[0].idempotency_key.0, "o-1/pay/forward");
    assert_eq!(
        s.order.complete_by(),
        Some(Timestamp(s.now.0 + QUEUE + 10_000))
    );
    assert_eq!(s.failures("pay"), 1, "the answer is no failure");
    s.overdue();
    assert!(
        s.record("pay").in_doubt.is_some(),
        "of the new attempt nothing was heard either"
    );
    s.claim();
    assert_eq!(s.asks(), [("pay".into(), Direction::Probe, 4)]);
}

#[test]
fn of_a_released_order_the_next_attempt_waits_for_the_claim() {
    let w = beside(r#""probe": {"action": "ask"}, "compensation": {"action": "compensate"}"#);
    let mut s = Story::of(&w.replace("60s", "12s")).claimed();
    s.succeed("first").overdue().claim();
    s.overdue();
    assert_eq!((s.state(), s.steps()[1]), ("Pending", ("s", "probing")));
    s.answer("s", found(false));
    assert_eq!((s.state(), s.steps()[1]), ("Pending", ("s", "retry-due")));
    assert_eq!(s.asks(), []);
    s.claim();
    assert!(s.asks().contains(&("s".into(), Direction::Forward, 3)));
}

#[test]
fn a_question_without_a_usable_answer_is_counted_and_asked_again() {
    for output in [json!({}), json!({"applied": "yes"}), Value::Null] {
        let mut s = probing();
        s.answer("pay", ReplyOutcome::Succeeded { output });
        assert_eq!(s.steps()[1], ("pay", "failed"));
        s.overdue();
        assert_eq!(s.failures("pay"), 2);
        let error = s.record("pay").error.as_ref().unwrap();
        assert_eq!(error.fingerprint(), "transient/pay/probe-answer");
        s.claim();
        assert_eq!(s.asks(), [("pay".into(), Direction::Probe, 3)]);
    }
}

#[test]
fn a_failing_question_leaves_the_doubt_even_if_it_was_refused() {
    for outcome in [failed(), failed_cleanly(), refused(false)] {
        let mut s = probing();
        s.answer("pay", outcome);
        assert_eq!((s.state(), s.steps()[1]), ("Processing", ("pay", "failed")));
        assert!(s.record("pay").in_doubt.is_some());
        s.overdue().claim();
        assert_eq!(s.asks(), [("pay".into(), Direction::Probe, 3)]);
    }
}

#[test]
fn above_the_threshold_a_question_without_answer_stops_for_an_operator() {
    let mut s = probing();
    s.overdue().claim().overdue();
    is_stopped_in_doubt(&s, "pay");
    assert_eq!((s.failures("pay"), s.calls("pay")), (3, 1 + 3 + 3));
}

#[test]
fn a_question_that_is_deferred_is_asked_later() {
    let mut s = probing();
    let until = Timestamp(s.now.0 + 60_000);
    s.answer("pay", deferred_until(until, true));
    assert_eq!(s.steps()[1], ("pay", "deferred"));
    s.overdue().claim();
    assert_eq!(s.asks(), [("pay".into(), Direction::Probe, 3)]);
    assert_eq!(s.failures("pay"), 1);
}

#[test]
fn a_lost_answer_of_a_step_with_a_probe_waits_to_be_counted_and_is_asked_about() {
    let mut s = paying();
    s.answer("pay", failed());
    assert_eq!(s.steps()[1], ("pay", "failed"));
    s.overdue().claim();
    assert_eq!(s.asks(), [("pay".into(), Direction::Probe, 2)]);
}

#[test]
fn being_deferred_after_a_doubtful_call_the_service_is_asked() {
    let mut s = paying();
    let until = s.now;
    s.answer("pay", deferred_until(until, true))
        .overdue()
        .claim();
    assert_eq!(s.asks(), [("pay".into(), Direction::Probe, 2)]);
}

#[test]
fn a_failure_without_effect_needs_no_question() {
    let mut s = paying();
    s.answer("pay", failed_cleanly()).overdue().claim();
    assert_eq!(s.asks(), [("pay".into(), Direction::Forward, 2)]);
}

#[test]
fn a_refusal_that_may_have_been_applied_stops_for_an_operator() {
    let mut s = paying();
    s.answer("pay", refused(true));
    is_stopped_in_doubt(&s, "pay");
}

#[test]
fn the_reply_of_the_silent_attempt_does_not_resolve_the_question() {
    let mut s = paying();
    let late = s.reply("pay", done());
    s.overdue().claim();
    let then = s.when(Event::Reply(late));
    assert_eq!(then, Then::Ignored(Reason::NotAwaited));
}

#[test]
fn the_answer_to_a_question_never_completes_a_call() {
    let mut s = paying();
    let mut reply = s.reply("pay", found(true));
    reply.direction = Direction::Probe;
    let then = s.when(Event::Reply(reply));
    assert_eq!(then, Then::Ignored(Reason::NotAwaited));
}

#[test]
fn a_late_answer_to_a_question_resolves_nothing() {
    let mut s = probing();
    let late = s.reply("pay", found(true));
    s.after(QUEUE + 4_001);
    assert_eq!(s.when(Event::Reply(late)), Then::Written);
    assert_eq!(s.steps()[1], ("pay", "probing"));
    assert!(s.record("pay").in_doubt.is_some());
    s.overdue();
    assert_eq!(s.failures("pay"), 2);
}

#[test]
fn a_question_whose_input_has_lost_its_value_is_for_an_operator() {
    let mut s = paying();
    s.overdue();
    s.details = json!({});
    s.claim();
    assert_eq!(s.state(), "Error");
    let cause = s.order.state.cause().unwrap();
    assert_eq!(cause.kind, FailureKind::Ambiguous);
}
