//! Replies of agents: which are taken, which are refused as outdated, and the effect of a failure.

use triad_core::{
    Action, Attempt, Direction, Event, Illegal, Overdue, Reason, StepState, Timestamp, Work,
    decide::Decision,
};
use triad_workflow::Millis;

use crate::support::{
    BEGIN, FORK, LINE, QUEUE, Story, Then, counted, done, failed, out_of, refused,
};

fn running() -> Story {
    let mut s = Story::of(LINE);
    s.claim().overdue().claim();
    s
}

#[test]
fn a_reply_in_time_completes_its_step_and_starts_the_next() {
    let mut s = Story::of(LINE).claimed();
    s.after(QUEUE + 9_999).succeed("a");
    let StepState::Completed {
        attempt, position, ..
    } = s.step("a")
    else {
        panic!("{:?}", s.step("a"))
    };
    assert_eq!((attempt.0, *position), (1, 0));
    assert_eq!(s.asks(), [("b".into(), Direction::Forward, 1)]);
}

#[test]
fn a_reply_at_complete_by_is_in_time_and_one_after_it_is_late() {
    let mut s = Story::of(LINE).claimed();
    let reply = s.reply("a", done());
    s.now = LAST;
    assert!(matches!(
        s.asked(Event::Reply(reply.clone())),
        Ok(Decision::Transition(_))
    ));
    s.after(1);
    let mut expected = s.order.clone();
    assert_eq!(s.when(Event::Reply(reply)), Then::Written);
    out_of(&mut expected.steps[0]).unheard_since = Some(s.now);
    assert_eq!(s.order.steps, expected.steps, "nothing else changes");
    assert_eq!(s.order.state, expected.state);
}

#[test]
fn a_late_reply_raises_the_version_so_that_a_write_that_took_it_in_time_conflicts() {
    let mut s = Story::of(&counted(LINE)).claimed();
    let reply = s.reply("a", done());
    let Ok(Decision::Transition(under_way)) = s.asked(Event::Reply(reply.clone())) else {
        panic!("it is in time")
    };
    s.after(QUEUE + 10_001);
    assert_eq!(s.when(Event::Reply(reply.clone())), Then::Written);
    assert_eq!(s.order.version, under_way.next.version);
    assert_eq!(s.asks(), [], "the attempt is over");
    assert_eq!(s.when(Event::Reply(reply)), Then::Repeat, "once");
    s.overdue();
    assert_eq!(s.failures("a"), 1);
}

/// The latest time at which a reply to the first attempt is in time.
const LAST: Timestamp = Timestamp(BEGIN + QUEUE + 10_000);

#[test]
fn a_reply_that_one_scheduler_has_found_late_is_late_to_one_whose_clock_is_behind() {
    let mut s = Story::of(LINE).claimed();
    let reply = s.reply("a", done());
    s.now = LAST.plus(Millis(1));
    assert_eq!(s.when(Event::Reply(reply.clone())), Then::Written);
    // Another write replaces the dedup key of the reply in the record.
    s.acts(Action::Pause);
    let mut sent_in_time = reply.clone();
    sent_in_time.sent_at = Some(LAST);
    s.now = LAST;
    let before = s.step("a").clone();
    assert_eq!(s.when(Event::Reply(reply)), Then::Written);
    assert_eq!(*s.step("a"), before);
    s.acts(Action::Resume);
    assert_eq!(s.when(Event::Reply(sent_in_time)), Then::Written);
    assert!(matches!(s.step("a"), StepState::Completed { .. }));
}

#[test]
fn a_scheduler_whose_clock_is_hours_ahead_makes_the_supervisor_wait_no_longer() {
    let mut s = Story::of(&counted(LINE)).claimed();
    let reply = s.reply("a", done());
    s.now = LAST.plus(Millis(3_600_000));
    assert_eq!(s.when(Event::Reply(reply)), Then::Written);
    s.now = LAST.plus(s.timing.skew).plus(s.timing.hear_within);
    assert_eq!(s.when(Event::Overdue(Overdue::default())), Then::Written);
    assert_eq!(s.failures("a"), 1);
}

#[test]
fn an_attempt_that_the_supervisor_has_found_over_is_over_by_every_clock() {
    let mut s = Story::of(LINE).claimed();
    let reply = s.reply("a", done());
    s.now = LAST.plus(s.timing.skew);
    assert_eq!(s.when(Event::Overdue(Overdue::default())), Then::Written);
    s.now = LAST;
    let before = s.step("a").clone();
    assert_eq!(s.when(Event::Reply(reply)), Then::Written);
    assert_eq!(*s.step("a"), before);
}

#[test]
fn a_late_reply_of_a_compensation_changes_nothing() {
    let mut s = Story::of(LINE).claimed();
    s.succeed("a").refuse("b");
    let reply = s.reply("a", done());
    s.after(QUEUE + 10_001);
    assert_eq!(s.when(Event::Reply(reply)), Then::Ignored(Reason::Late));
}

#[test]
fn a_reply_of_an_older_attempt_changes_nothing() {
    let mut s = running();
    let mut reply = s.reply("a", done());
    assert_eq!(reply.attempt, Attempt(2));
    reply.attempt = Attempt(1);
    assert_eq!(
        s.when(Event::Reply(reply)),
        Then::Ignored(Reason::OlderAttempt)
    );
}

#[test]
fn a_reply_with_another_complete_by_changes_nothing() {
    let mut s = running();
    let mut reply = s.reply("a", done());
    reply.complete_by = Timestamp(reply.complete_by.0 - 1);
    assert_eq!(
        s.when(Event::Reply(reply)),
        Then::Ignored(Reason::OlderAttempt)
    );
}

#[test]
fn a_reply_of_an_attempt_that_was_never_made_is_illegal() {
    let mut s = running();
    let mut reply = s.reply("a", done());
    reply.attempt = Attempt(3);
    let illegal = Illegal::FutureAttempt {
        step: "a".into(),
        attempt: 3,
    };
    assert_eq!(s.when(Event::Reply(reply)), Then::Illegal(illegal));
}

#[test]
fn a_compensation_reply_never_completes_a_forward_step() {
    let mut s = Story::of(LINE).claimed();
    let mut reply = s.reply("a", done());
    reply.direction = Direction::Compensate;
    assert_eq!(
        s.when(Event::Reply(reply)),
        Then::Ignored(Reason::NotAwaited)
    );
}

#[test]
fn a_forward_reply_never_completes_a_compensation() {
    let mut s = Story::of(LINE).claimed();
    s.succeed("a").refuse("b");
    let mut reply = s.reply("a", done());
    reply.direction = Direction::Forward;
    assert_eq!(
        s.when(Event::Reply(reply)),
        Then::Ignored(Reason::NotAwaited)
    );
}

#[test]
fn a_reply_that_is_met_again_repeats_what_it_wanted_sent() {
    let mut s = Story::of(LINE).claimed();
    let reply = s.reply("a", done());
    assert_eq!(s.when(Event::Reply(reply.clone())), Then::Written);
    let sent = s.messages();
    assert_eq!(s.when(Event::Reply(reply)), Then::Repeat);
    assert_eq!(s.messages(), sent);
}

#[test]
fn the_last_reply_met_again_repeats_the_last_word_even_after_complete_by() {
    let mut s = Story::of(LINE).claimed();
    s.succeed("a").succeed("b");
    let reply = s.reply("c", done());
    s.when(Event::Reply(reply.clone()));
    s.after(3_600_000);
    assert_eq!(s.state(), "Processed");
    assert_eq!(s.when(Event::Reply(reply)), Then::Repeat);
}

#[test]
fn a_reply_met_again_after_the_order_went_on_changes_nothing() {
    let mut s = Story::of(LINE).claimed();
    let reply = s.reply("a", done());
    s.succeed("a").succeed("b");
    assert_eq!(
        s.when(Event::Reply(reply)),
        Then::Ignored(Reason::NotAwaited)
    );
}

#[test]
fn a_clean_refusal_ends_the_order_at_once_and_its_step_needs_no_compensation() {
    let mut s = Story::of(LINE).claimed();
    s.succeed("a").refuse("b");
    assert_eq!(s.state(), "Compensating");
    assert_eq!(
        s.step("b"),
        &StepState::Refused {
            attempt: Attempt(1)
        }
    );
    assert_eq!(s.asks(), [("a".into(), Direction::Compensate, 1)]);
    assert_eq!(s.order.state.cause().unwrap().code, "out-of-stock");
}

#[test]
fn a_refusal_that_may_have_been_applied_is_compensated_first() {
    let mut s = Story::of(LINE).claimed();
    s.succeed("a").answer("b", refused(true));
    assert_eq!(s.asks(), [("b".into(), Direction::Compensate, 1)]);
}

#[test]
fn a_refusal_after_an_attempt_that_timed_out_is_compensated_whatever_it_says() {
    let mut s = Story::of(LINE).claimed();
    s.succeed("a").overdue().claim().refuse("b");
    assert_eq!(s.asks(), [("b".into(), Direction::Compensate, 1)]);
}

#[test]
fn a_doubtful_refusal_of_a_step_without_compensation_stays_ambiguous() {
    let w = r#"{"workflow": "w", "steps": [
        {"id": "a", "agent": "x", "action": "go", "compensation": "none"}]}"#;
    let mut s = Story::of(w).claimed();
    s.answer("a", refused(true));
    assert_eq!(s.state(), "Compensated");
    assert_eq!(
        s.step("a"),
        &StepState::Ambiguous {
            attempt: Attempt(1)
        }
    );
}

#[test]
fn a_passing_failure_waits_for_the_supervisor_who_is_due_at_once() {
    let mut s = Story::of(LINE).claimed();
    s.after(3_000).answer("a", failed());
    assert_eq!(s.state(), "Processing");
    assert_eq!(
        s.step("a"),
        &StepState::Acting(Work::Failed {
            direction: Direction::Forward,
            attempt: Attempt(1),
            started: Timestamp(BEGIN),
            calls: 1,
        })
    );
    assert_eq!(s.failures("a"), 0, "the Supervisor alone counts");
    assert_eq!(s.order.due, Some(s.now));
    assert_eq!(s.order.complete_by(), Some(s.now));
}

#[test]
fn a_failure_does_not_hold_up_a_running_sibling() {
    let mut s = Story::of(FORK).claimed();
    s.answer("p", failed()).succeed("q");
    assert_eq!(
        s.steps(),
        [("p", "failed"), ("q", "completed"), ("join", "waiting")]
    );
}

#[test]
fn the_calls_of_every_reply_are_counted() {
    let mut s = Story::of(LINE).claimed();
    s.answer("a", failed()).overdue().claim().succeed("a");
    assert_eq!(s.calls("a"), 2);
}

#[test]
fn a_refusal_at_the_last_allowed_attempt_keeps_the_count_in_bounds() {
    let mut s = Story::of(LINE).claimed();
    s.overdue().claim().refuse("a");
    assert_eq!(s.failures("a"), 2);
    assert_eq!(s.order.failure_count(), 0, "of the present direction");
}
