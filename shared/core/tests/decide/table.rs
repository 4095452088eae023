//! Every state with every event, the illegal and the ignored ones too.

use std::collections::BTreeSet;

use triad_core::{Attempt, Direction, Event, ProcessState, Reply, StepState, Timestamp};

use crate::support::{LINE, Story, Then, done, failed};

const EVENTS: [&str; 11] = [
    "claim",
    "awaited reply",
    "failure reply",
    "late reply",
    "older attempt",
    "future attempt",
    "other direction",
    "step not running",
    "unknown step",
    "overdue",
    "confirmed",
];

/// An order in each state, and whether its time has come.
fn given(state: &str) -> Story {
    let mut s = Story::of(LINE);
    let undoing = |s: &mut Story| {
        s.claim().succeed("a").refuse("b");
    };
    match state {
        "Pending new" => {}
        "Pending released" => {
            s.claim().overdue();
        }
        "Processing" => {
            s.claim().succeed("a");
        }
        "Compensating claimed" => undoing(&mut s),
        "Compensating waiting" => {
            undoing(&mut s);
            s.overdue();
        }
        "Processed" => {
            s.claim().succeed("a").succeed("b").succeed("c");
        }
        "Error unconfirmed" | "Error confirmed" => {
            let to_error = r#"{"workflow": "w", "steps": [
                {"id": "a", "agent": "x", "action": "go", "compensation": "none"},
                {"id": "b", "agent": "x", "action": "go", "compensation": "none", "supervisor": {"threshold": 0, "then": "error"}},
                {"id": "c", "agent": "x", "action": "go", "compensation": "none"}]}"#;
            s = Story::of(to_error);
            s.claim().succeed("a").refuse("b");
        }
        "Compensated" => {
            undoing(&mut s);
            s.succeed("a");
        }
        "CompensationFailed" => {
            undoing(&mut s);
            s.overdue().claim().overdue();
        }
        other => panic!("no state {other}"),
    }
    if state == "Error confirmed" {
        assert_eq!(s.when(Event::Confirmed), Then::Written);
    }
    s
}

/// The event, made for the order; `None` where the order waits for no reply at all, and a reply
/// to step `b` stands for all.
fn event(name: &str, s: &mut Story) -> Event {
    let running = s.order.steps.iter().find_map(|r| match r.state {
        StepState::Running {
            attempt,
            complete_by,
            ..
        } => Some((r.step.clone(), Direction::Forward, attempt, complete_by)),
        StepState::Undoing {
            attempt,
            complete_by,
            ..
        } => Some((r.step.clone(), Direction::Undo, attempt, complete_by)),
        _ => None,
    });
    let (step, direction, attempt, complete_by) = running.unwrap_or((
        "b".to_owned().try_into().unwrap(),
        Direction::Forward,
        Attempt(7),
        Timestamp(5),
    ));
    let mut reply = Reply {
        order_id: s.order.id.clone(),
        step,
        direction,
        attempt,
        complete_by,
        calls: 1,
        outcome: done(),
    };
    match name {
        "claim" => return s.claim_event(),
        "overdue" => return Event::Overdue,
        "confirmed" => return Event::Confirmed,
        "awaited reply" => {}
        "failure reply" => reply.outcome = failed(),
        "late reply" => s.now = Timestamp(complete_by.0.max(s.now.0) + 1),
        "older attempt" => reply.attempt = Attempt(attempt.0 - 1),
        "future attempt" => reply.attempt = Attempt(attempt.0 + 1),
        "other direction" => {
            reply.direction = match direction {
                Direction::Forward => Direction::Undo,
                Direction::Undo | Direction::Probe => Direction::Forward,
            }
        }
        "step not running" => reply.step = "c".to_owned().try_into().unwrap(),
        "unknown step" => reply.step = "zzz".to_owned().try_into().unwrap(),
        other => panic!("no event {other}"),
    }
    Event::Reply(reply)
}

fn outcome(s: &mut Story, event: Event) -> String {
    match s.when(event) {
        Then::Written => format!("-> {}", s.state()),
        Then::Repeat => "repeat".into(),
        Then::Ignored(reason) => format!("{reason:?}"),
        Then::Illegal(_) => "ILLEGAL".into(),
        Then::Refused(refusal) => format!("refused: {refusal}"),
    }
}

/// Columns as in [`EVENTS`].
const TABLE: [(&str, [&str; 11]); 10] = [
    (
        "Pending new",
        [
            "-> Processing",
            "NotAwaited",
            "NotAwaited",
            "NotAwaited",
            "NotAwaited",
            "NotAwaited",
            "NotAwaited",
            "NotAwaited",
            "ILLEGAL",
            "-> Pending",
            "Unfinished",
        ],
    ),
    (
        "Pending released",
        [
            "-> Processing",
            "NotAwaited",
            "NotAwaited",
            "NotAwaited",
            "NotAwaited",
            "NotAwaited",
            "NotAwaited",
            "NotAwaited",
            "ILLEGAL",
            "NotDue",
            "Unfinished",
        ],
    ),
    (
        "Processing",
        [
            "Claimed",
            "-> Processing",
            "-> Processing",
            "-> Processing",
            "OlderAttempt",
            "ILLEGAL",
            "NotAwaited",
            "NotAwaited",
            "ILLEGAL",
            "NotDue",
            "Unfinished",
        ],
    ),
    (
        "Compensating claimed",
        [
            "Claimed",
            "-> Compensated",
            "-> Compensating",
            "Late",
            "OlderAttempt",
            "ILLEGAL",
            "NotAwaited",
            "NotAwaited",
            "ILLEGAL",
            "NotDue",
            "Unfinished",
        ],
    ),
    (
        "Compensating waiting",
        [
            "-> Compensating",
            "NotAwaited",
            "NotAwaited",
            "NotAwaited",
            "NotAwaited",
            "NotAwaited",
            "NotAwaited",
            "NotAwaited",
            "ILLEGAL",
            "NotDue",
            "Unfinished",
        ],
    ),
    ("Processed", FINISHED_AND_CONFIRMED),
    ("Error unconfirmed", FINISHED),
    ("Error confirmed", FINISHED_AND_CONFIRMED),
    ("Compensated", FINISHED),
    ("CompensationFailed", FINISHED),
];

const FINISHED: [&str; 11] = [
    "Finished", "Finished", "Finished", "Finished", "Finished", "Finished", "Finished", "Finished",
    "Finished", "repeat", "-> same",
];
const FINISHED_AND_CONFIRMED: [&str; 11] = ["Finished"; 11];

#[test]
fn every_state_and_event_has_its_outcome() {
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for (state, expected) in TABLE {
        for (name, expected) in EVENTS.iter().zip(expected) {
            let mut s = given(state);
            seen.insert(s.state());
            let same = format!("-> {}", s.state());
            let event = event(name, &mut s);
            // The pair "Pending new, overdue" is about an order whose time has come.
            if state == "Pending new" && *name == "overdue" {
                s.after(120_000);
            }
            let expected = if expected == "-> same" {
                &same
            } else {
                expected
            };
            let got = outcome(&mut s, event);
            if got != expected {
                wrong.push(format!("{state} + {name}: {got}, expected {expected}"));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    let all: BTreeSet<_> = ProcessState::NAMES.into_iter().collect();
    assert_eq!(seen, all, "the table has every state");
}

#[test]
fn a_record_that_does_not_fit_its_definition_is_illegal() {
    let mut s = Story::of(LINE);
    s.order.steps.pop();
    assert!(matches!(s.when(Event::Overdue), Then::Illegal(_)));
}
