//! An order that starts later: nothing begins before its moment, whatever happens to it until then.

use triad_core::order::IncidentKind;
use triad_core::{Action, Event, Order, Overdue, Reason, Timestamp};

use crate::support::{AWAITS, BEGIN, LINE, Story, Then};

const DAY: u64 = 24 * 3_600_000;
const START: Timestamp = Timestamp(BEGIN + 2 * DAY);

fn scheduled(workflow: &str) -> Story {
    let mut s = Story::of(workflow);
    let mut accepted = s.accepted();
    accepted.start_at = Some(START);
    s.order = Order::new(&accepted, &s.workflow, START);
    s
}

#[track_caller]
fn does_not_start(s: &mut Story) {
    let claim = s.claim_event();
    assert_eq!(s.when(claim), Then::Ignored(Reason::NotDue));
    assert!(!s.announces());
}

#[test]
fn it_costs_one_row_of_the_due_index_until_the_supervisor_announces_it() {
    let mut s = scheduled(LINE);
    assert_eq!((s.order.due, s.state()), (Some(START), "Pending"));
    does_not_start(&mut s);
    s.now = START;
    let early = s.when(Event::Overdue(Overdue::default()));
    assert_eq!(
        early,
        Then::Ignored(Reason::NotDue),
        "another clock may be behind"
    );
    s.now = s.ripe();
    assert_eq!(s.when(Event::Overdue(Overdue::default())), Then::Written);
    assert!(s.announces());
    s.claim();
    assert_eq!((s.state(), s.asks().len()), ("Processing", 1));
    assert_eq!(
        s.timeline(),
        [],
        "no failure, and nothing that needs a line"
    );
}

#[test]
fn resumed_before_its_start_it_waits_on_and_after_it_starts() {
    let mut s = scheduled(LINE);
    s.acts(Action::Pause).acts(Action::Resume);
    assert_eq!(s.order.complete_by(), Some(START));
    does_not_start(&mut s);
    s.acts(Action::Pause);
    s.now = START.plus(s.timing.skew);
    s.acts(Action::Resume);
    assert!(s.announces());
    s.claim();
    assert_eq!(s.state(), "Processing");
}

#[test]
fn let_in_under_a_cap_before_its_start_it_waits_on() {
    let mut s = scheduled(LINE);
    s.order = s.order.aside();
    assert_eq!(s.when(Event::Admit), Then::Written);
    assert_eq!(
        (s.order.complete_by(), s.order.due),
        (Some(START), Some(START))
    );
    does_not_start(&mut s);
}

#[test]
fn cancelled_before_its_start_nothing_was_asked_for() {
    let mut s = scheduled(LINE);
    s.acts(Action::Cancel).claim();
    assert_eq!((s.state(), s.asks().len()), ("Compensated", 0));
    let lines = [IncidentKind::Cancelled, IncidentKind::CompensationBegan];
    assert_eq!(s.timeline(), lines);
}

#[test]
fn an_event_that_comes_before_its_start_is_kept_and_starts_nothing() {
    let mut s = scheduled(AWAITS);
    let paid = serde_json::json!({"id": "p-1", "amount": 7});
    assert_eq!(s.hears("paid", "e-1", paid), Then::Written);
    assert_eq!((s.order.due, s.order.events.len()), (Some(START), 1));
    does_not_start(&mut s);
}
