//! Attempts without a reply at their complete-by. The Supervisor first waits for a reply that may be unread, and then
//! counts only attempts that an agent has taken, or that waited too long.

use triad_core::decide::true_due;
use triad_core::order::IncidentKind;
use triad_core::{
    Action, Attempt, Direction, Event, FailureKind, Reason, StepState, Timestamp, Untaken,
};
use triad_workflow::Millis;

use crate::support::{
    BEGIN, FORK, LINE, ONCE, PROBED, QUEUE, Story, Then, counted, done, failed, failed_cleanly,
    found, out_of,
};

/// One retry, without a delay, and ten minutes of `defer_for`.
const PATIENT: &str = r#"{"workflow": "w",
  "defaults": {"attempt_timeout": "10s", "retry": {"calls_per_attempt": 2}, "supervisor": {"failure_threshold": 1, "defer_for": "10m"}},
  "steps": [
    {"id": "a", "agent": "x", "action": "do-a", "compensation": {"action": "compensate-a"}},
    {"id": "b", "agent": "x", "action": "do-b", "compensation": "none"}]}"#;
const PATIENCE: Millis = Millis(10 * 60_000);

/// How long the Supervisor waits for an unread reply, in milliseconds.
const HEAR: u64 = 5_000;

/// The Supervisor checks the order. By the call ledger, no agent has taken the attempts at the steps `untaken`.
fn looks(s: &mut Story, untaken: &[&str]) -> Then {
    let steps = untaken.iter().map(|u| (*u).to_owned().try_into().unwrap());
    s.when(Event::Overdue(steps.collect::<Untaken>().into()))
}

/// The Supervisor finds the order as soon as it is due, and begins to wait for an unread reply.
#[track_caller]
fn met(s: &mut Story) {
    s.now = s.now.max(s.ripe());
    assert_eq!(looks(s, &[]), Then::Written);
}

/// No reply comes to the requests under way, and the Supervisor has waited long enough.
#[track_caller]
fn silent(s: &mut Story, untaken: &[&str]) {
    met(s);
    s.after(HEAR);
    assert_eq!(looks(s, untaken), Then::Written);
}

/// How long the order waits for another attempt.
fn wait(s: &Story) -> Millis {
    match s.announces() {
        true => Millis(0),
        false => s.order.complete_by().unwrap().since(s.now),
    }
}

/// The waits before each of `attempts` attempts; no agent takes any of them.
fn waits(s: &mut Story, attempts: usize) -> Vec<u64> {
    let mut waits = Vec::new();
    for _ in 0..attempts {
        silent(s, &[]);
        waits.push(wait(s).0);
        if !s.announces() {
            s.overdue();
        }
        assert!(s.announces(), "the wait is over");
        s.claim().sent();
    }
    waits
}

/// An order whose completed step `a` is being compensated.
fn compensating(workflow: &str) -> Story {
    let mut s = Story::of(workflow).claimed();
    s.succeed("a").refuse("b").sent();
    s
}

#[test]
fn a_request_that_waits_for_its_agent_for_queue_within_is_no_failure() {
    let mut s = Story::of(LINE).claimed();
    s.after(QUEUE);
    looks(&mut s, &[]);
    assert_eq!(s.record("a").state.unheard_since(), None);
    s.after(10_000).succeed("a");
    assert_eq!((s.steps()[0], s.failures("a")), (("a", "completed"), 0));
}

#[test]
fn the_first_meeting_only_notes_that_nothing_was_heard() {
    for w in [LINE.to_owned(), counted(LINE)] {
        let mut s = Story::of(&w).claimed();
        s.sent();
        let before = s.order.clone();
        met(&mut s);
        let mut expected = before;
        expected.version = expected.version.next();
        out_of(&mut expected.steps[0]).unheard_since = Some(s.now);
        expected.outbox = s.order.outbox.clone();
        expected.due = s.order.due;
        assert_eq!(s.order, expected);
        assert_eq!(s.messages(), [], "nobody is told");
    }
}

#[test]
fn while_it_listens_the_supervisor_does_nothing() {
    let mut s = Story::of(&counted(LINE)).claimed();
    met(&mut s);
    for after in [0, HEAR - 1] {
        s.after(after);
        let not_due = Then::Ignored(Reason::NotDue);
        assert_eq!(looks(&mut s, &[]), not_due);
        assert_eq!(looks(&mut s, &["a"]), not_due);
    }
    s.after(1);
    assert_eq!(looks(&mut s, &[]), Then::Written);
}

#[test]
fn while_it_listens_an_order_that_waits_to_run_is_not_announced() {
    let mut s = Story::of(FORK).claimed();
    s.answer("p", failed()).overdue().overdue();
    assert!(s.announces(), "the delay of p is over");
    // The Supervisor wakes the Scheduler repeatedly, and no Scheduler claims the order before q's complete-by.
    while s.record("q").state.unheard_since().is_none() {
        met(&mut s);
        s.sent();
    }
    s.after(HEAR - 1);
    assert_eq!(looks(&mut s, &[]), Then::Ignored(Reason::NotDue));
}

#[test]
fn while_it_listens_a_paused_order_is_left_alone() {
    let mut s = Story::of(LINE).claimed();
    s.acts(Action::Pause);
    met(&mut s);
    assert_eq!(looks(&mut s, &[]), Then::Ignored(Reason::NotDue));
}

#[test]
fn while_it_listens_an_order_that_waits_to_be_compensated_is_not_announced() {
    let mut s = Story::of(FORK).claimed();
    s.succeed("p").succeed("q").refuse("join");
    s.acts(Action::Pause).acts(Action::Resume).sent();
    assert_eq!(s.order.state.locked_by(), None);
    s.now = s.order.steps[0].state.complete_by().unwrap();
    s.after(500);
    assert_eq!(looks(&mut s, &[]), Then::Written);
    assert_eq!(s.record("p").state.unheard_since(), Some(s.now));
    s.after(HEAR - 1);
    assert_eq!(looks(&mut s, &[]), Then::Ignored(Reason::NotDue));
}

#[test]
fn a_failed_sibling_is_counted_while_it_listens() {
    let mut s = Story::of(FORK).claimed();
    met(&mut s);
    assert_eq!(s.record("p").state.unheard_since(), Some(s.now));
    s.answer("q", failed());
    assert_eq!(looks(&mut s, &[]), Then::Written);
    assert_eq!((s.failures("p"), s.failures("q")), (0, 1));
    assert_eq!(s.steps()[0], ("p", "running"));
}

#[test]
fn silence_is_not_counted_where_calls_are_not_counted() {
    let mut s = Story::of(LINE).claimed();
    s.sent();
    silent(&mut s, &[]);
    assert_eq!((s.state(), s.steps()[0]), ("Pending", ("a", "retry-due")));
    assert_eq!((s.failures("a"), s.calls("a")), (0, 0));
    assert!(
        s.record("a").in_doubt.is_some(),
        "whoever took it may have died over it"
    );
    assert!(s.announces(), "the first time at once");
    assert_eq!(s.statuses(), [], "waiting is not told as retrying");
}

#[test]
fn the_timeline_says_once_that_no_agent_has_taken_it() {
    let mut s = Story::of(LINE).claimed();
    waits(&mut s, 3);
    assert_eq!(s.timeline(), [IncidentKind::Deferred]);
    let line = &s.order.incidents[0];
    assert_eq!(line.attempt, Some(Attempt(1)));
    let failure = line.failure.as_ref().unwrap();
    assert_eq!(failure.fingerprint(), "timed-out/a/not-taken");
}

#[test]
fn the_wait_begins_when_it_was_first_met() {
    let mut s = Story::of(LINE).claimed();
    met(&mut s);
    let first = s.now;
    s.after(HEAR);
    looks(&mut s, &[]);
    assert_eq!(s.record("a").state.deferred_since(), Some(first));
    s.claim();
    assert_eq!(
        s.record("a").state.unheard_since(),
        None,
        "of the attempt before"
    );
    silent(&mut s, &[]);
    assert_eq!(s.record("a").state.deferred_since(), Some(first));
}

#[test]
fn the_attempt_after_one_that_nobody_took_has_its_key_and_its_whole_allowance() {
    let mut s = Story::of(&counted(LINE)).claimed();
    silent(&mut s, &["a"]);
    s.claim();
    let request = &s.requests()[0];
    assert_eq!((request.attempt, request.allowance), (Attempt(2), 2));
    assert_eq!(request.idempotency_key.0, "o-1/a/forward");
}

#[test]
fn the_waits_grow_and_are_bounded_by_announce_within() {
    let mut s = Story::of(LINE).claimed();
    let waits = waits(&mut s, 6);
    assert_eq!((waits[0], waits[5]), (0, 60_000));
    assert!(waits[1] > 0 && waits[1] < 60_000, "{waits:?}");
    assert!(waits.is_sorted(), "{waits:?}");
    assert!(waits.iter().all(|w| *w <= 60_000), "{waits:?}");
}

#[test]
fn silence_is_not_counted_until_the_patience_ends_and_then_once() {
    let mut s = Story::of(PATIENT).claimed();
    met(&mut s);
    let first = s.now;
    loop {
        s.after(HEAR);
        looks(&mut s, &[]);
        if s.now.since(first) > PATIENCE {
            break;
        }
        assert_eq!((s.failures("a"), s.state()), (0, "Pending"));
        if !s.announces() {
            s.overdue();
        }
        s.claim();
        met(&mut s);
    }
    assert_eq!((s.failures("a"), s.state()), (1, "Pending"));
    assert_eq!(
        s.record("a").state.deferred_since(),
        None,
        "another wait may begin"
    );
    assert_eq!(
        s.timeline(),
        [IncidentKind::Deferred, IncidentKind::AttemptFailed]
    );
}

#[test]
fn when_the_patience_has_ended_too_often_the_order_turns_round() {
    let mut s = Story::of(PATIENT).claimed();
    for _ in 0..40 {
        silent(&mut s, &[]);
        if s.state() == "Compensating" {
            break;
        }
        if !s.announces() {
            s.overdue();
        }
        s.claim();
    }
    assert_eq!((s.state(), s.failures("a")), ("Compensating", 2));
    assert!(s.now.since(Timestamp(BEGIN)) > Millis(2 * PATIENCE.0));
}

#[test]
fn what_an_agent_says_ends_the_wait() {
    for outcome in [done(), failed()] {
        let mut s = Story::of(LINE).claimed();
        silent(&mut s, &[]);
        assert!(s.record("a").state.deferred_since().is_some());
        s.claim().answer("a", outcome);
        assert_eq!(s.record("a").state.deferred_since(), None);
    }
}

#[test]
fn an_attempt_that_nobody_took_of_a_paused_order_waits_for_it_to_go_on() {
    let mut s = Story::of(LINE).claimed();
    s.acts(Action::Pause);
    silent(&mut s, &[]);
    assert_eq!((s.steps()[0], s.failures("a")), (("a", "retry-due"), 0));
    assert!(!s.announces());
    s.acts(Action::Resume).claim();
    assert_eq!(s.asks(), [("a".into(), Direction::Forward, 2)]);
}

#[test]
fn a_reply_sent_in_time_and_read_late_completes_the_step() {
    let mut s = Story::of(LINE).claimed();
    let mut reply = s.reply("a", done());
    reply.sent_at = Some(reply.complete_by);
    s.now = reply.complete_by;
    s.after(3_600_000);
    assert_eq!(s.when(Event::Reply(reply.clone())), Then::Written);
    let StepState::Completed { finished, .. } = s.step("a") else {
        panic!("{:?}", s.step("a"))
    };
    assert_eq!(*finished, reply.complete_by, "when it was sent");
    assert_eq!(s.asks(), [("b".into(), Direction::Forward, 1)]);
}

#[test]
fn a_reply_sent_in_time_completes_the_step_after_the_supervisor_has_met_it() {
    let mut s = Story::of(&counted(LINE)).claimed();
    let mut reply = s.reply("a", done());
    reply.sent_at = Some(reply.complete_by);
    met(&mut s);
    assert_eq!(s.when(Event::Reply(reply)), Then::Written);
    assert_eq!((s.steps()[0], s.failures("a")), (("a", "completed"), 0));
    assert_eq!(s.steps()[1], ("b", "running"));
}

#[test]
fn a_failure_reported_in_time_is_counted_under_its_own_cause_after_the_first_meeting() {
    let mut s = Story::of(&counted(LINE)).claimed();
    let mut reply = s.reply("a", failed_cleanly());
    reply.sent_at = Some(reply.complete_by);
    met(&mut s);
    assert_eq!(s.when(Event::Reply(reply)), Then::Written);
    assert_eq!(looks(&mut s, &[]), Then::Written);
    assert_eq!((s.failures("a"), s.calls("a")), (1, 1));
    assert!(s.record("a").in_doubt.is_none());
    let code = s.record("a").error.as_ref().unwrap().code.clone();
    assert_eq!(code, "http-503");
}

#[test]
fn a_reply_sent_after_complete_by_says_that_the_attempt_is_over_and_changes_nothing_else() {
    for listening in [false, true] {
        let mut s = Story::of(LINE).claimed();
        s.sent();
        let mut reply = s.reply("a", done());
        reply.sent_at = Some(reply.complete_by.plus(Millis(1)));
        if listening {
            met(&mut s);
        }
        s.now = s.now.max(reply.complete_by).plus(Millis(2));
        let before = s.order.clone();
        assert_eq!(s.when(Event::Reply(reply)), Then::Written);
        let mut expected = before;
        expected.version = expected.version.next();
        out_of(&mut expected.steps[0])
            .unheard_since
            .get_or_insert(s.now);
        // The outbox keeps the dedup key, by which a redelivered reply is recognised.
        expected.outbox = s.order.outbox.clone();
        expected.due = s.order.due;
        assert_eq!(s.order, expected);
        assert_eq!(s.messages(), []);
    }
}

#[test]
fn a_reply_whose_sender_is_ahead_was_sent_now_at_the_latest() {
    let mut s = Story::of(LINE).claimed();
    let mut reply = s.reply("a", done());
    s.now = reply.complete_by;
    reply.sent_at = Some(s.now.plus(Millis(400)));
    assert_eq!(s.when(Event::Reply(reply)), Then::Written);
    let StepState::Completed { finished, .. } = s.step("a") else {
        panic!("{:?}", s.step("a"))
    };
    assert_eq!(*finished, s.now);
}

#[test]
fn a_reply_that_does_not_say_when_it_was_sent_was_sent_when_it_is_read() {
    let mut s = Story::of(LINE).claimed();
    let reply = s.reply("a", done());
    assert_eq!(reply.sent_at, None);
    s.now = reply.complete_by;
    s.after(1);
    s.when(Event::Reply(reply));
    assert_eq!(s.steps()[0], ("a", "running"));
}

#[test]
fn a_reply_sent_in_time_is_not_awaited_once_the_attempt_is_given_up() {
    let mut s = Story::of(LINE).claimed();
    let mut reply = s.reply("a", done());
    reply.sent_at = Some(reply.complete_by);
    silent(&mut s, &[]);
    let then = s.when(Event::Reply(reply));
    assert_eq!(then, Then::Ignored(Reason::NotAwaited));
}

#[test]
fn a_compensation_sent_in_time_and_read_late_is_compensated() {
    let mut s = compensating(LINE);
    let mut reply = s.reply("a", done());
    reply.sent_at = Some(reply.complete_by);
    met(&mut s);
    assert_eq!(s.when(Event::Reply(reply.clone())), Then::Written);
    assert_eq!(s.state(), "Compensated");
    let StepState::Compensated { finished, .. } = s.step("a") else {
        panic!("{:?}", s.step("a"))
    };
    assert_eq!(*finished, reply.complete_by, "when it was sent");
}

#[test]
fn an_answer_to_a_question_sent_in_time_and_read_late_resolves_it() {
    let mut s = Story::of(PROBED).claimed();
    s.succeed("a").overdue().claim();
    let mut reply = s.reply("pay", found(true));
    reply.sent_at = Some(reply.complete_by);
    met(&mut s);
    assert_eq!(s.when(Event::Reply(reply)), Then::Written);
    assert_eq!(s.steps()[1], ("pay", "completed"));
}

#[test]
fn a_taken_attempt_whose_calls_are_counted_is_counted_and_in_doubt() {
    let mut s = Story::of(&counted(LINE)).claimed();
    silent(&mut s, &[]);
    assert_eq!((s.state(), s.steps()[0]), ("Pending", ("a", "retry-due")));
    assert_eq!((s.failures("a"), s.calls("a")), (1, 2));
    assert!(s.record("a").in_doubt.is_some());
    let line = s.order.incidents.last().unwrap();
    assert_eq!(line.what, IncidentKind::AttemptFailed);
    let failure = line.failure.as_ref().unwrap();
    assert_eq!(failure.kind, FailureKind::TimedOut);
}

#[test]
fn an_untaken_attempt_whose_calls_are_counted_is_not_counted() {
    let mut s = Story::of(&counted(LINE)).claimed();
    silent(&mut s, &["a"]);
    assert_eq!((s.state(), s.steps()[0]), ("Pending", ("a", "retry-due")));
    assert_eq!((s.failures("a"), s.calls("a")), (0, 0));
    assert!(s.record("a").in_doubt.is_none());
}

#[test]
fn of_siblings_each_is_judged_by_its_own_mark() {
    let together = FORK.replace("\"attempt_timeout\": \"30s\", ", "");
    let mut s = Story::of(&counted(&together)).claimed();
    silent(&mut s, &["p"]);
    assert_eq!((s.failures("p"), s.failures("q")), (0, 1));
    assert_eq!((s.calls("p"), s.calls("q")), (0, 2));
    assert!(s.record("p").in_doubt.is_none() && s.record("q").in_doubt.is_some());
}

#[test]
fn an_untaken_attempt_at_what_may_not_be_repeated_is_repeated_without_doubt() {
    let mut s = Story::of(ONCE).claimed();
    s.succeed("a").sent();
    silent(&mut s, &["once"]);
    assert_eq!((s.state(), s.alerts()), ("Pending", false));
    assert!(s.record("once").in_doubt.is_none());
    s.claim();
    assert_eq!(s.asks(), [("once".into(), Direction::Forward, 2)]);
    assert_eq!(s.requests()[0].allowance, 1);
}

#[test]
fn an_untaken_attempt_at_what_may_not_be_repeated_counts_without_doubt_when_the_patience_ends() {
    let w = ONCE.replace(
        "\"failure_threshold\": 1",
        "\"failure_threshold\": 0, \"defer_for\": \"1s\"",
    );
    let mut s = Story::of(&w).claimed();
    s.succeed("a").sent();
    silent(&mut s, &["once"]);
    s.claim();
    silent(&mut s, &["once"]);
    assert_eq!((s.state(), s.failures("once")), ("Compensating", 1));
    assert_eq!(s.steps()[1], ("once", "refused"), "nothing to compensate");
    assert_eq!(s.calls("once"), 0);
}

#[test]
fn about_an_untaken_attempt_the_service_is_not_asked() {
    let mut s = Story::of(PROBED).claimed();
    s.succeed("a").sent();
    silent(&mut s, &["pay"]);
    s.claim();
    assert_eq!(s.asks(), [("pay".into(), Direction::Forward, 2)]);
}

#[test]
fn an_untaken_question_leaves_the_doubt_and_is_asked_again() {
    let mut s = Story::of(PROBED).claimed();
    s.succeed("a").overdue().claim().sent();
    let before = (s.failures("pay"), s.calls("pay"));
    silent(&mut s, &["pay"]);
    assert_eq!((s.failures("pay"), s.calls("pay")), before);
    assert!(s.record("pay").in_doubt.is_some());
    s.claim();
    assert_eq!(s.asks(), [("pay".into(), Direction::Probe, 3)]);
}

#[test]
fn a_taken_question_counts_with_its_whole_allowance() {
    let mut s = Story::of(PROBED).claimed();
    s.succeed("a").overdue().claim().sent();
    let (failures, calls) = (s.failures("pay"), s.calls("pay"));
    silent(&mut s, &[]);
    assert_eq!(s.failures("pay"), failures + 1);
    assert_eq!(s.calls("pay"), calls + 3);
}

#[test]
fn a_silent_compensation_is_not_counted_where_calls_are_not_counted() {
    let mut s = compensating(LINE);
    silent(&mut s, &[]);
    assert_eq!(
        (s.state(), s.steps()[0]),
        ("Compensating", ("a", "compensation-due"))
    );
    assert_eq!(
        (
            s.record("a").compensation.failures,
            s.compensation_calls("a")
        ),
        (0, 0)
    );
    assert!(s.announces(), "the first time at once");
    let line = s.order.incidents.last().unwrap();
    assert_eq!(line.what, IncidentKind::Deferred);
    assert_eq!(line.failure.as_ref().unwrap().code, "not-taken");
    s.claim();
    assert_eq!(s.asks(), [("a".into(), Direction::Compensate, 2)]);
}

#[test]
fn the_waits_of_a_compensation_grow_and_are_bounded_by_announce_within() {
    let mut s = compensating(LINE);
    let waits = waits(&mut s, 6);
    assert_eq!((waits[0], waits[5]), (0, 60_000));
    assert!(waits.is_sorted(), "{waits:?}");
    assert!(waits.iter().all(|w| *w <= 60_000), "{waits:?}");
}

#[test]
fn a_silent_compensation_counts_once_when_the_patience_ends() {
    let mut s = compensating(PATIENT);
    for _ in 0..20 {
        silent(&mut s, &[]);
        if s.record("a").compensation.failures > 0 {
            break;
        }
        if !s.announces() {
            s.overdue();
        }
        s.claim().sent();
    }
    assert_eq!(s.record("a").compensation.failures, 1);
    assert!(s.now.since(Timestamp(BEGIN)) > PATIENCE);
    assert_eq!(s.record("a").state.deferred_since(), None);
}

#[test]
fn a_taken_compensation_whose_calls_are_counted_is_counted() {
    let mut s = compensating(&counted(LINE));
    silent(&mut s, &[]);
    assert_eq!(
        (
            s.record("a").compensation.failures,
            s.compensation_calls("a")
        ),
        (1, 2)
    );
}

#[test]
fn an_untaken_compensation_whose_calls_are_counted_is_not_counted() {
    let mut s = compensating(&counted(LINE));
    silent(&mut s, &["a"]);
    assert_eq!(
        (
            s.record("a").compensation.failures,
            s.compensation_calls("a")
        ),
        (0, 0)
    );
}

#[test]
fn an_order_is_due_as_long_as_something_is_unheard_of() {
    let mut s = Story::of(LINE).claimed();
    let complete_by = s.step("a").complete_by();
    met(&mut s);
    assert_eq!(true_due(&s.ctx(), &s.order), complete_by);
    assert_eq!(s.order.due, complete_by);
}

#[test]
fn a_refusal_after_a_silence_is_compensated_where_calls_are_not_counted() {
    let mut s = Story::of(LINE).claimed();
    s.succeed("a");
    silent(&mut s, &[]);
    s.claim().refuse("b");
    assert_eq!(s.asks(), [("b".into(), Direction::Compensate, 1)]);
}

#[test]
fn what_the_ledger_has_forgotten_is_not_revoked() {
    let mut s = Story::of(ONCE).claimed();
    s.succeed("a");
    s.after(3 * 24 * 3_600_000);
    met(&mut s);
    s.after(HEAR);
    assert_eq!(triad_core::ledger::to_revoke(&s.ctx(), &s.order, s.now), []);
}

#[test]
fn what_was_done_was_heard_of() {
    let mut s = Story::of(LINE).claimed();
    let mut good = s.reply("a", done());
    good.sent_at = Some(good.complete_by);
    met(&mut s);
    assert_eq!(s.when(Event::Reply(good)), Then::Written);
    assert_eq!(s.record("a").state.unheard_since(), None);
}

#[test]
fn a_supervisor_whose_clock_is_far_ahead_has_nobody_listen_until_then() {
    let mut s = Story::of(LINE).claimed();
    s.sent();
    met(&mut s);
    let met_at = s.now;
    // As a Supervisor writes it whose clock is a day ahead.
    out_of(&mut s.order.steps[0]).unheard_since = Some(met_at.plus(Millis(86_400_000)));
    assert_eq!(looks(&mut s, &["a"]), Then::Written);
    assert_eq!(s.record("a").state.out(), None, "it is asked for again");
}
