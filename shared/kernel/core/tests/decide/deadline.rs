//! The deadline of a whole order: what the Supervisor does with an order that misses it.

use serde_json::json;
use triad_core::decide::true_due;
use triad_core::message::AlertKind;
use triad_core::order::IncidentKind;
use triad_core::outbox::Emission;
use triad_core::{Action, Event, FailureKind, Overdue, Timestamp};

use crate::support::{BEGIN, ONCE, Story, Then, failed};

/// A sale with a point of no return; shipping comes after it.
const SALE: &str = r#"{"workflow": "sale",
  "defaults": {"attempt_timeout": "10s", "retry": {"calls_per_attempt": 2}, "supervisor": {"failure_threshold": 3}},
  "steps": [
    {"id": "hold", "agent": "x", "action": "hold", "compensation": {"action": "free"}},
    {"id": "sell", "agent": "x", "action": "sell", "point_of_no_return": true},
    {"id": "send", "agent": "y", "action": "send"}]}"#;

const SKEW: u64 = 500;

/// An order of a workflow with an order timeout of `ms` milliseconds.
fn within(workflow: &str, ms: u64) -> Story {
    let mut s = Story::of(workflow);
    s.order.deadline = Some(Timestamp(BEGIN + ms));
    s.order.due = s.order.due.min(s.order.deadline);
    s
}

fn looks(s: &mut Story) -> Then {
    s.when(Event::Overdue(Overdue::default()))
}

/// The Supervisor checks the order when the deadline has passed by every clock.
fn looks_beyond(s: &mut Story) -> Then {
    s.now = s.order.deadline.expect("there is one");
    s.after(SKEW);
    looks(s)
}

fn late_alerts(s: &Story) -> usize {
    let is_late = |e: &&Emission| {
        matches!(
            e,
            Emission::Alert {
                kind: AlertKind::OrderLate,
                ..
            }
        )
    };
    s.order.outbox.entries.iter().filter(is_late).count()
}

#[test]
fn an_order_is_compensated_once_its_deadline_has_passed_on_every_clock() {
    let mut s = within(SALE, 20_000).claimed();
    s.after(19_000);
    looks(&mut s);
    assert_eq!(s.state(), "Processing", "it is early");
    assert_eq!(looks_beyond(&mut s), Then::Written);
    assert_eq!(s.state(), "Compensating");
    let cause = s.order.state.cause().expect("there is one");
    assert_eq!(cause.kind, FailureKind::TimedOut);
    assert_eq!(cause.fingerprint(), "timed-out/order-deadline");
    assert_eq!(s.order.late_since, None);
}

#[test]
fn a_millisecond_before_that_it_goes_on() {
    let mut s = within(SALE, 20_000).claimed();
    s.now = Timestamp(BEGIN + 20_000 + SKEW - 1);
    looks(&mut s);
    assert_eq!(s.state(), "Processing");
    s.after(1);
    looks(&mut s);
    assert_eq!(s.state(), "Compensating");
}

#[test]
fn the_order_is_due_at_its_deadline_in_every_state_in_which_it_runs() {
    let deadline = Some(Timestamp(BEGIN + 8_000));
    let due = |s: &Story| true_due(&s.ctx(), &s.order);
    let mut s = within(SALE, 8_000);
    assert_eq!(due(&s), deadline, "nobody has taken it up");
    s.claim();
    assert_eq!(due(&s), deadline, "an attempt is out until later");
    s.deferred("hold", 60_000);
    assert_eq!(due(&s), deadline, "it waits for its service until later");
}

#[test]
fn past_the_point_of_no_return_it_goes_on_and_operators_are_told_once() {
    let mut s = within(SALE, 20_000).claimed();
    s.succeed("hold").sent();
    assert_eq!(looks_beyond(&mut s), Then::Written);
    assert_eq!((s.state(), late_alerts(&s)), ("Processing", 1));
    assert_eq!(s.order.late_since, Some(s.now));
    assert_eq!(s.timeline(), [IncidentKind::Late]);
    s.sent().after(1_000);
    looks(&mut s);
    assert_eq!(late_alerts(&s), 0, "it is known");
    s.succeed("sell").succeed("send");
    assert_eq!((s.state(), late_alerts(&s)), ("Processed", 0));
}

#[test]
fn a_point_of_no_return_that_failed_may_have_happened() {
    let mut s = within(SALE, 20_000).claimed();
    s.succeed("hold").answer("sell", failed());
    assert_eq!(looks_beyond(&mut s), Then::Written);
    assert!(s.order.late_since.is_some());
    assert_eq!(s.failures("sell"), 1, "counted in the same look");
}

#[test]
fn an_effect_in_doubt_that_may_not_be_repeated_is_waited_for() {
    let mut s = within(ONCE, 20_000).claimed();
    s.succeed("a").sent();
    s.now = Timestamp(BEGIN + 20_000 + SKEW);
    looks(&mut s);
    assert_eq!(s.state(), "Processing", "it may be answered still");
    assert!(true_due(&s.ctx(), &s.order) > s.order.deadline);
    s.succeed("once").sent();
    assert_eq!(s.state(), "Processing");
    assert_eq!(looks(&mut s), Then::Written);
    assert_eq!(s.state(), "Compensating");
    assert_eq!(
        s.steps()[..2],
        [("a", "compensation-due"), ("once", "compensation-due")],
        "it is known now, and can be compensated"
    );
}

#[test]
fn a_paused_order_waits_for_its_operator_whatever_the_time() {
    let mut s = within(SALE, 20_000);
    s.acts(Action::Pause);
    looks_beyond(&mut s);
    assert_eq!(s.state(), "Pending");
    s.acts(Action::Resume);
    assert_eq!(looks(&mut s), Then::Written);
    assert_eq!(s.state(), "Compensating");
}

#[test]
fn who_sets_an_order_going_again_has_decided_that_it_is_late() {
    let mut s = within(ONCE, 20_000).claimed();
    s.succeed("a").answer("once", failed());
    assert_eq!(s.state(), "Error");
    s.after(60_000);
    assert_eq!(s.resolve("once", Some(json!({}))), Then::Written);
    assert_eq!((s.state(), s.order.run), ("Pending", 1));
    looks(&mut s);
    s.claim().succeed("c");
    assert_eq!(s.state(), "Processed");
}
