//! The call ledger: the attempts that the Supervisor must revoke before it decides.

use triad_core::ledger::{KEPT, Unheard, to_revoke};
use triad_core::{Event, Overdue, Untaken};

use crate::support::{FORK, LINE, ONCE, PROBED, Story, Then, counted, done, failed};

/// The Supervisor finds an attempt beyond its complete-by, and has waited long enough for a reply.
#[track_caller]
fn silent(s: &mut Story) {
    s.now = s.now.max(s.ripe());
    assert_eq!(s.when(Event::Overdue(Overdue::default())), Then::Written);
    s.now = s.now.plus(s.timing.hear_within);
}

fn revoked(s: &Story) -> Vec<Unheard> {
    to_revoke(&s.ctx(), &s.order, s.now)
}

fn keys(s: &Story) -> Vec<String> {
    revoked(s).into_iter().map(|u| u.key).collect()
}

#[test]
fn nothing_is_revoked_before_the_supervisor_has_listened() {
    let mut s = Story::of(&counted(LINE)).claimed();
    assert_eq!(revoked(&s), []);
    s.now = s.ripe();
    assert_eq!(revoked(&s), [], "it has not been met");
    assert_eq!(s.when(Event::Overdue(Overdue::default())), Then::Written);
    assert_eq!(revoked(&s), []);
    s.after(4_999);
    assert_eq!(revoked(&s), []);
    s.after(1);
    assert_eq!(revoked(&s).len(), 1);
}

#[test]
fn an_attempt_is_revoked_under_its_own_key_for_as_long_as_its_request_may_be_met() {
    let mut s = Story::of(&counted(LINE)).claimed();
    let complete_by = s.step("a").complete_by().unwrap();
    silent(&mut s);
    let expected = Unheard {
        step: "a".to_owned().try_into().unwrap(),
        key: "call/o-1/a/forward/forward/1".into(),
        expires: complete_by.plus(KEPT),
    };
    assert_eq!(revoked(&s), [expected]);
}

#[test]
fn the_key_is_the_one_that_the_agent_takes() {
    let mut s = Story::of(&counted(LINE)).claimed();
    let request = s.requests().remove(0);
    let agents =
        triad_core::ledger::key(&request.idempotency_key, request.direction, request.attempt);
    silent(&mut s);
    assert_eq!(keys(&s), [agents]);
}

#[test]
fn an_attempt_whose_calls_are_not_counted_is_not_revoked() {
    let mut s = Story::of(LINE).claimed();
    silent(&mut s);
    assert_eq!(revoked(&s), []);
}

#[test]
fn of_siblings_only_what_is_unheard_of_is_revoked() {
    let mut s = Story::of(&counted(FORK)).claimed();
    silent(&mut s);
    assert_eq!(keys(&s), ["call/o-1/p/forward/forward/1"], "q has time");
    s.answer("q", failed());
    assert_eq!(keys(&s), ["call/o-1/p/forward/forward/1"]);
}

#[test]
fn what_was_heard_of_while_the_supervisor_listened_is_not_revoked() {
    let mut s = Story::of(&counted(LINE)).claimed();
    let mut reply = s.reply("a", done());
    reply.sent_at = Some(reply.complete_by);
    silent(&mut s);
    s.when(Event::Reply(reply));
    assert_eq!(revoked(&s), []);
}

#[test]
fn what_may_not_be_repeated_is_revoked() {
    let mut s = Story::of(ONCE).claimed();
    s.succeed("a");
    silent(&mut s);
    assert_eq!(keys(&s), ["call/o-1/once/forward/forward/1"]);
}

#[test]
fn a_question_is_revoked_under_the_key_of_the_effect() {
    let mut s = Story::of(PROBED).claimed();
    s.succeed("a").overdue().claim();
    silent(&mut s);
    assert_eq!(keys(&s), ["call/o-1/pay/forward/probe/2"]);
}

#[test]
fn a_compensation_is_revoked_under_its_own_key() {
    let mut s = Story::of(&counted(LINE)).claimed();
    s.succeed("a").refuse("b");
    silent(&mut s);
    assert_eq!(keys(&s), ["call/o-1/a/compensate/compensate/1"]);
}

#[test]
fn a_compensation_whose_calls_are_not_counted_is_not_revoked() {
    let mut s = Story::of(ONCE).claimed();
    s.succeed("a").succeed("once").refuse("c");
    silent(&mut s);
    assert_eq!(revoked(&s), [], "its total is not declared");
}

#[test]
fn after_a_key_was_spent_the_next_one_is_revoked() {
    let mut s = Story::of(&counted(LINE)).claimed();
    s.succeed("a").refuse("b").succeed("a");
    assert_eq!(s.state(), "Compensated");
    s.resubmit().claim();
    let request = s.requests().remove(0);
    assert_eq!(s.record("a").key, 1);
    silent(&mut s);
    assert_eq!(keys(&s), ["call/o-1/a/forward/1/forward/2"]);
    let agents = format!("call/{}/forward/2", request.idempotency_key);
    assert_eq!(keys(&s), [agents]);
}

#[test]
fn what_is_revoked_once_is_revoked_again_until_the_order_has_gone_on() {
    let mut s = Story::of(&counted(LINE)).claimed();
    silent(&mut s);
    let first = revoked(&s);
    s.after(60_000);
    assert_eq!(revoked(&s), first, "a Supervisor may have died in between");
    let untaken: Untaken = first.into_iter().map(|u| u.step).collect();
    assert_eq!(s.when(Event::Overdue(untaken.into())), Then::Written);
    assert_eq!(revoked(&s), []);
}
