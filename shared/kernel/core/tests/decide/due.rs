//! The due hint is never later than the order's true due time (checked after every write of a story), and is written
//! as seldom as that allows.

use serde_json::json;
use triad_core::decide::{Decision, true_due};
use triad_core::due::{SHARDS, shard_of};
use triad_core::{Action, Event, Overdue, Timestamp, Untaken};

use crate::support::{BEGIN, FORK, LINE, QUEUE, Story, Then, counted};

#[test]
fn the_hint_is_never_later_than_the_true_due_time() {
    for w in [LINE, FORK] {
        let mut s = Story::of(w);
        for _ in 0..6 {
            s.claim();
            s.overdue();
            if s.order.state.is_finished() {
                break;
            }
            if s.order.complete_by().unwrap().since(s.now).0 < 60_000 {
                s.overdue();
            }
        }
    }
}

#[test]
fn a_hint_that_is_early_but_ahead_stays_so_that_the_index_is_not_written() {
    let mut s = Story::of(LINE);
    let hint = s.order.due;
    s.claim()
        .after(2_000)
        .succeed("a")
        .after(2_000)
        .succeed("b");
    assert_eq!(s.order.due, hint);
}

#[test]
fn a_hint_that_has_passed_is_moved_by_the_next_write() {
    let mut s = Story::of(LINE);
    s.claim()
        .after(6_000)
        .succeed("a")
        .after(6_000)
        .succeed("b");
    assert_eq!(
        s.order.due,
        Some(Timestamp(BEGIN + 12_000 + QUEUE + 10_000))
    );
}

#[test]
fn a_supervisor_that_meets_an_early_hint_moves_it_and_touches_nothing_else() {
    let mut s = Story::of(LINE);
    s.claim().after(6_000).succeed("a").after(4_500);
    let before = s.order.clone();
    assert_eq!(s.when(Event::Overdue(Overdue::default())), Then::Written);
    assert_eq!(s.order.due, Some(Timestamp(BEGIN + 6_000 + QUEUE + 10_000)));
    let mut expected = before;
    expected.version = expected.version.next();
    expected.due = s.order.due;
    assert_eq!(s.order, expected);
}

#[test]
fn an_input_met_again_after_the_hint_was_moved_still_repeats() {
    let mut s = Story::of(LINE);
    s.claim().after(6_000);
    let reply = s.reply("a", crate::support::done());
    s.when(Event::Reply(reply.clone()));
    s.after(4_500).when(Event::Overdue(Overdue::default()));
    assert_eq!(s.asked(Event::Reply(reply)), Ok(Decision::Repeat));
}

#[test]
fn a_released_order_is_due_no_later_than_its_running_siblings() {
    let mut s = Story::of(FORK).claimed();
    s.overdue();
    assert_eq!(true_due(&s.ctx(), &s.order), s.step("p").delayed_until());
    s.overdue();
    assert_eq!(s.state(), "Pending");
    let due = true_due(&s.ctx(), &s.order).unwrap();
    assert_eq!(due, Timestamp(BEGIN + QUEUE + 30_000), "q's complete-by");
}

#[test]
fn the_hint_is_never_later_than_the_truth_while_nothing_is_heard() {
    for w in [
        LINE.to_owned(),
        FORK.to_owned(),
        counted(LINE),
        counted(FORK),
    ] {
        for taken in [true, false] {
            let mut s = Story::of(&w);
            for _ in 0..8 {
                s.claim();
                s.now = s.now.max(s.ripe());
                s.when(Event::Overdue(Overdue::default()));
                s.after(5_000);
                let steps = s.order.steps.iter().map(|r| r.step.clone());
                let untaken: Untaken = steps.filter(|_| !taken).collect();
                s.when(Event::Overdue(untaken.into()));
                if s.order.state.is_finished() {
                    break;
                }
                while s.order.state.locked_by().is_none() && !s.announces() {
                    s.now = s.now.max(s.ripe());
                    s.when(Event::Overdue(Overdue::default()));
                    s.after(5_000);
                }
                if s.order.state.locked_by().is_some() {
                    break;
                }
            }
        }
    }
}

#[test]
fn the_hint_is_no_later_than_the_truth_after_a_reply_that_was_read_late() {
    let mut s = Story::of(FORK).claimed();
    let mut reply = s.reply("p", crate::support::done());
    reply.sent_at = Some(reply.complete_by);
    s.now = s.ripe();
    s.when(Event::Overdue(Overdue::default()));
    s.when(Event::Reply(reply));
    assert_eq!(s.order.due, Some(Timestamp(BEGIN + QUEUE + 30_000)), "q's");
}

#[test]
fn an_order_that_waits_for_an_agent_to_take_its_work_is_due_when_the_wait_is_over() {
    let mut s = Story::of(LINE).claimed();
    s.untaken().claim().untaken();
    assert!(!s.announces());
    assert_eq!(s.order.due, s.order.complete_by());
    assert!(s.order.due > Some(s.now));
}

#[test]
fn an_order_that_is_set_aside_is_in_no_shard_that_a_sweep_reads_and_lies_there_by_age() {
    let mut s = Story::of(LINE);
    s.order = s.order.aside();
    assert!(s.order.due_shard() >= SHARDS);
    assert_eq!(s.order.due, Some(s.order.submitted_at));
    // Neither a pause nor a resume moves the hint.
    s.after(500).acts(Action::Pause);
    s.acts(Action::Resume);
    assert_eq!(s.order.due, Some(s.order.submitted_at));
    assert!(!s.announces(), "nobody is asked for what has no room");
    s.after(500);
    assert_eq!(s.when(Event::Admit), Then::Written);
    assert!(s.announces());
    assert_eq!(s.order.due_shard(), shard_of(&s.order.id));
    assert!(
        s.order.due > Some(s.now),
        "somebody has some time to take it up"
    );
    s.claim();
    assert_eq!(s.state(), "Processing");
}

#[test]
fn an_order_that_was_set_aside_before_its_details_were_checked_is_admitted_only_if_they_fit() {
    let workflow = LINE.replacen(
        r#""workflow": "line","#,
        r#""workflow": "line", "details_schema": {"required": ["amount"]},"#,
        1,
    );
    for (details, state) in [
        (json!({"amount": 7}), "Pending"),
        (json!({"price": 7}), "Error"),
    ] {
        let mut s = Story::with_details(&workflow, details);
        s.order = s.order.aside();
        assert_eq!(s.when(Event::Admit), Then::Written);
        assert_eq!(s.state(), state);
        assert_eq!(s.order.set_aside, None);
    }
}
