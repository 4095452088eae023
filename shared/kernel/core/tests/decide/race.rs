//! Ways to do a step's work that are begun at once: the first that succeeds completes the step, the others are let go.

use serde_json::{Value, json};
use triad_core::children::ChildEnd;
use triad_core::{Action, Failure, FailureKind, OperatorAct, Reason, StepState, migrate};
use triad_workflow::{Millis, StepId};

use crate::support::{Story, Then, compile};

/// The work of `b` is done in three ways at once.
const RACE: &str = r#"{"workflow": "race",
  "defaults": {"attempt_timeout": "10s", "retry": {"calls_per_attempt": 2}},
  "steps": [
    {"id": "a", "agent": "x", "action": "do-a", "compensation": {"action": "compensate-a"}},
    {"id": "b", "action": "book", "input": {"sum": "${details.amount}"}, "compensation": {"action": "cancel"},
     "first_of": [{"agent": "x"}, {"agent": "y", "input": {"of": "${steps.a.ref}"}}, {"wait": {"for": "10m"}}]},
    {"id": "c", "agent": "y", "action": "do-c", "input": "${steps.b}", "compensation": "none"}]}"#;

/// An order whose step `b` has begun.
fn begun() -> Story {
    let mut s = Story::of(RACE).claimed();
    s.succeed("a");
    s
}

fn brings(output: Value) -> ChildEnd {
    ChildEnd::Processed { output }
}

fn fails() -> ChildEnd {
    ChildEnd::NoEffect {
        cause: Failure::new(FailureKind::Permanent, "no-van", "no"),
    }
}

/// The letters of the child orders of `b`, as they are stored.
fn children(s: &Story) -> String {
    let stored = serde_json::to_value(s.record("b")).expect("JSON");
    stored["children"]["all"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

fn let_go(ids: &[&str]) -> Vec<(String, bool)> {
    ids.iter().map(|id| ((*id).to_owned(), true)).collect()
}

#[test]
fn all_ways_begin_at_once_each_with_its_own_input() {
    let s = begun();
    let orders = s.messages().into_iter().skip(1).map(|sent| {
        let order: Value = serde_json::from_slice(&sent.value).expect("JSON");
        (
            order["order_id"].clone(),
            order["workflow"].clone(),
            order["details"].clone(),
        )
    });
    let way = |number: u32, input: Value| {
        let workflow = format!("race.b.way-{}", number + 1);
        (
            json!(format!("o-1:b:{number}")),
            json!(workflow),
            json!({"input": input}),
        )
    };
    let wanted = [
        way(0, json!({"sum": 7})),
        way(1, json!({"of": 1})),
        way(2, json!({"sum": 7})),
    ];
    assert_eq!(orders.collect::<Vec<_>>(), wanted);
    assert_eq!(
        s.workflow.steps[1].kind.to_string(),
        "the first of x/book, y/book, a wait of 10m"
    );
}

#[test]
fn the_first_that_succeeds_completes_the_step_and_the_others_are_let_go_in_the_same_write() {
    let mut s = begun();
    s.child_ends("b", 1, brings(json!({"van": 4})));
    assert_eq!(s.children_asked(), let_go(&["o-1:b:0", "o-1:b:2"]));
    assert_eq!(
        s.requests()[0].input,
        json!({"van": 4}),
        "the order goes on"
    );
    // One that succeeds before it knows is compensated all the same.
    let late = s.child_end("b", 0, brings(json!({"van": 9})));
    assert_eq!(s.when(late), Then::Ignored(Reason::Repeated));
    assert_eq!(
        s.step("b").output().and_then(|output| output.value()),
        Some(&json!({"van": 4}))
    );
    s.child_ends("b", 2, fails());
    assert_eq!(children(&s), "cpu");
    s.child_ends("b", 0, fails());
    s.succeed("c");
    assert_eq!(s.state(), "Processed");
}

#[test]
fn an_order_does_not_end_before_what_it_let_go_is_compensated() {
    let mut s = begun();
    s.child_ends("b", 0, brings(json!(1)));
    s.succeed("c");
    assert_eq!(s.state(), "Processing");
    // A message may be lost, so from time to time they are asked again, and each time later.
    let mut waited = Vec::new();
    for _ in 0..3 {
        let until = s.record("b").awaited_until().expect("it waits");
        waited.push(until.since(s.now).0);
        s.overdue_now();
        assert_eq!(s.state(), "Pending");
        s.claim();
        assert_eq!(s.children_asked(), let_go(&["o-1:b:1", "o-1:b:2"]));
    }
    assert!(waited.is_sorted() && waited[2] > waited[0], "{waited:?}");
    s.child_ends("b", 1, fails());
    assert_eq!(s.state(), "Processing");
    s.child_ends("b", 2, fails());
    assert_eq!(s.state(), "Processed");
    // The last end may come while nobody has claimed the order: the next claim ends it.
    let mut s = begun();
    s.child_ends("b", 0, brings(json!(1)));
    s.succeed("c").child_ends("b", 1, fails()).overdue_now();
    s.child_ends("b", 2, fails());
    assert!(s.announces());
    assert_eq!(s.claim().state(), "Processed");
}

#[test]
fn an_order_whose_steps_are_done_misses_no_deadline() {
    let mut s = begun();
    let deadline = s.now.plus(Millis(30_000));
    s.order.deadline = Some(deadline);
    s.child_ends("b", 0, brings(json!(1))).succeed("c");
    s.now = deadline.plus(s.timing.skew);
    s.overdue_now();
    assert_eq!((s.state(), s.claim().state()), ("Pending", "Processing"));
    s.child_ends("b", 1, fails()).child_ends("b", 2, fails());
    assert_eq!(s.state(), "Processed");
}

#[test]
fn a_way_that_fails_is_out_and_the_step_has_failed_when_all_have() {
    let mut s = begun();
    s.child_ends("b", 0, fails()).child_ends("b", 2, fails());
    assert_eq!((s.state(), children(&s).as_str()), ("Processing", "frf"));
    s.child_ends("b", 1, fails());
    assert_eq!(s.asks().len(), 1, "a is compensated");
    s.succeed("a");
    assert_eq!(s.state(), "Compensated");
    // A new run begins all of them anew.
    s.resubmit().claim().succeed("a");
    let again = ["o-1:b:0~1", "o-1:b:1~1", "o-1:b:2~1"].map(|id| (id.to_owned(), false));
    assert_eq!(s.children_asked(), again);
}

#[test]
fn an_order_that_is_compensated_has_every_way_compensated() {
    let mut s = begun();
    s.child_ends("b", 2, brings(Value::Null));
    s.after(3_600_000);
    s.acts(Action::Cancel).claim();
    if matches!(s.step("c"), StepState::Acting(_)) {
        s.succeed("c");
    }
    assert_eq!(
        s.children_asked(),
        let_go(&["o-1:b:2", "o-1:b:1", "o-1:b:0"])
    );
    let until = s.step("b").parked_until().expect("it waits");
    assert_eq!(
        until.since(s.now).0,
        60_000,
        "counted from the compensation"
    );
    for number in 0..3 {
        s.child_ends("b", number, fails());
    }
    assert_eq!(children(&s), "uuu");
    s.succeed("a");
    assert_eq!(s.state(), "Compensated");
}

#[test]
fn two_that_succeed_while_the_order_is_unclaimed_leave_one() {
    let mut s = begun();
    s.overdue_now();
    s.child_ends("b", 1, brings(json!(1)));
    s.child_ends("b", 2, brings(Value::Null));
    assert_eq!((s.state(), children(&s).as_str()), ("Pending", "rpp"));
    s.claim();
    assert_eq!(children(&s), "cpd");
    assert_eq!(s.children_asked(), let_go(&["o-1:b:0", "o-1:b:2"]));
}

#[test]
fn a_way_that_was_let_go_and_cannot_be_compensated_stops_the_order_for_an_operator() {
    let mut s = begun();
    s.child_ends("b", 0, brings(json!(1)))
        .child_ends("b", 1, fails());
    let cause = Failure::new(FailureKind::Operator, "expired", "its record has expired");
    s.child_ends("b", 2, ChildEnd::Kept { cause });
    assert_eq!((s.state(), children(&s).as_str()), ("Error", "puk"));
    assert!(s.alerts());
    s.resubmit().claim().succeed("c");
    assert_eq!(s.state(), "Processed");
}

#[test]
fn what_was_let_go_when_the_order_stopped_is_asked_when_it_goes_on() {
    let mut s = Story::of(&RACE.replace("\"${steps.b}\"", "\"${steps.b.no.such}\"")).claimed();
    s.succeed("a");
    s.child_ends("b", 0, brings(json!(1)));
    assert_eq!((s.state(), s.children_asked().len()), ("Error", 0));
    let end = s.child_end("b", 1, brings(json!(2)));
    assert_eq!(s.when(end), Then::Ignored(Reason::Finished));
    let input = Some((StepId::new("c").expect("a step"), json!(1)));
    s.acts(Action::Resubmit { input }).claim();
    assert_eq!(s.children_asked(), let_go(&["o-1:b:1", "o-1:b:2"]));
}

#[test]
fn a_way_that_was_let_go_ends_before_the_turn_of_the_one_that_was_first() {
    let with_two_more = RACE.replace(
        r#""input": "${steps.b}", "compensation": "none"}"#,
        r#""compensation": {"action": "compensate-c"}},
           {"id": "d", "agent": "y", "action": "do-d", "compensation": "none"}"#,
    );
    let mut s = Story::of(&with_two_more).claimed();
    s.succeed("a")
        .child_ends("b", 1, brings(json!(1)))
        .succeed("c")
        .refuse("d");
    assert_eq!((s.state(), children(&s).as_str()), ("Compensating", "cpc"));
    s.child_ends("b", 0, fails());
    assert_eq!(
        (children(&s).as_str(), s.children_asked().len()),
        ("upc", 0),
        "c stands on it"
    );
    s.succeed("c");
    assert_eq!(s.children_asked(), let_go(&["o-1:b:2", "o-1:b:1"]));
    s.child_ends("b", 2, fails())
        .child_ends("b", 1, fails())
        .succeed("a");
    assert_eq!(s.state(), "Compensated");
}

#[test]
fn the_end_of_an_order_that_was_processed_and_is_compensated_is_no_repetition() {
    // `c` waits for what is no moment: the order is compensated in the write that completes `b`.
    let c = r#""agent": "y", "action": "do-c", "input": "${steps.b}", "compensation": "none"}"#;
    let bad = RACE.replace(c, r#""wait": {"until": "${details.amount}"}}"#);
    let mut s = Story::of(&bad).claimed();
    s.succeed("a")
        .child_ends("b", 0, fails())
        .child_ends("b", 2, fails());
    s.child_ends("b", 1, brings(json!(1)));
    assert_eq!(s.children_asked(), let_go(&["o-1:b:1"]));
    s.child_ends("b", 1, fails());
    s.succeed("a");
    assert_eq!(s.state(), "Compensated");
}

#[test]
fn ways_that_are_under_way_or_were_let_go_are_not_moved_to_others() {
    let two = RACE.replace(r#", {"wait": {"for": "10m"}}"#, "");
    let one_after_another = RACE
        .replace(
            r#""first_of": [{"agent": "x"}, "#,
            r#""agent": "x", "on_failure": ["#,
        )
        .replace(r#", {"wait": {"for": "10m"}}"#, "");
    let call = RACE.replace(r#""first_of": [{"agent": "x"}, {"agent": "y", "input": {"of": "${steps.a.ref}"}}, {"wait": {"for": "10m"}}]"#, r#""agent": "x""#);
    let later = RACE.replace("10m", "20m");
    let moves = |s: &Story, to: &str| {
        let act = OperatorAct::new("ann", "because");
        migrate::migrate(&s.order, &s.workflow, &compile(to), &act, s.timing, s.now).is_ok()
    };
    let running = begun();
    let mut won = begun();
    won.child_ends("b", 0, brings(json!(1)));
    for s in [&running, &won] {
        for other in [&two, &one_after_another, &call] {
            assert!(!moves(s, other), "{other}");
        }
        assert!(moves(s, &later));
    }
    won.child_ends("b", 1, fails()).child_ends("b", 2, fails());
    assert!(
        !moves(&won, &call),
        "the new version compensates no child orders"
    );
}
