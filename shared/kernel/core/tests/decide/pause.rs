//! A paused order: replies to requests under way are taken, and no step starts until the order is resumed.

use triad_core::decide::true_due;
use triad_core::order::IncidentKind;
use triad_core::status::Status;
use triad_core::{Action, Direction, Event, OperationRefusal, Overdue, Reason, Timestamp};

use crate::support::{BEGIN, FORK, LINE, ONCE, QUEUE, Story, Then, failed, refused};

const DAY: u64 = 24 * 3_600_000;

fn paused(mut s: Story) -> Story {
    s.acts(Action::Pause);
    s
}

fn compensating() -> Story {
    let mut s = Story::of(LINE).claimed();
    s.succeed("a").succeed("b").refuse("c");
    s
}

/// Checks that a wake and a claim of the paused order change nothing.
#[track_caller]
fn is_held(s: &mut Story) {
    let claim = s.claim_event();
    assert_eq!(s.when(claim), Then::Ignored(Reason::Paused));
    assert!(!s.announces());
    assert_eq!(s.asks(), []);
}

#[test]
fn a_paused_order_is_not_taken_up() {
    let mut s = paused(Story::of(LINE));
    is_held(&mut s);
    s.acts(Action::Resume);
    assert!(s.announces());
    s.claim();
    assert_eq!(s.state(), "Processing");
}

#[test]
fn it_says_since_when_and_who_and_why() {
    let mut s = Story::of(LINE);
    s.after(7).acts(Action::Pause);
    let hold = s.order.paused.as_ref().unwrap();
    assert_eq!((hold.at, hold.act.by.as_str()), (s.now, "ann"));
    s.acts(Action::Resume);
    assert_eq!(s.order.paused, None);
    assert_eq!(s.timeline(), [IncidentKind::Paused, IncidentKind::Resumed]);
    assert!(s.order.incidents.iter().all(|i| i.act.is_some()));
}

#[test]
fn what_submission_may_have_left_unsent_is_sent_by_who_pauses() {
    let s = paused(Story::of(LINE));
    assert_eq!(s.statuses(), [(1, Status::Received)]);
}

#[test]
fn what_is_out_may_be_answered_and_nothing_is_started() {
    let mut s = paused(Story::of(LINE).claimed());
    assert_eq!((s.state(), s.order.state.locked_by()), ("Pending", None));
    s.succeed("a");
    assert_eq!(s.steps()[..2], [("a", "completed"), ("b", "waiting")]);
    is_held(&mut s);
    s.acts(Action::Resume).claim();
    assert_eq!(s.asks(), [("b".into(), Direction::Forward, 1)]);
}

#[test]
fn an_order_whose_last_step_is_answered_while_it_is_paused_finishes_when_let_go_on() {
    let mut s = Story::of(LINE).claimed();
    s.succeed("a").succeed("b").acts(Action::Pause).succeed("c");
    assert_eq!(s.state(), "Pending");
    s.acts(Action::Resume).claim();
    assert_eq!(s.state(), "Processed");
}

#[test]
fn a_time_out_is_counted_while_it_is_paused_and_the_next_attempt_waits() {
    let mut s = paused(Story::of(LINE).claimed());
    assert_eq!(
        true_due(&s.ctx(), &s.order),
        Some(Timestamp(BEGIN + QUEUE + 10_000))
    );
    s.overdue();
    assert_eq!((s.failures("a"), s.steps()[0].1), (1, "retry-due"));
    is_held(&mut s);
    s.acts(Action::Resume).claim();
    assert_eq!(s.asks(), [("a".into(), Direction::Forward, 2)]);
}

#[test]
fn a_failure_that_waits_to_be_counted_is_counted_while_it_is_paused() {
    let mut s = Story::of(LINE).claimed();
    s.answer("a", failed()).acts(Action::Pause).overdue();
    assert_eq!((s.state(), s.failures("a")), ("Pending", 1));
    is_held(&mut s);
}

#[test]
fn work_that_is_deferred_waits_on_while_the_order_is_paused() {
    let mut s = Story::of(LINE).claimed();
    s.deferred("a", 60_000).acts(Action::Pause).overdue();
    assert_eq!((s.failures("a"), s.steps()[0].1), (0, "retry-due"));
    is_held(&mut s);
    s.acts(Action::Resume).claim();
    assert_eq!(s.asks(), [("a".into(), Direction::Forward, 2)]);
}

#[test]
fn the_supervisor_looks_at_it_once_a_day() {
    let mut s = paused(Story::of(LINE));
    for day in 1..4 {
        let due = true_due(&s.ctx(), &s.order).unwrap();
        assert_eq!(due.0, BEGIN + day * DAY + (day - 1) * 500);
        s.overdue();
        is_held(&mut s);
    }
}

#[test]
fn a_paused_order_that_fails_begins_compensation_and_is_still_held() {
    let mut s = Story::of(FORK).claimed();
    s.succeed("q").acts(Action::Pause).refuse("p");
    assert_eq!(s.state(), "Compensating");
    is_held(&mut s);
    s.overdue();
    is_held(&mut s);
    s.acts(Action::Resume).claim();
    assert_eq!(s.asks(), [("q".into(), Direction::Compensate, 1)]);
}

#[test]
fn paused_while_it_is_compensated_the_compensation_that_is_out_may_be_answered() {
    let mut s = paused(compensating());
    assert_eq!(s.order.state.locked_by(), None);
    s.succeed("b");
    assert_eq!(
        s.steps()[..2],
        [("a", "compensation-due"), ("b", "compensated")]
    );
    is_held(&mut s);
    s.acts(Action::Resume).claim();
    assert_eq!(s.asks(), [("a".into(), Direction::Compensate, 1)]);
}

#[test]
fn resumed_with_the_compensation_still_out_it_is_not_asked_for_again() {
    let mut s = paused(compensating());
    s.acts(Action::Resume).claim();
    assert_eq!(s.asks(), []);
    s.succeed("b");
    assert_eq!(s.asks(), [("a".into(), Direction::Compensate, 1)]);
}

#[test]
fn a_compensation_that_times_out_while_the_order_is_paused_is_counted_and_waits() {
    let mut s = paused(compensating());
    s.overdue();
    assert_eq!(
        (s.record("b").compensation.failures, s.steps()[1].1),
        (1, "compensation-due")
    );
    is_held(&mut s);
    s.acts(Action::Resume).claim();
    assert_eq!(s.asks(), [("b".into(), Direction::Compensate, 2)]);
}

#[test]
fn a_compensation_that_has_failed_when_the_order_is_paused_is_counted_all_the_same() {
    let mut s = compensating();
    s.answer("b", failed()).acts(Action::Pause);
    assert_eq!(s.order.complete_by(), Some(s.now));
    s.overdue();
    assert_eq!(
        (s.record("b").compensation.failures, s.steps()[1].1),
        (1, "compensation-due")
    );
    is_held(&mut s);
}

#[test]
fn a_compensation_given_up_while_the_order_is_paused_leaves_the_next_look_to_what_is_out() {
    let w = FORK.replace(
        "\"failure_threshold\": 3, \"delay\": \"4s\", \"max_delay\": \"10s\"",
        "\"failure_threshold\": 0",
    );
    let mut s = Story::of(&w).claimed();
    s.succeed("p").succeed("q").refuse("join");
    s.acts(Action::Pause).overdue();
    assert_eq!(
        s.steps()[..2],
        [("p", "not-compensated"), ("q", "compensating")]
    );
    let by = s.order.complete_by().unwrap();
    assert!(by > s.now, "{by:?}");
    assert_eq!(
        s.when(Event::Overdue(Overdue::default())),
        Then::Ignored(Reason::NotDue)
    );
    let due = true_due(&s.ctx(), &s.order).unwrap();
    assert_eq!(due, Timestamp(BEGIN + QUEUE + 30_000), "q's complete-by");
}

#[test]
fn the_last_compensation_answered_while_it_is_paused_finishes_when_let_go_on() {
    let mut s = Story::of(LINE).claimed();
    s.succeed("a").refuse("b").acts(Action::Pause).succeed("a");
    assert_eq!(s.state(), "Compensating");
    s.acts(Action::Resume).claim();
    assert_eq!(s.state(), "Compensated");
}

#[test]
fn a_deferred_compensation_waits_on_while_the_order_is_paused() {
    let mut s = compensating();
    s.deferred("b", 60_000).acts(Action::Pause).overdue();
    assert_eq!(s.steps()[1].1, "compensation-due");
    is_held(&mut s);
}

#[test]
fn an_end_lifts_the_hold() {
    let mut s = Story::of(ONCE).claimed();
    s.succeed("a")
        .acts(Action::Pause)
        .answer("once", refused(true));
    assert_eq!((s.state(), &s.order.paused), ("Error", &None));
    let mut s = Story::of(LINE).claimed();
    s.succeed("a").refuse("b").overdue().claim();
    s.acts(Action::Pause).overdue();
    assert_eq!(s.state(), "CompensationFailed");
    assert_eq!(s.order.paused, None);
    s.acts(Action::RetryCompensation);
    assert!(s.announces(), "nothing is held back");
    s.claim();
    assert_eq!(s.asks(), [("a".into(), Direction::Compensate, 3)]);
}

#[test]
fn a_paused_order_can_be_cancelled_and_is_compensated_at_once() {
    let mut s = Story::of(LINE).claimed();
    s.succeed("a").acts(Action::Pause).acts(Action::Cancel);
    assert_eq!((s.state(), &s.order.paused), ("Compensating", &None));
    assert!(s.announces());
    s.claim();
    assert_eq!(s.asks(), [("b".into(), Direction::Compensate, 1)]);
}

#[test]
fn a_resume_that_nobody_takes_up_is_announced_again() {
    for mut s in [paused(Story::of(LINE)), paused(compensating())] {
        s.acts(Action::Resume).sent().overdue();
        s.overdue();
        assert!(s.announces());
    }
}

#[test]
fn an_order_is_paused_once_and_resumed_once() {
    let mut s = paused(Story::of(LINE));
    let then = s.tries(Action::Pause);
    assert_eq!(then, Then::Refused(OperationRefusal::Already("paused")));
    s.acts(Action::Resume);
    let then = s.tries(Action::Resume);
    assert_eq!(then, Then::Refused(OperationRefusal::Already("not paused")));
}

#[test]
fn a_claim_that_is_met_again_after_a_pause_is_held_back_too() {
    let mut s = Story::of(LINE);
    let claim = s.claim_event();
    assert_eq!(s.when(claim.clone()), Then::Written);
    s.acts(Action::Pause);
    assert_eq!(s.when(claim), Then::Ignored(Reason::Paused));
    let asked = s.messages().into_iter();
    let asked = asked.filter(|m| m.topic.starts_with("agent."));
    assert_eq!(asked.count(), 0);
    assert_eq!(s.when(Event::Confirmed), Then::Ignored(Reason::Unfinished));
}
