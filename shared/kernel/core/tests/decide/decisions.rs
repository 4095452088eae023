//! Steps that wait for a person's decision: who may make it, with what, reminders and escalation.

use serde_json::json;
use triad_core::order::IncidentKind;
use triad_core::status::Status;
use triad_core::{Action, Event, Overdue, Reason};

use crate::support::{Story, Then};

const DECISION: &str = r#"{"workflow": "w", "steps": [
    {"id": "a", "await": {"event": "decided", "within": "10d", "fails_when": "event.decision == 'no'",
      "decision": {"by": ["ann", "carl"], "remind": "2d", "escalate": {"after": "3d", "to": ["bob"]},
        "form": {"type": "object", "required": ["decision"], "properties": {"decision": {"enum": ["yes", "no"]}}}}}},
    {"id": "b", "agent": "x", "action": "go", "input": "${steps.a}", "compensation": "none"}]}"#;

const DAY: u64 = 24 * 3_600_000;

fn asked(s: &Story) -> bool {
    let statuses = s.statuses();
    statuses
        .iter()
        .any(|(_, status)| *status == Status::DecisionAsked)
}

#[test]
fn who_has_decided_and_why_is_in_the_timeline_and_in_the_output() {
    let mut s = Story::of(DECISION).claimed();
    assert!(asked(&s));
    let data = json!({"decision": "yes", "why": "a good customer"});
    assert_eq!(s.decides("ann", "decided", "e-1", data), Then::Written);
    let expected = json!({"decision": "yes", "why": "a good customer", "by": "ann"});
    assert_eq!(s.requests()[0].input, expected);
    let line = s.order.incidents.last().expect("a line");
    let act = line.act.as_ref().expect("an act");
    assert_eq!(line.what, IncidentKind::Decided);
    assert_eq!(
        (act.by.as_str(), act.why.as_str()),
        ("ann", "a good customer")
    );
}

#[test]
fn somebody_else_or_another_form_does_not_decide() {
    let yes = json!({"decision": "yes"});
    let mut s = Story::of(DECISION).claimed();
    let refused = Then::Ignored(Reason::NoMatch);
    assert_eq!(s.decides("eve", "decided", "e-1", yes.clone()), refused);
    assert_eq!(s.hears("decided", "e-2", yes.clone()), refused);
    assert_eq!(
        s.decides("ann", "decided", "e-3", json!({"decision": "maybe"})),
        refused
    );
    assert_eq!(s.decides("ann", "decided", "e-4", json!("yes")), refused);
    let no = json!({"decision": "no"});
    assert_eq!(s.decides("carl", "decided", "e-5", no), Then::Written);
    assert_eq!(s.state(), "Compensated");
    let kinds = s.timeline();
    assert!(kinds.contains(&IncidentKind::Decided), "{kinds:?}");
    // One that came before the wait is kept, and judged when it begins.
    let mut s = Story::of(DECISION);
    assert_eq!(
        s.decides("bob", "decided", "e-1", yes.clone()),
        Then::Written
    );
    assert_eq!(s.decides("carl", "decided", "e-2", yes), Then::Written);
    s.claim();
    assert_eq!(s.requests()[0].input["by"], "carl");
}

#[test]
fn nobody_decides_so_it_is_asked_for_again_and_others_may_decide_later() {
    let mut s = Story::of(DECISION).claimed();
    let since = s.now;
    let ends = since.plus(triad_workflow::Millis(10 * DAY));
    for day in [2, 3, 4, 6, 8] {
        let until = s.step("a").parked_until().expect("it waits");
        assert_eq!(until.since(since).0, day * DAY);
        s.after(day * DAY + 500 - s.now.since(since).0);
        assert_eq!(s.when(Event::Overdue(Overdue::default())), Then::Written);
        assert!(asked(&s), "day {day}");
        assert_eq!((s.step("a").name(), s.failures("a")), ("parked", 0));
        s.sent();
        let yes = json!({"decision": "yes"});
        let may = s.asked(match s.event("decided", "e", yes) {
            Event::Received(mut event) => {
                event.by = Some("bob".to_owned());
                Event::Received(event)
            }
            other => other,
        });
        let is_taken = matches!(may, Ok(triad_core::Decision::Transition(_)));
        assert_eq!(is_taken, day >= 3, "day {day}");
    }
    assert_eq!(s.step("a").parked_until(), Some(ends));
    s.after(ends.plus(triad_workflow::Millis(500)).since(s.now).0);
    assert_eq!(s.when(Event::Overdue(Overdue::default())), Then::Written);
    assert_eq!(s.state(), "Compensating");
}

#[test]
fn a_sweep_that_comes_late_asks_once_and_an_order_that_waits_can_be_acted_on() {
    let mut s = Story::of(DECISION).claimed();
    s.after(5 * DAY);
    s.when(Event::Overdue(Overdue::default()));
    let times = s
        .statuses()
        .iter()
        .filter(|(_, is)| *is == Status::DecisionAsked)
        .count();
    assert_eq!(
        times, 2,
        "when the wait began, and once for the reminders that were missed"
    );
    let until = s.step("a").parked_until().expect("it waits");
    assert!(until > s.now);
    s.acts(Action::Pause)
        .acts(Action::Resume)
        .acts(Action::Cancel)
        .claim();
    assert_eq!(s.state(), "Compensated");
}
