//! Every attempt stays recorded: in its step's state, or in a line of the timeline.

use serde_json::json;
use triad_core::history::untold;
use triad_core::order::IncidentKind as Is;
use triad_core::{Action, Attempt, Direction, StepState};

use crate::support::{FORK, LINE, ONCE, PROBED, Story, counted, failed, found, timed_out};

/// The records of one step, oldest first: kind, direction, first and last attempt.
fn told(s: &Story, step: &str) -> Vec<(Is, Direction, u32, u32)> {
    let lines = s.order.incidents.iter();
    let lines = lines.filter(|line| line.step.as_ref().is_some_and(|id| id.as_str() == step));
    let told = lines.filter_map(|line| {
        let first = line.attempt?;
        let last = line.through.unwrap_or(first);
        Some((line.what, line.direction(), first.0, last.0))
    });
    told.collect()
}

const FORWARD: Direction = Direction::Forward;
const BACK: Direction = Direction::Compensate;

#[test]
fn what_a_step_has_done_is_told_when_it_is_compensated() {
    let mut s = Story::of(LINE).claimed();
    s.answer("a", failed()).overdue().claim();
    s.succeed("a").refuse("b");
    assert_eq!(s.state(), "Compensating");
    let all = [
        (Is::AttemptFailed, FORWARD, 1, 1),
        (Is::Completed, FORWARD, 2, 2),
    ];
    assert_eq!(told(&s, "a"), all);
    let line = s.order.incidents.iter().find(|l| l.what == Is::Completed);
    let line = line.expect("it completed");
    assert!(line.started.is_some() && line.started <= Some(line.at));
    assert_eq!(untold(&s.order), []);
}

#[test]
fn what_was_compensated_is_told_when_the_order_begins_again() {
    let mut s = Story::of(LINE).claimed();
    s.succeed("a").refuse("b").succeed("a");
    assert_eq!(s.state(), "Compensated");
    s.resubmit().claim();
    let all = [
        (Is::Completed, FORWARD, 1, 1),
        (Is::Compensated, BACK, 1, 1),
    ];
    assert_eq!(told(&s, "a"), all);
    s.succeed("a");
    assert_eq!(told(&s, "a"), all, "the present one is in its state");
    assert_eq!(untold(&s.order), []);
    let StepState::Completed { attempt, .. } = s.step("a") else {
        panic!("{:?}", s.step("a"))
    };
    assert_eq!(*attempt, Attempt(2));
}

#[test]
fn an_attempt_that_nobody_waits_for_any_more_is_told() {
    let mut s = Story::of(FORK).claimed();
    s.refuse("p");
    assert_eq!(s.state(), "Compensating");
    assert_eq!(told(&s, "q"), [(Is::Abandoned, FORWARD, 1, 1)]);
    let mut s = Story::of(FORK).claimed();
    s.answer("q", failed()).refuse("p");
    assert_eq!(told(&s, "q"), [(Is::Abandoned, FORWARD, 1, 1)]);
    let line = s.order.incidents.iter().find(|l| l.what == Is::Abandoned);
    let failure = line.and_then(|l| l.failure.as_ref()).map(|f| &*f.code);
    assert_eq!(failure, s.record("q").error.as_ref().map(|f| &*f.code));
}

#[test]
fn a_wait_is_one_line_with_all_of_its_attempts() {
    let minute = 60_000;
    let mut s = Story::of(LINE).claimed();
    for _ in 0..3 {
        s.deferred("a", minute).overdue().claim();
    }
    assert_eq!(told(&s, "a"), [(Is::Deferred, FORWARD, 1, 3)]);
    assert_eq!(untold(&s.order), []);
    // A failure ends the series of waits.
    s.answer("a", failed()).overdue().claim();
    s.deferred("a", minute);
    let all = [
        (Is::Deferred, FORWARD, 1, 3),
        (Is::AttemptFailed, FORWARD, 4, 4),
        (Is::Deferred, FORWARD, 5, 5),
    ];
    assert_eq!(told(&s, "a"), all);
}

#[test]
fn a_deferred_compensation_is_told_as_one() {
    let mut s = Story::of(LINE).claimed();
    s.succeed("a")
        .refuse("b")
        .deferred("a", 60_000)
        .overdue()
        .claim();
    s.deferred("a", 60_000);
    let all = [(Is::Completed, FORWARD, 1, 1), (Is::Deferred, BACK, 1, 2)];
    assert_eq!(told(&s, "a"), all);
}

#[test]
fn attempts_that_nobody_took_are_one_line() {
    let mut s = Story::of(LINE).claimed();
    s.untaken().claim().untaken();
    assert_eq!(s.record("a").attempts(), 2);
    assert_eq!(told(&s, "a"), [(Is::Deferred, FORWARD, 1, 2)]);
    assert_eq!(untold(&s.order), []);
}

#[test]
fn probes_are_told_as_probes() {
    let mut s = Story::of(PROBED).claimed();
    s.succeed("a").answer("pay", timed_out()).overdue().claim();
    s.answer("pay", failed()).overdue().claim();
    s.answer("pay", found(true));
    let all = [
        (Is::AttemptFailed, FORWARD, 1, 1),
        (Is::AttemptFailed, Direction::Probe, 2, 2),
        (Is::Probed, Direction::Probe, 3, 3),
    ];
    assert_eq!(told(&s, "pay"), all);
    let StepState::Completed { started, .. } = s.step("pay") else {
        panic!("{:?}", s.step("pay"))
    };
    assert_eq!(*started, None, "no attempt at the action was answered so");
}

#[test]
fn an_operators_word_invents_no_attempt() {
    let mut s = Story::of(ONCE).claimed();
    s.succeed("a").overdue();
    s.resolve("once", Some(json!({"ref": 5})));
    assert_eq!(told(&s, "once"), [(Is::AttemptFailed, FORWARD, 1, 1)]);
    assert_eq!(s.record("once").attempts(), 1);
    let StepState::Completed {
        started, attempt, ..
    } = s.step("once")
    else {
        panic!("{:?}", s.step("once"))
    };
    assert_eq!((*started, *attempt), (None, Attempt(1)));
}

/// The step may make two calls per attempt.
#[test]
fn calls_that_were_made_are_told_from_those_that_may_have_been() {
    let mut s = Story::of(&counted(LINE)).claimed();
    s.overdue().claim();
    let leg = s.record("a").action;
    assert_eq!((leg.made, leg.unreported), (0, 2));
    s.answer_after(1, "a", failed());
    let leg = s.record("a").action;
    assert_eq!((leg.calls, leg.made, leg.unreported), (3, 1, 2));
}

/// `repeats` of a request counts towards the retry budget, so it must be false after a mere wait.
#[test]
fn a_request_repeats_a_call_only_where_one_was_made_or_may_have_been() {
    let repeats = |s: &Story| s.requests()[0].repeats;
    let waited = || {
        let mut s = Story::of(&counted(LINE)).claimed();
        assert!(!repeats(&s));
        s.sent().deferred("a", 1_000).overdue().claim();
        s
    };
    let mut failing = waited();
    assert_eq!(failing.requests()[0].attempt, Attempt(2));
    assert!(!repeats(&failing), "nothing was called");
    failing.answer_after(1, "a", failed()).overdue().claim();
    assert!(repeats(&failing));
    let mut silent = waited();
    silent.overdue().claim();
    assert!(repeats(&silent), "nobody knows");
}

/// An operator's new run counts calls from zero; the total of all calls stays.
#[test]
fn calls_of_an_earlier_round_are_still_told() {
    let mut s = Story::of(LINE).claimed();
    s.answer_after(2, "a", crate::support::refused(false));
    s.acts(Action::Resubmit { input: None }).claim();
    let leg = s.record("a").action;
    assert_eq!((leg.calls, leg.made, leg.unreported), (0, 2, 0));
    // The retry budget does not apply to a resubmission, which an operator decides.
    assert!(!s.requests()[0].repeats);
    s.answer_after(1, "a", failed()).overdue().claim();
    assert!(s.requests()[0].repeats);
}

#[test]
fn what_was_dropped_is_known() {
    let mut s = Story::of(LINE).claimed();
    s.succeed("a").refuse("b");
    s.order.incidents.retain(|line| line.what != Is::Completed);
    let lost = untold(&s.order);
    assert_eq!(lost.len(), 1);
    assert_eq!(
        (lost[0].step.as_str(), lost[0].at_compensation),
        ("a", false)
    );
    assert_eq!((lost[0].from, lost[0].to), (Attempt(1), Attempt(1)));
}
