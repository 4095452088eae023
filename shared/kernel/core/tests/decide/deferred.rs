//! Deferred work: the service is paused, its circuit breaker is open, or its limits are reached.

use triad_core::decide::true_due;
use triad_core::order::IncidentKind;
use triad_core::{
    Action, Attempt, Direction, Event, Overdue, ProcessState, Reason, StepState, Timestamp, Work,
    decide,
};

use crate::support::{
    BEGIN, FORK, LINE, Story, Then, counted, deferred_until, done, failed, found,
};

const MINUTE: u64 = 60_000;

/// One step without retries, and ten minutes of `defer_for`.
const PATIENT: &str = r#"{"workflow": "w", "steps": [
    {"id": "a", "agent": "x", "action": "go", "attempt_timeout": "10s",
     "supervisor": {"failure_threshold": 0, "defer_for": "10m"}, "compensation": {"action": "compensate"}},
    {"id": "b", "agent": "x", "action": "go", "attempt_timeout": "10s",
     "supervisor": {"failure_threshold": 0, "defer_for": "10m"}, "compensation": "none"}]}"#;

#[test]
fn work_that_is_deferred_is_deferred_and_the_order_stays_claimed() {
    let mut s = Story::of(LINE).claimed();
    s.sent().after(1_000).deferred("a", 5 * MINUTE);
    let deferred = StepState::Acting(Work::Deferred {
        attempt: Attempt(1),
        until: Timestamp(s.now.0 + 5 * MINUTE),
        deferred_since: s.now,
    });
    assert_eq!(s.step("a"), &deferred);
    assert_eq!(s.state(), "Processing");
    assert!(s.order.state.locked_by().is_some());
    assert_eq!(
        (s.asks(), s.statuses()),
        (vec![], vec![]),
        "nobody is bothered"
    );
}

#[test]
fn a_deferred_order_is_due_when_its_work_is_to_be_tried_again() {
    let mut s = Story::of(LINE).claimed();
    s.deferred("a", 5 * MINUTE);
    let until = Timestamp(BEGIN + 5 * MINUTE);
    assert_eq!(s.order.complete_by(), Some(until));
    assert_eq!(true_due(&s.ctx(), &s.order), Some(until));
    s.after(5 * MINUTE + 499);
    let early = s.order.clone();
    s.when(Event::Overdue(Overdue::default()));
    assert_eq!(s.order.steps, early.steps, "not passed on every clock");
    s.after(1);
    assert_eq!(s.when(Event::Overdue(Overdue::default())), Then::Written);
    assert_eq!(s.steps()[0], ("a", "retry-due"));
}

#[test]
fn trying_again_is_no_failure_and_makes_the_next_attempt_under_the_same_key() {
    let mut s = Story::of(LINE).claimed();
    s.sent().deferred("a", MINUTE).overdue();
    assert_eq!((s.state(), s.failures("a")), ("Pending", 0));
    assert!(s.announces());
    assert_eq!(s.statuses(), [], "waiting is not told as retrying");
    s.claim();
    let request = &s.requests()[0];
    assert_eq!(request.attempt, Attempt(2));
    assert_eq!(request.idempotency_key.0, "o-1/a/forward");
}

#[test]
fn the_time_to_try_again_is_kept_within_bounds() {
    let until = |wanted: u64| {
        let mut s = Story::of(LINE).claimed();
        s.after(1_000)
            .answer("a", deferred_until(Timestamp(wanted), false));
        s.step("a").deferred_until().unwrap().0 - s.now.0
    };
    assert_eq!(until(0), 0, "never before now");
    assert_eq!(until(u64::MAX), 15 * MINUTE, "never for longer than that");
}

#[test]
fn a_wait_is_one_line_of_the_timeline_however_often_it_is_found_so() {
    let mut s = Story::of(LINE).claimed();
    for _ in 0..5 {
        s.deferred("a", MINUTE).overdue().claim();
    }
    assert_eq!(s.timeline(), [IncidentKind::Deferred]);
    let line = &s.order.incidents[0];
    assert_eq!(line.attempt, Some(Attempt(1)));
    assert_eq!(line.failure.as_ref().unwrap().code, "breaker-open");
    s.answer("a", failed()).overdue().claim();
    s.deferred("a", MINUTE);
    let again = [
        IncidentKind::Deferred,
        IncidentKind::AttemptFailed,
        IncidentKind::Deferred,
    ];
    assert_eq!(s.timeline(), again, "another wait is another line");
}

#[test]
fn being_deferred_for_longer_than_the_policy_allows_counts_as_a_failure() {
    let mut s = Story::of(&counted(PATIENT)).claimed();
    s.succeed("a");
    for _ in 0..2 {
        s.deferred("b", 4 * MINUTE).overdue().claim();
    }
    s.deferred("b", 4 * MINUTE).overdue();
    assert_eq!((s.state(), s.failures("b")), ("Compensating", 1));
    let cause = s.order.state.cause().unwrap();
    assert_eq!(cause.fingerprint(), "transient/b/breaker-open");
    let refused = StepState::Refused {
        attempt: Attempt(3),
    };
    assert_eq!(s.step("b"), &refused, "it was never called");
}

#[test]
fn the_patience_is_a_day_where_nothing_is_said() {
    let mut s = Story::of(LINE).claimed();
    let mut runs = 0;
    for _ in 0..100 {
        runs += 1;
        s.deferred("a", 15 * MINUTE).overdue();
        if s.failures("a") > 0 {
            break;
        }
        s.claim();
    }
    assert_eq!(runs, 96, "quarters of an hour");
}

#[test]
fn a_failure_ends_the_wait_and_the_next_one_is_measured_anew() {
    let w = PATIENT.replace("\"failure_threshold\": 0", "\"failure_threshold\": 3");
    let mut s = Story::of(&w).claimed();
    s.deferred("a", 6 * MINUTE).overdue().claim();
    s.answer("a", failed()).overdue().claim();
    s.deferred("a", 6 * MINUTE).overdue();
    assert_eq!(s.failures("a"), 1, "twelve minutes, but not of one wait");
}

#[test]
fn an_answer_of_a_probe_ends_the_wait_too() {
    let w = r#"{"workflow": "w", "steps": [
        {"id": "a", "agent": "x", "action": "go", "attempt_timeout": "10s", "probe": {"action": "ask"},
         "supervisor": {"failure_threshold": 3, "defer_for": "10m"}, "compensation": "none"}]}"#;
    let mut s = Story::of(w).claimed();
    s.overdue().claim().deferred("a", 6 * MINUTE);
    s.overdue().claim().answer("a", found(false));
    assert_eq!(
        s.record("a").state.deferred_since(),
        None,
        "the service is there"
    );
    s.deferred("a", 6 * MINUTE).overdue();
    assert_eq!(s.failures("a"), 1, "only the attempt that was not heard of");
}

#[test]
fn an_attempt_that_was_deferred_without_a_call_needs_no_compensation() {
    let mut s = Story::of(&counted(FORK)).claimed();
    s.deferred("p", MINUTE).refuse("q");
    assert_eq!(s.state(), "Compensated");
    assert_eq!(s.steps()[0], ("p", "refused"));
}

#[test]
fn an_attempt_that_was_deferred_after_a_doubtful_call_is_compensated() {
    let mut s = Story::of(FORK).claimed();
    let until = s.now;
    s.answer("p", deferred_until(until, true)).refuse("q");
    assert_eq!(s.asks(), [("p".into(), Direction::Compensate, 1)]);
}

#[test]
fn a_doubt_outlives_the_wait() {
    let mut s = Story::of(FORK).claimed();
    s.overdue().overdue().claim();
    s.deferred("p", 0).overdue().claim();
    s.deferred("p", MINUTE);
    assert!(
        s.record("p").in_doubt.is_some(),
        "the first attempt timed out"
    );
    s.refuse("q");
    assert_eq!(s.asks(), [("p".into(), Direction::Compensate, 1)]);
}

#[test]
fn a_deferred_step_does_not_hold_up_its_siblings() {
    let mut s = Story::of(FORK).claimed();
    s.deferred("p", 5 * MINUTE).succeed("q");
    assert_eq!(
        s.steps(),
        [("p", "deferred"), ("q", "completed"), ("join", "waiting")]
    );
    s.overdue().claim().succeed("p").succeed("join");
    assert_eq!(s.state(), "Processed");
}

#[test]
fn a_failing_sibling_is_retried_while_a_step_stays_deferred() {
    let mut s = Story::of(FORK).claimed();
    s.deferred("q", 10 * MINUTE).answer("p", failed()).overdue();
    assert_eq!((s.state(), s.failures("p")), ("Pending", 1));
    assert_eq!(s.steps()[1], ("q", "deferred"));
    s.overdue().claim();
    assert_eq!(s.asks(), [("p".into(), Direction::Forward, 2)]);
    assert_eq!(s.steps()[1], ("q", "deferred"), "until its own time");
    s.succeed("p").overdue().claim().succeed("q");
    assert_eq!(s.steps()[2], ("join", "running"));
}

#[test]
fn an_order_that_stops_in_error_keeps_its_deferred_step_for_the_next_round() {
    let w = FORK.replace(
        "\"delay\": \"4s\"",
        "\"then\": \"error\", \"delay\": \"4s\"",
    );
    let mut s = Story::of(&w).claimed();
    s.deferred("p", 5 * MINUTE).refuse("q");
    assert_eq!((s.state(), s.steps()[0]), ("Error", ("p", "deferred")));
    s.acts(Action::Resubmit { input: None });
    assert_eq!(s.record("p").state.deferred_since(), None);
    s.claim();
    let both = [
        ("p".into(), Direction::Forward, 2),
        ("q".into(), Direction::Forward, 2),
    ];
    assert_eq!(s.asks(), both);
}

#[test]
fn a_reply_to_an_attempt_that_was_deferred_changes_nothing() {
    let mut s = Story::of(LINE).claimed();
    let deferred = s.reply("a", deferred_until(s.now, false));
    let success = s.reply("a", done());
    assert_eq!(s.when(Event::Reply(deferred.clone())), Then::Written);
    assert_eq!(s.when(Event::Reply(deferred)), Then::Repeat);
    s.sent().overdue();
    let stale = s.when(Event::Reply(success.clone()));
    assert_eq!(stale, Then::Ignored(Reason::NotAwaited));
    s.claim();
    let stale = s.when(Event::Reply(success));
    assert_eq!(stale, Then::Ignored(Reason::OlderAttempt));
}

#[test]
fn a_compensation_that_is_deferred_is_deferred_and_is_no_failure() {
    let mut s = Story::of(LINE).claimed();
    s.succeed("a").refuse("b").deferred("a", 5 * MINUTE);
    assert_eq!(s.steps()[0], ("a", "compensation-deferred"));
    let until = Timestamp(BEGIN + 5 * MINUTE);
    assert_eq!(true_due(&s.ctx(), &s.order), Some(until));
    s.overdue();
    assert_eq!(
        (s.state(), s.record("a").compensation.failures),
        ("Compensating", 0)
    );
    assert_eq!(s.order.state.locked_by(), None);
    assert!(s.announces());
    s.claim();
    let request = &s.requests()[0];
    assert_eq!(
        (request.attempt.0, request.idempotency_key.0.as_str()),
        (2, "o-1/a/compensate")
    );
    s.succeed("a");
    assert_eq!(
        (s.state(), s.record("a").state.deferred_since()),
        ("Compensated", None)
    );
}

#[test]
fn a_deferred_compensation_does_not_hold_up_the_one_beside_it_but_what_came_before() {
    let w = r#"{"workflow": "w", "defaults": {"attempt_timeout": "10s"}, "steps": [
        {"id": "first", "agent": "x", "action": "go", "compensation": {"action": "compensate"}},
        {"id": "p", "agent": "x", "action": "go", "compensation": {"action": "compensate"}},
        {"id": "q", "agent": "y", "action": "go", "after": ["first"], "compensation": {"action": "compensate"}},
        {"id": "join", "agent": "x", "action": "go", "after": ["p", "q"], "compensation": "none"}]}"#;
    let mut s = Story::of(w).claimed();
    s.succeed("first").succeed("p").succeed("q").refuse("join");
    s.deferred("p", MINUTE).succeed("q");
    assert_eq!(s.asks(), [], "first waits for p");
    s.overdue().claim();
    assert_eq!(s.asks(), [("p".into(), Direction::Compensate, 2)]);
    s.succeed("p");
    assert_eq!(s.asks(), [("first".into(), Direction::Compensate, 1)]);
}

#[test]
fn a_compensation_that_is_deferred_for_too_long_counts_as_a_failure() {
    let mut s = Story::of(PATIENT).claimed();
    s.succeed("a").refuse("b");
    s.deferred("a", 8 * MINUTE).overdue().claim();
    s.deferred("a", 8 * MINUTE).overdue();
    assert_eq!(s.state(), "CompensationFailed");
    assert_eq!(s.record("a").compensation.failures, 1);
    assert_eq!(
        s.timeline(),
        [
            IncidentKind::AttemptFailed,
            IncidentKind::Completed,
            IncidentKind::CompensationBegan,
            IncidentKind::Deferred,
            IncidentKind::CompensationFailed
        ]
    );
    assert!(s.alerts());
}

#[test]
fn a_claim_of_an_order_with_nothing_but_deferred_work_keeps_its_time() {
    let mut s = Story::of(FORK).claimed();
    s.deferred("p", 10 * MINUTE)
        .deferred("q", 5 * MINUTE)
        .overdue();
    assert_eq!(s.steps()[1], ("q", "retry-due"));
    s.claim().deferred("q", 12 * MINUTE);
    let ProcessState::Processing(claim) = &s.order.state else {
        panic!("{:?}", s.order.state)
    };
    assert_eq!(
        claim.complete_by,
        Timestamp(BEGIN + 10 * MINUTE),
        "p is next"
    );
    assert_eq!(
        decide::true_due(&s.ctx(), &s.order),
        Some(claim.complete_by)
    );
}

#[test]
fn deferred_calls_spend_no_total_that_nobody_declared() {
    let mut s = Story::of(LINE).claimed();
    for _ in 0..20 {
        let until = Timestamp(s.now.0 + 1_000);
        s.answer_after(1, "a", deferred_until(until, true));
        s.overdue().claim();
    }
    assert_eq!(
        (s.calls("a"), s.failures("a"), s.state()),
        (0, 0, "Processing")
    );
    let mut s = Story::of(&counted(LINE)).claimed();
    let until = Timestamp(s.now.0 + 1_000);
    s.answer_after(1, "a", deferred_until(until, true));
    assert_eq!(s.calls("a"), 1, "a declared total holds for all calls");
}
