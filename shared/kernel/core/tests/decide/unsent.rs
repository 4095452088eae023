//! Messages of a write that could not be sent, and the later writes that carry them over.

use triad_core::effect::{SendOrder, status_effects};
use triad_core::outbox::{Emission, Writer};
use triad_core::status::Status;
use triad_core::{Effect, Event, Order, Overdue};

use crate::support::{LINE, Story, Then, counted, failed};

/// The sequence numbers of the statuses that the record holds unsent.
fn sequences(order: &Order) -> Vec<u32> {
    let entries = order.outbox.entries.iter();
    entries
        .filter_map(|e| match e {
            Emission::Status { sequence, .. } => Some(*sequence),
            _ => None,
        })
        .collect()
}

#[test]
fn what_the_supervisor_left_unsent_is_carried_by_the_scheduler() {
    let mut s = Story::of(LINE).claimed();
    s.overdue();
    assert_eq!(s.order.outbox.writer, Writer::Supervisor);
    s.claim();
    assert_eq!(s.statuses(), [(2, Status::Started), (3, Status::Retrying)]);
}

#[test]
fn what_the_scheduler_left_unsent_is_carried_by_the_supervisor() {
    let mut s = Story::of(LINE).claimed();
    s.overdue();
    assert_eq!(s.statuses(), [(2, Status::Started), (3, Status::Retrying)]);
}

#[test]
fn what_submission_may_have_left_unsent_is_sent_by_the_supervisor_who_announces_again() {
    let mut s = Story::of(LINE);
    s.overdue();
    assert_eq!(s.statuses(), [(1, Status::Received)]);
    s.overdue();
    assert_eq!(s.statuses(), [(1, Status::Received)], "still, and once");
    s.claim();
    assert_eq!(s.statuses(), [(1, Status::Received), (2, Status::Started)]);
}

#[test]
fn what_a_scheduler_left_unsent_is_carried_by_another_scheduler() {
    let mut s = Story::of(LINE).claimed();
    s.succeed("a");
    assert_eq!(s.statuses(), [(2, Status::Started)]);
}

#[test]
fn what_the_bus_has_acknowledged_is_not_carried() {
    let mut s = Story::of(LINE).claimed();
    s.sent().succeed("a");
    assert_eq!(s.statuses(), []);
}

#[test]
fn an_input_met_again_after_its_messages_were_resolved_is_still_known() {
    let mut s = Story::of(LINE).claimed();
    s.sent();
    let again = s.claim_event();
    assert_eq!(s.when(again), Then::Repeat);
}

#[test]
fn requests_and_announcements_are_not_carried() {
    let mut s = Story::of(LINE).claimed();
    s.overdue();
    assert_eq!(s.asks(), [], "the attempt is over");
    s.claim();
    assert!(!s.announces(), "the claim answers it");
}

#[test]
fn the_sequence_has_no_gap_over_a_whole_life() {
    let mut s = Story::of(LINE);
    let mut seen = vec![1];
    let note = |s: &Story, seen: &mut Vec<u32>| {
        for n in sequences(&s.order) {
            if !seen.contains(&n) {
                seen.push(n);
            }
        }
    };
    s.claim();
    note(&s, &mut seen);
    s.succeed("a");
    note(&s, &mut seen);
    s.answer("b", failed()).overdue();
    note(&s, &mut seen);
    s.claim().overdue();
    note(&s, &mut seen);
    while !s.order.state.is_finished() {
        s.claim();
        note(&s, &mut seen);
        while !s.order.state.is_finished() && s.order.state.locked_by().is_some() {
            let compensating = s
                .order
                .steps
                .iter()
                .find(|r| r.state.name() == "compensating");
            let step = compensating
                .expect("a compensation is out")
                .step
                .to_string();
            s.succeed(&step);
            note(&s, &mut seen);
        }
    }
    let expected: Vec<u32> = (1..=s.order.sequence).collect();
    assert_eq!(seen, expected);
    assert_eq!(s.state(), "Compensated");
}

#[test]
fn an_alert_waits_in_the_record_until_it_is_confirmed() {
    let w = r#"{"workflow": "w", "steps": [{"id": "a", "agent": "x", "action": "go",
        "compensation": "none", "supervisor": {"failure_threshold": 0, "then": "error"}}]}"#;
    let mut s = Story::of(w).claimed();
    s.overdue();
    for _ in 0..3 {
        s.after(30_000);
        assert_eq!(s.when(Event::Overdue(Overdue::default())), Then::Repeat);
        assert!(s.messages().iter().any(|m| m.topic == "alerts"));
    }
    s.when(Event::Confirmed);
    assert!(s.messages().is_empty());
}

#[test]
fn messages_of_one_record_are_the_same_every_time() {
    let mut s = Story::of(LINE).claimed();
    s.succeed("a");
    assert_eq!(s.messages(), s.messages());
}

#[test]
fn every_message_about_an_order_has_its_id_as_the_key() {
    let mut s = Story::of(LINE).claimed();
    s.overdue().claim();
    assert!(!s.messages().is_empty());
    for message in s.messages() {
        assert_eq!(message.key.as_deref(), Some(b"o-1".as_slice()));
    }
}

#[test]
fn status_and_alert_go_to_the_front_of_what_lets_others_go_on() {
    let mut s = Story::of(LINE).claimed();
    s.overdue();
    let turns: Vec<SendOrder> = status_effects(&s.order).iter().map(Effect::turn).collect();
    assert_eq!(turns, [SendOrder::First, SendOrder::First, SendOrder::Then]);
}

#[test]
fn calls_never_pass_the_declared_budget_however_attempts_end() {
    for silent in [true, false] {
        let mut s = match silent {
            true => Story::of(&counted(LINE)),
            false => Story::of(LINE),
        };
        while !s.order.state.is_finished() {
            s.claim();
            if s.order.state.is_finished() {
                break;
            }
            if !silent {
                let live = s.order.steps.iter();
                let step = live
                    .filter(|r| matches!(r.state.name(), "running" | "compensating"))
                    .map(|r| r.step.to_string())
                    .next()
                    .unwrap();
                let mut reply = s.reply(&step, failed());
                reply.calls = 2;
                s.when(Event::Reply(reply));
            }
            s.overdue();
        }
        let total: u64 = s
            .order
            .steps
            .iter()
            .map(|r| u64::from(r.action.calls))
            .sum();
        assert!(total <= s.workflow.worst_case_calls());
        assert_eq!(s.state(), "CompensationFailed");
    }
}
