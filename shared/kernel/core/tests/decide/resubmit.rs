//! Resubmission: an operator starts a new run of an order that has ended.

use serde_json::{Value, json};
use triad_core::order::IncidentKind;
use triad_core::status::Status;
use triad_core::stored;
use triad_core::{
    Action, Attempt, Direction, Event, OperationRefusal, ProcessState, Reason, Timestamp,
};
use triad_workflow::Millis;
use triad_workflow::bounds::MAX_NESTING;

use crate::support::{FORK, LINE, ONCE, PROBED, Story, Then, counted, done, failed, refused};

/// Three steps in a line; a refusal of `b` ends the order in Error.
fn line() -> String {
    LINE.replace(
        "\"failure_threshold\": 1",
        "\"failure_threshold\": 1, \"then\": \"error\"",
    )
}

/// An order in Error: the service refused `b`.
fn stopped() -> Story {
    let mut s = Story::of(&line()).claimed();
    s.succeed("a").refuse("b");
    assert_eq!(s.state(), "Error");
    s
}

/// An order in Compensated: `a` was completed, and the service refused `b`.
fn compensated() -> Story {
    let mut s = Story::of(LINE).claimed();
    s.succeed("a").refuse("b").succeed("a");
    assert_eq!(s.state(), "Compensated");
    s
}

fn step_refused(s: &Then) -> &str {
    match s {
        Then::Refused(OperationRefusal::Step { why, .. }) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_stopped_order_waits_for_a_scheduler_in_a_new_round() {
    let mut s = stopped();
    s.sent().after(5_000).resubmit();
    let by = Timestamp(s.now.0 + 60_000);
    let waits = ProcessState::Pending {
        complete_by: Some(by),
    };
    assert_eq!((&s.order.state, s.order.due), (&waits, Some(by)));
    assert_eq!(s.order.run, 1);
    assert!(s.announces());
    assert_eq!(s.statuses(), [(4, Status::Resubmitted)]);
    assert_eq!(
        s.steps(),
        [("a", "completed"), ("b", "retry-due"), ("c", "waiting")]
    );
}

#[test]
fn it_says_who_and_why() {
    let mut s = stopped();
    s.resubmit();
    let line = s.order.incidents.last().unwrap();
    assert_eq!(line.what, IncidentKind::Resubmitted);
    let act = line.act.as_ref().unwrap();
    assert_eq!((act.by.as_str(), act.why.as_str()), ("ann", "because"));
}

#[test]
fn the_failed_step_is_done_again_and_the_order_goes_on() {
    let mut s = stopped();
    s.resubmit().claim();
    assert_eq!(s.asks(), [("b".into(), Direction::Forward, 2)]);
    s.succeed("b").succeed("c");
    assert_eq!(s.state(), "Processed");
}

#[test]
fn a_refused_step_gets_a_new_key_because_the_service_may_have_kept_its_refusal() {
    let mut s = stopped();
    s.resubmit().claim();
    assert_eq!(s.requests()[0].idempotency_key.0, "o-1/b/forward/1");
}

#[test]
fn a_step_in_doubt_keeps_its_key_so_that_its_effect_stays_one() {
    let mut s = Story::of(&line()).claimed();
    s.succeed("a").overdue().claim().overdue();
    assert_eq!(s.state(), "Error");
    s.resubmit().claim();
    let request = &s.requests()[0];
    assert_eq!(
        (request.attempt.0, request.idempotency_key.0.as_str()),
        (3, "o-1/b/forward")
    );
}

#[test]
fn its_failures_are_counted_from_zero() {
    let mut s = Story::of(&line()).claimed();
    s.overdue().claim().overdue();
    assert_eq!((s.failures("a"), s.calls("a")), (2, 4));
    s.resubmit();
    assert_eq!((s.failures("a"), s.calls("a")), (0, 0));
    s.claim().overdue();
    assert_eq!(s.state(), "Pending", "the whole patience again");
}

#[test]
fn what_was_running_when_the_order_stopped_is_in_doubt_and_asked_for_again() {
    let w = FORK.replace(
        "\"delay\": \"4s\"",
        "\"then\": \"error\", \"delay\": \"4s\"",
    );
    let mut s = Story::of(&w).claimed();
    let stale = s.reply("p", done());
    s.refuse("q");
    assert_eq!(s.steps()[0], ("p", "running"));
    s.resubmit();
    assert!(s.record("p").in_doubt.is_some());
    s.claim();
    assert!(s.asks().contains(&("p".into(), Direction::Forward, 2)));
    let then = s.when(Event::Reply(stale));
    assert_eq!(then, Then::Ignored(Reason::OlderAttempt));
    s.refuse("q");
    s.resubmit().acts(Action::Cancel).claim();
    assert!(s.asks().contains(&("p".into(), Direction::Compensate, 1)));
}

#[test]
fn what_may_not_be_repeated_is_not_while_it_is_in_doubt() {
    let mut s = Story::of(ONCE).claimed();
    s.succeed("a").overdue();
    let once = "once".to_owned().try_into().unwrap();
    let then = s.tries(Action::Resubmit { input: None });
    assert_eq!(then, Then::Refused(OperationRefusal::InDoubt(once)));
}

#[test]
fn what_was_running_and_may_not_be_repeated_is_in_doubt_too() {
    let w = r#"{"workflow": "w", "steps": [
        {"id": "a", "agent": "x", "action": "go", "after": [], "at_most_once": true, "compensation": "none"},
        {"id": "b", "agent": "x", "action": "go", "after": [], "compensation": "none",
         "supervisor": {"failure_threshold": 0, "then": "error"}}]}"#;
    let mut s = Story::of(w).claimed();
    s.refuse("b");
    let a = "a".to_owned().try_into().unwrap();
    let then = s.tries(Action::Resubmit { input: None });
    assert_eq!(then, Then::Refused(OperationRefusal::InDoubt(a)));
}

#[test]
fn of_a_step_with_a_probe_the_service_is_asked_first() {
    let mut s = Story::of(PROBED).claimed();
    s.succeed("a").answer("pay", refused(true));
    assert_eq!(s.state(), "Error");
    s.resubmit().claim();
    assert_eq!(s.asks(), [("pay".into(), Direction::Probe, 2)]);
}

#[test]
fn an_alert_that_may_not_have_gone_out_is_carried_into_the_new_round() {
    let mut s = stopped();
    s.resubmit();
    assert!(s.alerts());
    assert_eq!(
        s.statuses(),
        [
            (2, Status::Started),
            (3, Status::Failed),
            (4, Status::Resubmitted)
        ]
    );
    s.claim();
    assert!(s.alerts(), "until the bus has it");
    s.sent().succeed("b");
    assert!(!s.alerts());
}

#[test]
fn of_a_confirmed_order_nothing_is_carried() {
    let mut s = stopped();
    s.when(Event::Confirmed);
    s.resubmit();
    assert!(!s.alerts());
    assert_eq!(s.statuses(), [(4, Status::Resubmitted)]);
    assert!(s.order.due.is_some(), "it is alive again");
}

#[test]
fn the_confirmation_of_the_earlier_end_comes_too_late() {
    let mut s = stopped();
    s.resubmit();
    let then = s.when(Event::Confirmed);
    assert_eq!(then, Then::Ignored(Reason::Unfinished));
}

#[test]
fn a_resubmission_that_nobody_takes_up_is_announced_again() {
    let mut s = stopped();
    s.resubmit().overdue();
    assert_eq!((s.state(), s.announces()), ("Pending", true));
    s.claim();
}

#[test]
fn a_compensated_order_is_run_from_the_beginning_under_new_keys() {
    let mut s = compensated();
    s.resubmit();
    assert!(s.steps().iter().all(|(_, state)| *state == "waiting"));
    assert_eq!(
        (s.calls("a"), s.compensation_calls("a"), s.failures("b")),
        (0, 0, 0)
    );
    s.claim();
    let request = &s.requests()[0];
    assert_eq!(request.idempotency_key.0, "o-1/a/forward/1");
    assert_eq!(request.attempt, Attempt(2), "numbered on");
    s.succeed("a").succeed("b").succeed("c");
    assert_eq!(s.state(), "Processed");
}

#[test]
fn compensated_again_it_is_compensated_under_new_keys_too() {
    let mut s = compensated();
    s.resubmit().claim().succeed("a").refuse("b");
    let request = &s.requests()[0];
    assert_eq!(request.idempotency_key.0, "o-1/a/compensate/1");
    assert_eq!(request.compensates.as_ref().unwrap().0, "o-1/a/forward/1");
    assert_eq!(request.attempt, Attempt(2), "numbered on");
}

#[test]
fn no_reply_of_an_earlier_round_fits_a_later_one() {
    let mut s = Story::of(LINE).claimed();
    let forward = s.reply("a", done());
    s.succeed("a").refuse("b").answer("a", failed()).overdue();
    s.claim();
    let compensation = s.reply("a", failed());
    assert_eq!(compensation.attempt, Attempt(2));
    s.succeed("a").resubmit().claim();
    // The outdated reply is refused even if everything happens at the same moment.
    let then = s.when(Event::Reply(forward));
    assert_eq!(then, Then::Ignored(Reason::OlderAttempt));
    s.succeed("a").refuse("b");
    let then = s.when(Event::Reply(compensation));
    assert_eq!(then, Then::Ignored(Reason::OlderAttempt));
    assert_eq!(s.asks()[0].2, 3);
}

#[test]
fn a_condition_is_looked_at_anew() {
    let w = r#"{"workflow": "w", "steps": [
        {"id": "a", "agent": "x", "action": "go", "when": "details.go", "compensation": "none"},
        {"id": "b", "agent": "x", "action": "go", "compensation": "none"}]}"#;
    let mut s = Story::with_details(w, json!({"go": false})).claimed();
    s.refuse("b");
    assert_eq!((s.state(), s.steps()[0]), ("Compensated", ("a", "skipped")));
    s.resubmit();
    s.details = json!({"go": true});
    s.claim();
    assert_eq!(s.asks(), [("a".into(), Direction::Forward, 1)]);
}

#[test]
fn a_round_after_a_round_has_the_next_key() {
    let mut s = compensated();
    s.resubmit().claim().refuse("a");
    assert_eq!(s.state(), "Compensated");
    s.resubmit().claim();
    assert_eq!(s.order.run, 2);
    assert_eq!(s.requests()[0].idempotency_key.0, "o-1/a/forward/2");
}

#[test]
fn a_corrected_input_takes_the_place_of_the_definitions() {
    let mut s = stopped();
    let input = json!({"from": {"ref": 2}});
    assert_eq!(s.correct("b", input.clone()), Then::Written);
    let line = s.order.incidents.last().unwrap();
    assert_eq!(line.step.as_ref().unwrap().as_str(), "b");
    assert_eq!(line.note, Some(format!("input: {input}")));
    s.claim();
    assert_eq!(s.requests()[0].input, input);
    s.overdue().claim();
    assert_eq!(s.requests()[0].input, input, "of every attempt");
}

#[test]
fn another_input_is_another_effect_and_has_another_key() {
    let mut s = Story::of(&counted(&line())).claimed();
    for _ in 0..2 {
        s.answer("a", crate::support::failed_cleanly()).overdue();
        if s.state() == "Pending" {
            s.claim();
        }
    }
    assert_eq!(s.state(), "Error");
    let mut unchanged = Story::of(&counted(&line()));
    unchanged.order = s.order.clone();
    unchanged.now = s.now;
    unchanged.resubmit().claim();
    let key = &unchanged.requests()[0].idempotency_key.0;
    assert_eq!(key, "o-1/a/forward", "the same input is the same effect");
    assert_eq!(s.correct("a", json!({})), Then::Written);
    s.claim();
    assert_eq!(s.requests()[0].idempotency_key.0, "o-1/a/forward/1");
}

#[test]
fn a_step_that_waits_can_be_given_an_input_before_its_turn() {
    let mut s = stopped();
    assert_eq!(s.correct("c", json!({})), Then::Written);
    assert_eq!(s.record("c").key, 0, "no key is spent");
    s.claim().succeed("b");
    assert_eq!(s.asks(), [("c".into(), Direction::Forward, 1)]);
}

#[test]
fn an_input_is_held_against_the_one_that_it_replaces() {
    let w = r#"{"workflow": "w", "steps": [
        {"id": "a", "agent": "x", "action": "go", "compensation": "none", "supervisor": {"failure_threshold": 0, "then": "error"},
         "input": {"n": 1, "to": {"city": "Reims", "zip": null}, "tags": ["x"], "fast": true}}]}"#;
    let whole = |change: fn(&mut Value)| {
        let mut input =
            json!({"n": 2, "to": {"city": "Lyon", "zip": 7}, "tags": [], "fast": false});
        change(&mut input);
        let mut s = Story::of(w).claimed();
        s.refuse("a");
        s.correct("a", input)
    };
    let why = |change| step_refused(&whole(change)).to_owned();
    assert_eq!(whole(|_| {}), Then::Written);
    assert_eq!(whole(|i| i["tags"] = json!([1, {}])), Then::Written);
    assert_eq!(whole(|i| i["n"] = Value::Null), Then::Written);
    let missing = why(|i| drop(i["to"].as_object_mut().unwrap().remove("city")));
    assert_eq!(missing, "input.to.city is missing");
    let extra = why(|i| i["more"] = json!(1));
    assert_eq!(extra, "input.more is not a field of this step's input");
    let other = why(|i| i["n"] = json!("2"));
    assert_eq!(other, "input.n is a string and must be a number");
    let flat = why(|i| i["to"] = json!([]));
    assert_eq!(flat, "input.to is a list and must be an object");
}

#[test]
fn where_the_present_input_has_no_value_any_shape_will_do() {
    let w = r#"{"workflow": "w", "steps": [
        {"id": "a", "agent": "x", "action": "go", "compensation": "none", "supervisor": {"failure_threshold": 0, "then": "error"},
         "input": {"n": "${details.missing}"}}]}"#;
    let mut s = Story::of(w).claimed();
    assert_eq!(s.state(), "Error");
    assert_eq!(s.correct("a", json!({"m": 5})), Then::Written);
    s.claim();
    assert_eq!(s.requests()[0].input, json!({"m": 5}));
}

#[test]
fn an_input_beyond_the_bound_is_refused() {
    let w = line().replace(
        "\"do-b\", \"input\": {\"from\": \"${steps.a}\"}",
        "\"do-b\", \"input\": \"x\"",
    );
    for (bytes, fits) in [(8 * 1024 - 2, true), (8 * 1024 - 1, false)] {
        let mut s = Story::of(&w).claimed();
        s.succeed("a").refuse("b");
        let then = s.correct("b", json!("y".repeat(bytes)));
        assert_eq!(then == Then::Written, fits, "{bytes}");
    }
}

#[test]
fn an_input_that_is_kept_can_be_read_back_and_a_deeper_one_is_refused() {
    let w = line().replace(
        "\"do-b\", \"input\": {\"from\": \"${steps.a}\"}",
        "\"do-b\", \"input\": []",
    );
    let nested = |depth| (0..depth).fold(json!(7), |inner, _| json!([inner]));
    let mut s = Story::of(&w).claimed();
    s.succeed("a").refuse("b");
    let then = s.correct("b", nested(MAX_NESTING + 1));
    assert!(step_refused(&then).contains("nested deeper"), "{then:?}");
    assert_eq!(s.correct("b", nested(MAX_NESTING)), Then::Written);
    let stored = stored::encode(&s.order, 1, Millis(0));
    let read = stored::decode(|name| {
        let found = stored.iter().find(|(n, _)| *n == name);
        Ok(found.map(|(_, value)| value.clone()))
    });
    assert_eq!(read.as_ref(), Ok(&s.order));
}

#[test]
fn an_input_is_a_value() {
    let mut s = stopped();
    let then = s.correct("b", Value::Null);
    assert!(step_refused(&then).contains("null"), "{then:?}");
}

#[test]
fn only_what_will_be_done_and_has_had_no_effect_can_be_given_an_input() {
    let mut s = stopped();
    let before = s.order.clone();
    let then = s.correct("a", json!({}));
    assert!(step_refused(&then).contains("it is completed"), "{then:?}");
    let then = s.correct("zzz", json!({}));
    assert!(step_refused(&then).contains("no such step"), "{then:?}");
    assert_eq!(s.order, before, "nothing is written");
    let mut s = Story::of(&line()).claimed();
    s.overdue().claim().overdue();
    let then = s.correct("a", json!({}));
    assert!(
        step_refused(&then).contains("may have had its effect"),
        "{then:?}"
    );
}

#[test]
fn a_compensated_order_can_be_run_again_with_another_input() {
    let mut s = compensated();
    assert_eq!(s.correct("b", json!({"from": 1})), Then::Written);
    s.claim().succeed("a");
    assert_eq!(s.requests()[0].input, json!({"from": 1}));
}
