//! The messages that an unfinished order waits for, built from its record alone.

use triad_core::effect::{self, Unmade, under_way};
use triad_core::operate::Action;
use triad_core::status::Status;
use triad_core::{Context, Effect, Timestamp};

use crate::support::{FORK, LINE, PROBED, Story, failed_cleanly};

/// The messages that are sent again, in short: `received`, `wake`, or a request's step and attempt.
fn sent_again(s: &Story) -> Vec<String> {
    let effects = under_way(&s.ctx(), &s.order, s.now).expect("a sound record");
    let short = |effect: &Effect| match effect {
        Effect::Status(status) if status.status == Status::Received => "received".to_owned(),
        Effect::Wake => "wake".to_owned(),
        Effect::Request(r) => format!("{} {} {}", r.step, r.direction, r.attempt),
        other => panic!("{other:?}"),
    };
    effects.iter().map(short).collect()
}

#[test]
fn a_new_order_is_told_of_and_then_claimed() {
    assert_eq!(sent_again(&Story::of(LINE)), ["received", "wake"]);
}

#[test]
fn one_that_the_supervisor_has_released_is_claimed() {
    let mut s = Story::of(LINE).claimed();
    s.overdue();
    assert_eq!(s.state(), "Pending");
    assert!(s.announces());
    assert_eq!(sent_again(&s), ["wake"]);
}

#[test]
fn one_that_waits_for_its_next_attempt_goes_on_waiting() {
    let mut s = Story::of(LINE).claimed();
    s.answer("a", failed_cleanly());
    let due = effect::status_effects(&s.order);
    assert!(!due.contains(&Effect::Wake));
    assert_eq!(sent_again(&s), [""; 0]);
}

#[test]
fn every_attempt_that_is_out_is_asked_for_as_it_was() {
    let mut s = Story::of(FORK).claimed();
    let first = s.requests();
    let again = under_way(&s.ctx(), &s.order, s.now).expect("a sound record");
    let requests: Vec<_> = again.into_iter().map(request_of).collect();
    assert_eq!(requests, first);
    let (one, other) = (first[0].step.to_string(), first[1].step.to_string());
    // The next write has one request to send, but the requests of both steps are under way.
    s.succeed(&one);
    let out = sent_again(&s);
    assert!(out.contains(&format!("{other} forward 1")), "{out:?}");
    assert!(!out.iter().any(|sent| sent.starts_with(&one)), "{out:?}");
}

fn request_of(effect: Effect) -> triad_core::StepRequest {
    match effect {
        Effect::Request(request) => *request,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_attempt_whose_time_is_up_is_left_to_the_supervisor() {
    let s = Story::of(LINE).claimed();
    let until = s.order.steps[0].state.complete_by().expect("it is out");
    let at = |now| under_way(&s.ctx(), &s.order, now).expect("a sound record");
    assert_eq!(at(Timestamp(until.0 - 1)).len(), 1);
    assert_eq!(at(until), []);
}

#[test]
fn a_compensation_is_asked_for_again() {
    let mut s = Story::of(LINE).claimed();
    s.succeed("a").refuse("b");
    assert_eq!(sent_again(&s), ["a compensate 1"]);
}

#[test]
fn who_is_held_or_has_finished_waits_for_nothing() {
    let mut s = Story::of(LINE);
    s.acts(Action::Pause);
    assert_eq!(sent_again(&s), [""; 0]);
    s.acts(Action::Resume);
    assert_eq!(sent_again(&s), ["wake"]);
    s.claim().succeed("a").succeed("b").succeed("c");
    assert!(s.order.state.is_finished());
    assert_eq!(sent_again(&s), [""; 0]);
}

#[test]
fn what_depends_on_the_details_asks_for_them() {
    let mut s = Story::of(PROBED).claimed();
    s.succeed("a");
    let without = Context {
        details: None,
        ..s.ctx()
    };
    assert_eq!(
        under_way(&without, &s.order, s.now),
        Err(Unmade::NeedsDetails)
    );
    assert_eq!(sent_again(&s), ["pay forward 1"]);
}
