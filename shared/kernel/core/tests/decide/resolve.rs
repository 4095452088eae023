//! An operator resolves an effect in doubt: it happened, or it did not.

use serde_json::json;
use triad_core::doubt::open_until;
use triad_core::order::IncidentKind;
use triad_core::status::Status;
use triad_core::{
    Action, Attempt, Direction, Event, OperationRefusal, Overdue, StepState, Timestamp,
};

use crate::support::{LINE, ONCE, PROBED, Story, Then, refused};

/// After `first`, the steps `p` and `q` run in parallel; neither may be repeated.
const TWO: &str = r#"{"workflow": "two", "defaults": {"attempt_timeout": "10s"}, "steps": [
    {"id": "first", "agent": "x", "action": "go", "compensation": {"action": "compensate"}},
    {"id": "p", "agent": "x", "action": "go", "after": ["first"], "at_most_once": true, "compensation": {"action": "compensate"}},
    {"id": "q", "agent": "y", "action": "go", "after": ["first"], "at_most_once": true, "compensation": {"action": "compensate"}},
    {"id": "join", "agent": "x", "action": "go", "after": ["p", "q"], "compensation": "none"}]}"#;

/// An order in Error, because the effect of `once` is in doubt.
fn stopped() -> Story {
    let mut s = Story::of(ONCE).claimed();
    s.succeed("a").overdue();
    s
}

/// An order in CompensationFailed, because the effect of `once` is in doubt.
fn half_compensated() -> Story {
    let mut s = stopped();
    s.acts(Action::Cancel).claim();
    assert_eq!(s.state(), "CompensationFailed");
    s
}

/// An order in Error with both `p` and `q` in doubt.
fn both_in_doubt() -> Story {
    let mut s = Story::of(TWO).claimed();
    s.succeed("first").answer("p", refused(true));
    assert_eq!(s.steps()[2], ("q", "running"), "asked, and never heard of");
    s
}

fn is_step_refused(then: &Then, reason: &str) {
    let Then::Refused(OperationRefusal::Step { why, .. }) = then else {
        panic!("{then:?}")
    };
    assert!(why.contains(reason), "{why}");
}

fn doubt(s: &Story) -> String {
    s.order.state.cause().unwrap().fingerprint()
}

#[test]
fn an_effect_that_happened_completes_its_step_and_the_order_goes_on() {
    let mut s = stopped();
    s.sent();
    assert_eq!(s.resolve("once", Some(json!({"ref": 5}))), Then::Written);
    let StepState::Completed {
        position, output, ..
    } = s.step("once")
    else {
        panic!("{:?}", s.step("once"))
    };
    assert_eq!((*position, output.value()), (1, Some(&json!({"ref": 5}))));
    assert!(s.record("once").in_doubt.is_none());
    assert_eq!((s.state(), s.order.run), ("Pending", 1));
    assert!(s.announces());
    assert_eq!(s.statuses().last().unwrap().1, Status::Resubmitted);
    s.claim();
    assert_eq!(s.asks(), [("c".into(), Direction::Forward, 1)]);
}

#[test]
fn an_effect_that_did_not_happen_is_tried_again_under_its_key() {
    let mut s = stopped();
    assert_eq!(s.resolve("once", None), Then::Written);
    s.claim();
    assert_eq!(s.asks(), [("once".into(), Direction::Forward, 2)]);
    let request = &s.requests()[0];
    assert_eq!(request.idempotency_key.0, "o-1/once/forward");
    s.succeed("once").succeed("c");
    assert_eq!(s.state(), "Processed");
}

#[test]
fn what_the_operator_said_is_in_the_timeline() {
    for (output, note) in [
        (Some(json!({"ref": 5})), "applied: {\"ref\":5}"),
        (None, "not applied"),
    ] {
        let mut s = stopped();
        s.resolve("once", output);
        let line = s.order.incidents.last().unwrap();
        assert_eq!(line.what, IncidentKind::Resolved);
        assert_eq!(line.note.as_deref(), Some(note));
        assert_eq!(line.step.as_ref().unwrap().as_str(), "once");
        assert_eq!(line.act.as_ref().unwrap().by, "ann");
    }
}

#[test]
fn a_step_whose_service_did_not_answer_the_probe_is_resolved_too() {
    let mut s = Story::of(PROBED).claimed();
    s.succeed("a").answer("pay", refused(true));
    assert_eq!(s.resolve("pay", None), Then::Written);
    s.claim();
    assert_eq!(s.asks(), [("pay".into(), Direction::Forward, 2)]);
}

#[test]
fn a_step_that_was_out_when_the_order_stopped_can_be_resolved() {
    let mut s = both_in_doubt();
    s.after(60_000);
    assert_eq!(s.resolve("q", Some(json!(1))), Then::Written);
    assert_eq!(s.steps()[2], ("q", "completed"), "however late");
}

#[test]
fn with_two_in_doubt_each_is_resolved_and_the_last_word_lets_the_order_go_on() {
    for first in [None, Some(json!(1))] {
        let mut s = both_in_doubt();
        assert_eq!(doubt(&s), "ambiguous/p/in-doubt");
        let stopped_at = s.order.state.finished_at();
        assert_eq!(s.resolve("p", first.clone()), Then::Written);
        assert_eq!((s.state(), s.order.run), ("Error", 0));
        assert_eq!(doubt(&s), "ambiguous/q/in-doubt", "what is asked now");
        assert_eq!(s.order.state.finished_at(), stopped_at);
        assert_eq!(s.asks(), []);
        is_step_refused(&s.resolve("p", None), "not in doubt");
        let q = "q".to_owned().try_into().unwrap();
        let then = s.tries(Action::Resubmit { input: None });
        assert_eq!(then, Then::Refused(OperationRefusal::InDoubt(q)));
        assert_eq!(s.silent().resolve("q", None), Then::Written);
        assert_eq!(s.state(), "Pending");
        s.claim();
        let again = s.asks().iter().any(|(step, _, _)| step == "p");
        assert_eq!(again, first.is_none());
    }
}

#[test]
fn a_word_that_leaves_the_order_stopped_keeps_what_is_unsent_and_the_hint() {
    let mut s = both_in_doubt();
    let due = s.order.due;
    s.resolve("p", None);
    assert!(s.alerts());
    assert_eq!(s.order.due, due);
    assert_eq!(s.when(Event::Overdue(Overdue::default())), Then::Repeat);
    let mut s = both_in_doubt();
    s.when(Event::Confirmed);
    s.resolve("p", None);
    assert_eq!((s.alerts(), s.order.due), (false, None));
}

#[test]
fn half_compensated_an_effect_that_happened_is_compensated_with_its_output() {
    let mut s = half_compensated();
    assert_eq!(doubt(&s), "ambiguous/once/in-doubt");
    assert_eq!(s.resolve("once", Some(json!({"ref": 5}))), Then::Written);
    assert_eq!(s.state(), "Compensating");
    assert_eq!(s.order.state.cause().unwrap().code, "cancelled");
    s.claim();
    assert_eq!(s.asks(), [("once".into(), Direction::Compensate, 1)]);
    let applied = s.step("once").to_compensate().unwrap();
    assert_eq!(applied.output, json!({"ref": 5}).into());
    s.succeed("once").succeed("a");
    assert_eq!(s.state(), "Compensated");
}

#[test]
fn half_compensated_an_effect_that_did_not_happen_needs_no_compensation() {
    let mut s = half_compensated();
    assert_eq!(s.resolve("once", None), Then::Written);
    assert_eq!(s.steps()[1], ("once", "refused"));
    s.claim();
    assert_eq!(s.asks(), [("a".into(), Direction::Compensate, 1)]);
}

#[test]
fn half_compensated_with_two_in_doubt_the_last_word_lets_the_compensation_go_on() {
    let mut s = both_in_doubt();
    s.acts(Action::Cancel).claim();
    assert_eq!(s.state(), "CompensationFailed");
    assert_eq!(s.resolve("p", Some(json!(1))), Then::Written);
    assert_eq!(s.state(), "CompensationFailed");
    assert_eq!(doubt(&s), "ambiguous/q/in-doubt");
    let q = "q".to_owned().try_into().unwrap();
    let then = s.tries(Action::RetryCompensation);
    assert_eq!(then, Then::Refused(OperationRefusal::InDoubt(q)));
    assert_eq!(s.silent().resolve("q", None), Then::Written);
    s.claim();
    assert_eq!(s.asks(), [("p".into(), Direction::Compensate, 1)]);
    s.succeed("p").succeed("first");
    assert_eq!(s.state(), "Compensated");
}

#[test]
fn compensated_with_an_effect_in_doubt_the_order_is_not_run_again_before_that_is_resolved() {
    let w = TWO.replace(
        "\"compensation\": {\"action\": \"compensate\"}",
        "\"compensation\": \"none\"",
    );
    for happened in [None, Some(json!(1))] {
        let mut s = Story::of(&w).claimed();
        s.succeed("first").answer("p", refused(true));
        s.acts(Action::Cancel).claim();
        assert_eq!(
            (s.state(), s.steps()[1]),
            ("Compensated", ("p", "ambiguous"))
        );
        for step in ["p", "q"] {
            let id = step.to_owned().try_into().unwrap();
            let then = s.tries(Action::Resubmit { input: None });
            assert_eq!(then, Then::Refused(OperationRefusal::InDoubt(id)));
            assert_eq!(s.silent().resolve(step, happened.clone()), Then::Written);
            assert_eq!(s.state(), "Compensated", "it stays compensated");
        }
        s.resubmit().claim().succeed("first");
        assert_eq!(s.asks().len(), 2);
        let stale = s.requests().iter().all(|r| r.attempt.0 == 2);
        assert!(stale, "attempts are numbered on");
    }
}

#[test]
fn an_ambiguous_step_of_a_half_compensated_order_is_resolved_without_setting_it_going() {
    let w = TWO.replace(
        "\"at_most_once\": true, \"compensation\": {\"action\": \"compensate\"}},\n    {\"id\": \"q\"",
        "\"at_most_once\": true, \"compensation\": \"none\"},\n    {\"id\": \"q\"",
    );
    let mut s = Story::of(&w).claimed();
    s.succeed("first").succeed("q").answer("p", refused(true));
    s.acts(Action::Cancel).claim();
    s.overdue()
        .claim()
        .overdue()
        .claim()
        .overdue()
        .claim()
        .overdue();
    assert_eq!(s.state(), "CompensationFailed");
    assert_eq!(s.steps()[1], ("p", "ambiguous"));
    assert_eq!(s.resolve("p", None), Then::Written);
    assert_eq!(s.state(), "CompensationFailed");
    assert_eq!(s.steps()[1], ("p", "refused"));
    s.acts(Action::RetryCompensation);
}

#[test]
fn nobody_can_say_that_it_has_not_happened_while_its_request_may_still_be_carried_out() {
    // Resolves one effect of an order in Error and of one in CompensationFailed.
    let out = both_in_doubt();
    let mut half = both_in_doubt();
    half.acts(Action::Cancel).claim();
    for mut s in [out, half] {
        let until = open_until(s.record("q")).expect("it may be");
        s.now = Timestamp(until.0 - 1);
        is_step_refused(&s.resolve("q", None), "for another 1ms");
        s.now = until;
        assert_eq!(s.resolve("q", None), Then::Written);
        assert_eq!(open_until(s.record("q")), None);
    }
    // An effect that was resolved as having happened cannot be resolved otherwise.
    let mut s = both_in_doubt();
    assert_eq!(s.resolve("q", Some(json!(1))), Then::Written);
}

#[test]
fn an_answer_leaves_nothing_open_where_calls_are_counted() {
    let mut s = Story::of(PROBED).claimed();
    s.succeed("a").answer("pay", refused(true));
    assert_eq!(
        (
            s.record("pay").in_doubt.is_some(),
            open_until(s.record("pay"))
        ),
        (true, None)
    );
    // The request may have been delivered twice, and another agent may have taken the second delivery.
    let mut s = Story::of(LINE).claimed();
    let until = s.step("a").complete_by();
    s.answer("a", refused(true));
    assert_eq!(open_until(s.record("a")), until);
    assert!(until.is_some());
}

#[test]
fn a_word_about_an_earlier_attempt_is_refused() {
    let mut s = stopped();
    let of = |attempt| Action::Resolve {
        step: s.record("once").step.clone(),
        applied: None,
        attempt: Some(Attempt(attempt)),
    };
    let (first, second) = (of(1), of(2));
    is_step_refused(&s.tries(second.clone()), "attempt 1 at it is in doubt");
    assert_eq!(s.tries(first.clone()), Then::Written);
    s.claim().overdue();
    assert_eq!(s.state(), "Error");
    is_step_refused(&s.tries(first), "attempt 2 at it is in doubt");
    assert_eq!(s.tries(second), Then::Written);
}

#[test]
fn a_word_is_bound_to_the_attempt_that_is_seen_first() {
    let (mut s, mut later) = (stopped(), stopped());
    later.resolve("once", None);
    later.claim();
    let mut word = Action::Resolve {
        step: s.record("once").step.clone(),
        applied: None,
        attempt: None,
    };
    word.see(&s.order);
    word.see(&later.order);
    let Action::Resolve { attempt, .. } = &word else {
        panic!("{word:?}");
    };
    assert_eq!(*attempt, Some(Attempt(1)));
    assert_eq!(s.tries(word), Then::Written);
}

#[test]
fn only_what_is_in_doubt_can_be_resolved() {
    let mut s = stopped();
    let before = s.order.clone();
    is_step_refused(&s.resolve("a", None), "not in doubt");
    is_step_refused(&s.resolve("c", Some(json!(1))), "not in doubt");
    is_step_refused(&s.resolve("zzz", None), "no such step");
    assert_eq!(s.order, before);
}

#[test]
fn what_is_compensated_whether_it_happened_or_not_need_not_be_resolved() {
    let w = TWO.replace(
        "\"id\": \"first\", \"agent\": \"x\", \"action\": \"go\"",
        "\"id\": \"first\", \"agent\": \"x\", \"action\": \"go\", \"retry\": {\"calls_per_attempt\": 1}",
    );
    let mut s = Story::of(&w).claimed();
    s.answer("first", refused(true));
    assert_eq!(s.steps()[0], ("first", "compensating"));
    let then = s.resolve("first", None);
    assert!(
        matches!(then, Then::Refused(OperationRefusal::State { .. })),
        "{then:?}"
    );
}

#[test]
fn an_operators_output_is_bounded_as_an_agents_is() {
    for (bytes, fits) in [(8 * 1024 - 2, true), (8 * 1024 - 1, false)] {
        let mut s = stopped();
        let then = s.resolve("once", Some(json!("x".repeat(bytes))));
        if fits {
            assert_eq!(then, Then::Written);
        } else {
            is_step_refused(&then, "are allowed");
        }
    }
}

#[test]
fn an_operators_output_that_could_not_be_read_back_is_refused() {
    let mut s = stopped();
    let deep = (0..65).fold(json!(7), |inner, _| json!([inner]));
    let then = s.resolve("once", Some(deep));
    is_step_refused(&then, "nested deeper");
}

#[test]
fn what_is_said_at_length_is_cut_in_the_timeline() {
    let mut s = stopped();
    s.resolve("once", Some(json!("x".repeat(5_000))));
    let note = s.order.incidents.last().unwrap().note.as_ref().unwrap();
    assert_eq!(note.len(), triad_core::timeline::MAX_NOTE_BYTES);
}
