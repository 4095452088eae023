//! Steps that wait: for a moment, or for events from outside.

use serde_json::{Value, json};
use triad_core::message::AlertKind;
use triad_core::needs::needs;
use triad_core::order::IncidentKind;
use triad_core::received::MAX_KEPT;
use triad_core::status::Status;
use triad_core::{
    Action, Direction, Event, OperatorAct, Order, Overdue, Reason, Timestamp, migrate,
};

use crate::support::{AWAITS, BEGIN, Story, TIMED, Then, compile, refused};

const HOUR: u64 = 3_600_000;
const DAY: u64 = 24 * HOUR;

/// The order of [`AWAITS`] or a variant, parked at `b`.
fn waiting(workflow: &str) -> Story {
    let mut s = Story::of(workflow).claimed();
    s.succeed("a");
    assert_eq!(s.step("b").name(), "parked");
    s
}

fn paid() -> Value {
    json!({"id": "p-1", "amount": 7})
}

#[track_caller]
fn sweeps(s: &mut Story) -> Then {
    s.now = s.now.max(s.ripe());
    s.when(Event::Overdue(Overdue::default()))
}

#[test]
fn a_timer_costs_the_write_that_begins_it_and_its_row_of_the_due_index() {
    let mut s = waiting(TIMED);
    let version = s.order.version;
    assert_eq!((s.asks().len(), s.alerts()), (0, false));
    assert_eq!(s.ripe().minus(s.timing.skew), Timestamp(BEGIN + DAY));
    assert_eq!(s.order.due, Some(Timestamp(BEGIN + DAY)), "no sooner");
    let early = Then::Ignored(Reason::NotDue);
    s.now = Timestamp(BEGIN + DAY - 1);
    assert_eq!(s.when(Event::Overdue(Overdue::default())), early);
    assert_eq!(sweeps(&mut s), Then::Written);
    assert_eq!((s.step("b").name(), s.state()), ("completed", "Pending"));
    assert!(s.announces() && s.order.version == version.next());
    s.claim();
    assert_eq!(s.asks(), [("c".to_owned(), Direction::Forward, 1)]);
    s.succeed("c");
    assert_eq!((s.state(), s.timeline()), ("Processed", vec![]));
    assert_eq!((s.failures("b"), s.calls("b")), (0, 0));
}

#[test]
fn a_moment_that_has_passed_goes_on_at_once() {
    let until = TIMED.replace(r#""for": "1day""#, r#""until": "${details.at}""#);
    for (at, is_over) in [
        ("1970-01-01T00:16:40Z", true),
        ("1970-01-01T00:16:41Z", false),
    ] {
        let mut s = Story::with_details(&until, json!({"at": at})).claimed();
        s.succeed("a");
        let (b, c) = (s.step("b").name(), s.step("c").name());
        let expected = if is_over {
            ("completed", "running")
        } else {
            ("parked", "waiting")
        };
        assert_eq!((b, c), expected, "{at}");
    }
}

#[test]
fn a_moment_without_an_offset_is_of_the_timers_zone() {
    let until = TIMED.replace(
        r#""for": "1day""#,
        r#""until": "${details.day}T08:00", "zone": "Europe/Paris""#,
    );
    let mut s = Story::with_details(&until, json!({"day": "1970-07-01"})).claimed();
    s.succeed("a");
    assert_eq!(
        s.step("b").parked_until(),
        Some(Timestamp(181 * DAY + 7 * HOUR))
    );
}

#[test]
fn an_order_whose_details_name_no_moment_is_given_up() {
    let until = TIMED.replace(r#""for": "1day""#, r#""until": "${details.at}""#);
    for at in [json!("tomorrow"), json!(7)] {
        let mut s = Story::with_details(&until, json!({"at": at})).claimed();
        s.succeed("a");
        assert_eq!(s.state(), "Compensating");
        let cause = s.order.state.cause().expect("a cause").to_string();
        assert!(cause.starts_with("definition/b/expression"), "{cause}");
    }
}

#[test]
fn an_event_completes_its_step_and_starts_the_next_one_in_one_write() {
    let mut s = waiting(AWAITS);
    s.after(HOUR / 2);
    let version = s.order.version;
    assert_eq!(s.hears("paid", "e-1", paid()), Then::Written);
    assert_eq!(s.order.version, version.next());
    assert_eq!(s.step("b").name(), "completed");
    assert_eq!(s.requests()[0].input, paid(), "its data is the output");
    assert_eq!(
        s.hears("paid", "e-1", paid()),
        Then::Repeat,
        "its messages may be unsent"
    );
    s.succeed("c");
    assert_eq!(
        s.hears("paid", "e-1", paid()),
        Then::Ignored(Reason::Repeated)
    );
    assert_eq!(
        s.hears("paid", "e-2", paid()),
        Then::Ignored(Reason::TooLate)
    );
    assert_eq!((s.state(), s.timeline()), ("Processed", vec![]));
}

#[test]
fn an_event_may_come_before_its_step_waits() {
    let mut s = Story::of(AWAITS);
    assert_eq!(
        s.hears("paid", "e-1", paid()),
        Then::Written,
        "before the claim"
    );
    assert_eq!(s.state(), "Pending");
    assert_eq!(
        s.statuses(),
        [(1, Status::Received)],
        "Submission may not have told it"
    );
    s.claim().sent();
    assert_eq!(
        s.hears("paid", "e-1", paid()),
        Then::Ignored(Reason::Repeated)
    );
    s.succeed("a");
    assert_eq!(
        (s.step("b").name(), s.step("c").name()),
        ("completed", "running")
    );
    assert_eq!(
        s.order.events[0].data, None,
        "it is the output of the step now"
    );
    s.succeed("c");
    assert_eq!(s.state(), "Processed");
}

#[test]
fn an_event_is_kept_while_the_order_is_set_aside() {
    let mut s = Story::of(AWAITS);
    s.order = s.order.aside();
    let due = s.order.due;
    assert_eq!(s.hears("paid", "e-1", paid()), Then::Written);
    assert_eq!((s.order.due, s.order.events.len()), (due, 1));
}

#[test]
fn an_event_that_nobody_can_take_changes_nothing() {
    let mut s = waiting(AWAITS);
    let before = s.order.clone();
    let other = json!({"amount": 8});
    assert_eq!(
        s.hears("paid", "e-1", other),
        Then::Ignored(Reason::NoMatch)
    );
    assert_eq!(
        s.hears("paid", "e-1", Value::Null),
        Then::Ignored(Reason::NoMatch)
    );
    assert_eq!(
        s.hears("shipped", "e-1", paid()),
        Then::Ignored(Reason::NoStepAwaits)
    );
    assert_eq!(s.order, before);
    assert_eq!(
        s.hears("paid", "e-1", paid()),
        Then::Written,
        "none of them was taken for it"
    );
}

#[test]
fn a_bounded_number_of_events_is_kept() {
    let mut s = Story::of(AWAITS).claimed();
    for n in 0..MAX_KEPT {
        assert_eq!(
            s.hears("paid", &format!("e-{n}"), json!({"amount": 8})),
            Then::Written
        );
    }
    assert_eq!(
        s.hears("paid", "more", paid()),
        Then::Ignored(Reason::TooManyEvents)
    );
    s.succeed("a");
    assert_eq!(
        s.step("b").name(),
        "parked",
        "none of those that are kept fits"
    );
    assert_eq!(
        s.hears("paid", "more", paid()),
        Then::Written,
        "now it is taken, not kept"
    );
    assert_eq!(s.step("b").name(), "completed");
}

#[test]
fn an_event_that_does_not_come_compensates_the_order() {
    let mut s = waiting(AWAITS);
    assert_eq!(sweeps(&mut s), Then::Written);
    while s.state() == "Processing" {
        assert_eq!(sweeps(&mut s), Then::Written);
    }
    assert_eq!((s.state(), s.step("b").name()), ("Compensating", "refused"));
    let cause = s.order.state.cause().expect("a cause").to_string();
    assert_eq!(cause, "timed-out/b/no-event: did not come in time: paid");
    assert_eq!(
        s.hears("paid", "e-1", paid()),
        Then::Ignored(Reason::TooLate)
    );
    s.claim().succeed("a");
    assert_eq!((s.state(), s.failures("b")), ("Compensated", 0));
    let lines = [
        IncidentKind::AttemptFailed,
        IncidentKind::Completed,
        IncidentKind::CompensationBegan,
    ];
    assert_eq!(s.timeline(), lines);
}

#[test]
fn an_event_that_does_not_come_stops_the_order_and_is_awaited_anew_after_a_resubmission() {
    let stops = AWAITS.replace(
        r#""within": "1h""#,
        r#""within": "1h", "otherwise": "error""#,
    );
    let mut s = waiting(&stops);
    s.now = Timestamp(BEGIN + HOUR + 1_000);
    assert_eq!(s.when(Event::Overdue(Overdue::default())), Then::Written);
    assert_eq!((s.state(), s.alerts()), ("Error", true));
    let corrected = s.correct("b", json!({}));
    assert!(matches!(corrected, Then::Refused(_)), "it has no input");
    s.resubmit().claim();
    let until = s.now.plus(triad_workflow::Millis(HOUR));
    assert_eq!(
        s.step("b").parked_until(),
        Some(until),
        "it has its whole time again"
    );
    s.hears("paid", "e-1", paid());
    s.succeed("c");
    assert_eq!(s.state(), "Processed");
}

#[test]
fn an_event_may_say_that_the_step_has_failed() {
    let declined = r#""within": "1h", "fails_when": "event.decision == 'no'""#;
    let asked = AWAITS.replace(r#""within": "1h""#, declined);
    let mut s = waiting(&asked);
    let no = json!({"amount": 7, "decision": "no"});
    s.after(60_000);
    assert_eq!(s.hears("paid", "e-1", no.clone()), Then::Written);
    assert_eq!((s.state(), s.step("b").name()), ("Compensating", "refused"));
    let cause = s.order.state.cause().expect("a cause").to_string();
    assert!(
        cause.starts_with(
            "permanent/b/event-fails: what came is a failure: `event.decision == 'no'` holds"
        ),
        "{cause}"
    );
    s.succeed("a");
    assert_eq!(s.state(), "Compensated");
    let mut early = Story::of(&asked).claimed();
    early.hears("paid", "e-1", no);
    early.succeed("a");
    assert_eq!(
        early.state(),
        "Compensating",
        "it came before the step waited"
    );
    let mut s = waiting(&asked);
    s.hears("paid", "e-1", paid());
    assert_eq!(
        s.step("c").name(),
        "running",
        "a condition without a value does not hold"
    );
}

#[test]
fn an_order_may_go_on_without_the_event() {
    let goes_on = AWAITS.replace(
        r#""within": "1h""#,
        r#""within": "1h", "otherwise": "continue""#,
    );
    let mut s = waiting(&goes_on);
    s.now = Timestamp(BEGIN + HOUR + 1_000);
    assert_eq!(s.when(Event::Overdue(Overdue::default())), Then::Written);
    s.claim();
    assert_eq!(s.requests()[0].input, Value::Null);
    assert_eq!(
        s.hears("paid", "e-1", paid()),
        Then::Ignored(Reason::NoStepAwaits)
    );
}

#[test]
fn what_an_event_brought_is_compensated_like_any_output() {
    let mut s = waiting(AWAITS);
    s.hears("paid", "e-1", paid());
    s.refuse("c");
    let refund = s.requests().remove(0);
    assert_eq!((refund.action.as_str(), refund.input), ("refund", paid()));
    s.succeed("b").succeed("a");
    assert_eq!(s.state(), "Compensated");
    s.resubmit().claim().succeed("a");
    assert_eq!(
        s.step("b").name(),
        "parked",
        "the same event does not pay twice"
    );
    assert_eq!(
        s.hears("paid", "e-1", paid()),
        Then::Ignored(Reason::Repeated)
    );
    assert_eq!(s.hears("paid", "e-2", paid()), Then::Written);
}

/// `b` and `c` wait side by side.
const TWICE: &str = r#"{"workflow": "twice", "steps": [
    {"id": "b", "after": [], "await": {"event": "paid", "within": "1h"}},
    {"id": "c", "after": [], "await": {"event": "paid", "within": "2h"}},
    {"id": "d", "after": ["b", "c"], "agent": "x", "action": "go", "compensation": "none"}]}"#;

#[test]
fn an_event_is_taken_by_one_step() {
    let mut s = Story::of(TWICE).claimed();
    s.hears("paid", "e-1", paid());
    assert_eq!(s.steps()[..2], [("b", "completed"), ("c", "parked")]);
    s.hears("paid", "e-2", paid());
    assert_eq!(s.steps()[1..], [("c", "completed"), ("d", "running")]);
    let taken: Vec<_> = s
        .order
        .events
        .iter()
        .map(|e| e.step.clone().expect("taken").to_string())
        .collect();
    assert_eq!(taken, ["b", "c"]);
}

fn several(list: &str) -> String {
    let one = r#""event": "paid", "match": "event.amount == details.amount""#;
    AWAITS.replace(
        one,
        &format!(r#""{list}": [{{"event": "paid"}}, {{"event": "signed"}}]"#),
    )
}

#[test]
fn the_first_of_several_events_ends_the_wait() {
    let mut s = waiting(&several("first_of"));
    assert_eq!(s.hears("signed", "e-1", json!(1)), Then::Written);
    assert_eq!(s.requests()[0].input, json!({"event": "signed", "data": 1}));
    assert_eq!(
        s.hears("paid", "e-1", json!(2)),
        Then::Ignored(Reason::NoStepAwaits)
    );
}

#[test]
fn all_of_several_events_end_the_wait_in_any_order() {
    let mut s = waiting(&several("all_of"));
    assert_eq!(s.hears("signed", "e-1", json!(1)), Then::Written);
    assert_eq!((s.step("b").name(), s.asks().len()), ("parked", 0));
    assert_eq!(
        s.hears("signed", "e-2", json!(9)),
        Then::Ignored(Reason::NoMatch),
        "it has one"
    );
    assert_eq!(s.hears("paid", "e-1", json!(2)), Then::Written);
    assert_eq!(s.requests()[0].input, json!({"paid": 2, "signed": 1}));
}

#[test]
fn of_several_events_those_that_are_missing_are_named() {
    let mut s = waiting(&several("all_of"));
    s.hears("signed", "e-1", json!(1));
    s.now = Timestamp(BEGIN + HOUR + 1_000);
    assert_eq!(s.when(Event::Overdue(Overdue::default())), Then::Written);
    let cause = s.order.state.cause().expect("a cause").to_string();
    assert_eq!(cause, "timed-out/b/no-event: did not come in time: paid");
}

#[test]
fn a_moment_that_an_answer_spoils_stops_the_order_and_compensates_nothing() {
    let until = TIMED.replace(
        r#""for": "1day""#,
        r#""until": "${details.day}T${steps.a.ref}""#,
    );
    let mut s = Story::with_details(&until, json!({"day": "1970-07-01"})).claimed();
    s.succeed("a");
    assert_eq!(s.state(), "Error", "the work of `a` is done");
}

#[test]
fn a_paused_order_takes_events_and_starts_nothing() {
    let mut s = waiting(AWAITS);
    s.acts(Action::Pause);
    assert_eq!(s.hears("paid", "e-1", paid()), Then::Written);
    assert_eq!(
        (s.step("b").name(), s.step("c").name()),
        ("completed", "waiting")
    );
    assert!(!s.announces());
    s.acts(Action::Resume).claim();
    assert_eq!(s.step("c").name(), "running");
    let mut s = waiting(TIMED);
    s.acts(Action::Pause);
    s.now = Timestamp(BEGIN + DAY + 1_000);
    assert_eq!(s.when(Event::Overdue(Overdue::default())), Then::Written);
    assert_eq!((s.step("b").name(), s.announces()), ("completed", false));
}

#[test]
fn an_order_that_waits_can_be_cancelled() {
    let mut s = waiting(AWAITS);
    s.acts(Action::Cancel).claim().succeed("a");
    assert_eq!((s.state(), s.step("b").name()), ("Compensated", "refused"));
    assert_eq!(
        s.compensation_calls("b"),
        0,
        "nothing came that could be refunded"
    );
    let lines = s.order.incidents.iter().filter(|line| line.step.is_some());
    let waits: Vec<_> = lines
        .map(|line| (line.what, line.attempt.map(|a| a.0)))
        .collect();
    assert!(
        waits.contains(&(IncidentKind::Abandoned, Some(1))),
        "{waits:?}"
    );
}

#[test]
fn the_time_of_the_order_ends_a_wait() {
    let short = AWAITS.replace(
        r#""workflow": "awaits","#,
        r#""workflow": "awaits", "order_timeout": "2h","#,
    );
    let mut s = waiting(&short.replace(r#""within": "1h""#, r#""within": "1h 50m""#));
    s.order.deadline = Some(Timestamp(BEGIN + HOUR));
    s.now = Timestamp(BEGIN + HOUR + 1_000);
    assert_eq!(s.when(Event::Overdue(Overdue::default())), Then::Written);
    assert_eq!(
        s.order.state.cause().map(|c| c.code.as_str()),
        Some("order-deadline")
    );
}

/// `b` waits beside `c`.
const BESIDE: &str = r#"{"workflow": "beside",
  "defaults": {"supervisor": {"failure_threshold": 0, "then": "error"}},
  "steps": [
    {"id": "b", "after": [], "await": {"event": "paid", "within": "1h"}},
    {"id": "c", "after": [], "agent": "x", "action": "go", "compensation": "none"}]}"#;

#[test]
fn a_wait_goes_on_when_the_order_stops_and_is_resubmitted() {
    let mut s = Story::of(BESIDE).claimed();
    let until = s.step("b").parked_until();
    s.answer("c", refused(false));
    assert_eq!(s.state(), "Error");
    assert_eq!(
        s.hears("paid", "e-1", paid()),
        Then::Ignored(Reason::TooLate)
    );
    s.after(60_000).resubmit().claim();
    assert_eq!(s.step("b").parked_until(), until);
    s.succeed("c");
    assert_eq!(s.state(), "Processing", "it waits for the event alone");
    assert_eq!(s.hears("paid", "e-2", paid()), Then::Written);
    assert_eq!(s.state(), "Processed");
}

fn moved(s: &Story, to: &str) -> Result<Order, String> {
    let to = compile(to);
    let act = OperatorAct::new("ann", "because");
    let moved = migrate::migrate(&s.order, &s.workflow, &to, &act, s.timing, s.now);
    moved
        .map(|(change, _)| change.next)
        .map_err(|e| e.to_string())
}

#[test]
fn an_order_is_moved_to_another_version_while_it_waits() {
    let s = waiting(AWAITS);
    let longer = moved(&s, &AWAITS.replace("1h", "9h")).expect("the same event");
    assert_eq!(
        longer.steps, s.order.steps,
        "its wait ends when it was to end"
    );
    let other = moved(
        &s,
        &AWAITS.replace(r#""event": "paid""#, r#""event": "signed""#),
    );
    let other = other.expect_err("another event");
    assert_eq!(
        other,
        "step b is under way with a wait for paid, and the new version has a wait for signed"
    );
    let call = AWAITS.replace(
        r#""await": {"event": "paid", "match": "event.amount == details.amount", "within": "1h"}"#,
        r#""agent": "x", "action": "do-b""#,
    );
    assert!(moved(&s, &call).is_err());
}

#[test]
fn what_lies_behind_a_wait_is_not_needed_yet() {
    let agents = |s: &Story| {
        let found = needs(&s.ctx(), &s.order).expect("it has the details");
        found.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let mut s = Story::of(AWAITS);
    assert_eq!(agents(&s), ["x"]);
    s.claim().succeed("a");
    assert_eq!(agents(&s), [""; 0]);
    s.hears("paid", "e-1", paid());
    assert_eq!(agents(&s), ["y"]);
}

#[test]
fn an_application_is_told_of_a_wait_that_has_ended() {
    let told = AWAITS.replace(
        r#""workflow": "awaits","#,
        r#""workflow": "awaits", "progress": true,"#,
    );
    let mut s = waiting(&told);
    s.sent().hears("paid", "e-1", paid());
    assert_eq!(
        s.statuses().iter().map(|(_, s)| *s).collect::<Vec<_>>(),
        [Status::StepCompleted]
    );
}

/// The alert about events that are not used, in the messages of the last write.
fn unused(s: &Story) -> Option<String> {
    let kind = serde_json::to_value(AlertKind::EventsUnused).expect("JSON");
    let messages = s.messages().into_iter();
    let mut bodies = messages.filter_map(|m| serde_json::from_slice::<Value>(&m.value).ok());
    let alert = bodies.find(|body| body["kind"] == kind)?;
    Some(alert["cause"].as_str().expect("a text").to_owned())
}

#[test]
fn events_that_no_step_will_use_are_told_to_operators_once() {
    let told = "permanent/events-unused: came, and no step will use them: signed (e-1)";
    // One of several has come when the time is over.
    let mut s = waiting(&several("all_of"));
    s.hears("signed", "e-1", json!(1));
    s.now = Timestamp(BEGIN + HOUR + 1_000);
    assert_eq!(s.when(Event::Overdue(Overdue::default())), Then::Written);
    assert_eq!(unused(&s).as_deref(), Some(told));
    s.sent().claim();
    assert_eq!(unused(&s), None);
    // It has come early, and the order is compensated before its step waits.
    let mut s = Story::of(AWAITS);
    s.hears("paid", "e-1", paid());
    s.sent().claim().refuse("a");
    let told = told.replace("signed", "paid");
    assert_eq!((s.state(), unused(&s)), ("Compensated", Some(told.clone())));
    // Its step is skipped.
    let skipped = AWAITS.replace(r#""await""#, r#""when": "details.amount == 8", "await""#);
    let skipped = skipped.replace("${steps.b}", "x");
    let mut s = Story::of(&skipped);
    s.hears("paid", "e-1", paid());
    s.sent().claim().succeed("a").succeed("c");
    assert_eq!((s.state(), unused(&s)), ("Processed", Some(told)));
    // One that was used is not told.
    let mut s = waiting(AWAITS);
    s.hears("paid", "e-1", paid());
    s.refuse("c");
    assert_eq!((s.state(), unused(&s)), ("Compensating", None));
}
